"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np


def dial(axis, hands, title):
    """Draw a dial with hands; hands: {label: (angle, color, line style)}."""
    axis.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.7"))
    for label, (angle, color, style) in hands.items():
        x, y = np.cos(angle), np.sin(angle)
        axis.plot([0, x], [0, y], style, color=color, lw=2)
        axis.text(1.17 * x, 1.17 * y, label, color=color, **lessons.CENTERED)
    axis.set(aspect="equal", title=title)
    axis.set_xlim(-1.5, 1.5)
    axis.set_ylim(-1.3, 1.3)
    axis.axis("off")


def clock(frequencies, pairs=(0, 2)):
    """Plot the hands of two pairs at the positions 0, 1 and 2."""
    _, axes = plt.subplots(1, len(pairs), figsize=(7, 2.8))
    colors = lessons.BLUE, lessons.ORANGE, lessons.GREEN
    turns = []
    for axis, pair in zip(axes, pairs):
        angle = frequencies[pair]
        hands = {f"{p}": (p * angle, color, "-") for p, color in enumerate(colors)}
        turns.append(f"{2 * np.pi / angle:.0f}")
        dial(axis, hands, f"pair {pair}: once around in {turns[-1]} tokens")
    return f"Two dials, whose hands turn around in {turns[0]} and in {turns[1]} tokens."


def one_query(distance, curves, hands):
    """Plot attention scores against the distance of the key, and a dial with a query and a key.

    curves: {position of the query: its score at each distance}; hands: {position of the query: the
    angles of the query and of a key two tokens before it, in one pair}.
    """
    _, (left, axis) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(1, 2))
    looks = ("-", lessons.BLUE), ("--", lessons.ORANGE)
    drawn = {}
    angles = []
    for (at, (query, key)), (style, color) in zip(hands.items(), looks):
        drawn |= {f"q {at}": (query, color, style), f"k {at - 2}": (key, color, style)}
        angles.append(np.degrees(query - key) % 360)
    dial(left, drawn, f"from k to q: {angles[0]:.0f} and {angles[1]:.0f} degrees")
    looks = {"lw": 5, "color": lessons.YELLOW}, {"lw": 1.5, "color": lessons.BLUE, "ls": "--"}
    for (at, curve), look in zip(curves.items(), looks):
        axis.plot(distance, curve, label=f"query at {at}", **look)
    axis.set(xlabel="distance of the key, in tokens", ylabel="score")
    axis.legend()
    gap = np.ptp([*curves.values()], axis=0).max()
    return (
        f"Left: from key to query, {angles[0]:.0f} and {angles[1]:.0f} degrees at two places. "
        f"Right: the score by the distance. The curves of both places differ by at most {gap:.1g}."
    )


def sharing(n_head, counts):
    """Draw which heads of queries share a head of keys and values; counts: of keys and values."""
    _, axes = plt.subplots(1, len(counts), figsize=(9, 1.8))
    for axis, n in zip(axes, counts):
        for i in range(n_head):
            place = (i * n // n_head + 0.5) * n_head / n - 0.5
            axis.plot([i, place], [1, 0], color="0.7", zorder=0)
            axis.plot(i, 1, "o", color=lessons.BLUE, markersize=12)
            axis.plot(place, 0, "s", color=lessons.ORANGE, markersize=12)
        axis.set(title=f"{n} of keys and values", xlim=(-2, n_head), ylim=(-0.5, 1.5))
        axis.axis("off")
    for y, name in (1, "q"), (0, "k, v"):
        axes[0].text(-1.2, y, name, **lessons.CENTERED)
    return f"{n_head} heads of queries over {', '.join(map(str, counts))} heads of keys and values."


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
    return f"{below} of {len(bits)} stories lie below the diagonal: they cost stories-llama less."


def along(runs, afresh, lengths, n_trained):
    """Plot how many more bits a token costs in a long text than in its story alone, for each story.

    runs: {name: the bits of each token in the long text}; afresh: the bits of each token in its
    story alone; lengths: the number of tokens in each story.
    """
    _, axis = plt.subplots(figsize=(8, 3))
    edges = np.cumsum([0, *lengths])
    ends = {}
    for (name, bits), color in zip(runs.items(), (lessons.ORANGE, lessons.BLUE)):
        more = [part.mean() for part in np.split(bits - afresh, edges[1:-1])]
        axis.stairs(more, edges, color=color, lw=2, label=name)
        ends[name] = more[-1]
    axis.axhline(0, color=lessons.BLACK, lw=1)
    axis.axvline(n_trained, color=lessons.BLACK, lw=1, ls=":")
    top = n_trained, axis.get_ylim()[1]
    axis.annotate("trained up to here", top, (5, -12), textcoords="offset points")
    axis.set(xlabel="position", ylabel="bits more, mean of a story")
    axis.legend(loc="upper left", bbox_to_anchor=(0, 0.9))
    text = "; ".join(f"{name} {more:+.2f}" for name, more in ends.items())
    return f"More bits a token than in its story alone. In the last story: {text}."


def costs(labels, bits, name):
    """Plot the cost of each token in bits, as bars."""
    _, axis = plt.subplots(figsize=(8, 0.27 * len(bits) + 1))
    axis.barh(labels, bits)
    axis.invert_yaxis()
    axis.set(xlabel="bits", title=f"{name}: {bits.sum():.0f} bits")
    return f"Bars of {bits.sum():.0f} bits in all. The longest is {labels[int(bits.argmax())]}."
