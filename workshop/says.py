"""Say how what a reader's function gives differs from what is right."""

from collections import Counter

import numpy as np

from workshop import engine


def tell(mine, right, i: int) -> str:
    """Say how look i of two tapes differs."""
    a, b = mine[i], right[i]
    if a and isinstance(a.value, engine.Raised):
        return f"{a.value.line or b and b.label}: {a.value.error}"
    if a is None or b is None or isinstance(b.value, engine.Raised):
        return f"after {right[i - 1].label}: another number of results"
    if b.kind == "~":
        return f"{b.label}: {odd_one(a.value, b.value)}"
    if b.kind.startswith("<="):
        return f"slow: {b.label}: {a.value} where {b.value} are enough"
    if b.kind == "=":
        return (
            f"{b.label}: {engine.plain(a.value)!r:.150} instead of {engine.plain(b.value)!r:.150}"
        )
    if not engine.same_shape(a.value, b.value):
        return f"{b.label}: {shapes(a.value, b)}"
    what = relation(a.value, b.value, b.kind) or first_number(a.value, b.value, b.kind)
    return f"{first_stage(mine, right, i)}{b.label}: {what}"


def odd_one(mine, right):  # two lists of outcomes -> the one whose shares differ most
    a, b = Counter(map(repr, mine)), Counter(map(repr, right))
    shares = {one: (a[one] / max(1, len(mine)), b[one] / len(right)) for one in a | b}
    one, (x, y) = max(shares.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    return f"{one} comes in {x:.1%} of all cases instead of {y:.1%}"


def shapes(value, right):
    """Say both shapes, with the names of their axes."""
    names, sizes = right.kind.split(", "), right.value.shape
    known = dict(zip(sizes, names)) if len({*sizes}) == len(sizes) else {}
    if value is None:
        return "nothing comes back: is a return missing?"
    if not isinstance(value, np.ndarray | np.generic):
        return f"a {type(value).__name__} instead of an array"
    if value.shape == sizes:
        return f"the type is {value.dtype} instead of {right.value.dtype}"
    mine = ", ".join(f"{known.get(n, '')} {n}".strip() for n in value.shape)
    ours = ", ".join(f"{name} {n}" for name, n in zip(names, sizes))
    return f"the shape is [{mine}] instead of [{ours}]"


def first_stage(mine, right, i):
    """Say the first stage on the way to look i that differs, where both went the same way."""
    for a, b in zip(mine.seen[i - 1 :: -1], right.seen[i - 1 :: -1]):
        if b.kind == "stages" and i:
            for (label, x, axes), (other, y, _) in zip(a.value, b.value):
                if label == other and engine.same_shape(x, y) and not engine.close(x, y).all():
                    return f"{label} differs first: {first_number(x, y, axes)}. Then "
            return ""
    return ""


def first_number(mine, right, axes):
    index = tuple(np.argwhere(~engine.close(mine, right))[0])
    place = ", ".join(f"{axis} {n}" for axis, n in zip(axes.split(", "), index))
    return f"{place}: {mine[index]:.6g} instead of {right[index]:.6g}"


def relation(mine, right, axes):  # -> a simple relation of all numbers, or None
    names = axes.split(", ")
    with np.errstate(all="ignore"):
        ratio = np.nanmedian(np.where(right == 0, np.nan, mine / right)) if mine.size else 0
        if np.isfinite(ratio) and ratio != 0 and engine.close(mine, ratio * right).all():
            return f"every number is {ratio:.5g} times the right one"
        more = (mine - right).mean()
        if np.isfinite(more) and engine.close(mine - more, right).all():
            return f"every number is larger by {more:.5g}"
    if right.ndim > 1 and right.shape[-1] == right.shape[-2]:
        if engine.close(mine, right.swapaxes(-1, -2)).all():
            return f"it is transposed: {names[-2]} and {names[-1]} are exchanged"
    for axis, name in enumerate(names):
        a, b = np.moveaxis(mine, axis, 0), np.moveaxis(right, axis, 0)
        if len(a) > 2 and any(
            engine.close(x, y).all() for x, y in ((a[1:], b[:-1]), (a[:-1], b[1:]))
        ):
            return f"it is shifted by one along {name}"
        order = [next((j for j, y in enumerate(b) if engine.close(x, y).all()), None) for x in a]
        if len(a) > 1 and None not in order and len({*order}) == len(a):
            return f"the right numbers in another order: {name} 0, 1, ... are the right {order}"
    return None
