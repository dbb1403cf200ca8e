"""--trace writes out the recorded calls of a model's first two passes."""

from itertools import groupby

SUBLAYERS = "self_attention", "attend", "feed_forward"


def format_trace(passes, source=None):
    """Format the calls of one or two passes as a tree, or as two where the passes make different
    calls; then each block's norms. source: an encoder-decoder's call of `read`, which comes first.
    """
    passes = passes[:2]
    names = [[call.name for call in one.walk()] for one in passes]
    groups = [passes] if names[0] == names[-1] else [[one] for one in passes]
    trees = [tree(group) for group in [[source], *groups] if group[0]]
    widths = [max(len(line[column]) for line in sum(trees, [])) + 1 for column in (0, 1)]
    parts = ["\n".join(aligned(line, *widths) for line in lines) for lines in trees]
    key = "a|b: a in the first pass, b in the second. xN: N calls alike.\n"
    return "\n\n".join([key + parts[0], *parts[1:], residual_table(passes)])


def aligned(line, *widths):
    """Return a line of the tree in columns, or with single spaces if 80 characters are not enough."""
    text = "".join(f"{part:<{width}}" for part, width in zip(line, [*widths, 0])).rstrip()
    return text if len(text) <= 80 else " ".join(line)


def tree(calls, depth=0):
    """Return lines for a call, as each pass made it, and for the calls inside it. A line is the
    indented name, the place, and the shapes."""
    before = sizes([next(iter(call.inputs.values()), ()) for call in calls])
    out = sizes([call.output or () for call in calls])
    shapes = f"{before} -> {'same' if before == out else out}".lstrip() if out else before
    lines = [("  " * depth + calls[0].name, f"{calls[0].file}:{calls[0].line}", shapes)]
    inner = [tree(pair, depth + 1) for pair in zip(*(call.calls for call in calls))]
    for ((name, place, shapes), *more), alike in groupby(inner):
        count = len([*alike])
        lines += [(name, place, shapes + f" x{count}" * (count > 1)), *more]
    return lines


def sizes(shapes):  # [(1, 3, 8), (1, 1, 8)] -> "[1,3|1,8]"; "" without an array
    axes = ("|".join(dict.fromkeys(map(str, axis))) for axis in zip(*shapes))
    return f"[{','.join(axes)}]" if any(shapes) else ""


def residual_table(passes):
    """Format each block's norms: the residual stream, and what its sublayers add to it."""
    blocks = [[call for call in one.walk() if call.name.endswith("block")] for one in passes]
    rows = [[norms(block) for block in layer] for layer in zip(*blocks)]
    names = ["x", "+attn", "+cross", "+MLP"] if len(rows[0][0]) == 4 else ["x", "+attn", "+MLP"]
    lines = ["Norms at the last token: the residual stream x, what attention and MLP add to it"]
    lines.append("block" + " |".join("".join(f"{name:>8}" for name in names) for _ in passes))
    for layer, row in enumerate(rows):
        lines.append(f"{layer:5}" + " |".join("".join(f"{x:8.1f}" for x in part) for part in row))
    return "\n".join(lines)


def norms(block):
    """Return the norm before a block, and the norms of its sublayers' results."""
    return [block.norms[0], *(c.norms[-1] for c in block.walk() if c.name in SUBLAYERS)]


def as_json(call):
    """Return a call and the calls inside it as a dict, for programs."""
    shown = {"call": call.name, "file": call.file, "line": call.line, "in": call.inputs}
    shown |= {"out": call.output, "norms": call.norms}
    return shown | {"calls": [as_json(inner) for inner in call.calls]}
