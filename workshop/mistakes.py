"""Known mistakes. Each one is the project's source with some text replaced."""

from __future__ import annotations  # compile() passes this on to each chunk of generate.py

import ast
import functools
import itertools
import re
import textwrap
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import generate
import gpt2
import samplers
import speculative

ROOT = Path(__file__).parents[1]
MOST_ROUNDS = 5_000  # of a loop in a function with a mistake
REFERENCE = "workshop/reference.py"
# a function that the reader writes, down to its docstring, and then our code
BODIES = r'^( *)(def (?!new_cache|learn|model|fast).*\n +"""(?s:.*?)""")\n(?:\1    .*\n)*'
DEFINITION = ast.FunctionDef, ast.ClassDef
TEXTS: dict[str, str] = {}  # {name: the text of a source that is no file}
PROJECT = vars(gpt2) | vars(generate) | vars(samplers) | vars(speculative)
NAMES: dict[str, dict] = {REFERENCE: PROJECT}  # {name: what that source's functions use}


class Mistake(NamedTuple):
    """The message to the reader is "these are the results", followed by `says`. code: the lines of
    `function` with the mistake. project: a real project that had it, or ""."""

    says: str
    source: str
    function: str
    code: str
    project: str = ""


def variants(table: str) -> tuple[str, ...]:
    """Read a table of texts and return their names. Each text is reference.py after some changes. A
    line may also name an earlier text, whose changes it repeats."""
    known: dict[str, list[str]] = {}
    for name, *lines in entries(table):
        known[name] = [change for line in lines for change in known.get(line, [line])]
        TEXTS[name], NAMES[name] = replaced(read(REFERENCE), known[name]), PROJECT
    return tuple(known)


def entries(table: str) -> list[list[str]]:
    joined = re.sub(r"\n {7}(?= )|\n {3}(?= ->)", "", table.strip("\n"))
    return [entry.split("\n    ") for entry in re.split(r"\n(?=\S)", joined)]


def replaced(code: str, changes: list[str]) -> str:
    """Return code after some changes, or "" if a text to replace is not there."""
    for change in changes:
        old, new = re.split(" ->|=>", change.replace(r"\n", "\n"), maxsplit=1)
        old = old or code.splitlines()[-1].strip()
        if old not in code:
            return ""
        line = code[code.rfind("\n", 0, code.index(old)) + 1 :]  # the one that has the old text
        indent = line[: len(line) - len(line.lstrip())]
        code = code.replace(old, new.strip(" ").replace("; ", "\n" + indent))
    return code


def mistakes(table: str, variants: tuple[str, ...] = ()) -> tuple[Mistake, ...]:
    """Read a table of mistakes. "[FILE FUNCTION ...]" is a heading: the mistakes below it are made
    in each of these functions that has the old text. A mistake is a message and its changes:
    "    old -> new", or "    => new" to replace the last line of the function. "; " begins a new
    line of code. "    -> new" and lines with 8 spaces continue the line above. "    # ..." names a
    real project that had it. A mistake is also made in those variants that have the old text."""
    found, source, functions = [], "", [""]
    for says, *lines in entries(table):
        if says.startswith("["):
            source, *functions = says.strip("[]").split()
            continue
        project = " ".join(line[2:] for line in lines if line.startswith("# "))
        changes = [line for line in lines if not line.startswith("# ")]
        places = itertools.product((source, *variants), functions)
        made = [Mistake(says, *at, changed(*at, changes), project) for at in places]
        if not any(mistake.code for mistake in made):
            raise LookupError(f"{functions} of {source} have no {changes}")
        found += [mistake for mistake in made if mistake.code]
    return tuple(found)


def changed(source: str, function: str, changes: list[str]) -> str:
    """Return the lines of a function after the changes, or "" if a text to replace is not there."""
    begin, end = body(source, function)
    return replaced(read(source)[begin:end], changes)


@functools.cache
def build(source: str, wrong: Mistake | None = None) -> types.ModuleType:
    """Return a file of the project as a module. wrong: the mistake to put into it."""
    module = types.ModuleType("ours")
    vars(module).update(NAMES.get(source, {}))
    if wrong:
        wrong = wrong._replace(code=ending(wrong.code, vars(module)))
    for chunk in text_of(source, wrong).split("\n\n\n"):  # they separate functions
        if not (chunk.startswith("def ") and chunk.endswith('"""')):  # NAMES has this function
            exec(compiled(chunk), vars(module))
    return module


def ending(code: str, names: dict) -> str:
    """Return code whose loops end after MOST_ROUNDS: those with `while` by an error."""
    names["some_of"] = lambda rounds: itertools.islice(rounds, MOST_ROUNDS)
    names["rounds_left"] = {}  # a loop's indentation, which differs in nested loops -> its rounds
    code = re.sub(r"(?m)^( *for .+ in )(.+):$", r"\1some_of(\2):", code)
    begin = rf'\1rounds_left["\1"] = iter(range(1, {MOST_ROUNDS}))'
    loop = rf'{begin}\n\1while next(rounds_left["\1"]) and (\2):'
    return re.sub(r"(?m)^( *)while (.+):( *#.*)?$", loop, code)


def function_of(wrong: Mistake, names: dict) -> Any:
    """Return a function with a mistake. names: what it uses."""
    begin = line_starts(wrong.source)[definitions(wrong.source)[wrong.function].lineno - 1]
    head = read(wrong.source)[begin : body(wrong.source, wrong.function)[0]]
    found: dict = {}
    exec(compiled(textwrap.dedent(head + ending(wrong.code, names))), names, found)
    return found[wrong.function.rpartition(".")[2]]


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
    with warnings.catch_warnings():  # Python warns of code such as 1[0]
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(chunk, "<ours>", "exec")


@functools.cache
def read(source: str) -> str:
    return TEXTS[source] if source in TEXTS else (ROOT / source).read_text("utf-8")


@functools.cache
def body(source: str, function: str) -> tuple[int, int]:
    """Return (begin, end): read(source)[begin:end] are the lines of "function" or "Class.method",
    or of a whole class, without the docstring."""
    node = definitions(source)[function]
    first = node.body[ast.get_docstring(node) is not None]
    starts = line_starts(source)
    return starts[first.lineno - 1], starts[node.end_lineno]


@functools.cache
def definitions(source: str) -> dict[str, Any]:
    """Return {name: the syntax tree of a function or class}, such as {"Cache.append": ...}. If
    there are several of a name, the last one counts, but a function in a function comes last."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(read(source))):
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        inside = (n for n in ast.iter_child_nodes(node) if isinstance(n, DEFINITION))
        named = {owner + child.name: child for child in inside}
        found = named | found if isinstance(node, ast.FunctionDef) else found | named
    return found


@functools.cache
def line_starts(source: str) -> list[int]:
    """Return where each line begins: line n begins at [n - 1]. The sources are ASCII."""
    return [0, *itertools.accumulate(len(line) + 1 for line in read(source).split("\n"))]
