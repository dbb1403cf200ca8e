"""Compare a reader's functions with the project's, and say which mistake it is.

A step has parts. A part names its functions and an `observe(m, seed)`, which calls them with inputs
that hide no mistake, and yields what it sees. One observer looks at three kinds of modules: the
reader's file, the project's own source, and this source with a mistake in it. Where the reader's
numbers equal those of a mistake, the mistake has a name.
"""

import ast
import contextlib
import copy
import itertools
import threading
import time
import traceback
import types
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workshop.compare import Raised, Seen, is_right, is_same, tell
from workshop.mistakes import build

SECONDS_PER_LOOK = 2.0  # what takes longer never ends
SECONDS_FOR_PAIRS = 2.5  # of one run, for all steps together
RARE = 1e-7  # two samples that differ more than this differ by no accident


class Part(NamedTuple):
    """Functions that are checked together. source: the file that has them right; needs: what must
    be written for this, where it is not `names`."""

    names: tuple
    source: str
    observe: Callable[[Any, int], Iterator[Seen]]
    mistakes: tuple = ()
    needs: tuple = ()


class Step(NamedTuple):
    name: str
    lesson: str
    parts: tuple


class Verdict(NamedTuple):
    step: str
    state: str  # done, missing or wrong
    mistake: str | None
    says: str


# --- the reader's file ----------------------------------------------------------------------------


class Reader:
    """A reader's file. What is missing or wrong in it is replaced by the project's function, so
    that no step suffers from a mistake of another one."""

    def __init__(self, path: Path, steps: list[Step]):
        text, self.path, self.seconds = path.read_text("utf-8"), str(path), SECONDS_FOR_PAIRS
        self.module = types.ModuleType(path.stem)
        self.module.__file__ = self.path
        exec(compile(text, self.path, "exec"), vars(self.module))
        self.wrong: dict[str, str] = {}  # function: the step that found its mistake
        self.empty = set(empty_functions(ast.parse(text)))
        parts = [part for step in steps for part in step.parts]
        self.own = {name: find(self.module, name) for part in parts for name in part.names}
        for part in reversed(parts):  # of two parts with one name, the first one has its source
            self.place(part, build(part.source))

    def absent(self, part: Part, step: str) -> list[str]:
        """Return the functions of a part that are not written yet, or wrong in an earlier step."""
        names = part.needs or part.names
        wrong = [name for name in names if self.wrong.get(name, step) != step]
        earlier = [f"{name} (wrong in {self.wrong[name]})" for name in wrong]
        return earlier + [name for name in names if name in self.empty or not self.has(name)]

    def has(self, name: str) -> bool:
        """Was this function, or its class with it, in the file?"""
        owner, _, last = name.rpartition(".")
        known = name in self.own or owner not in self.own
        return (self.own.get(name, self) if known else find(self.own[owner], last)) is not None

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
            constants = (
                isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in node.body
            )
            if all(constants):
                yield owner + node.name


# --- look ----------------------------------------------------------------------------------------


class Tape:
    """What an observer sees, one look at a time. path: the reader's file, whose calls may never
    end; its errors are seen, too."""

    def __init__(self, part: Part, module: types.ModuleType, seed: int, path: str | None = None):
        self.looks, self.seed, self.path, self.seen = part.observe(module, seed), seed, path, []

    def __getitem__(self, i: int) -> Any:  # Seen, or None after the last one
        while len(self.seen) <= i and (not self.seen or self.seen[-1] is not None):
            self.seen.append(self.look())
        return self.seen[i] if i < len(self.seen) else None

    def look(self):
        try:
            with limited(SECONDS_PER_LOOK if self.path else None), np.errstate(all="ignore"):
                seen = next(self.looks, None)
            if seen and isinstance(seen.value, Exception):
                return seen._replace(value=self.raised(seen.value))
            # A copy, because later calls may change the array.
            return seen and seen._replace(value=copy.copy(seen.value))
        except (Exception, SystemExit) as error:
            return Seen("", self.raised(error))

    def raised(self, error):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.path]
        line = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        return Raised(f"{type(error).__name__}: {error}", line)


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise a TimeoutError in what takes longer."""
    stopped = []

    def stop():
        stopped.append(True)
        interrupt_main()

    timer = threading.Timer(seconds or 0, stop)
    try:
        if seconds:
            timer.start()
        yield
    except KeyboardInterrupt as error:
        if not stopped:
            raise  # Ctrl-C
        raise TimeoutError("it never ends").with_traceback(error.__traceback__) from None
    finally:
        timer.cancel()


def agree(mine: Tape, other: Tape, alike: Callable[[Seen, Seen], float]) -> tuple[float, int]:
    """Return how probable it is that they are the same, and the first look that differs, or -1."""
    probable = 1.0
    for i in itertools.count():
        a, b = mine[i], other[i]
        if a is None and b is None:
            return probable, -1
        same = 0.0 if a is None or b is None else alike(a, b)
        if not same > RARE:
            return 0.0, i
        probable = min(probable, same)
    raise AssertionError


# --- judge ----------------------------------------------------------------------------------------


def check(reader: Reader, step: Step, seed: int = 0) -> Verdict:
    """Check a step. The steps after it use the reader's functions where they are right."""
    missing: list[str] = []
    wrong = []
    for part in step.parts:
        if absent := reader.absent(part, step.name):
            missing += [name for name in absent if name not in missing]
            continue
        reader.place(part)
        if found := judge(part, reader, seed):
            wrong.append(found)
            reader.wrong |= dict.fromkeys(part.names, step.name)
            reader.place(part, build(part.source))
    if wrong:
        names = " + ".join(name for name, _ in wrong if name) or None
        says = " ".join([*(text for _, text in wrong), step.lesson])
        return Verdict(step.name, "wrong", names, says)
    if missing:
        return Verdict(step.name, "missing", None, f"not yet: {', '.join(missing)}")
    return Verdict(step.name, "done", None, "done")


def judge(part: Part, reader: Reader, seed: int) -> tuple[str | None, str] | None:
    """Return the name of the mistake, or None, and what is to be said; None if all is right."""
    mine = Tape(part, reader.module, seed, reader.path)
    right = Tape(part, build(part.source), seed)
    _, i = agree(mine, right, is_right)
    typed = wide(mine, right)
    if i < 0:
        return ("float64", typed) if typed else None
    place = tell(mine, right, i)
    start = time.perf_counter()
    found = (
        ()
        if mine[i] and "steps before" in mine[i].label
        else named(part, mine, right, reader.seconds)
    )
    reader.seconds -= time.perf_counter() - start
    says = f"{place}. {typed}".strip()
    if found:
        these = (
            "the error is that" if isinstance(mine[i].value, Raised) else "these are the numbers"
        )
        what = f"{these} {' and '.join(mistake.says for mistake in found)}"
        return " + ".join(mistake.name for mistake in found), f"{part.names[0]}: {what}. ({says})"
    slow = (
        right[i] and right[i].kind.startswith("<=") and mine[i] and isinstance(mine[i].value, int)
    )
    return "slow" if slow else None, says


def named(part: Part, mine: Tape, right: Tape, seconds: float) -> tuple:
    """Return the mistake, or the pair of mistakes, that gives the same as mine."""
    odd = [not (b and is_right(a, b) > RARE) for a, b in beside(mine, right)]

    def score(*wrong):
        try:
            module = build(wrong[0].source, wrong)
        except (LookupError, SyntaxError):  # the first has changed what the second would change
            return None
        try:
            with limited(SECONDS_PER_LOOK):
                return fit(mine, Tape(part, module, mine.seed), odd)
        except TimeoutError:  # two mistakes in one loop
            return 0.0

    scores = {mistake: score(mistake) or 0.0 for mistake in part.mistakes}
    best = max(scores, key=scores.__getitem__, default=None)
    if best and scores[best]:
        return (best,)
    near = {m: nearness(mine, Tape(part, build(m.source, (m,)), mine.seed), odd) for m in scores}
    # First the pairs of which each alone already gives much of what mine gave.
    every = itertools.combinations(part.mistakes, 2)
    pairs = sorted(every, key=lambda pair: -near[pair[0]] - near[pair[1]])
    end = time.perf_counter() + seconds
    for a, b in itertools.takewhile(lambda _: time.perf_counter() < end, pairs):
        if a.source == b.source:
            found = score(a, b)
            if found or found is None and score(b, a):
                return a, b
    return ()


def fit(mine: Tape, other: Tape, odd: list[bool]) -> float:
    """Return how probable it is that one mistake made both: all that mine gave is the same, and
    among it something that is not right. Where mine raised an error, other may not."""
    probable, proof = 1.0, False
    for i, (a, b) in enumerate(beside(mine, other)):
        if not proof and not any(odd[i:]):
            return 0.0
        if isinstance(a.value, Raised):
            same_error = b is not None and is_same(a, b) > 0
            probable, proof = probable if same_error else probable / 2, proof or same_error
            continue
        same = is_same(a, b) if b else 0.0
        if not same > RARE:
            return 0.0
        probable, proof = min(probable, same), proof or odd[i]
    return probable * proof


def nearness(mine: Tape, other: Tape, odd: list[bool]) -> int:
    """Return how many of the first results they have in common, before chance, which takes long; a
    wrong result counts ten times."""
    n = next((i for i, look in enumerate(mine.seen) if look and look.kind == "~"), 16)
    looks = itertools.islice(beside(mine, other), min(n, 16))
    same = [b is not None and is_same(a, b) > RARE for a, b in looks]
    return sum(10 if is_odd else 1 for is_odd, both in zip(odd, same) if both)


def beside(mine: Tape, other: Tape) -> Iterator[tuple[Seen, Seen | None]]:
    """Yield each look of mine, and the look of the same label that follows in other, or None."""
    after = 0
    for i in itertools.count():
        if (a := mine[i]) is None:
            return
        j = after
        while (b := other[j]) is not None and b.label != a.label:
            j += 1
        after = after if b is None else j + 1
        yield a, b


def wide(mine: Tape, right: Tape) -> str:
    """Say which result is float64, though the right one is float32."""
    for a, b in zip(mine.seen, right.seen):
        if (
            a
            and b
            and [str(getattr(x.value, "dtype", "")) for x in (a, b)] == ["float64", "float32"]
        ):
            return (f"{a.label} has the type float64, not float32: np.sqrt of a Python number makes"
                    " one, and np.array or np.zeros of Python numbers.")  # fmt: skip
    return ""
