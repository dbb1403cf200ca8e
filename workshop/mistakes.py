"""Known mistakes. Each one is the project's source with some text replaced."""

from __future__ import annotations  # compile() passes this on to each chunk of generate.py

import ast
import functools
import itertools
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

import generate
import gpt2
import samplers
import speculative

ROOT = Path(__file__).parents[1]
MOST_ROUNDS = 5_000  # of all `while` loops of a function with a mistake
REFERENCE = "workshop/reference.py"
# a function that the reader writes, down to its docstring, and then our code
BODIES = r'^( *)(def (?!new_cache|learn|model|fast).*\n +"""(?s:.*?)""")\n(?:\1    .*\n)*'
# Readers differ in how a cache counts and stores its tokens, and a mistake then has other results.
# So known mistakes of a cache are tried in several styles.
STYLE = {
    "COUNTED_BY": "extend",  # or "append", in the last block, or "model", after the last block
    "JOINS": False,  # whether new keys are joined to the old ones, instead of put into slots
    "CLEARS": False,  # whether `cut` sets the slots that it frees to 0
}
TEXTS: dict[str, str] = {}  # {name: the text of a source that is no file}
PROJECT = vars(gpt2) | vars(generate) | vars(samplers) | vars(speculative)
NAMES: dict[str, dict] = {REFERENCE: PROJECT | STYLE}  # {name: what that source's functions use}


class Mistake(NamedTuple):
    """The message to the reader is "these are the numbers", followed by `says`. code: the lines of
    `function` with the mistake. project: a real project that had it, or ""."""

    says: str
    source: str
    function: str
    code: str
    project: str = ""


def mistakes(table: str) -> tuple[Mistake, ...]:
    """Read a table of mistakes. "[FILE FUNCTION ...]" is a heading: the mistakes below it are made
    in each of these functions that has the old text. A mistake is a message and its changes:
    "    old -> new", or "    => new" to replace the last line of the function. "; " begins a new
    line of code. "    -> new" and lines with 8 spaces continue the line above. "    # ..." names a
    real project that had it."""
    found, source, functions = [], "", [""]
    for entry in re.split(r"\n(?=\S)", re.sub(r"\n {7}(?= )|\n {3}(?= ->)", "", table.strip("\n"))):
        says, *lines = entry.split("\n    ")
        if says.startswith("["):
            source, *functions = says.strip("[]").split()
            continue
        project = " ".join(line[2:] for line in lines if line.startswith("# "))
        changes = [line for line in lines if not line.startswith("# ")]
        made = [(name, changed(source, name, changes)) for name in functions]
        if not any(code for _, code in made):
            raise LookupError(f"{functions} of {source} have no {changes}")
        found += [Mistake(says, source, name, code, project) for name, code in made if code]
    return tuple(found)


def of(functions: str, found: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    """Return those mistakes that are made in these functions."""
    return tuple(mistake for mistake in found if mistake.function in functions.split())


def changed(source: str, function: str, changes: list[str]) -> str:
    """Return the lines of a function after the changes, or "" if a text to replace is not there."""
    begin, end = body(source, function)
    code = read(source)[begin:end]
    for change in changes:
        old, new = re.split(" ->|=>", change.replace(r"\n", "\n"), maxsplit=1)
        old = old or code.splitlines()[-1].strip()
        if old not in code:
            return ""
        code = code.replace(old, new.strip(" "))
    return re.sub(r"(?m)^( *).*; .*", lambda line: line[0].replace("; ", "\n" + line[1]), code)


@functools.cache
def build(source: str, wrong: Mistake | None = None, style: str = "") -> types.ModuleType:
    """Return a file of the project as a module. wrong: the mistake to put into it. style: lines
    such as "JOINS = True"."""
    module = types.ModuleType("ours")
    vars(module).update(NAMES.get(source, {}))
    if wrong:  # its loops must end: `next` raises an error after MOST_ROUNDS
        vars(module)["goes_on"] = functools.partial(next, iter(range(1, MOST_ROUNDS)))
        code = re.sub(r"(?m)while (.+):( *#.*)?$", r"while goes_on() and (\1):", wrong.code)
        wrong = wrong._replace(code=code)
    for chunk in [*text_of(source, wrong).split("\n\n\n"), style]:  # they separate functions
        if not (chunk.startswith("def ") and chunk.endswith('"""')):  # NAMES has this function
            exec(compiled(chunk), vars(module))
    return module


def text_of(source: str, wrong: Mistake | None = None) -> str:
    """Return the text of a file, with a mistake."""
    text = read(source)
    if wrong and wrong.source == source:
        begin, end = body(source, wrong.function)
        text = text[:begin] + wrong.code + text[end:]
    return text


def skeleton() -> str:
    """Return the file that a reader begins with: reference.py with `...` below its docstrings."""
    text = re.sub(BODIES, r"\1\2\n\1    ...\n", read(REFERENCE), flags=re.M)
    return re.sub(r".*# ours.*\n", "", text)


@functools.cache  # chunks without a mistake are compiled only once
def compiled(chunk: str) -> types.CodeType:
    return compile(chunk, "<ours>", "exec")


@functools.cache
def read(source: str) -> str:
    return TEXTS[source] if source in TEXTS else (ROOT / source).read_text("utf-8")


@functools.cache
def body(source: str, function: str) -> tuple[int, int]:
    """Return (begin, end): read(source)[begin:end] are the lines of "function" or "Class.method",
    or of a whole class, without the docstring."""
    node = find_node(source, function)
    first = node.body[ast.get_docstring(node) is not None]
    starts = line_starts(source)
    return starts[first.lineno - 1], starts[node.end_lineno]


@functools.cache
def find_node(source: str, function: str) -> Any:
    node: Any = parsed(source)
    for name in function.split("."):
        node = next(inside for inside in ast.walk(node) if getattr(inside, "name", None) == name)
    return node


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(read(source))


@functools.cache
def line_starts(source: str) -> list[int]:
    """Return where each line begins: line n begins at [n - 1]. The sources are ASCII."""
    return [0, *itertools.accumulate(map(len, read(source).splitlines(keepends=True)))]
