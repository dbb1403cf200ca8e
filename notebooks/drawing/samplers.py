"""Pictures: what filters keep, and how likely and diverse samplers' texts are."""

import lessons
import matplotlib.pyplot as plt
import numpy as np

N_SHOWN = 400  # the bars of less probable tokens would be too narrow to see


def what_filters_keep(probs, logits, filters):
    """Plot which tokens each filter keeps, and return the figure.

    The figure has a row for each position and a column for each filter.
    probs, logits: {name of a position: [n_vocab]}; filters: {label: filter}.
    """
    size = (9.5, 2.6 + 2 * (len(probs) - 1))
    figure, axes = plt.subplots(
        len(probs), len(filters), figsize=size, sharex=True, sharey="row", squeeze=False
    )
    for row, (name, p) in zip(axes, probs.items()):
        order = np.argsort(-p)[:N_SHOWN]
        for axis, (label, f) in zip(row, filters.items()):
            kept = np.isfinite(f(logits[name], []))
            bars(axis, p[order], kept[order])
            axis.axvline(kept.sum() + 0.5, color=lessons.BLACK, linestyle="--", linewidth=1)
            axis.set_title(f"{label}: {kept.sum()} tokens,\nmass {p[kept].sum():.2f}")
        row[0].set_ylabel(f"{name[-24:]}\nprobability")
    for axis in axes[-1]:
        axis.set_xlabel("rank (1 = best)")
    axes[0, 0].plot([], [], "s", color=lessons.BLUE, label="kept")
    axes[0, 0].plot([], [], "s", color=lessons.ORANGE, label="removed")
    axes[0, 0].legend(frameon=False, loc="upper right", handletextpad=0)
    return figure


def bars(axis, p, kept):
    """Plot probabilities as bars by rank, on logarithmic axes.

    p: probabilities in descending order, [n]; kept: whether the filter keeps each token, [n].
    """
    rank = np.arange(1, len(p) + 1)
    for which, color, hatch in (kept, lessons.BLUE, None), (~kept, lessons.ORANGE, "////"):
        style = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        axis.bar(rank[which] - 0.5, p[which], 1, align="edge", **style)
    axis.set(xscale="log", yscale="log", xlim=(0.5, len(p)))
    axis.set_xticks([1, 10, 100], ["1", "10", "100"])


def likelihood_and_diversity(found):
    """Plot the diversity of samplers' texts against their likelihood. Return the figure.

    found: {name of a sampler: (likelihood, diversity)}.
    """
    figure, axis = plt.subplots(figsize=(8, 3.8))
    kinds = {"t =": "o", "top_p": "^", "top_k": "s", "min_p": "D", "greedy": "*"}
    left = {"t = 0.8", "top_p(0.5)", "top_k(5)"}  # their names are at the left of the points
    for start, marker in kinds.items():
        some = {name: point for name, point in found.items() if name.startswith(start)}
        axis.plot(*zip(*some.values()), marker + ":", markersize=10 if marker == "*" else 7)
        for name, point in some.items():
            place = {"xytext": (-5, -22), "ha": "right"} if name in left else {"xytext": (8, 4)}
            axis.annotate(name, point, textcoords="offset points", fontsize=10, **place)
    unfiltered = found["t = 1.0"][0]
    axis.axvline(unfiltered, color="0.5", linestyle=":")
    axis.text(unfiltered + 0.02, 0.12, "drawn from p itself", color="0.35")
    axis.set_title("Likely texts resemble each other (the model's own measure of likely)")
    axis.set(xlabel="log-probability of a token, mean (nats)", ylabel="different 3-grams (share)")
    return figure
