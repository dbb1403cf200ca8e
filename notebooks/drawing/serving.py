"""Pictures. Each function that plots returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb


def exchange(points):
    """Plot the tokens per second of all readers against one reader's time per token.

    points: {rows: (ms between one reader's tokens, tokens per second of all readers)}.
    """
    _, axis = plt.subplots(figsize=(8, 3.6))
    axis.plot(*zip(*points.values()), "o-")
    for n_rows, point in points.items():
        name = "1 row" if n_rows == 1 else f"{n_rows} rows"
        axis.annotate(name, point, (6, -14), textcoords="offset points")
    axis.set(title="All readers' tokens, and what each waits", xlim=(0, None), ylim=(0, None))
    axis.set(xlabel="one reader: from token to token (ms)", ylabel="all readers: tokens / s")
    text = "; ".join(f"{n}: {rate:.0f} at {ms:.2f} ms" for n, (ms, rate) in points.items())
    return (
        "Tokens per second of all readers against one reader's time from token to token, by the "
        f"number of rows. {text}."
    )


BRIGHT = (lessons.SKY, lessons.ORANGE, lessons.GREEN, lessons.YELLOW, lessons.PURPLE, lessons.RED)
PALE = [tuple((1 + 0.9 * np.array(to_rgb(color))) / 2) for color in BRIGHT]
COLORS = [*BRIGHT, *PALE]  # twelve different colours


def places(made, n_rows):
    """Assign a free row to each text. Yield (text, row, passes), sorted by each text's first pass.

    made: {text: the numbers of the passes that generated its tokens}.
    """
    free_from = [0] * n_rows  # for each row, the first pass in which it is free
    for text, passes in sorted(made.items(), key=lambda item: item[1][0]):
        row = next(i for i in range(n_rows) if free_from[i] <= passes[0])
        free_from[row] = passes[-1] + 1
        yield text, row, passes


def seats(panels, n_rows=4):
    """Plot which text occupies each row in each pass.

    panels: {title: (all passes, made)}, where made is {text: the numbers of the passes that
    generated its tokens}.
    """
    longest = max(len(passes) for passes, _ in panels.values())
    size = (9.5, 0.4 + 2 * len(panels))
    _, axes = plt.subplots(len(panels), 1, figsize=size, sharex=True, squeeze=False)
    for axis, (title, (passes, made)) in zip(axes[:, 0], panels.items()):
        axis.barh(range(n_rows), len(passes), 1, color="0.93", edgecolor="white")
        for number, (_, row, own) in enumerate(places(made, n_rows)):
            box, color = (row - 0.42, 0.84), COLORS[number % len(COLORS)]
            style = {"facecolor": color, "linewidth": 0.4}
            axis.broken_barh([(p, 1) for p in own], box, edgecolor="white", **style)
            axis.broken_barh([(own[0], 1)], box, edgecolor="black", hatch="////", **style)
            middle = (own[0] + own[-1] + 1) / 2
            axis.text(middle, row, number + 1, **lessons.CENTERED, fontsize=11, weight="bold")
        axis.set(title=f"{title}: {len(passes)} passes", ylabel="row")
        axis.set(xlim=(0, longest), ylim=(n_rows - 0.5, -0.5))
        axis.set_yticks(range(n_rows), range(1, n_rows + 1))
    axes[-1, 0].set_xlabel("pass (hatched: the text's prompt; grey: an empty place)")
    texts = "; ".join(
        f"{title}: {len(passes)} passes for {len(made)} texts"
        for title, (passes, made) in panels.items()
    )
    return (
        f"{n_rows} rows, a column for each pass and a box in a text's colour for each token. "
        f"{texts}."
    )


def waits(served):
    """Plot how long readers wait for the first token, and for each later one.

    served: {rows: (seconds to each reader's first token, seconds between tokens, seconds in all)}.
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6))
    looks = (
        (lessons.RED, "o-"),
        (lessons.ORANGE, "s--"),
        (lessons.GREEN, "^:"),
        (lessons.BLUE, "x-"),
    )
    for (n_rows, (first, *_)), (color, style) in zip(served.items(), looks):
        readers = range(1, len(first) + 1)
        name = "1 row" if n_rows == 1 else f"{n_rows} rows"
        left.plot(readers, 1e3 * np.array(first), style, color=color, markersize=4, label=name)
    left.set(title="The wait for the first token (ms)", ylim=(0, None))
    left.set_xlabel("reader, in order of arrival")
    left.legend(frameon=False)
    heights = [1e3 * between for _, between, _ in served.values()]
    bars = right.bar([str(n_rows) for n_rows in served], heights, color=lessons.SKY)
    right.bar_label(bars, fmt="%.1f")
    right.set(title="From token to token (ms)", xlabel="rows", ylim=(0, 1.15 * max(heights)))
    text = "; ".join(
        f"{n}: at most {1e3 * max(first):.0f} ms, then {1e3 * between:.1f} ms"
        for n, (first, between, _) in served.items()
    )
    return (
        "Left: each reader's wait for the first token. Right: the time from one token to the next. "
        f"By the number of rows, they are {text}."
    )


def gaps(found):
    """Plot the gaps between a running text's tokens while a long prompt is read in chunks.

    found: {size of the chunks: the seconds before each token}.
    """
    _, axes = plt.subplots(1, len(found), figsize=(9.5, 3.2), sharey=True)
    colors = lessons.RED, lessons.ORANGE, lessons.BLUE
    for axis, (chunk, seconds), color in zip(axes, found.items(), colors):
        axis.bar(np.arange(15, len(seconds)), 1e3 * seconds[15:], 0.9, color=color)
        axis.set(title=f"chunks of {chunk}", xlabel="token of the running text")
    axes[0].set_ylabel("gap before it (ms)")
    text = "; ".join(
        f"{chunk}: {1e3 * max(seconds[15:]):.0f} ms" for chunk, seconds in found.items()
    )
    return (
        "The gaps between the tokens of a running text, a panel for each size of chunk. The "
        f"longest gap, by the size: {text}."
    )
