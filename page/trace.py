"""--trace prints the recorded calls of a model's first two passes."""

from itertools import groupby

from page.recorder import BLOCKS, SUBLAYERS, passes, recording


def first_passes(model, steps):
    """Run the steps until the model has made two passes. Return these passes, and an
    encoder-decoder's call of `read`, or None."""
    with recording(model) as calls:
        for _ in steps:
            if len(passes(calls, model)) > 1:
                break
    return passes(calls, model)[:2], next((call for call in calls if call.name == "read"), None)


def format_trace(found, source=None):
    """Return one or two passes as a tree of calls, or as two trees if their calls differ, and then
    a table of norms. source: an encoder-decoder's call of `read`, which comes first."""
    names = [[call.name for call in one.walk()] for one in found]
    groups = [found] if names[0] == names[-1] else [[one] for one in found]
    groups = [[source], *groups] if source else groups
    lines = [line for group in groups for line in [*tree(group), ("", "", "")]]
    wide, narrow = (max(len(line[column]) for line in lines) + 1 for column in (0, 1))
    text = [f"{name:<{wide}}{place:<{narrow}}{shapes}".rstrip() for name, place, shapes in lines]
    key = "a|b: a in the first pass, b in the second. xN: N calls alike."
    return "\n".join([key, *text, *residual_table(found)])


def tree(calls, depth=0):
    """Return the lines for one call and the calls inside it. calls: the same call in each pass.
    Each line is a tuple: the indented name, the file with the line number, and the shapes."""
    before = sizes([next(iter(call.inputs.values()), ()) for call in calls])
    out = sizes([call.output or () for call in calls])
    shapes = f"{before} -> {'same' if before == out else out}".lstrip() if out else before
    lines = [("  " * depth + calls[0].name, f"{calls[0].file}:{calls[0].line}", shapes)]
    inner = [tree(pair, depth + 1) for pair in zip(*(call.calls for call in calls))]
    for ((name, place, shapes), *more), alike in groupby(inner):
        count = len([*alike])
        lines += [(name, place, shapes + f" x{count}" * (count > 1)), *more]
    return lines


def sizes(shapes):  # [(1, 3, 8), (1, 1, 8)] -> "[1,3|1,8]"; "" if there is no array
    axes = ("|".join(dict.fromkeys(map(str, axis))) for axis in zip(*shapes))
    return f"[{','.join(axes)}]" if any(shapes) else ""


def residual_table(passes):
    """Yield the rows of a table: the norms of each block's input and of what each sublayer adds."""
    blocks = [one.named(*BLOCKS) for one in passes]
    cross = ["+cross"] if blocks[0][0].name == "decoder_block" else []
    names = ["x", "+attn", *cross, "+MLP"]
    yield "Norms at the last token: the residual stream x, what attention and MLP add to it"
    yield "block" + " |".join("".join(f"{name:>8}" for name in names) for _ in passes)
    for layer, pair in enumerate(zip(*blocks)):
        rows = [[b.norms[0], *(call.norms[-1] for call in b.named(*SUBLAYERS))] for b in pair]
        yield f"{layer:5}" + " |".join("".join(f"{x:8.1f}" for x in row) for row in rows)


def as_json(call):
    """Return a call and the calls inside it as a dict for JSON."""
    shown = {"call": call.name, "file": call.file, "line": call.line, "in": call.inputs}
    return shown | {"out": call.output, "norms": call.norms, "calls": [*map(as_json, call.calls)]}
