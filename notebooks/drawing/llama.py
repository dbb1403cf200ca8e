"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np


def clock(frequencies, n_positions=128):
    """Plot the rotary angles: the cosines of all pairs, and two pairs as the hands of a clock."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=(3, 2))
    angles = frequencies[:, None] * np.arange(n_positions)
    image = left.imshow(np.cos(angles), cmap="cividis", aspect="auto")
    left.set(xlabel="position", ylabel="pair", title="cosine of the angle")
    plt.colorbar(image, ax=left, label="cosine")
    looks = (0, lessons.BLUE, "o-", 5, 1.0), (4, lessons.ORANGE, "s:", 9, 0.75)
    for pair, color, style, size, radius in looks:  # two radii, so neither hand hides the other
        angle = np.arange(12) * frequencies[pair]
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        marks = {"markersize": size, "fillstyle": "none"}
        right.plot(x, y, style, color=color, label=f"pair {pair}, positions 0 to 11", **marks)
    right.set(aspect="equal", title="two hands of the clock", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12))
    turns = [2 * np.pi / frequencies[pair] for pair in (0, 4)]
    return (
        f"Left: stripes of the cosine over {n_positions} positions, which are narrow for the first "
        f"pairs and wide for the last. Right: pair 0 turns around in {turns[0]:.0f} tokens, pair 4 "
        f"in {turns[1]:.0f}."
    )


def one_query(distance, curves):
    """Plot attention scores against the distance of the key.

    curves: {position of the query: its score at each distance}.
    """
    _, axis = plt.subplots(figsize=(8, 3))
    looks = {"lw": 5, "color": lessons.YELLOW}, {"lw": 1.5, "color": lessons.BLUE, "ls": "--"}
    for (at, curve), look in zip(curves.items(), looks):
        axis.plot(distance, curve, label=f"query at {at}", **look)
    axis.set(xlabel="distance of the key, in tokens", ylabel="score")
    axis.legend()
    gap = np.ptp([*curves.values()], axis=0).max()
    return (
        "The score against the distance, for queries at the positions "
        f"{' and '.join(map(str, curves))}: the two curves differ by at most {gap:.1g}."
    )


def against(bits):
    """Plot each story's bits per byte under two models, stories and stories-llama; bits: [n, 2]."""
    _, axis = plt.subplots(figsize=(5, 4.4))
    axis.plot(bits[:, 0], bits[:, 1], "o", ms=4, alpha=0.7)
    limits = [bits.min() * 0.95, bits.max() * 1.03]
    axis.plot(limits, limits, "--", color=lessons.BLACK, label="as good")
    axis.set(xlabel="bits per byte by stories", ylabel="by stories-llama")
    axis.set(aspect="equal", xlim=limits, ylim=limits)
    axis.legend()
    below = (bits[:, 1] < bits[:, 0]).sum()
    return (
        f"A point for each of {len(bits)} stories, bits per byte by stories and by stories-llama: "
        f"{below} points lie below the diagonal, {len(bits) - below} on or above it."
    )


def along(runs, afresh, n_trained, window=100):
    """Plot how many more bits each token costs in a long text than in its story alone.

    runs: {name: the bits of each token in the long text}; afresh: the bits of each token in its
    story alone; window: the number of tokens in each running mean.
    """
    _, axis = plt.subplots(figsize=(8, 3.6))
    looks = ("--", lessons.ORANGE), ("-", lessons.BLUE), (":", lessons.GREEN), ("-.", lessons.RED)
    ends = {}
    for (name, bits), (style, color) in zip(runs.items(), looks):
        more = np.convolve(bits - afresh, np.ones(window) / window, "valid")
        axis.plot(np.arange(len(more)) + window // 2, more, style, color=color, label=name)
        ends[name] = more[-300:].mean()
    axis.axhline(0, color=lessons.BLACK, lw=1)
    axis.axvline(n_trained, color=lessons.BLACK, lw=1, ls=":")
    top = n_trained, axis.get_ylim()[1]
    axis.annotate("trained up to here", top, (5, -12), textcoords="offset points")
    axis.set(xlabel="position", ylabel=f"bits more, mean of {window}")
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0.9))
    text = "; ".join(f"{name} {more:+.2f}" for name, more in ends.items())
    return (
        "How many more bits a token costs along the text than if each story is read afresh. Over "
        f"the last part: {text}."
    )


def costs(labels, bits, name):
    """Plot the cost of each token in bits, as bars."""
    _, axis = plt.subplots(figsize=(8, 0.27 * len(bits) + 1))
    axis.barh(labels, bits)
    axis.invert_yaxis()
    axis.set(xlabel="bits", title=f"{name}: {bits.sum():.0f} bits")
    return (
        f"A bar for each token of your text, {bits.sum():.0f} bits in all. The token that costs "
        f"most is {labels[int(bits.argmax())]}."
    )
