"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np


def grids(w):
    """Plot the largest weight of each row of w, and 32 of the weights before and after rounding.

    They are rounded in two ways: with the scale of the whole matrix, or with a scale of their own.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=(2, 3))
    largest = np.abs(w).max(1)
    left.hist(largest, 40, color=lessons.SKY, edgecolor="white")
    left.axvline(np.abs(w).max(), color=lessons.RED, ls="--", label="of the matrix")
    left.set(title="The largest number of each row", xlabel="size", ylabel="rows")
    left.legend(frameon=False)
    group = w[int(np.argsort(largest)[len(w) // 2])][:32]  # 32 weights of a typical row
    scales = {"the matrix": np.abs(w).max() / 7, "these 32": np.abs(group).max() / 7}
    for y, scale in enumerate(scales.values()):
        right.plot(scale * np.arange(-7, 8), np.full(15, y), "|", ms=22, color="0.6")
        right.plot(group, np.full(32, y + 0.22), "o", ms=4, color=lessons.BLUE, alpha=0.6)
        rounded = scale * np.round(group / scale)
        right.plot(rounded, np.full(32, y - 0.22), "s", ms=4, color=lessons.ORANGE)
    edge = 1.15 * np.abs(group).max()
    right.set_title("32 weights (dots), 4 bits: what is left of them (squares)")
    right.set(xlabel="value", xlim=(-edge, edge), ylim=(-0.6, 1.6))
    right.set_yticks([0, 1], [f"scale of\n{name}" for name in scales])
    left_over = [len(np.unique(np.round(group / scale))) for scale in scales.values()]
    return (
        f"Left: the largest number of each row. Right: of 32 weights, {left_over[0]} values "
        f"are left with the scale of the matrix, and {left_over[1]} with a scale of their own."
    )


def costs(found):
    """Plot what rounding the weights costs.

    found: {(model, kind of weights): (bits per weight, additional bits per byte)}.
    """
    _, axis = plt.subplots(figsize=(9, 4))
    names = list(dict.fromkeys(model for model, _ in found))
    floor = 1e-5  # smaller costs are plotted at this height
    looks = ("o", lessons.BLUE, "full"), ("s", lessons.ORANGE, "none")
    for model, (marker, color, fill) in zip(names, looks):
        points = {kind: pair for (name, kind), pair in found.items() if name == model}
        bits, cost = np.array([*points.values()]).T
        cost = np.maximum(cost, floor)
        axis.semilogy(bits, cost, marker, color=color, label=model, fillstyle=fill)
        if marker == "o":
            for kind, *place in zip(points, bits, cost):
                axis.annotate(kind, place, (6, 4), textcoords="offset points", fontsize=9)
    axis.set(title="What rounding the weights costs", xlim=(2, 17), ylim=(floor / 2, None))
    axis.set_xlabel("bits a weight (with the scales of groups, without those of rows)")
    axis.set_ylabel("bits per byte more (at least 0.00001)")
    axis.legend(frameon=False)
    text = "; ".join(f"{model}, {kind}: {cost:+.4f}" for (model, kind), (_, cost) in found.items())
    return f"The cost in bits per byte against the bits of a weight, on a logarithmic axis. {text}."


def bars(bits):
    """Plot what a text costs with each kind of weights; bits: {kind of weights: bits}."""
    _, axis = plt.subplots(figsize=(8, 0.36 * len(bits) + 1))
    drawn = axis.barh(list(bits), list(bits.values()), color=lessons.SKY)
    axis.bar_label(drawn, fmt=" %.1f")
    axis.invert_yaxis()
    axis.set(title="your text", xlabel="bits", xlim=(0, 1.12 * max(bits.values())))
    return "The cost of your text in bits, by the bits of a weight."
