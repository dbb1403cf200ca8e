"""Format the trace of a beam search as a tree."""

from collections import defaultdict
from collections.abc import Callable


def format_tree(trace: list, name: Callable[[int], str], winner: list[int], width: int = 80) -> str:
    """Return the tree as text. Each line has the tokens up to the next fork, and log P so far.
    name: a function, id -> the token's text; winner: the ids of the best text; width: the most
    characters in a line. A line that is too long loses the end of its tokens."""
    seen = {c.ids: c for step in trace for c in step if c.status != "dropped"}
    children = defaultdict(list)
    for ids in seen:
        children[ids[:-1]].append(ids)
    lines, stack = [], [((), "")]
    while stack:
        ids, branch = stack.pop()
        start = len(ids) - 1
        while ids and len(children[ids]) == 1:
            ids = children[ids][0]
        if ids:
            mark = "" if children[ids] else "  x"
            if seen[ids].status == "finished":
                mark = "  <- the best" if [*ids] == winner else "  finished"
            end = f" {seen[ids].log_probability:.2f}{mark}"
            text = repr("".join(map(name, ids[start:])))
            room = width - len(shown := branch[-width // 2 :]) - len(end)
            lines.append(shown + (text if len(text) <= room else text[: room - 1] + "…") + end)
        before = branch[:-3] + {"├─ ": "│  ", "└─ ": "   ", "": ""}[branch[-3:]]
        *others, last = children[ids] or [None]
        stack += [(last, before + "└─ ")] * bool(last)
        stack += [(child, before + "├─ ") for child in others[::-1]]
    return "\n".join(lines)
