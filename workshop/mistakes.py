"""Known mistakes: each is the project's source with some text replaced."""

from __future__ import annotations  # compile() applies it to each chunk of generate.py

import ast
import functools
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """says: the end of a sentence "these are the numbers ...". changes: pairs (old, new); in the
    source of `function`, old is replaced by new."""

    name: str
    says: str
    source: str
    function: str
    changes: tuple


def mistakes(table: str) -> tuple[Mistake, ...]:
    """Read a table of mistakes. The line "[FILE FUNCTION]" precedes the mistakes in this function.
    A mistake is a line "name: message" and its changes: "    old -> new", or "    => new", which
    replaces the function's last line. A line with "    -> new" or 8 spaces continues the last."""
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
    """Return a file of the project as a module. wrong: the mistakes to make in it."""
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
    """Compile a chunk of a file. The cache spares chunks that a mistake does not change."""
    return compile(chunk, "<ours>", "exec")


@functools.cache
def body(text: str, function: str) -> tuple[int, int]:
    """Return the slice (begin, end) of lines that is the body of "function" or "Class.method"."""
    node: Any = ast.parse(text)
    for name in function.split("."):
        inside = (n for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef))
        node = next(n for n in inside if n.name == name)
    first = node.body[ast.get_docstring(node) is not None]
    return first.lineno - 1, node.end_lineno
