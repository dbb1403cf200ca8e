"""Pictures: three endings, each question's chance of a right answer, and ways to choose."""

import textwrap

import lessons
import matplotlib.pyplot as plt
import numpy as np


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


def chances(p):
    """Plot a histogram of p, each question's chance of a right answer. Return its alternative."""
    _, axis = plt.subplots(figsize=(8, 3))
    axis.hist(p, np.linspace(0, 1, 11), color=lessons.SKY, edgecolor="white")
    axis.axvline(p.mean(), color="black", ls="--", label=f"mean {p.mean():.2f}")
    axis.set(title="How often each question was answered rightly", ylabel="questions")
    axis.set_xlabel("share of its draws")
    axis.legend(frameon=False)
    return "A histogram of each question's chance: how many questions are in each tenth."


def curves(sizes, found, greedy):
    """Plot the share of right answers against the number of draws. Return its alternative text.

    sizes: numbers of draws; found: {way to choose: a share for each size}; greedy: a share.
    """
    _, axis = plt.subplots(figsize=(8, 3.6))
    for (name, shares), style in zip(found.items(), ("o-", "s--", "x:")):
        axis.plot(sizes, shares, style, label=name)
    axis.axhline(greedy, color="0.4", linestyle="-.", label="greedy, one answer")
    axis.set(title="Questions with a right answer", xlabel="draws", ylabel="share", xscale="log")
    axis.set_xticks(sizes, sizes)
    axis.minorticks_off()
    axis.set_ylim(0, 1)
    axis.legend(frameon=False, ncols=2, loc="lower right")
    return f"The share of right answers from 1 to {sizes[-1]} draws."
