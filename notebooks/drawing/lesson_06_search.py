"""The pictures of beam search in lesson 6."""

import lessons
import matplotlib.pyplot as plt
import numpy as np

from decoding.beam import beam_search

ALT = {  # what each picture shows, for those who do not see it
    "tree": (
        "Two trees of five steps. The optimum's first letter, b, is kept in both. Its second, "
        "bd, is dropped in both: at the fourth place of the upper tree, at the fifth of the "
        "lower one."
    ),
    "widths": (
        "Left: the share of models whose optimum is found rises with the width, to all 40. "
        "Right: the measured time grows more slowly than the width."
    ),
    "real-tree": (
        "The tree of width 3 on a real text: by the last step all beams descend from few "
        "beginnings and differ in their last words."
    ),
    "typical": (
        "Left: most texts have a log P far below the best. Middle: the probability lies in "
        "between, around minus the entropy. Right: within a window of 0.3 nats a token, it "
        "falls near the best text and rises near minus the entropy."
    ),
    "drawn": (
        "A histogram of the log P of 64 drawn texts; greedy and beam search are to the right of "
        "all of them."
    ),
    "tokens": (
        "Probability of each token in three texts: that of beam search stays near 1, the drawn "
        "text's and that of the unseen story go up and down by many powers of ten."
    ),
    "penalty": (
        "The score of one text against its length: with alpha 0 it only falls, with 0.5 more "
        "slowly, with 1 it levels off and can rise."
    ),
}


def tree(axis, trace, name, best=()):
    """The trace of a beam search as a tree; `best` is a text whose beginnings get a red frame."""
    places = [(0, 0)]  # of the beams that the previous step kept
    axis.text(0, 0, "prompt", ha="center", va="center", fontsize=10,
              bbox={"fc": "white", "ec": "white"})  # fmt: skip
    for step, candidates in enumerate(trace, start=1):
        kept = []
        for rank, c in enumerate(candidates):
            dropped, parent = c.status == "dropped", places[c.parent]
            draw_candidate(axis, c, step, rank, parent, dropped, name, best)
            if c.status == "kept":
                kept.append((step, -rank))
        places = kept
    axis.set(xlim=(-0.5, len(trace) + 0.5), ylim=(0.7 - max(map(len, trace)), 0.7), yticks=[])
    axis.set(xticks=range(1, len(trace) + 1), xlabel="step (tokens)")
    axis.spines["left"].set_visible(False)


def draw_candidate(axis, candidate, step, rank, parent, dropped, name, best):
    """A box with a candidate's last token, and the line from its parent, which is at (x, y)."""
    color, line = ("0.6", ":") if dropped else (lessons.BLUE, "-")
    axis.plot([parent[0], step], [parent[1], -rank], line, color=color, zorder=0)
    on_the_way = candidate.ids == tuple(best[:step])
    edge, width = (lessons.RED, 2.5) if on_the_way else (color, 1)
    label = f"{name(candidate.ids)} {candidate.log_probability:.2f}"
    axis.text(step, -rank, label, ha="center", va="center", fontsize=10,
              color="0.4" if dropped else "black",
              bbox={"boxstyle": "round", "fc": "white", "ec": edge, "linewidth": width,
                    "linestyle": line})  # fmt: skip


def real_tree(tokenizer, model, text, width=3, n=6):
    """The tree of a beam search after a text -> a figure; a box has its last token and log P."""
    trace = []
    beam_search(model, tokenizer.encode(text), n, width=width, trace=trace)
    figure, axis = plt.subplots(figsize=(10, 0.6 + 0.3 * max(map(len, trace)) + 1))
    tree(axis, trace, lambda ids: tokenizer.decode([ids[-1]]).strip())
    axis.set_title(f"{text} ... (width {width}; dropped: dotted)")
    return figure


def counted_and_weighted(log_p):
    """The log P of all texts: how many have it, and how much probability -> a figure, its first
    panel, and a third one that is empty."""
    edges = np.linspace(log_p.min(), log_p.max() + 1e-3, 40)
    p = np.exp(log_p)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.8))
    axes[0].hist(log_p.ravel(), edges, color=lessons.SKY)
    axes[0].set(ylabel="number of texts")
    axes[1].hist(log_p.ravel(), edges, weights=p.ravel(), color=lessons.SKY)
    axes[1].set(title="The same, weighted by P", ylabel="probability")
    for axis in axes[:2]:
        axis.axvline(log_p.max(), color=lessons.RED, linestyle="--", label="best")
        axis.axvline((p * log_p).sum(), color=lessons.BLACK, label="$-H$")
        axis.set(xlabel="log P of the text (nats)")
        axis.legend(frameon=False, loc="upper left")
    return figure, (axes[0], axes[2])
