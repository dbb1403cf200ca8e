"""The longer pictures of lesson 7."""

import textwrap

import lessons
import matplotlib.pyplot as plt
import numpy as np

DEAD = 0  # the state from which no match can be reached


def states(automaton):
    """A finite automaton without loops as a row of states and arrows, with the bytes of each."""
    n = len(automaton.table)
    figure, axis = plt.subplots(figsize=(8, 2.2))
    for state in range(1, n):
        end = automaton.ends[state]
        for target in sorted({*automaton.table[state].tolist()} - {DEAD}):
            arrow(axis, state, target, label(np.flatnonzero(automaton.table[state] == target)))
        axis.plot(state, 0, "o", markersize=34 if end else 28, color="white",
                  markeredgecolor=lessons.BLACK, markeredgewidth=3 if end else 1)  # fmt: skip
        axis.text(state, 0, "end" if end else str(state), ha="center", va="center", fontsize=11)
    axis.set(xlim=(0.5, n - 0.5), ylim=(-0.5, 1.3))
    axis.axis("off")
    return figure


def arrow(axis, state, target, text):
    reach = target - state - 1  # states that it skips
    style = {"arrowstyle": "-|>", "shrinkA": 16, "shrinkB": 18, "color": lessons.BLUE,
             "connectionstyle": f"arc3,rad={-0.45 * bool(reach)}"}  # fmt: skip
    axis.annotate("", (target, 0), (state, 0), arrowprops=style)
    middle = (state + target) / 2
    axis.text(middle, 0.15 + 0.62 * reach, text, ha="center", va="bottom", fontsize=11)


def label(bytes_):  # ascending bytes -> such as "0-9", or "space"
    first, last = chr(bytes_[0]), chr(bytes_[-1])
    if first == last:
        return {" ": "space"}.get(first, f"“{first}”")
    return f"{first}-{last}"


def two_ways(beginning, choices, condition, mask):
    """Bars: the probability of each ending by the model's condition, and by the filter."""
    figure, axis = plt.subplots(figsize=(8, 1.3 + 0.7 * len(choices)))
    place = np.arange(len(choices))[::-1]
    axis.barh(place + 0.2, condition, 0.38, color=lessons.BLUE, label="the model, given the three")
    axis.barh(place - 0.2, mask, 0.38, color=lessons.ORANGE, hatch="//", edgecolor="white",
              label="the filter, token by token")  # fmt: skip
    for y, values in zip(place, zip(condition, mask)):
        for value, shift in zip(values, (0.2, -0.2)):
            axis.text(value + 0.01, y + shift, f"{value:.2g}", va="center", fontsize=10)
    axis.set_yticks(place, [textwrap.fill(choice.strip(), 18) for choice in choices])
    axis.set(title=f"{beginning} ...", xlabel="probability", xlim=(0, 1.1))
    axis.legend(frameon=False, loc="lower right")
    return figure


def likeness(matrix, texts):
    """chrF of each pair of texts."""
    figure, axis = plt.subplots(figsize=(9, 4.2))
    image = axis.imshow(matrix, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    axis.set_yticks(range(len(texts)), [textwrap.shorten(text, 46) for text in texts])
    axis.set_xticks(range(len(texts)), range(1, len(texts) + 1))
    axis.set(title="Which texts are alike (sorted by the sum)", xlabel="the other text")
    figure.colorbar(image, label="likeness (chrF)")
    return figure
