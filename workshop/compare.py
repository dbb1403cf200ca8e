"""Compare two results, and describe how they differ."""

import math
import os.path
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

RARE = 1e-7  # a difference less probable than this is not due to chance


class Seen(NamedTuple):
    """One result of an observer. kind: the kind of result, which decides how to compare it:

    "n_new, d"  an array with axes of these names
    "="         a plain value
    "<=2"       a count that may be up to 2 larger than the right count
    "~"         a list of random outcomes
    """

    label: str
    value: Any  # or a function that computes it, so that the observer goes on after an error
    kind: str = "="


class Raised(NamedTuple):
    error: str
    line: str  # the line of the reader's file that raised the error, or ""
    place: str = ""  # the function that raised it

    @property
    def kind(self) -> str:
        return self.error.partition(":")[0]


def is_right(a: Seen, b: Seen) -> float:
    """Return whether a agrees with b, the right result. For random outcomes, return a p-value."""
    if b.kind.startswith("<=") and isinstance(a.value, int | np.integer):
        return a.value <= b.value + int(b.kind[2:] or 0)
    return is_same(a, b)


def is_wrong(a: Seen | None, b: Seen | None) -> bool:
    """Return whether a is missing or does not agree with b, the right result."""
    return not (a and b) or is_right(a, b) <= RARE


def is_same(a: Seen, b: Seen) -> float:
    """Return whether one mistake could explain a and b. For random outcomes, return a p-value."""
    raised = [isinstance(x.value, Raised) for x in (a, b)]
    if any(raised):
        return all(raised) and (a.value.kind, a.value.place) == (b.value.kind, b.value.place)
    if b.kind == "~":
        return chance(a.value, b.value)
    if b.kind == "=" or not isinstance(b.value, np.ndarray):
        mine, right = plain(a.value), plain(b.value)
        return mine == right or repr(mine) == repr(right)  # NaN is not equal to itself
    return same_shape(a.value, b.value) and close(a.value, b.value).all()


def plain(value):  # arrays, tuples and NumPy numbers -> lists and Python numbers
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def same_shape(a, b):
    arrays = all(isinstance(x, np.ndarray | np.generic) for x in (a, b)) and a.shape == b.shape
    numbers = arrays and all(x.dtype.kind in "biuf" for x in (a, b))
    return numbers and (a.dtype == bool) == (b.dtype == bool)


def close(a, b):  # -> an array of bools: which numbers are equal up to float32 rounding
    size = np.abs(b[np.isfinite(b)]).max(initial=1)
    return np.isclose(a, b, rtol=1e-4, atol=2e-5 * min(size, 100), equal_nan=True)


def chance(mine: list, right: list) -> float:
    """Return the p-value of a chi-square test: how probable it is that two samples from the same
    distribution differ at least this much. Outcomes expected fewer than 5 times are merged."""
    if not mine:
        return 0.0
    a, b = counts(mine), counts(right)
    n, m = len(mine), len(right)
    cells: dict = {}
    for outcome in a | b:
        rare = (a[outcome] + b[outcome]) * min(n, m) < 5 * (n + m)
        cell = cells.setdefault("rare" if rare else outcome, [0, 0])
        cell[0] += a[outcome]
        cell[1] += b[outcome]
    squares = sum((x * m - y * n) ** 2 / (x + y) for x, y in cells.values())
    return tail(squares / (n * m), len(cells) - 1)


def counts(sample: list) -> Counter:  # {an outcome as text: how often it occurs}
    return Counter(map(repr, plain(sample)))


def tail(x: float, k: int) -> float:
    """Return the probability that a chi-square variable with k degrees of freedom is larger than x:
    Abramowitz & Stegun, 26.4.4 and 26.4.5."""
    if k == 0:
        return 1.0
    total = math.erfc(math.sqrt(x / 2)) if k % 2 else 0.0
    for i in range(k // 2):
        power = i + k % 2 / 2
        total += (x / 2) ** power * math.exp(-x / 2) / math.gamma(power + 1)
    return total


def tell(a: Seen | None, b: Seen | None) -> str:
    """Say how a differs from b, the right result. None: there is no such result."""
    if a and isinstance(a.value, Raised):
        places = a.label or b and b.label, a.value.line, a.value.error
        return ": ".join(filter(None, places))
    if not a or not b:
        return "the function returns too early, or too late"
    if a.value is None and hasattr(b.value, "__len__"):
        return f"{b.label}: the function returns None: is a return missing?"
    if b.kind == "~":
        return f"{b.label}: {odd_one(a.value, b.value)}"
    if b.kind.startswith("<="):
        return f"too much work: {b.label}: {a.value!r} instead of {b.value!r}"
    if b.kind == "=":
        return f"{b.label}: {' instead of '.join(excerpts(a.value, b.value))}"
    if not same_shape(a.value, b.value):
        return f"{b.label}: {shapes(a.value, b)}"
    what = relation(a.value, b.value) or first_number(a.value, b.value, b.kind)
    return f"{b.label}: {what}"


def excerpts(mine, right):  # -> the texts of both values, at most 150 letters that differ
    texts = [repr(plain(value)) for value in (mine, right)]
    begin = max(0, len(os.path.commonprefix(texts)) - 75) if max(map(len, texts)) > 150 else 0
    return ["..." * (begin > 0) + text[begin : begin + 150] for text in texts]


def odd_one(mine, right):  # -> a message about the outcome whose frequencies differ most
    a, b = counts(mine), counts(right)
    shares = {one: (a[one] / max(1, len(mine)), b[one] / len(right)) for one in a | b}
    one, (x, y) = max(shares.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    return f"{one} occurs in {x:.1%} of all cases instead of {y:.1%}"


def shapes(value, right):
    """Return a message about a wrong type, or about a wrong shape and its axes."""
    names, sizes = right.kind.split(", "), right.value.shape
    if not isinstance(value, np.ndarray | np.generic):
        return f"a {type(value).__name__} instead of an array"
    if value.shape == sizes:
        return f"the type is {value.dtype} instead of {right.value.dtype}"
    known = dict(zip(sizes, names)) if len({*sizes}) == len(sizes) else {}
    mine = ", ".join(f"{known.get(n, '')} {n}".strip() for n in value.shape)
    ours = ", ".join(f"{name} {n}" for name, n in zip(names, sizes))
    return f"the shape is [{mine}] instead of [{ours}]"


def first_number(mine, right, axes):
    index = tuple(np.argwhere(~close(mine, right))[0])
    where = ", ".join(f"{axis} {n}" for axis, n in zip(axes.split(", "), index))
    return f"{where}: {mine[index]:.6g} instead of {right[index]:.6g}"


def relation(mine, right):  # -> a message, or None if no simple relation fits all numbers
    with np.errstate(all="ignore"):
        ratio = np.median((mine / right)[right != 0]) if right.any() else 0
        if np.isfinite(ratio) and ratio != 0 and close(mine, ratio * right).all():
            return f"every number is {ratio:.5g} times the right one"
    return None
