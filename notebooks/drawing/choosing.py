"""Pictures: two ways to choose, the likeness of translations."""

import textwrap

import lessons
import matplotlib.pyplot as plt
import numpy as np

ALT = {  # alternative texts for readers who cannot see the pictures
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
