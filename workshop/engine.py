"""Compare a reader's functions with the project's, and name the reader's mistakes.

Each step has parts. A part lists functions and has an observer, `observe(m, seed)`, which calls the
functions of module m with inputs that reveal mistakes, and yields the results. It runs on the
reader's file, on the project's source, and on copies of the source with one known mistake each. If
the reader's results equal those of a known mistake, the reader has made this mistake.
"""

import ast
import contextlib
import copy
import itertools
import sys
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

SECONDS_PER_RESULT = 2.0  # code that takes longer counts as an endless loop
SECONDS_OF_SEARCH = 3.5  # the search for pairs of mistakes stops after this time
RARE = 1e-7  # a difference less probable than this is not due to chance
WHY_FLOAT64 = "np.sqrt, np.where, np.zeros and np.array return float64 for Python numbers"


class Part(NamedTuple):
    """Functions that are checked together. source: the file with the right functions. needs: the
    functions that the reader must have written before the check. If it is empty, use `names`."""

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
    says: str  # the message to the reader


# --- the reader's file ----------------------------------------------------------------------------


class Reader:
    """A reader's file. The project's functions replace missing and wrong functions, so that a
    mistake in one step does not break the other steps."""

    def __init__(self, path: Path, steps: list[Step]):
        source, self.path = path.read_bytes(), str(path)  # Python finds the encoding
        self.end = time.process_time() + SECONDS_OF_SEARCH
        self.module = types.ModuleType(f"reader_{path.stem}")
        sys.modules[self.module.__name__] = self.module  # dataclasses and pickle look there
        self.module.__file__ = self.path
        with limited(SECONDS_PER_RESULT):
            exec(compile(source, self.path, "exec"), vars(self.module))
        parts = [part for step in steps for part in step.parts]
        names = {name for part in parts for name in (*part.names, *part.needs)}
        self.own = {name: find(self.module, name) for name in names}
        stubs = {(self.path, line) for line in empty_functions(source)}
        self.missing = {n for n, own in self.own.items() if own is None or location(own) in stubs}
        self.wrong: dict[str, str] = {}  # {function: the step that found a mistake in it}
        for part in reversed(parts):  # if two parts name a function, the first part provides it
            self.place(part, build(part.source))

    def absent(self, part: Part, step: str) -> list[str]:
        """Name the functions that a part needs, but that are missing or failed in another step."""
        names = part.needs or part.names
        wrong = [name for name in names if self.wrong.get(name, step) != step]
        earlier = [f"{name} (wrong in {self.wrong[name]})" for name in wrong]
        return earlier + [name for name in names if name in self.missing]

    def place(self, part: Part, source: types.ModuleType | None = None) -> None:
        """Put a part's functions into the module: those of `source`, or if None, the reader's."""
        for name in part.names:
            owner, _, last = name.rpartition(".")
            if owner and not hasattr(self.module, owner):
                setattr(self.module, owner, find(source, owner))
            value = find(source, name) if source else self.own[name]
            setattr(find(self.module, owner) if owner else self.module, last, value)


def find(module: Any, name: str) -> Any:
    """Return the object of this name, such as module.GPT2.block for "GPT2.block", or None."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def empty_functions(source: bytes) -> Iterator[int]:
    """Yield the line number of each function that contains only a docstring and `...`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            values = [n.value if isinstance(n, ast.Expr) else None for n in node.body]
            if all(isinstance(value, ast.Constant) for value in values):
                yield node.lineno


def location(own: Any) -> tuple | None:
    """Return a function's file and line, which tell two functions of the same name apart."""
    code = getattr(own, "__code__", None)
    return code and (code.co_filename, code.co_firstlineno)


# --- observe -------------------------------------------------------------------------------------


class Tape:
    """An observer's results. They are computed only when they are needed, and kept in `seen`.
    path: the reader's file, or None if the observer does not call the reader's functions."""

    def __init__(self, part: Part, module: Any, seed: int = 0, path: str | None = None):
        self.results, self.path = part.observe(module, seed), path
        self.seen: list[Seen] = []

    def __iter__(self) -> Iterator[Seen]:
        for i in itertools.count():
            if i == len(self.seen) and not self.compute_next():
                return
            yield self.seen[i]

    def compute_next(self) -> Seen | None:
        """Append the next result (it may be an error) to `seen`. Return it, or None at the end."""
        try:
            with limited(SECONDS_PER_RESULT), np.errstate(all="ignore"):
                seen = next(self.results, None)
        except (Exception, SystemExit) as error:
            seen = Seen("", error)
        if seen:
            failed = isinstance(seen.value, BaseException)
            value = self.raised(seen.value) if failed else copy.copy(seen.value)  # lists may change
            self.seen.append(seen._replace(value=value))
        return seen

    def raised(self, error):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.path]
        line = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        return Raised(f"{type(error).__name__}: {error}", line)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError after `seconds` of processor time, or 15 * `seconds` of real time."""
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
            raise  # the user pressed Ctrl-C
        raise TimeoutError("it never ends").with_traceback(error.__traceback__) from None
    finally:
        ended.set()


def difference(mine: Tape, other: Tape, alike: Callable[[Seen, Seen], float]) -> tuple | None:
    """Return the first results (a, b) that differ, or None. At a tape's end, a or b is None."""
    for a, b in itertools.zip_longest(mine, other):
        if not (a and b and alike(a, b) > RARE):
            return a, b
    return None


# --- judge ----------------------------------------------------------------------------------------


def check(reader: Reader, step: Step, name: bool = True) -> Verdict:
    """Check a step. name: whether to look for known mistakes and to name them. Right functions stay
    in the reader's module, so that later steps use them."""
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
        says = " ".join([*dict.fromkeys(text for _, text in wrong), f"See {step.lesson}"])
        return Verdict(step.name, "wrong", names, says)
    if missing:
        rest = "; the rest is right" if n_right else ""
        says = f"not yet: {', '.join(dict.fromkeys(missing))}{rest}"
        return Verdict(step.name, "missing", None, says)
    return Verdict(step.name, "done", None, "done")


def judge(
    part: Part, module: Any, path: str | None = None, end: float | None = 0.0
) -> tuple[str | None, str] | None:
    """Return (the mistake's name or None, a message to the reader), or None if all is right.

    path: the module's file. end: the time.process_time() at which the search for pairs of mistakes
    stops. If it is None, no known mistakes are tried."""
    mine, right = Tape(part, module, path=path), Tape(part, build(part.source))
    differ = difference(mine, right, is_right)
    typed = wide(mine, right)
    if not differ:
        return ("float64", typed) if typed else None
    a, b = differ
    told = tell(a, b, [*zip(mine.seen, right.seen)][:-1])
    says = f"{told}. {typed}".strip()
    if told.endswith("is a return missing?"):
        return "no return", told
    if end is not None and (found := named(part, mine, right, end)):
        raised = a and isinstance(a.value, Raised)
        these = "this is the error" if raised else "these are the numbers"
        what = f"{these} {' and '.join(mistake.says for mistake in found)}"
        return " + ".join(mistake.name for mistake in found), f"{part.names[0]}: {what}. ({says})"
    return "slow" if told.startswith("slow: ") else None, says


def named(part: Part, mine: Tape, right: Tape, end: float) -> tuple:
    """Return the one or two known mistakes that explain the results of `mine`, or ()."""
    odd = {a.label for a in mine if not same(a, right, is_right) > RARE}
    tapes = {m: Tape(part, build(m.source, (m,))) for m in part.mistakes}
    scores = {mistake: fit(mine, tape, odd) for mistake, tape in tapes.items()}
    best = max(scores, key=scores.__getitem__, default=None)
    if best and scores[best]:
        return (best,)
    near = {mistake: nearness(mine, tape, odd) for mistake, tape in tapes.items()}
    # Begin with the most promising pairs: those whose mistakes explain many results even alone.
    every = itertools.combinations(part.mistakes, 2)
    pairs = sorted(every, key=lambda pair: -near[pair[0]] - near[pair[1]])
    numbers = odd - {a.label for a in mine if isinstance(a.value, Raised)}  # errors prove little
    for pair in itertools.takewhile(lambda _: numbers and time.process_time() < end, pairs):
        module = with_both(pair)
        if module and fit(mine, Tape(part, module), numbers):
            return pair
    return ()


def with_both(pair: tuple) -> types.ModuleType | None:
    """Return a module with both mistakes, or None if one module cannot contain both."""
    if pair[0].source != pair[1].source:
        return None
    for wrong in pair, pair[::-1]:  # one mistake may remove text that the other one replaces
        with contextlib.suppress(LookupError, SyntaxError):
            return build(pair[0].source, wrong)
    return None


def same(a: Seen, other: Tape, alike: Callable[[Seen, Seen], float]) -> float:
    """Find the result b in `other` with a's label. Return alike(a, b), or 0 if there is no b."""
    b = next((b for b in other if b.label == a.label), None)
    return alike(a, b) if b else 0.0


def fit(mine: Tape, other: Tape, odd: set) -> float:
    """Return a score from 0 to 1: how well `other` explains the results of `mine`. All of them must
    match, and at least one must be wrong. But an error without a match only halves the score."""
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
    """Count how many of the first 16 results of mine agree with other. Results in odd count ten
    times. Stop before the first random sample, because samples take a long time."""
    first = itertools.takewhile(lambda seen: seen.kind != "~", itertools.islice(mine, 16))
    return sum(10 if a.label in odd else 1 for a in first if same(a, other, is_same) > RARE)


def wide(mine: Tape, right: Tape) -> str:
    """Return a message about the first result that is float64 but should be float32, or ""."""
    for a, b in zip(mine.seen, right.seen):
        if [getattr(x.value, "dtype", None) for x in (a, b)] == [np.float64, np.float32]:
            return f"{a.label} has the type float64, not float32: {WHY_FLOAT64}."
    return ""
