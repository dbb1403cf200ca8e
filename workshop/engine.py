"""Compare a reader's functions with the project's, and name the reader's mistakes.

Each step has parts. A part lists functions and has an observer, `observe(m, seed)`, which calls the
functions of module m with inputs that reveal mistakes, and yields the results. It runs on the
reader's file, on the project's source, and on copies of the source with one known mistake each. A
mistake gets the name of the known mistake that explains its wrong results, or of the slip in the
reader's own code without which all results are right.
"""

import ast
import codecs
import contextlib
import copy
import functools
import importlib.util
import itertools
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workshop.compare import RARE, Raised, Seen, is_right, is_same, is_wrong, plain, tell
from workshop.mistakes import REFERENCE, TEXTS, Mistake, build, function_of
from workshop.slips import slips

NAMED = 0.5  # a known mistake must explain this share of the wrong results to be mentioned
SURE = 0.9  # a known mistake must explain this share of the wrong results to be the name
most_seconds = np.inf  # a lesson does not wait longer for a name
search_begins: Callable[[str], object] = str  # called with what is known without a name
MOST_RESULTS = 30_000  # the search for a name ends after so many results of known mistakes
LIKELY = 1e-3  # two samples that differ more than this by chance are not due to one mistake
RANDOM = 50  # a sample of random outcomes counts as so many results
WHY_FLOAT64 = "np.sqrt, np.where, np.zeros and np.array return float64 for Python numbers"


class Part(NamedTuple):
    """Functions that are checked together, and the lesson that explains them.

    known: a table of known mistakes. Those in `functions`, or else in `names`, count; the first one
    is in the source that has the right functions. Slips are possible in the functions that they
    change, too. needs: what the reader must have written before the check, if not `names`.
    libraries: what the check needs besides NumPy. title: what this part of a step is about, if a
    step has several such parts.
    """

    names: tuple
    observe: Callable[[Any, int], Iterator[Seen]]
    known: tuple = ()
    lesson: str = ""
    functions: tuple = ()
    needs: tuple = ()
    libraries: tuple = ()
    title: str = ""

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        functions = self.functions or self.names
        return tuple(mistake for mistake in self.known if mistake.function in functions)

    @property
    def source(self) -> str:  # the file with the right functions
        return self.mistakes[0].source if self.mistakes else REFERENCE

    def slips(self, blamed: tuple = ()) -> Iterator[Mistake]:
        """Yield the slips in our functions. blamed: those of the part's names that are wrong."""
        functions = dict.fromkeys((m.source, m.function) for m in self.mistakes)
        for confused, (source, name) in itertools.product((False, True), functions):
            if blamed in ((), self.names) or name in blamed or owner_of(name) in blamed:
                yield from slips(source, name, confused)


class Step(NamedTuple):
    name: str
    parts: tuple


class Verdict(NamedTuple):
    step: str
    state: str  # done, missing or wrong
    mistake: str | None
    says: str  # the message to the reader


# --- the reader's file ----------------------------------------------------------------------------


class Reader:
    """A reader's file. The project's functions replace missing and wrong functions, so that a
    mistake in one step does not break the other steps. ended: {a part's key: (None, a message)},
    if the check of this part ended Python. limit: a context that limits the time of the file."""

    def __init__(self, path: Path, steps: list[Step], ended: dict | None = None, limit: Any = None):
        source, self.path, self.ended = path.read_bytes(), str(path), ended or {}
        code = compile(source, self.path, "exec", dont_inherit=True)  # Python finds the encoding
        tree = ast.parse(source)
        empty = stubs(tree)
        parts = [part for step in steps for part in step.parts]
        for part in parts:  # before the reader's file can change NumPy
            if not {*(part.needs or part.names)} & {*empty}:
                right_tape(part)
        self.module = types.ModuleType(f"reader_{path.stem}")
        sys.modules[self.module.__name__] = self.module  # dataclasses and pickle look there
        self.module.__file__ = self.path
        with limit or contextlib.nullcontext():
            exec(code, vars(self.module))
        self.key = f"{path} {hash(source)}"
        text = source.removeprefix(codecs.BOM_UTF8).decode("ascii", "replace")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        TEXTS[self.key] = text.replace("\ufffd", "_")  # may stand in a name
        names = [name for part in parts for name in part.names + part.needs]
        own = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        self.helpers = [name for name in own if name not in names]
        self.own = {name: find(self.module, name) for name in names}
        self.missing = {n: "" for n in names if self.own[n] is None} | empty  # {function: a note}
        self.wrong: dict[str, str] = {}  # {function: the step that found a mistake in it}
        self.tell: Callable = str  # called with the key of what begins
        for part in reversed(parts):  # if two parts name a function, the first part provides it
            self.place(part, build(part.source))

    def absent(self, part: Part, step: str) -> list[str]:
        """Name what a part needs: functions that are missing or wrong in another step."""
        names = part.needs or part.names
        found = [name + self.missing[name] for name in names if name in self.missing]
        used = [name for name in self.wrong if name in names or owner_of(name) in part.names]
        steps = {self.wrong[name] for name in used}
        if steps - {step}:
            wrong = ", ".join(f"{name} (wrong in {self.wrong[name]})" for name in used)
            found.append(f"it uses {wrong}")
        libraries = [name for name in part.libraries if not importlib.util.find_spec(name)]
        if libraries and not found:
            found.append(f"pip install {' '.join(libraries)}")
        return found

    def begins(self, key: str) -> tuple | None:
        """Tell what begins. Return its message if it has ended Python before."""
        self.tell(key)
        return self.ended.get(key)

    def place(self, part: Part, source: types.ModuleType | None = None) -> None:
        """Put a part's functions into the module: those of `source`, or if None, the reader's."""
        for name in part.names:
            owner, _, last = name.rpartition(".")
            if owner and not hasattr(self.module, owner):
                setattr(self.module, owner, find(source, owner))
            value = find(source, name) if source else self.own[name]
            setattr(find(self.module, owner), last, value)

    def blame(self, part: Part) -> tuple:
        """Return the innermost of a part's functions that is wrong: all is right with ours."""
        sources = dict.fromkeys(mistake.source for mistake in part.mistakes)
        if len(part.names) == 1 or not sources or self.begins(f"{part.observe.__name__}, blamed"):
            return part.names[:1] if sources else part.names
        groups = [*((name,) for name in part.names), part.names[1:]]
        for names, source in itertools.product(groups, sources):
            self.place(part._replace(names=names), build(source))
            tape = Tape(part, self.module, path=self.path)
            with contextlib.redirect_stdout(None):
                differ = difference(tape, right_tape(part), is_right)
            self.place(part)
            if not differ:
                return names
        return part.names[:1]

    def mended(self, part: Part, blamed: tuple) -> Mistake | None:
        """Return what is wrong in a part's functions, if a change in one place mends it."""
        if self.begins(f"{part.observe.__name__}, mended"):
            return None
        right, n_results = right_tape(part), 0
        mine = [name for name in blamed if self.own[name]]
        ways = itertools.product((False, True), mine and [*mine, *self.helpers])
        for slip in itertools.chain(*(slips(self.key, name, way, True) for way, name in ways)):
            owner, _, name = slip.function.rpartition(".")
            place = find(self.module, owner)
            if not place or name not in vars(place):  # it was renamed or deleted
                continue
            kept = vars(place)[name]
            try:
                changed = function_of(slip, vars(self.module))
            except Exception:  # no Python, or a default that only its class knows
                continue
            try:
                setattr(place, name, changed)
                with contextlib.redirect_stdout(None), Tape.limited(self.path):
                    tape = Tape(part, self.module)
                    differ = difference(tape, right, is_right)
            finally:
                setattr(place, name, kept)
            if not differ:
                return slip
            n_results += count(tape)
            if n_results > MOST_RESULTS:
                break
        return None


def owner_of(name: str) -> str:  # "Cache.cut" -> "Cache"
    return name.partition(".")[0]


def find(module: Any, name: str) -> Any:
    """Return the object of this name, such as module.GPT2.block for "GPT2.block", or None. The
    module itself has the name ""."""
    for part in filter(None, name.split(".")):
        module = getattr(module, part, None)
    return module


def stubs(tree: ast.Module) -> dict[str, str]:
    """Return {function that is not written yet: a note}. The note is "", unless the function is
    written, but an empty one of the same name follows."""
    found, lines = {}, {}
    classes = [(f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for prefix, body in [("", tree.body), *classes]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                name = prefix + node.name
                found[name] = ""
                if not all(map(is_empty, node.body)):
                    del found[name]
                    lines[name] = f"yours in line {node.lineno}"
                elif name in lines:
                    found[name] = f" (the empty one in line {node.lineno} replaces {lines[name]})"
    return found


def is_empty(statement: ast.stmt) -> bool:
    """Return whether it is a docstring, `...`, `pass` or `raise NotImplementedError`."""
    if isinstance(statement, ast.Raise) and statement.exc:
        return ast.unparse(statement.exc).startswith("NotImplementedError")
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


# --- observe -------------------------------------------------------------------------------------


class Tape:
    """An observer's results. They are computed only when they are needed, and kept in `seen`.
    path: the reader's file, or None if the observer does not call the reader's functions."""

    limited: Callable = contextlib.nullcontext  # the child limits the time of a result

    def __init__(self, part: Part, module: Any, seed: int = 0, path: str | None = None):
        self.results, self.part, self.path = part.observe(module, seed), part, path
        self.seen: list[Seen] = []
        self.by_label: dict[str, Seen] = {}

    def __iter__(self) -> Iterator[Seen]:
        for i in itertools.count():
            if i == len(self.seen) and not self.compute_next():
                return
            yield self.seen[i]

    def find(self, label: str) -> Seen | None:
        """Return the result with this label, or None."""
        while label not in self.by_label and self.compute_next():
            pass
        return self.by_label.get(label)

    def compute_next(self) -> Seen | None:
        """Append the next result (it may be an error) to `seen`. Return it, or None at the end."""
        seen: Seen | None = Seen("", None)
        try:
            with self.limited(self.path), np.errstate(all="ignore"):
                seen = next(self.results, None)
                if seen:  # a result may be a function that computes it, and a list may change later
                    value = seen.value() if callable(seen.value) else seen.value
                    seen = seen._replace(value=copy.copy(value))
                    plain(value)  # an error if a list contains itself
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not self.raised(error).line:
                raise  # the user pressed Ctrl-C
            seen = seen and seen._replace(value=error)
        if seen:
            if isinstance(seen.value, BaseException):
                seen = seen._replace(value=self.raised(seen.value))
            self.seen.append(seen)
            self.by_label.setdefault(seen.label, seen)
        return seen

    def raised(self, error):
        """Describe an error and the line of the reader's file that raised it. If it belongs to a
        different function than those checked, take the line that called it."""
        text = f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
        text = "".join(c for c in text if c.isprintable())
        file, frames = self.path or "<ours>", traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if frame.filename == file]
        names = {name.rpartition(".")[2] for name in self.part.names + self.part.needs}
        checked = [frame for frame in inside if frame.name in names]
        place = checked[-1].name if checked else ""
        own = checked or inside
        if not own or not self.path:
            return Raised(text, "", place)
        called = f", in {inside[-1].name}," if own[-1] is not inside[-1] else ""
        return Raised(text, f"line {own[-1].lineno}: {own[-1].line}{called}", place)


def count(tape: Tape) -> int:
    return sum(RANDOM if seen.kind == "~" else 1 for seen in tape.seen)


@functools.cache
def right_tape(part: Part) -> Tape:
    """Return the right results, all of them computed."""
    tape = Tape(part, build(part.source))
    list(tape)
    return tape


def difference(mine: Tape, other: Tape, alike: Callable[[Seen, Seen], float]) -> tuple | None:
    """Return the first results (a, b) that differ, or None. At a tape's end, a or b is None."""
    for a, b in itertools.zip_longest(mine, other):
        if not (a and b and alike(a, b) > RARE):
            return a, b
    return None


# --- judge ----------------------------------------------------------------------------------------


def check(reader: Reader, step: Step, name: bool = True, begin: Callable = str) -> Verdict:
    """Check a step. name: whether to name known mistakes. begin: called with the key of each part
    before its check. Right functions stay in the reader's module, so that later steps use them."""
    missing, wrong, right, reader.tell = [], [], [], begin
    for i, part in enumerate(step.parts):
        if wrong and {*part.names} & {*map(owner_of, reader.wrong), *reader.wrong}:
            continue  # an earlier part has found a mistake in these functions
        if absent := reader.absent(part, step.name):
            missing += absent
            reader.place(part, build(part.source))
            continue
        reader.place(part)
        ended = reader.begins(f"{step.name} {i}")
        found = ended or judge(part, reader.module, reader.path, name, reader)
        if found:
            wrong.append((found[0], f"{found[1]} See {part.lesson}"))
            blamed = found[2] if len(found) > 2 else part.names[:1]
            reader.wrong |= dict.fromkeys(blamed, step.name)
            reader.place(part, build(part.source))
        else:
            right.append(part)
    if wrong:
        names = [mistake for mistake, _ in wrong if mistake]
        fine = [f"{part.title}: right." for part in right if part.title]
        says = " ".join(dict.fromkeys([*fine, *(text for _, text in wrong)]))
        return Verdict(step.name, "wrong", " + ".join(names) or None, says)
    if missing:
        rest = "; the rest is right" if right else ""
        says = f"not yet: {', '.join(dict.fromkeys(missing))}{rest}"
        return Verdict(step.name, "missing", None, says)
    return Verdict(step.name, "done", None, "done")


def judge(part: Part, module: Any, path: str | None = None, name: bool = True, reader: Any = None):
    """Return (the mistake's name or None, a message, the functions to blame), or None if all is
    right. path: the module's file. name: whether to name the mistake. reader: its owner."""
    mine, right = Tape(part, module, path=path), right_tape(part)
    differ = difference(mine, right, is_right)
    typed = wide(mine, right)
    if not differ:
        return ("float64", typed, part.names) if typed else None
    blamed = reader.blame(part) if reader else part.names
    told = tell(*differ)
    says = f"{told}. {typed}".strip()
    if told.endswith("is a return missing?"):
        return "no return", told, blamed
    if "after the call" in told:
        return "changed argument", f"{blamed[0]} changes its argument. ({told})", blamed
    if "unexpected keyword argument" in told:
        return "argument", f"{told} Keep the names of the arguments.", blamed
    if not name or "TimeoutError" in told:
        return None, says, blamed
    search_begins(says)
    found, share = named(part, mine, right, part.mistakes, NAMED, not reader)
    if share < 1 and reader and (slip := reader.mended(part, blamed)):
        own = (slip.function,) if owner_of(slip.function) in blamed else blamed
        return slip.says, f"{slip.function}: these are the results {slip.says}. ({says})", own
    if share <= SURE:
        made, whole = named(part, mine, right, part.slips(blamed), 1.0, not reader)
        found, share = (made, whole) if made else (found, share)
    if not found:
        return "slow" if told.startswith("too much work: ") else None, says, blamed
    where = found.function if found.function in blamed else blamed[0]
    these = "these are the results" if share == 1 else "some of the wrong results are those"
    mistake = found.says if share > SURE else None
    return mistake, f"{where}: {these} {found.says}. ({says})", blamed


def named(
    part: Part, mine: Tape, right: Tape, known: Iterable[Mistake], least: float, errors: bool
) -> tuple[Mistake | None, float]:
    """Return the known mistake that explains the results of `mine` best, and the share of the wrong
    results that it explains, at least `least`."""
    odd = [is_wrong(a, right.find(a.label)) for a in mine]
    best, most, n_results, end = None, 0.0, 0, time.monotonic() + most_seconds
    for mistake in known:
        try:
            other = Tape(part, build(mistake.source, mistake))
        except SyntaxError:
            continue
        share = fit(mine, odd, other, right, max(least, most), errors)
        if share > most:
            best, most = mistake, share
        n_results += count(other)
        if most == 1 or n_results > MOST_RESULTS or time.monotonic() > end:
            break
    return best, most


def fit(mine: Tape, odd: list, other: Tape, right: Tape, least: float, errors: bool) -> float:
    """Return the share of the wrong results of `mine` that `other` explains, or 0 if it is below
    `least`. odd: which results of `mine` are wrong. The n-th wrong result has the weight 1 / 2^n. A
    result that is wrong only in `other` is not explained. errors: whether equal errors are proof.
    """
    explained, total, rest, proved = 0.0, 0.0, 1.0, False
    for a, wrong in zip(mine, odd):
        b, c = other.find(a.label), right.find(a.label)
        also = is_wrong(b, c)
        if not wrong and not also:
            continue
        rest /= 2
        total += rest
        if wrong and also and b and is_same(a, b) > LIKELY:
            explained += rest
            proved |= not isinstance(a.value, Raised) or errors and a.value.error == b.value.error
        if explained + rest < least * (total + rest):  # even if it explains all later results
            return 0.0
    return explained / total if proved else 0.0


def wide(mine: Tape, right: Tape) -> str:
    """Return a message about the first result that is float64 but should be float32, or ""."""
    for a, b in zip(mine.seen, right.seen):
        if [getattr(x.value, "dtype", None) for x in (a, b)] == [np.float64, np.float32]:
            return f"{a.label} has the type float64, not float32: {WHY_FLOAT64}."
    return ""
