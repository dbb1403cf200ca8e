"""Known mistakes: the project's own source, with an expression replaced."""

import __future__

import functools
import re
import types
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mistake(NamedTuple):
    """says: continues "these are the numbers ..."; changes: (old, new) in a function of source."""

    name: str
    says: str
    source: str
    function: str
    changes: tuple


def mistakes(where: str, table: str) -> tuple:
    """Read a table of mistakes in "FILE FUNCTION": lines "name: what it says", each followed by its
    changes, "    old -> new". "    -> new" may be a line of its own; 8 spaces continue a line."""
    source, function = where.split()
    entries: list[list[str]] = []
    for line in filter(None, table.splitlines()):
        if line.startswith("        "):
            entries[-1][-1] += line[7:]
        elif line.startswith("    ->"):
            entries[-1][-1] += line[3:]
        elif line.startswith("    "):
            entries[-1].append(line[4:])
        else:
            entries.append([line])
    found = []
    for head, *changes in entries:
        name, says = head.split(": ", 1)
        pairs = (change.replace(r"\n", "\n").split(" ->", 1) for change in changes)
        changed = tuple((old, new.strip(" ")) for old, new in pairs)
        found.append(Mistake(name, says, source, function, changed))
    return tuple(found)


@functools.cache
def build(source: str, wrong: tuple = ()) -> types.ModuleType:
    """Return one of the project's files as a module, with these mistakes in it."""
    text = (ROOT / source).read_text("utf-8")
    for mistake in wrong:
        begin, end = body(text, mistake.function)
        code = text[begin:end]
        for old, new in mistake.changes:
            if old not in code:
                raise LookupError(f"{mistake.function} has no {old!r}")
            code = code.replace(old, new)
        text = text[:begin] + code + text[end:]
    module = types.ModuleType("ours")
    for chunk in text.split("\n\n\n"):  # two empty lines: between functions or classes
        exec(compiled(chunk), vars(module))
    return module


@functools.cache
def compiled(chunk: str) -> types.CodeType:
    """Compile a part of a file, once for all mistakes in other parts."""
    return compile(chunk, "<ours>", "exec", __future__.annotations.compiler_flag)


def body(text: str, function: str) -> tuple[int, int]:
    """Return where the body of "function" or "Class.method" begins and ends in a file."""
    begin, stop = 0, len(text)
    for name in function.split("."):
        head = re.compile(rf"^( *)(def|class) {name}\b.*\n", re.MULTILINE)
        if not (found := head.search(text, begin, stop)):
            raise LookupError(f"no {function}")
        end = re.compile(rf"^ {{0,{len(found[1])}}}[^ \n)]", re.MULTILINE)
        begin = found.end()
        stop = next((m.start() for m in end.finditer(text, begin, stop)), stop)
    docstring = re.compile(r'\s*""".*?"""\n', re.DOTALL).match(text, begin, stop)
    return docstring.end() if docstring else begin, stop
