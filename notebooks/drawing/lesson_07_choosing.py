"""Pictures for lesson 7: an automaton, two ways to choose, the likeness of translations."""

import textwrap

import lessons
import matplotlib.pyplot as plt
import numpy as np

DEAD = 0  # from this state, no match can be reached

ALT = {  # alternative texts for readers who cannot see the pictures
    "states": (
        "The automaton of numbers of one or two digits. A space leads from state 1 to 2, a digit "
        "to 3, a second digit to 4, and a full stop from 3 or 4 to the end."
    ),
    "endings": (
        "Bars for three endings. The one with the crocodile has hardly any probability in the "
        "model, and the largest share with the filter."
    ),
    "gamma": (
        "Left: the share of texts that mention the dragon rises from gamma 0.5 to 2. Right: log P "
        "per token is highest at gamma 1, which is the model itself, and falls on both sides."
    ),
    "likeness": (
        "The likeness of twelve drawn translations, sorted. There are two groups: eight with the "
        "words keinen Kaffee, at the top, and four with Kaffee nicht, less like the others."
    ),
    "mark": (
        "The detector's z by length. Texts without the mark stay around 0, and marked ones rise "
        "past 4 as they grow longer."
    ),
}


def states(automaton):
    """Draw a finite automaton without loops as a row of states; bytes label the arrows."""
    order = by_distance(automaton.table)
    figure, axis = plt.subplots(figsize=(8, 1.8))
    for place, state in enumerate(order, start=1):
        nexts = automaton.table[state]
        for target in sorted({*nexts.tolist()} - {DEAD}):
            arrow(axis, place, order.index(target) + 1, label(np.flatnonzero(nexts == target)))
        name, size, edge = ("end", 34, 3) if automaton.ends[state] else (str(place), 28, 1)
        style = {"color": "white", "markeredgecolor": lessons.BLACK, "markeredgewidth": edge}
        axis.plot(place, 0, "o", markersize=size, **style)
        axis.text(place, 0, name, **lessons.CENTERED, fontsize=11)
    axis.set(xlim=(0.5, len(order) + 0.5), ylim=(-0.4, 0.9))
    axis.axis("off")
    return figure


def by_distance(table):
    """Return all states except DEAD, sorted by the length of their longest path from state 1.

    table: for each state and byte, the next state, [n_states, 256].
    """
    longest = dict.fromkeys(range(1, len(table)), 0)
    for _ in longest:
        for state in longest:
            for target in {*table[state].tolist()} - {DEAD}:
                longest[target] = max(longest[target], longest[state] + 1)
    return sorted(longest, key=longest.get)


def arrow(axis, place, target, text):
    """Draw an arrow between two places in the row, in an arc over the states between them."""
    n_between = target - place - 1
    curve = f"arc3,rad={-0.35 * bool(n_between)}"
    style = {"arrowstyle": "-|>", "connectionstyle": curve, "shrinkA": 16, "shrinkB": 18}
    axis.annotate("", (target, 0), (place, 0), arrowprops={**style, "color": lessons.BLUE})
    height = 0.15 + 0.4 * n_between
    axis.text((place + target) / 2, height, text, ha="center", va="bottom", fontsize=11)


def label(bytes_):
    """Return a label for a sorted array of bytes, such as "0-9", "space", or "“a”, x-z"."""
    names = []
    for run in np.split(bytes_, np.flatnonzero(np.diff(bytes_) > 1) + 1):
        first, last = chr(run[0]), chr(run[-1])
        one = "space" if first == " " else f"“{first}”"
        names.append(f"{first}-{last}" if first < last else one)
    return ", ".join(names)


def two_ways(beginning, choices, condition, mask):
    """Plot the probability of each ending, under the model and with the filter.

    condition: the model's probabilities, given that the text has one of these endings.
    mask: the probabilities if, at each step, a filter removes the tokens that fit no ending.
    """
    figure, axis = plt.subplots(figsize=(8, 1.3 + 0.7 * len(choices)))
    place = np.arange(len(choices))[::-1]
    axis.barh(place + 0.2, condition, 0.38, color=lessons.BLUE, label="the model, if one of these")
    style = {"color": lessons.ORANGE, "hatch": "//", "edgecolor": "white"}
    axis.barh(place - 0.2, mask, 0.38, label="the filter, token by token", **style)
    for y, values in zip(place, zip(condition, mask)):
        for value, shift in zip(values, (0.2, -0.2)):
            axis.text(value + 0.01, y + shift, f"{value:.2g}", va="center", fontsize=10)
    axis.set_yticks(place, [textwrap.fill(choice.strip(), 18) for choice in choices])
    axis.set(title=f"{beginning} ...", xlabel="probability", xlim=(0, 1.1))
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def likeness(matrix, texts):
    """Plot the chrF of each pair of texts; matrix: the chrF values, [n, n]."""
    figure, axis = plt.subplots(figsize=(9, 4.2))
    image = axis.imshow(matrix, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    numbered = [f"{textwrap.shorten(text, 46)}  {i}" for i, text in enumerate(texts, start=1)]
    axis.set_yticks(range(len(texts)), numbered)
    axis.set_xticks(range(len(texts)), range(1, len(texts) + 1))
    axis.set(title="Which texts are alike (sorted by the sum)", xlabel="the other text")
    figure.colorbar(image, label="likeness (chrF)")
    return figure
