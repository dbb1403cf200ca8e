"""The trace of a beam search as the lines of a tree."""

from collections import defaultdict
from collections.abc import Callable

from interface import Ids


def format_tree(trace: list, decode: Callable[[Ids], str], winner: Ids, width: int = 80) -> str:
    """One line per run of tokens without a fork, with the log P at its end; a run that does not fit
    is cut. A line that is not followed by a longer one, nor marked finished, was dropped. At a fork
    the shorter branches come first, each after a corner; the longest continues below."""
    seen = {c.ids: c for step in trace for c in step if c.status != "dropped"}
    children, depth = defaultdict(list), dict[tuple, int]()
    for ids in seen:
        children[ids[:-1]].append(ids)
    for ids in reversed(seen):  # the last step first: the children are known before their parent
        depth[ids] = max((depth[child] for child in children[ids]), default=len(ids))
    lines, stack = [], [((), 0)]
    while stack:
        ids, n_bars = stack.pop()
        start = max(0, len(ids) - 1)
        while len(children[ids]) == 1:
            ids = children[ids][0]
        if ids:
            end = " finished" if seen[ids].status == "finished" else ""
            end += ", the best" if list(ids) == winner else ""
            corner = "│  " * (n_bars - 1) + "└─ " * (n_bars > 0)
            text, end = repr(decode(list(ids[start:]))), f" {seen[ids].log_probability:.2f}{end}"
            if len(corner + text + end) > width:
                text = text[: max(1, width - len(corner + end) - 1)] + "…"
            lines.append(corner + text + end)
        *branches, longest = sorted(children[ids], key=depth.__getitem__) or [None]
        if longest:
            stack.append((longest, n_bars))
        stack += [(branch, n_bars + 1) for branch in reversed(branches)]
    return "\n".join(lines)
