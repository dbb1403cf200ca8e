"""Compare a reader's functions with the project's, and say which mistake it is.

A step has parts. A part names its functions and an `observe(m, seed)`, which calls them with inputs
that hide no mistake, and yields what it sees. One observer looks at three kinds of modules: the
reader's file, the project's own source, and this source with a mistake in it. Where the reader's
numbers equal those of a mistake, the mistake has a name.
"""

import ast
import functools
import itertools
import math
import re
import threading
import time
import traceback
import types
from _thread import interrupt_main
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
SECONDS_PER_CALL = 2.0  # what takes longer never ends
SECONDS_FOR_PAIRS = 2.0
RARE = 1e-7  # two samples that differ more than this differ by no accident


class Mistake(NamedTuple):
    """says: continues "these are the numbers ..."; changes: (old, new) in the right source of a
    function, or in the whole file for ""."""

    name: str
    says: str
    function: str
    changes: tuple


class Part(NamedTuple):
    """Functions that are checked together. source: the file that has them right; needs: what must
    be written for this, where it is not `names`."""

    names: tuple
    source: str
    observe: Callable[[Any, int], Iterator["Seen"]]
    mistakes: tuple = ()
    needs: tuple = ()


class Step(NamedTuple):
    name: str
    lesson: str
    parts: tuple
    hints: tuple


class Seen(NamedTuple):
    """What a call gave. kind: the axes of an array, such as "n_new, d"; "=": a value; "<=": a count
    that may be smaller; "~": a list of outcomes of chance; "stages": [(label, array, axes)] on the
    way to the result, which only tell the place of a difference."""

    label: str
    value: Any
    kind: str = "="


class Raised(NamedTuple):
    error: str
    line: str  # the reader's own


class Verdict(NamedTuple):
    step: str
    state: str  # done, missing or wrong
    mistake: str | None
    says: str


# --- the reader's file, ours, and ours with a mistake ---------------------------------------------


class Reader:
    """A reader's file. What is missing or wrong in it is replaced by the project's function, so
    that no step suffers from a mistake of another one."""

    def __init__(self, path: Path, steps: list[Step]):
        text, self.path = path.read_text(encoding="utf-8"), str(path)
        self.module = types.ModuleType(path.stem)
        self.module.__file__ = self.path
        exec(compile(text, self.path, "exec"), vars(self.module))
        self.empty = set(empty_functions(ast.parse(text)))
        parts = [part for step in steps for part in step.parts]
        self.own = {name: find(self.module, name) for part in parts for name in part.names}
        for part in reversed(parts):  # of two parts with one name, the first one has its source
            self.place(part, build(part.source))

    def is_written(self, part: Part) -> bool:
        return all(
            name not in self.empty and (name not in self.own or self.own[name] is not None)
            for name in part.needs or part.names
        )

    def place(self, part: Part, source: types.ModuleType | None = None) -> None:
        """Put a part's functions in their places: those of source, or the reader's own."""
        for name in part.names:
            owner, _, last = name.rpartition(".")
            if owner and not hasattr(self.module, owner):
                setattr(self.module, owner, find(source, owner))
            value = find(source, name) if source else self.own[name]
            setattr(find(self.module, owner) if owner else self.module, last, value)


def find(module: Any, name: str) -> Any:
    """Return module.GPT2.block for "GPT2.block", or None."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def empty_functions(tree: ast.AST, owner: str = "") -> Iterator[str]:
    """Yield the names of functions that have nothing but a docstring and `...`."""
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.ClassDef):
            yield from empty_functions(node, node.name + ".")
        elif isinstance(node, ast.FunctionDef):
            nothing = [isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
                       or isinstance(n, ast.Pass) for n in node.body]  # fmt: skip
            if all(nothing):
                yield owner + node.name


def mistakes(function: str, table: str) -> tuple:
    """Read lines "name: what it says", each followed by "    old -> new | old -> new"."""
    lines, found = [line for line in table.splitlines() if line], []
    for head, body in zip(lines[::2], lines[1::2]):
        name, says = head.split(": ", 1)
        changes = [c.replace(r"\n", "\n").split(" -> ", 1) for c in body[4:].split(" | ")]
        found.append(Mistake(name, says, function, tuple((o, n.strip(" ")) for o, n in changes)))
    return tuple(found)


@functools.cache
def build(source: str, wrong: tuple = ()) -> types.ModuleType:
    """Return the project's own file as a module, with these mistakes in it."""
    text = (ROOT / source).read_text(encoding="utf-8")
    for mistake in wrong:
        begin, end = where(text, mistake.function)
        code = text[begin:end]
        for old, new in mistake.changes:
            if old not in code:
                raise LookupError(f"{mistake.function} has no {old!r}")
            code = code.replace(old, new)
        text = text[:begin] + code + text[end:]
    module = types.ModuleType("ours")
    exec(compile(text, f"<{source}>", "exec"), vars(module))
    return module


def where(text: str, function: str) -> tuple[int, int]:
    """Return where a function's body begins and ends in a file."""
    found = re.search(rf"^( *)(def|class) {function}\b.*\n", text, re.MULTILINE)
    if not found:
        raise LookupError(f"no function {function}")
    end = re.compile(rf"^ {{0,{len(found[1])}}}[^ \n)]", re.MULTILINE).search(text, found.end())
    stop = end.start() if end else len(text)
    docstring = re.compile(r'\s*""".*?"""\n', re.DOTALL).match(text, found.end(), stop)
    return docstring.end() if docstring else found.end(), stop


# --- observe --------------------------------------------------------------------------------------


class Tape:
    """What an observer sees, one look at a time. path: the reader's file, whose calls may never
    end; an error of its own is what is seen."""

    def __init__(self, part: Part, module: types.ModuleType, seed: int, path: str | None = None):
        self.looks, self.path, self.seen = part.observe(module, seed), path, []

    def __getitem__(self, i: int) -> Seen | None:
        while len(self.seen) <= i and (not self.seen or self.seen[-1] is not None):
            self.seen.append(self.look())
        return self.seen[i] if i < len(self.seen) else None

    def look(self):
        stopped = []
        timer = threading.Timer(SECONDS_PER_CALL, lambda: (stopped.append(1), interrupt_main()))
        try:
            if self.path:
                timer.start()
            with np.errstate(all="ignore"):
                seen = next(self.looks, None)
            if seen is not None and isinstance(seen.value, Exception):
                return seen._replace(value=self.raised(seen.value))
            return seen
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not stopped:
                raise  # Ctrl-C
            return Seen("", self.raised(error, "it never ends" if stopped else ""))
        finally:
            timer.cancel()

    def raised(self, error, says=""):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.path]
        line = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        return Raised(says or f"{type(error).__name__}: {error}", line)


def agree(mine: Tape, other: Tape, exactly: bool) -> tuple[float, int]:
    """Return how probable it is that they are the same, and the first look that differs, or -1.
    exactly: a smaller count and another type are differences, too."""
    probable = 1.0
    for i in itertools.count():
        a, b = mine[i], other[i]
        if a is None and b is None:
            return probable, -1
        same = 0.0 if a is None or b is None else alike(a, b, exactly)
        if not same > RARE:
            return 0.0, i
        probable = min(probable, same)


def alike(a: Seen, b: Seen, exactly: bool) -> float:
    if isinstance(a.value, Raised) or isinstance(b.value, Raised):
        return type(a.value) is type(b.value) and a.value.error == b.value.error
    if b.kind == "~":
        return chance(a.value, b.value)
    if b.kind == "<=":
        return a.value == b.value if exactly else a.value <= b.value
    if b.kind == "=":
        return plain(a.value) == plain(b.value)
    if b.kind == "stages":
        return 1.0
    return same_shape(a.value, b.value) and close(a.value, b.value).all()


def plain(value):  # arrays, tuples and NumPy's numbers -> lists and Python's numbers
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def same_shape(a, b):
    is_array = isinstance(a, np.ndarray | np.generic | float) and isinstance(b, np.ndarray)
    return (
        is_array and np.shape(a) == b.shape and (np.asarray(a).dtype == bool) == (b.dtype == bool)
    )


def close(a, b):  # -> bools: equal to the rounding of float32
    size = np.abs(b[np.isfinite(b)]).max(initial=1)
    return np.isclose(a, b, rtol=1e-4, atol=2e-5 * min(size, 100), equal_nan=True)


def chance(mine: list, right: list) -> float:
    """Return the probability that two samples of one distribution differ at least as much as these:
    the chi-square test. Outcomes that are expected fewer than 5 times count as one."""
    counts, n, m = [Counter(map(repr, mine)), Counter(map(repr, right))], len(mine), len(right)
    cells: dict = {}
    for outcome in counts[0].keys() | counts[1].keys():
        a, b = counts[0][outcome], counts[1][outcome]
        cell = cells.setdefault(outcome if (a + b) * min(n, m) >= 5 * (n + m) else "rare", [0, 0])
        cell[0] += a
        cell[1] += b
    x = sum((a * math.sqrt(m / n) - b * math.sqrt(n / m)) ** 2 / (a + b) for a, b in cells.values())
    half, free = x / 2, len(cells) - 1
    steps = (i + free % 2 / 2 for i in range(free // 2))  # Abramowitz & Stegun 26.4.4 and 26.4.5
    terms = (math.exp(-half + i * math.log(half or 1e-300) - math.lgamma(i + 1)) for i in steps)
    return 1.0 if free == 0 else sum(terms) + (math.erfc(math.sqrt(half)) if free % 2 else 0)


# --- judge ----------------------------------------------------------------------------------------


def check(reader: Reader, step: Step, seed: int = 0) -> Verdict:
    """Check a step; where it is right, the steps after it use the reader's functions."""
    missing, wrong = [], []
    for part in step.parts:
        if not reader.is_written(part):
            missing += part.needs or part.names
            continue
        reader.place(part)
        found = judge(part, reader, seed)
        if found is not None:
            wrong.append(found)
            reader.place(part, build(part.source))
    if wrong:
        names = [name for name, _ in wrong if name]
        says = " ".join(text for _, text in wrong)
        return Verdict(step.name, "wrong", " + ".join(names) or None, says + f" {step.lesson}")
    if missing:
        return Verdict(step.name, "missing", None, f"not yet: {', '.join(missing)}")
    return Verdict(step.name, "done", None, "done")


def judge(part: Part, reader: Reader, seed: int) -> tuple[str | None, str] | None:
    """Return the name of the mistake, or None, and what is to be said about it; None if right."""
    mine = Tape(part, reader.module, seed, reader.path)
    right = Tape(part, build(part.source), seed)
    _, i = agree(mine, right, exactly=False)
    wide = [
        look for look in mine.seen if look and str(getattr(look.value, "dtype", "")) == "float64"
    ]
    typed = f"{wide[0].label} has the type float64: np.sqrt of a Python number, a list or a plain" \
            " np.array makes one. Keep float32." if wide else ""  # fmt: skip
    if i < 0:
        return ("float64", typed) if wide else None
    place, found = tell(mine, right, i), named(part, mine, seed)
    if found:
        says = " and ".join(mistake.says for mistake in found)
        return " + ".join(mistake.name for mistake in found), (
            f"{', '.join(part.names)}: these are the numbers {says}. ({place}.) {typed}".strip()
        )
    slow = right[i] is not None and right[i].kind == "<=" and not isinstance(mine[i].value, Raised)
    return "slow" if slow else None, f"{place}. {typed}".strip()


def named(part: Part, mine: Tape, seed: int) -> tuple:
    """Return the mistake, or the pair of mistakes, that gives the same as mine."""
    best, found = 0.0, ()
    for mistake in part.mistakes:
        score, _ = agree(mine, Tape(part, build(part.source, (mistake,)), seed), exactly=True)
        if score > best:
            best, found = score, (mistake,)
    start = time.perf_counter()
    for pair in () if found else itertools.permutations(part.mistakes, 2):
        if time.perf_counter() - start > SECONDS_FOR_PAIRS:
            break
        try:
            other = build.__wrapped__(part.source, pair)
        except (LookupError, SyntaxError):  # the first one has changed what the second one would
            continue
        if agree(mine, Tape(part, other, seed), exactly=True)[0]:
            return pair
    return found


# --- say where ------------------------------------------------------------------------------------


def tell(mine: Tape, right: Tape, i: int) -> str:
    """Say how look i differs from the right one."""
    a, b = mine[i], right[i]
    if a is not None and isinstance(a.value, Raised):
        return f"{a.value.line or 'the check'}: {a.value.error}"
    if a is None or b is None or isinstance(b.value, Raised):
        expected = (
            b.value.error if b and isinstance(b.value, Raised) else "another number of results"
        )
        return f"{a.label if a else 'the end'}: expected {expected}"
    if b.kind == "~":
        return f"{b.label}: {odd_one(a.value, b.value)}"
    if b.kind == "<=":
        return f"slow: {b.label}: {a.value} where {b.value} are enough"
    if b.kind == "=":
        return f"{b.label}: {plain(a.value)!r:.100} instead of {plain(b.value)!r:.100}"
    if not same_shape(a.value, b.value):
        return f"{b.label}: {shape_of(a.value, b)}"
    stages = f"{first_stage(mine, right, i)}{b.label}"
    return (
        f"{stages}: {relation(a.value, b.value, b.kind) or first_number(a.value, b.value, b.kind)}"
    )


def odd_one(mine, right):  # two lists of outcomes -> the one whose shares differ most
    a, b = Counter(map(repr, mine)), Counter(map(repr, right))
    share = {outcome: (a[outcome] / len(mine), b[outcome] / len(right)) for outcome in a | b}
    outcome = max(share, key=lambda outcome: abs(share[outcome][0] - share[outcome][1]))
    return f"{outcome} comes in {share[outcome][0]:.1%} of all cases instead of {share[outcome][1]:.1%}"


def shape_of(value, right):
    """Say both shapes, with the names of the axes."""
    names, sizes = right.kind.split(", "), np.shape(right.value)
    known = dict(zip(sizes, names)) if len({*sizes}) == len(sizes) else {}
    if value is None:
        return "nothing comes back: is a return missing?"
    if not isinstance(value, np.ndarray | np.generic | float):
        return f"a {type(value).__name__} instead of an array"
    mine = ", ".join(f"{known.get(n, '')} {n}".strip() for n in value.shape)
    return (
        f"the shape is [{mine}] instead of [{', '.join(f'{a} {n}' for a, n in zip(names, sizes))}]"
    )


def first_stage(mine, right, i):
    """Say the first stage before look i that differs, if the same ones were seen."""
    for j in range(i - 1, -1, -1):
        if right[j].kind == "stages" and len(mine[j].value) == len(right[j].value):
            for (label, a, axes), (_, b, _) in zip(mine[j].value, right[j].value):
                if same_shape(a, b) and not close(a, b).all():
                    return f"{label} differs first ({first_number(a, b, axes)}). Then "
    return ""


def first_number(mine, right, axes):
    (*index,) = np.argwhere(~close(mine, right))[0]
    place = ", ".join(f"{axis} {n}" for axis, n in zip(axes.split(", "), index))
    a, b = mine[tuple(index)], right[tuple(index)]
    return f"at {place} yours is {a:.6g} instead of {b:.6g}" if place else f"{a:.6g}, not {b:.6g}"


def relation(mine, right, axes):  # -> a simple relation of all numbers, or None
    axes = axes.split(", ")
    with np.errstate(all="ignore"):
        ratio = np.nanmedian(np.where(right == 0, np.nan, mine / right)) if mine.size else 1
    if np.isfinite(ratio) and ratio != 0 and close(mine, ratio * right).all():
        return f"every number is {ratio:.5g} times the right one"
    if mine.size > 1 and close(mine - mine.flat[0] + right.flat[0], right).all():
        return f"every number is larger by {mine.flat[0] - right.flat[0]:.5g}"
    if right.ndim > 1 and right.shape[-1] == right.shape[-2]:
        if close(mine, right.swapaxes(-1, -2)).all():
            return f"it is transposed: {axes[-2]} and {axes[-1]} are exchanged"
    for axis, name in enumerate(axes):
        a, b = np.moveaxis(mine, axis, 0), np.moveaxis(right, axis, 0)
        if len(a) > 2 and (close(a[1:], b[:-1]).all() or close(a[:-1], b[1:]).all()):
            return f"it is shifted by one along {name}"
        order = [next((j for j in range(len(b)) if close(x, b[j]).all()), None) for x in a]
        if len(a) > 1 and None not in order and len({*order}) == len(a):
            return (
                f"the right numbers in another order: {name} 0, 1, ... has what belongs to {order}"
            )
    return None
