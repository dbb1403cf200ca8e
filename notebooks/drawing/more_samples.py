"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np


def chances(p):
    """Plot a histogram of p, each sentence's probability of a right answer, [n]."""
    _, axis = plt.subplots(figsize=(8, 3.2))
    counts, edges, _ = axis.hist(p, np.linspace(0, 1, 11), color=lessons.SKY, edgecolor="white")
    axis.axvline(p.mean(), color="black", ls="--", label=f"mean {p.mean():.2f}")
    axis.set_title("How often each sentence was translated rightly")
    axis.set(xlabel="share of its draws", ylabel="sentences")
    axis.legend(frameon=False)
    text = ", ".join(f"{edge:.1f}: {count:.0f}" for edge, count in zip(edges, counts) if count)
    return (
        f"A histogram of the chance of a right answer over {len(p)} sentences. The mean is "
        f"{p.mean():.2f}. The number of sentences from each tenth on: {text}."
    )


def curves(sizes, found):
    """Plot the share of sentences with a right answer against the number of draws.

    sizes: numbers of draws; found: {name: a share for each size, or one share for a flat line}.
    """
    _, axis = plt.subplots(figsize=(9, 4))
    looks = {
        "verifier": (lessons.GREEN, "o-"),
        "vote": (lessons.BLUE, "s-"),
        "likeliest": (lessons.ORANGE, "^--"),
        "most alike": (lessons.PURPLE, "x:"),
    }
    for name, shares in found.items():
        if name in looks:
            color, style = looks[name]
            axis.plot(sizes, shares, style, color=color, label=name)
        else:
            style = "--" if name == "greedy" else ":"
            axis.axhline(shares, color="0.4", ls=style, label=f"{name}, one answer")
    axis.set(title="Sentences with a right answer", xlabel="draws", ylabel="share", xscale="log")
    axis.set_xticks(sizes, sizes)
    axis.minorticks_off()
    axis.legend(frameon=False, ncols=2, loc="upper left")
    axis.set_ylim(0, 1.5 * max(np.max(shares) for shares in found.values()))
    text = "; ".join(
        f"{name} {np.ravel(shares)[0]:.2f} to {np.ravel(shares)[-1]:.2f}"
        for name, shares in found.items()
    )
    return (
        f"The share of sentences with a right answer against the number of draws, from {sizes[0]} "
        f"to {sizes[-1]}: {text}."
    )


def ballot(counts, n):
    """Plot the most frequent of n answers; counts: a list of pairs (answer, count)."""
    _, axis = plt.subplots(figsize=(8, 0.42 * len(counts) + 1))
    texts = [text for text, _ in counts]
    bars = axis.barh(texts, [count for _, count in counts], color=lessons.SKY)
    axis.bar_label(bars)
    axis.invert_yaxis()
    axis.set(title=f"{n} answers", xlabel="times")
    answers = "; ".join(f"{text} {count}" for text, count in counts)
    return f"The most frequent of {n} answers: {answers}."
