"""Known mistakes. Each one replaces some text in the project's source."""

from __future__ import annotations  # compile() passes this on to each chunk of generate.py

import ast
import functools
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """The message to the reader is "these are the numbers", followed by `says`. changes: pairs
    (old, new). In the source of `function`, each `old` is replaced with `new`."""

    name: str
    says: str
    source: str
    function: str
    changes: tuple


def mistakes(table: str) -> tuple[Mistake, ...]:
    """Read a table of mistakes. "[FILE FUNCTION]" is the heading of a function's mistakes. Each has
    a line "name: message", then its changes: "    old -> new", or "    => new" to replace the last
    line of the function. "    -> new" and lines with 8 spaces continue the line above."""
    found = []
    table = re.sub(r"\n {7}(?= )|\n {3}(?= ->)", "", table.strip("\n"))
    for entry in re.split(r"\n(?=\S)", table):
        head, *lines = entry.split("\n    ")
        if head.startswith("["):
            source, function = head.strip("[]").split()
            continue
        name, says = head.split(": ", 1)
        pairs = (re.split(" ->|=>", line.replace(r"\n", "\n"), maxsplit=1) for line in lines)
        changes = tuple((old, new.strip(" ")) for old, new in pairs)
        found.append(Mistake(name, says, source, function, changes))
    return tuple(found)


@functools.cache
def build(source: str, wrong: tuple = ()) -> types.ModuleType:
    """Return a file of the project as a module. wrong: the mistakes to put into it."""
    text = (ROOT / source).read_text("utf-8")
    for mistake in wrong:
        begin, end = body(text, mistake.function)
        lines = text.splitlines(keepends=True)
        code = "".join(lines[begin:end])
        for old, new in mistake.changes:
            old = old or code.splitlines()[-1].strip()
            if old not in code:
                raise LookupError(f"{mistake.function} has no {old!r}")
            code = code.replace(old, new)
        text = "".join([*lines[:begin], code, *lines[end:]])
    module = types.ModuleType("ours")
    for chunk in text.split("\n\n\n"):  # two empty lines separate functions and classes
        exec(compiled(chunk), vars(module))
    return module


@functools.cache
def compiled(chunk: str) -> types.CodeType:
    """Compile a chunk of a file. Chunks without a mistake are compiled only once."""
    return compile(chunk, "<ours>", "exec")


@functools.cache
def body(text: str, function: str) -> tuple[int, int]:
    """Return (begin, end): lines[begin:end] is the body of "function" or "Class.method"."""
    node: Any = ast.parse(text)
    for name in function.split("."):
        inside = (n for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef))
        node = next(n for n in inside if n.name == name)
    first = node.body[ast.get_docstring(node) is not None]
    return first.lineno - 1, node.end_lineno
