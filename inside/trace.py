"""--trace writes out the recorded calls of a model's first two passes."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from inside.recorder import Call, passes, recording

Line = tuple[str, str, str]  # a call's indented name, its place, its shapes
ADDED = {"self_attention": "attn", "attend": "attn", "feed_forward": "MLP"}


def first_passes(model: Any, steps: Iterable) -> tuple[list[Call], Call | None]:
    """Take steps that run the model until it has made two passes; return the passes, and the call
    of `read` if it is an encoder-decoder."""
    with recording(model) as calls:
        for _ in steps:
            if len(passes(calls, model)) > 1:
                break
    return passes(calls, model)[:2], next((call for call in calls if call.name == "read"), None)


def format_trace(found: list[Call], source: Call | None = None) -> str:
    """Format the calls of one or two passes as a tree, then each block's norms.
    source: an encoder-decoder's call of `read`, which comes first."""
    parts = [tree([source])] if source and source.calls else []
    parts.append(tree(found[:2]))
    lines = [line for part in parts for line in part]
    widths = [max(len(line[column]) for line in lines) + 1 for column in (0, 1)]
    trees = ["\n".join(aligned(line, widths) for line in part) for part in parts]
    key = "a|b: a in the first pass, b in the second. xN: N calls alike.\n"
    return "\n\n".join([key + trees[0], *trees[1:], residual_table(found[:2])])


def aligned(line: Line, widths: list[int]) -> str:
    """Return the line in columns, or with single spaces if 80 characters are not enough."""
    text = "".join(f"{part:<{width}}" for part, width in zip(line, [*widths, 0])).rstrip()
    return text if len(text) <= 80 else " ".join(line)


def tree(calls: Sequence[Call | None], depth: int = 0) -> list[Line]:
    """Return lines for a call, as each pass made it (None: it did not), and the calls inside."""
    found = [call for call in calls if call]
    first, before = found[0], [next(iter(call.inputs.values()), ()) for call in found]
    inside, out = sizes(before), sizes([call.output or () for call in found])
    shapes = f"{inside} -> {'same' if inside == out else out}".lstrip() if out else inside
    if len(found) < len(calls):
        shapes += f" only in the {'second' if calls[0] is None else 'first'} pass"
    lines = [("  " * depth + first.name, f"{first.file}:{first.line}", shapes)]
    inner = [
        tree(pair, depth + 1) for pair in pairs([call.calls if call else [] for call in calls])
    ]
    for ((name, place, shapes), *more), alike in groupby(inner):
        count = len(list(alike))
        lines += [(name, place, shapes + f" x{count}" * (count > 1)), *more]
    return lines


def pairs(passes: list[list[Call]]) -> list[list[Call | None]]:
    """Pair the passes' calls that have arrays: a function's n-th call in one pass with its n-th in
    the other."""
    rows: dict[tuple, list[Call | None]] = {}
    for number, calls in enumerate(passes):
        calls = [call for call in calls if call.inputs or call.output or call.calls]
        names = [call.name for call in calls]
        for i, (name, call) in enumerate(zip(names, calls)):
            rows.setdefault((name, names[:i].count(name)), [None] * len(passes))[number] = call
    return [*rows.values()]


def sizes(shapes: list[tuple]) -> str:
    """Format shapes: [(1, 3, 8), (1, 1, 8)] -> "[1,3|1,8]"; "" without an array."""
    if len({*map(len, shapes)}) > 1:  # an array in one pass, none in the other
        return "|".join(sizes([shape]) or "None" for shape in shapes)
    axes = ("|".join(dict.fromkeys(map(str, axis))) for axis in zip(*shapes))
    return f"[{','.join(axes)}]" if any(shapes) else ""


def residual_table(passes: list[Call]) -> str:
    """Format each block's norms: the residual stream, and what its sublayers add to it."""
    tables = [[stream(c) for c in call.walk() if c.name.endswith("block")] for call in passes]
    names = [["x", *(f"+{name}" for name in table[0][1])] for table in tables]
    lines = ["Norms at the last token: the residual stream x, what attention and MLP add to it"]
    lines.append("block" + " |".join("".join(f"{name:>8}" for name in row) for row in names))
    for layer, blocks in enumerate(zip(*tables)):
        cells = ([norm, *added.values()] for norm, added in blocks)
        lines.append(f"{layer:5}" + " |".join("".join(f"{n:8.1f}" for n in row) for row in cells))
    return "\n".join(lines)


def stream(block: Call) -> tuple[float, dict[str, float]]:
    """Return the norm before a block, and the norms of its sublayers' results by name."""
    added: dict[str, float] = {}
    for call in block.walk():
        if name := ADDED.get(call.name):
            added["cross" if name in added else name] = call.norms[-1]
    return block.norms[0], added


def as_json(call: Call) -> dict[str, Any]:
    """Return a call and the calls inside it as a dict, for programs."""
    return {
        "call": call.name, "file": call.file, "line": call.line,
        "in": {name: list(shape) for name, shape in call.inputs.items()},
        "out": call.output and list(call.output), "norms": call.norms,
        "calls": [as_json(inner) for inner in call.calls],
    }  # fmt: skip
