"""Pictures. Each function that plots returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

BRIGHT = lessons.SKY, lessons.ORANGE, lessons.GREEN, lessons.YELLOW, lessons.PURPLE, lessons.RED
PALE = [0.5 + 0.45 * np.array(to_rgb(color)) for color in BRIGHT]
COLORS = [*BRIGHT, *PALE]  # twelve different colours


def places(made, n_rows):
    """Assign a free row to each request. Yield (request, row, passes), sorted by its first pass.

    made: {request: the numbers of the passes that generated its tokens}.
    """
    free_from = [0] * n_rows  # for each row, the first pass in which it is free
    for request, passes in sorted(made.items(), key=lambda item: item[1][0]):
        row = next(i for i in range(n_rows) if free_from[i] <= passes[0])
        free_from[row] = passes[-1] + 1
        yield request, row, passes


def seats(panels, n_rows=4):
    """Plot which request occupies each row in each pass.

    panels: {title: (all passes, made)}; made: see `places`.
    """
    longest = max(len(passes) for passes, _ in panels.values())
    size = 9.5, 0.4 + 2 * len(panels)
    _, axes = plt.subplots(len(panels), 1, figsize=size, sharex=True, squeeze=False)
    for axis, (title, (passes, made)) in zip(axes[:, 0], panels.items()):
        axis.barh(range(n_rows), len(passes), 1, color="0.93", edgecolor="white")
        for number, (_, row, own) in enumerate(places(made, n_rows)):
            seat(axis, number, row, own)
        axis.set(title=f"{title}: {len(passes)} passes", ylabel="row")
        axis.set_xlim(0, longest)
        axis.set_ylim(n_rows - 0.5, -0.5)
        axis.set_yticks(range(n_rows), range(1, n_rows + 1))
    axes[-1, 0].set_xlabel("pass (hatched: the request's prompt; grey: an empty place)")
    return f"A line for each of {n_rows} rows, a column for each pass, and the requests' numbers."


def seat(axis, number, row, passes):
    """Plot one request in its row. Its first pass, which reads the prompt, is hatched."""
    box = row - 0.42, 0.84
    style = {"facecolor": COLORS[number % len(COLORS)], "linewidth": 0.4}
    first, last = passes[0], passes[-1]
    axis.broken_barh([(p, 1) for p in passes], box, edgecolor="white", **style)
    axis.broken_barh([(first, 1)], box, edgecolor="black", hatch="////", **style)
    style = {"fontsize": 11, "weight": "bold"}
    axis.text((first + last + 1) / 2, row, number + 1, **lessons.CENTERED, **style)


def gaps(found):
    """Plot the gaps between a running request's tokens while a long prompt is read in chunks.

    found: {size of the chunks: the seconds before each token}.
    """
    _, axes = plt.subplots(1, len(found), figsize=(9.5, 3.2), sharey=True)
    colors = lessons.RED, lessons.ORANGE, lessons.BLUE
    longest = []
    for axis, (chunk, seconds), color in zip(axes, found.items(), colors):
        ms = 1e3 * seconds[15:]
        axis.bar(np.arange(15, len(seconds)), ms, 0.9, color=color)
        axis.set(title=f"chunks of {chunk}", xlabel="token of the running one")
        longest.append(f"{chunk}: {max(ms):.0f} ms")
    axes[0].set_ylabel("gap before it (ms)")
    text = "; ".join(longest)
    return f"Gaps between the tokens of a running request. The longest, by the chunks: {text}."


def wavefront(n_chunks, n_layers):
    """Draw when each chunk of a prompt is in which layer, one layer behind the chunk before it."""
    _, axis = plt.subplots(figsize=(9, 0.8 + 0.5 * n_chunks))
    for chunk, layer in np.ndindex(n_chunks, n_layers):
        x = chunk + layer
        color = plt.cm.Blues(0.15 + 0.6 * layer / n_layers)
        axis.add_patch(plt.Rectangle((x + 0.03, chunk - 0.4), 0.94, 0.8, color=color))
        axis.text(x + 0.5, chunk, f"layer {layer + 1}", **lessons.CENTERED, fontsize=10)
        if chunk + 1 < n_chunks:
            arrow = {"arrowstyle": "->", "color": lessons.RED}
            axis.annotate("", (x + 1.1, chunk + 0.6), (x + 0.9, chunk + 0.4), arrowprops=arrow)
    axis.set_xlabel("time")
    axis.set_xlim(0, n_chunks + n_layers - 1)
    axis.set_ylim(n_chunks - 0.5, -0.5)
    axis.set_yticks(range(n_chunks), [f"chunk {i + 1}" for i in range(n_chunks)])
    axis.set_xticks([])
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_title("Red arrows: a layer's keys and values, for the next chunk")
    return f"{n_chunks} chunks run through {n_layers} layers, each one layer behind the last."
