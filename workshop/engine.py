"""Compare a reader's functions with the project's, and name the reader's mistakes.

A step has parts. A part lists functions and has `observe(m, seed)`, which calls them with inputs
that reveal mistakes, and yields the results. The same observer runs on three kinds of modules: the
reader's file, the project's source, and the project's source with a known mistake in it. If the
reader's results equal those of a known mistake, the reader has made this mistake.
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

SECONDS_PER_LOOK = 2.0  # code that runs longer is taken to be an endless loop
SECONDS_OF_SEARCH = 3.5  # then stop looking for pairs of mistakes
RARE = 1e-7  # a difference less probable than this is no accident
WHY_FLOAT64 = "np.sqrt, np.where, np.zeros and np.array return float64 for Python numbers"


class Part(NamedTuple):
    """Functions that are checked together. source: the file with the right functions; needs: what
    the reader must have written before the check, if it differs from `names`."""

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
    """A reader's file. The project's functions replace those that are missing or wrong, so that a
    mistake in one step does not break the others."""

    def __init__(self, path: Path, steps: list[Step]):
        text, self.path = path.read_text("utf-8"), str(path)
        self.end = time.process_time() + SECONDS_OF_SEARCH
        self.module = types.ModuleType(path.stem)
        self.module.__file__ = self.path
        with limited(SECONDS_PER_LOOK):
            exec(compile(text, self.path, "exec"), vars(self.module))
        parts = [part for step in steps for part in step.parts]
        names = {name for part in parts for name in (*part.names, *part.needs)}
        self.own = {name: find(self.module, name) for name in names}
        stubs = {(self.path, line) for line in empty_functions(text)}
        self.missing = {n for n, own in self.own.items() if own is None or place_of(own) in stubs}
        self.wrong: dict[str, str] = {}  # function: the step that found its mistake
        for part in reversed(parts):  # if two parts share a name, the first one decides
            self.place(part, build(part.source))

    def absent(self, part: Part, step: str) -> list[str]:
        """Return the functions of a part that are not written yet, or wrong in an earlier step."""
        names = part.needs or part.names
        wrong = [name for name in names if self.wrong.get(name, step) != step]
        earlier = [f"{name} (wrong in {self.wrong[name]})" for name in wrong]
        return earlier + [name for name in names if name in self.missing]

    def place(self, part: Part, source: types.ModuleType | None = None) -> None:
        """Put a part's functions into the module, from source if given, else the reader's."""
        for name in part.names:
            owner, _, last = name.rpartition(".")
            if owner and not hasattr(self.module, owner):
                setattr(self.module, owner, find(source, owner))
            value = find(source, name) if source else self.own[name]
            setattr(find(self.module, owner) if owner else self.module, last, value)


def find(module: Any, name: str) -> Any:
    """Return module.GPT2.block for "GPT2.block"; None if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def empty_functions(text: str) -> Iterator[int]:
    """Yield the lines of functions that have nothing but a docstring and `...`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            values = [n.value if isinstance(n, ast.Expr) else None for n in node.body]
            if all(isinstance(value, ast.Constant) for value in values):
                yield node.lineno


def place_of(own: Any) -> tuple | None:
    """Return a function's file and line. If two share a name, Python has kept the later one."""
    code = getattr(own, "__code__", None)
    return code and (code.co_filename, code.co_firstlineno)


# --- look ----------------------------------------------------------------------------------------


class Tape:
    """The looks that an observer yields, taken one at a time and kept in `seen`. path: the reader's
    file, if the functions are the reader's."""

    def __init__(self, part: Part, module: Any, seed: int = 0, path: str | None = None):
        self.looks, self.path = part.observe(module, seed), path
        self.seen: list[Seen] = []

    def __iter__(self) -> Iterator[Seen]:
        for i in itertools.count():
            if i == len(self.seen) and not self.look():
                return
            yield self.seen[i]

    def look(self) -> Seen | None:
        """Return the observer's next result, also added to `seen`. None at the end. Keep errors."""
        try:
            with limited(SECONDS_PER_LOOK), np.errstate(all="ignore"):
                seen = next(self.looks, None)
        except (Exception, SystemExit) as error:
            seen = Seen("", error)
        if seen:
            failed = isinstance(seen.value, BaseException)
            value = self.raised(seen.value) if failed else copy.copy(seen.value)  # may change
            self.seen.append(seen._replace(value=value))
        return seen

    def raised(self, error):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.path]
        line = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        return Raised(f"{type(error).__name__}: {error}", line)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError in a block that uses more processor time, or waits 15 times as long."""
    ended, end = threading.Event(), time.process_time() + seconds
    latest = time.monotonic() + 15 * seconds

    def is_late():
        return time.process_time() > end or time.monotonic() > latest

    def watch():
        while not ended.wait(seconds / 10):
            if is_late():
                return interrupt_main()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt as error:
        if not is_late():
            raise  # Ctrl-C
        raise TimeoutError("it never ends").with_traceback(error.__traceback__) from None
    finally:
        ended.set()


def difference(mine: Tape, other: Tape, alike: Callable[[Seen, Seen], float]) -> tuple | None:
    """Return the first two looks that differ, or None. A tape that has ended gives None."""
    for a, b in itertools.zip_longest(mine, other):
        if not (a and b and alike(a, b) > RARE):
            return a, b
    return None


# --- judge ----------------------------------------------------------------------------------------


def check(reader: Reader, step: Step, name: bool = True) -> Verdict:
    """Check a step; if `name`, look for the names of its mistakes. Later steps use the reader's
    functions if they are right."""
    missing, wrong, n_right = [], [], 0
    for part in step.parts:
        if absent := reader.absent(part, step.name):
            missing += absent
            continue
        reader.place(part)
        if found := judge(part, reader.module, reader.path, reader.end if name else None):
            wrong.append(found)
            reader.wrong |= dict.fromkeys(part.names, step.name)
            reader.place(part, build(part.source))
        n_right += not found
    if wrong:
        names = " + ".join(name for name, _ in wrong if name) or None
        says = " ".join([*dict.fromkeys(text for _, text in wrong), step.lesson])
        return Verdict(step.name, "wrong", names, says)
    if missing:
        rest = "; the rest is right" if n_right else ""
        says = f"not yet: {', '.join(dict.fromkeys(missing))}{rest}"
        return Verdict(step.name, "missing", None, says)
    return Verdict(step.name, "done", None, "done")


def judge(
    part: Part, module: Any, path: str | None = None, end: float | None = 0.0
) -> tuple[str | None, str] | None:
    """Return the mistake's name (None if unknown) and the message; None if all is right.

    path: the file of module. end: the time.process_time() at which to stop looking for pairs of
    mistakes; None: do not look for names."""
    mine, right = Tape(part, module, path=path), Tape(part, build(part.source))
    differ = difference(mine, right, is_right)
    typed = wide(mine, right)
    if not differ:
        return ("float64", typed) if typed else None
    a, b = differ
    place = tell(a, b, [*zip(mine.seen, right.seen)][:-1])
    says = f"{place}. {typed}".strip()
    if place.endswith("is a return missing?"):
        return "no return", place
    if end is not None and (found := named(part, mine, right, end)):
        raised = a and isinstance(a.value, Raised)
        these = "this is the error" if raised else "these are the numbers"
        what = f"{these} {' and '.join(mistake.says for mistake in found)}"
        return " + ".join(mistake.name for mistake in found), f"{part.names[0]}: {what}. ({says})"
    return "slow" if place.startswith("slow: ") else None, says


def named(part: Part, mine: Tape, right: Tape, end: float) -> tuple:
    """Return the mistake, or the two mistakes, whose results equal mine; () if unknown."""
    odd = {a.label for a in mine if not same(a, right, is_right) > RARE}
    tapes = {m: Tape(part, build(m.source, (m,))) for m in part.mistakes}
    scores = {mistake: fit(mine, tape, odd) for mistake, tape in tapes.items()}
    best = max(scores, key=scores.__getitem__, default=None)
    if best and scores[best]:
        return (best,)
    near = {mistake: nearness(mine, tape, odd) for mistake, tape in tapes.items()}
    # Try first the pairs whose mistakes, each alone, already explain many of the results.
    every = itertools.combinations(part.mistakes, 2)
    pairs = sorted(every, key=lambda pair: -near[pair[0]] - near[pair[1]])
    numbers = odd - {a.label for a in mine if isinstance(a.value, Raised)}  # errors fit too many
    for pair in itertools.takewhile(lambda _: numbers and time.process_time() < end, pairs):
        module = with_both(pair)
        if module and fit(mine, Tape(part, module), numbers):
            return pair
    return ()


def with_both(pair: tuple) -> types.ModuleType | None:
    """Return a module with two mistakes; None if their files differ or they exclude each other."""
    if pair[0].source != pair[1].source:
        return None
    for wrong in pair, pair[::-1]:  # one may remove the text that the other changes
        with contextlib.suppress(LookupError, SyntaxError):
            return build(pair[0].source, wrong)
    return None


def same(a: Seen, other: Tape, alike: Callable[[Seen, Seen], float]) -> float:
    """Return how probable it is that `other` saw the same as look a."""
    b = next((b for b in other if b.label == a.label), None)
    return alike(a, b) if b else 0.0


def fit(mine: Tape, other: Tape, odd: set) -> float:
    """Return how probable it is that the same mistake is behind both: all looks of mine must match,
    and at least one must be wrong. If mine raised an error, other need not have raised one."""
    probable, proof = 1.0, False
    for a in mine:
        alike = same(a, other, is_same)
        if isinstance(a.value, Raised) and not alike:
            probable /= 2
        elif alike > RARE:
            probable, proof = min(probable, alike), proof or a.label in odd
        else:
            return 0.0
    return probable * proof


def nearness(mine: Tape, other: Tape, odd: set) -> int:
    """Return how many of the first looks agree; a wrong one counts ten times. Stop before the first
    random sample, which takes long."""
    first = itertools.takewhile(lambda look: look.kind != "~", itertools.islice(mine, 16))
    return sum(10 if a.label in odd else 1 for a in first if same(a, other, is_same) > RARE)


def wide(mine: Tape, right: Tape) -> str:
    """Say which result is float64 where float32 is right; "" if there is none."""
    for a, b in zip(mine.seen, right.seen):
        if [getattr(x.value, "dtype", None) for x in (a, b)] == [np.float64, np.float32]:
            return f"{a.label} has the type float64, not float32: {WHY_FLOAT64}."
    return ""
