"""The pictures of lesson 16. Each function returns its picture's alternative text."""

import lessons
import matplotlib.pyplot as plt
import numpy as np


def chances(p):
    """The chance of a right answer, of each sentence."""
    _, axis = plt.subplots(figsize=(8, 3.2))
    counts, edges, _ = axis.hist(p, np.linspace(0, 1, 11), color=lessons.SKY, edgecolor="white")
    axis.axvline(p.mean(), color="black", ls="--", label=f"mean {p.mean():.2f}")
    axis.set(title="How often each sentence was translated rightly", xlabel="share of its draws",
             ylabel="sentences")  # fmt: skip
    axis.legend(frameon=False)
    text = ", ".join(f"{edge:.1f}: {count:.0f}" for edge, count in zip(edges, counts) if count)
    return (
        f"Histogram of the chance of a right answer over {len(p)} sentences, mean {p.mean():.2f}. "
        f"Sentences from each tenth on: {text}."
    )


def curves(sizes, found):
    """The share of right answers against the draws; a number alone is a line."""
    _, axis = plt.subplots(figsize=(9, 4))
    looks = {"verifier": (lessons.GREEN, "o-"), "vote": (lessons.BLUE, "s-"),
             "likeliest": (lessons.ORANGE, "^--"),
             "most alike": (lessons.PURPLE, "x:")}  # fmt: skip
    for name, shares in found.items():
        if name in looks:
            color, style = looks[name]
            axis.plot(sizes, shares, style, color=color, label=name)
        else:
            style = "--" if name == "greedy" else ":"
            axis.axhline(shares, color="0.4", ls=style, label=f"{name}, one answer")
    axis.set(xscale="log", title="Sentences with a right answer", xlabel="draws", ylabel="share",
             ylim=(0, None))  # fmt: skip
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
    """The most frequent answers, [(text, count)]."""
    _, axis = plt.subplots(figsize=(8, 0.42 * len(counts) + 1))
    texts = [text for text, _ in counts]
    bars = axis.barh(texts, [count for _, count in counts], color=lessons.SKY)
    axis.bar_label(bars)
    axis.invert_yaxis()
    axis.set(title=f"{n} answers", xlabel="times")
    return (
        f"Of {n} answers the most frequent ones: "
        + "; ".join(f"{text} {count}" for text, count in counts)
        + "."
    )
