"""Pictures: a tree of texts, sums of logs, surprise, samples, errors along a text."""

import itertools
import math

import lessons
import matplotlib.pyplot as plt
import numpy as np

from decoding.score import score

STYLES = "-", "--", "-.", ":"
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def tree(branch, n):
    """Draw all texts of n letters a and b; branch(before, letter) returns P(letter | before)."""
    _, axis = plt.subplots(figsize=(8, 4))
    places, p = {"": (0, 0.5)}, {"": 1.0}
    for i in range(n):
        for before, letter in itertools.product([text for text in p if len(text) == i], "ab"):
            text, (x, y) = before + letter, places[before]
            p[text] = p[before] * branch(before, letter)
            up = 0.5 ** (i + 2) * (1 if letter == "a" else -1)
            places[text] = x + 1, y + up
            axis.plot((x, x + 1), (y, y + up), lw=1 + 8 * p[text], color=lessons.SKY, zorder=0)
            label = f"{letter} {branch(before, letter):.1f}"
            axis.text(x + 0.6, y + 0.6 * up, label, **lessons.CENTERED, bbox=WHITE)
            if i == n - 1:
                axis.text(n + 0.05, y + up, f"{text}  {p[text]:.3f}", va="center", weight="bold")
    axis.set_title("The probability of a text is the product along its path")
    axis.set_xlim(0, n + 0.5)
    axis.axis("off")


def out_of_range(factors):
    """Plot how a text's probability shrinks with each token.

    factors: {name of a text: log P of each token}.
    """
    _, axis = plt.subplots(figsize=(8, 3.8))
    for (name, log_factors), style in zip(factors.items(), STYLES):
        axis.plot(np.cumsum(log_factors) / math.log(10), style, label=name, lw=2)
    for kind, smallest in [("float32", 1.4e-45), ("float64", 4.9e-324)]:
        axis.axhline(math.log10(smallest), color=lessons.BLACK, lw=0.8)
        axis.text(168, math.log10(smallest) - 8, f"below this, 0 in {kind}", ha="right", va="top")
    axis.set(
        title="A product of probabilities leaves the range of floating point",
        xlabel="tokens so far",
        ylabel=r"$\log_{10} P(x_1 \ldots x_i)$",
        xlim=(0, 170),
        ylim=(-500, 5),
    )
    axis.legend(title="sum of the logs", loc="lower left")


def colour_by(values, tokens, label, columns=64):
    """Draw a text, with a darker background behind tokens with larger values."""
    places, line, column = [], 0, 0
    for token in tokens:
        if column > columns - 10 and token.startswith(" "):  # break lines only before a word
            line, column = line + 1, 0
        places.append((column, line))
        column += len(token)
    figure, axis = plt.subplots(figsize=(9, 0.9 + 0.42 * (line + 1)))
    scale = plt.cm.ScalarMappable(plt.Normalize(0, max(values)), "YlOrBr")
    for (column, line), token, value in zip(places, tokens, values):
        axis.add_patch(plt.Rectangle((column, line), len(token), 0.86, color=scale.to_rgba(value)))
        color = "white" if value > 0.7 * max(values) else "black"
        middle, shown = column + len(token) / 2, token.replace("\n", "¶")
        style = {"family": "monospace", "fontsize": 14, "color": color}
        axis.text(middle, line + 0.45, shown, **lessons.CENTERED, **style)
    axis.set(xlim=(0, columns), ylim=(line + 1, 0))
    axis.axis("off")
    figure.colorbar(scale, ax=axis, label=label)


def product_and_share(joint, counts, n_draws):
    """Plot each text's share of the samples against the text's probability. Leave out rare texts.

    joint, counts: the probability and the number of samples of each text, both [n_words] * 4.
    """
    _, axis = plt.subplots(figsize=(5.8, 4.2))
    p, often = joint.ravel(), joint.ravel() > 5 / n_draws
    line = np.geomspace(p[often].min(), p.max())
    spread = 2 * np.sqrt(line * (1 - line) / n_draws)
    style = {"color": lessons.SKY, "alpha": 0.4, "label": "two standard deviations"}
    axis.fill_between(line, line - spread, line + spread, **style)
    axis.plot(line, line, color=lessons.BLACK, lw=0.8)
    axis.plot(p[often], counts.ravel()[often] / n_draws, "o", ms=5, label="a text of four tokens")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="product of its factors",
        ylabel=f"share of {n_draws} samples",
        title="Sampled as often as the product says",
    )
    axis.legend()


def errors(judged, curves):
    """Plot the student's risk of a blunder, and the share of texts without a blunder so far.

    judged: {author of the texts: (risk, blunders)}, each [n_texts, n].
    curves: {name: the share of texts without a blunder, [n]}.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2))
    for (name, (risk, _)), style in zip(judged.items(), ("o-", "s--")):
        fives = risk.mean(axis=0).reshape(-1, 5).mean(axis=1)  # means over five positions
        axes[0].plot(3 + 5 * np.arange(len(fives)), fives, style, label=f"after the {name}'s texts")
    axes[0].set(title="The student's risk of a blunder", ylabel="risk", ylim=(0, None))
    axes[0].legend()
    colors = lessons.ORANGE, lessons.BLACK, lessons.RED
    for (name, curve), style, color in zip(curves.items(), STYLES, colors):
        width = 3 if name == "counted" else 2
        axes[1].plot(range(len(curve) + 1), [1, *curve], style, label=name, color=color, lw=width)
    axes[1].set(title="The student's texts without a blunder so far", ylim=(0, 1.02))
    axes[1].set_ylabel("share of texts")
    axes[1].legend()
    for axis in axes:
        axis.set_xlabel("position in the text (tokens)")


def two_tables(joint, independent, words):
    """Plot the probabilities of four texts whose words are sampled one by one, or all at once.

    joint, independent: tables of these probabilities, [n_words] * 4; words: the word of each id.
    """
    shown = [[0, 2, 4, 5], [1, 3, 4, 5], [0, 3, 4, 5], [1, 2, 4, 5]]
    _, axis = plt.subplots(figsize=(7.5, 3.2))
    stepwise, at_once = ("token by token", joint, ""), ("all at once", independent, "//")
    for offset, (name, table, hatch) in enumerate((stepwise, at_once)):
        heights = [table[tuple(text)] for text in shown]
        place, style = np.arange(4) + 0.38 * offset, {"hatch": hatch, "edgecolor": "white"}
        bars = axis.barh(place, heights, 0.36, label=name, **style)
        axis.bar_label(bars, fmt="%.4f", padding=3, fontsize=10)
    axis.set_yticks(np.arange(4) + 0.19, ["".join(words[i] for i in text) for text in shown])
    axis.invert_yaxis()
    axis.set(title="Each word is right, and the text is wrong", xlabel="probability")
    axis.set_xlim(0, 1.2 * joint[tuple(np.transpose(shown))].max())
    axis.legend(loc="lower right")


def your_text(tokenizer, model, text):
    """Draw a text with a darker background behind more surprising tokens, for any model."""
    result = score(tokenizer, model, " ".join(text.split()))
    bits = -np.array(result["logprobs"]) / math.log(2)
    colour_by(bits, [tokenizer.decode([id]) for id in result["ids"]], "surprise (bits)")
    plt.title(f"{bits.sum():.0f} bits, {result['bits_per_byte']:.2f} per byte")
    lessons.show("Your text, with a darker background for tokens that cost more bits.")
