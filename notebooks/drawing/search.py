"""Pictures: beam search as a tree, and histograms of log P over all texts."""

import lessons
import matplotlib.pyplot as plt
import numpy as np

from decoding.beam import beam_search


def tree(axis, trace, name, best=()):
    """Draw a beam search as a tree.

    trace: for each step, the list of its candidates; name(ids): the label of a candidate;
    best: the ids of a text. A candidate gets a red frame if this text begins with it.
    """
    places = [(0, 0)]  # the (x, y) of each beam that the previous step kept
    box = {"fc": "white", "ec": "white"}
    axis.text(0, 0, "prompt", **lessons.CENTERED, fontsize=10, bbox=box)
    for step, candidates in enumerate(trace, start=1):
        kept = []
        for rank, c in enumerate(candidates):
            dropped, (x, y) = c.status == "dropped", places[c.parent]
            color, line = ("0.6", ":") if dropped else (lessons.BLUE, "-")
            if not dropped:
                axis.plot([x, step], [y, -rank], color=color, zorder=0)
            on_the_way = c.ids == tuple(best[:step])
            look = {"ec": lessons.RED, "lw": 2.5} if on_the_way else {"ec": color, "lw": 1}
            box = {"boxstyle": "round", "fc": "white", "linestyle": line, **look}
            label, ink = f"{name(c.ids)} {c.log_probability:.3f}", "0.4" if dropped else "black"
            axis.text(step, -rank, label, **lessons.CENTERED, fontsize=10, color=ink, bbox=box)
            if c.status == "kept":
                kept.append((step, -rank))
        places = kept
    axis.set(xlim=(-0.5, len(trace) + 0.5), ylim=(0.7 - max(map(len, trace)), 0.7), yticks=[])
    axis.set(xticks=range(1, len(trace) + 1), xlabel="step (tokens)")
    axis.spines["left"].set_visible(False)


def real_tree(tokenizer, model, text, width=3, n=6):
    """Continue a text by n tokens with beam search, and draw the tree. Return the figure."""
    trace = []
    beam_search(model, tokenizer.encode(text), n, width=width, trace=trace)
    figure, axis = plt.subplots(figsize=(10, 0.6 + 0.3 * max(map(len, trace)) + 1))
    tree(axis, trace, lambda ids: tokenizer.decode([ids[-1]]).strip())
    axis.set_title(f"{text} ... (width {width}; dropped: grey)")
    return figure


def counted_and_weighted(log_p):
    """Plot a histogram of the texts' log P, and the same histogram weighted by P.

    log_p: an array with the log P of every text. Return the figure, and a pair of its panels:
    the first one, and the third one, which is still empty.
    """
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
