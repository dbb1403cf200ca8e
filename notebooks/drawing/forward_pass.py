"""Pictures: data flow, heads, the logit lens, parts of a logit, a changed token."""

import copy

import lessons
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyBboxPatch

from gpt2 import softmax


def diagram(n_layer):
    """Draw the data flow from ids to logits. Each block adds twice to the residual stream."""
    _, axis = plt.subplots(figsize=(10.5, 3.4))
    axis.set(xlim=(-0.2, 15.1), ylim=(0.2, 4.2))
    axis.axis("off")

    def box(x, y, width, text, color="white"):
        """Draw a box around a text; (x, y) is the middle of the box's left edge."""
        style = "round,pad=0.02,rounding_size=0.12"
        axis.add_patch(FancyBboxPatch((x, y - 0.4), width, 0.8, style, fc=color, ec="black"))
        axis.text(x + width / 2, y, text, **lessons.CENTERED, fontsize=10.5)

    def arrow(*points):
        """Draw a line through points (x, y), with an arrowhead at the last point."""
        for begin, end in zip(points, points[1:]):
            head = "->" if end == points[-1] else "-"
            style = {"arrowstyle": head, "lw": 1.3, "shrinkA": 0, "shrinkB": 0}
            axis.annotate("", end, begin, arrowprops=style)

    axis.add_patch(plt.Rectangle((3.45, 0.35), 7.0, 3.3, fill=False, ls="--", ec="gray"))
    axis.text(6.95, 3.85, f"block: {n_layer} of these, one after the other", ha="center")
    axis.plot([3.2, 10.75], [1, 1], color=lessons.BLUE, lw=4, zorder=0)
    axis.text(3.6, 0.5, "residual stream [n, n_embd]", color=lessons.BLUE, fontsize=10.5)
    box(0, 1, 1.0, "ids\n[n]")
    box(1.5, 1, 1.7, "wte[ids]\n+ wpe")
    arrow((1.0, 1), (1.5, 1))
    for x, name in (3.9, "attention"), (7.3, "MLP"):
        box(x, 2.4, 0.95, "norm")
        box(x + 1.35, 2.4, 1.25, name, "#fff2cc" if name == "attention" else "#e3f0fa")
        arrow((x + 0.47, 1.03), (x + 0.47, 2.0))
        arrow((x + 0.95, 2.4), (x + 1.35, 2.4))
        arrow((x + 1.97, 2.0), (x + 1.97, 1.22))
        axis.plot(x + 1.97, 1, "o", ms=17, mfc="white", mec="black")
        axis.text(x + 1.97, 0.98, "+", **lessons.CENTERED, fontsize=14)
    box(10.75, 1, 0.95, "norm")
    box(12.0, 1, 0.9, "wte$^T$")
    box(13.2, 1, 1.75, "logits\n[n, n_vocab]")
    arrow((11.7, 1), (12.0, 1))
    arrow((12.9, 1), (13.2, 1))


def three_tokens(q, k, v, weights, mixed):
    """Draw what the last of three queries does; q, k, v and mixed are [3, 2], weights [3, 3]."""
    _, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    keys = [(one, f"key {i}: score {q[-1] @ one / 2**0.5:.2f}") for i, one in enumerate(k)]
    values = [(one, f"value {i}: weight {w:.2f}") for i, (one, w) in enumerate(zip(v, weights[-1]))]
    for axis, arrows, last in (
        (axes[0], keys, (q[-1], "query 2")),
        (axes[1], values, (mixed[-1], "mean")),
    ):
        for (end, name), color in zip([*arrows, last], [lessons.BLUE] * 3 + [lessons.ORANGE]):
            axis.annotate("", end, (0, 0), arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
            axis.annotate(name, end, (4, 4), textcoords="offset points", color=color)
        points = np.array([(0, 0), *(end for end, _ in [*arrows, last])])
        low, high = points.min(0), points.max(0)
        axis.set(xlim=(low[0] - 0.3, high[0] * 1.8), ylim=(low[1] - 0.4, high[1] * 1.25))
    axes[0].set_title("The query meets the keys")
    axes[1].set_title("The values are mixed")


def from_scores_to_weights(scores, mask, weights, name):
    """Plot one head's scores, masked scores and attention weights; all arrays are [n, n]."""
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.4))
    limit = np.abs(scores).max()
    masked, shown = (np.where(mask < 0, np.nan, values) for values in (scores, weights))
    pictures = [
        (scores, "PuOr", -limit, "scores: every pair"),
        (masked, "PuOr", -limit, "masked: no later key"),
        (shown, "Blues", 0, "weights: rows sum to 1"),
    ]
    for axis, (values, colors, low, title) in zip(axes, pictures):
        image = axis.imshow(values, cmap=colors, vmin=low, vmax=limit if low else 1)
        axis.set(xlabel="key (position)", ylabel="query (position)", title=title)
        figure.colorbar(image, ax=axis, shrink=0.6)
    figure.suptitle(name)


def all_heads(patterns, named):
    """Plot the attention weights of all heads, and frame the heads in `named`.

    patterns: [n_layer, n_head, n, n]; named: {(layer, head): name}.
    """
    n_layer, n_head = patterns.shape[:2]
    figure, axes = plt.subplots(n_layer, n_head, figsize=(11.5, 1.75 * n_layer))
    for place, pattern in ((p, patterns[p]) for p in np.ndindex(n_layer, n_head)):
        axes[place].imshow(np.sqrt(pattern), cmap="Greys", vmin=0, vmax=1)
        axes[place].set(xticks=[], yticks=[])
        axes[place].spines[:].set_visible(True)
        if place in named:
            axes[place].spines[:].set(linewidth=3, edgecolor=lessons.RED)
            axes[place].set_xlabel(named[place], fontsize=11, color=lessons.RED, labelpad=2)
    for layer in range(n_layer):
        axes[layer, 0].set_ylabel(f"block {layer}")
    for head in range(n_head):
        axes[0, head].set_title(f"head {head}")
    figure.suptitle("Attention weights of every head (square roots, so that small ones show)")


def two_heads(patterns, tokens, *heads):
    """Plot the attention weights of two heads.

    patterns: the weights of all heads, [n_layer, n_head, n, n]; heads: two pairs (layer, head).
    """
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 5.6))
    titles = "looks most at the token before", "its last query looks at “ Max”"
    for axis, title, place in zip(axes, titles, heads):
        image = axis.imshow(patterns[place], cmap="Blues", vmin=0, vmax=1)
        axis.set_xticks(range(len(tokens)), tokens, rotation=90)
        axis.set_yticks(range(len(tokens)), tokens)
        axis.set(title=f"{title}\nblock {place[0]}, head {place[1]}", xlabel="key", ylabel="query")
    figure.colorbar(image, ax=axes, label="weight", shrink=0.6)


def heads_removed(probability, named):
    """Plot the probability of " Max" when one head is removed.

    probability: for each removed head, [n_layer, n_head]; named: {(layer, head): name}.
    """
    _, axis = plt.subplots(figsize=(8, 3.4))
    image = axis.imshow(probability, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (layer, head), value in np.ndenumerate(probability):
        name = f"\n{named[layer, head]}" if (layer, head) in named else ""
        style = {"weight": "bold" if name else "normal", "fontsize": 10}
        color = "white" if value > 0.6 else "black"
        axis.text(head, layer, f"{value:.2f}{name}", **lessons.CENTERED, color=color, **style)
    axis.set(title="P( Max) without this head", xlabel="head", ylabel="block")
    axis.set_yticks(range(len(probability)))
    plt.colorbar(image, label="probability")


def lens(probs, ids, tokenizer, depths=None):
    """Plot the best next token at each depth and position.

    probs: [depth, position, vocabulary]; depths: for each depth, how many blocks have been passed.
    By default, these numbers are 0, 1, 2 and so on.
    """
    best, certainty = probs.argmax(axis=-1), probs.max(axis=-1)
    _, axis = plt.subplots(figsize=(10, 1.0 + 0.5 * len(probs)))
    image = axis.imshow(certainty, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    for (depth, column), id in np.ndenumerate(best):
        color = "white" if certainty[depth, column] > 0.6 else "black"
        token = tokenizer.decode([id]).replace("\n", "\\n")
        axis.text(column, depth, token, **lessons.CENTERED, color=color, fontsize=10)
    axis.set_xticks(range(len(ids)), [tokenizer.decode([id]).replace("\n", "\\n") for id in ids])
    axis.set_yticks(range(len(probs)), range(len(probs)) if depths is None else depths)
    axis.set(
        title="The best next token, read from the stream at each depth",
        xlabel="input token",
        ylabel="blocks passed",
    )
    plt.colorbar(image, label="probability")


def contributions(parts, token):
    """Plot what the embedding and each block add to a token's logit.

    parts: first the embedding's part, then each block's attention and MLP, [1 + 2 * n_layer].
    """
    n_layer = len(parts) // 2
    _, axis = plt.subplots(figsize=(8.5, 3.6))
    style = {"width": 0.38, "edgecolor": "black"}
    axis.bar(-0.2, parts[0], color="lightgray", label="embedding", **style)
    place = np.arange(1, n_layer + 1)
    axis.bar(place - 0.2, parts[1::2], color=lessons.ORANGE, hatch="//", label="attention", **style)
    axis.bar(place + 0.2, parts[2::2], color=lessons.BLUE, label="MLP", **style)
    axis.axhline(0, color="black", lw=0.8)
    axis.set_xticks(range(n_layer + 1), ["input", *(f"block {i}" for i in range(n_layer))])
    axis.set(title=f"What each part adds to the logit of “{token}”", ylabel="logits")
    axis.legend()


def travel(masked, unmasked, tokens):
    """Plot how far the residual stream moves when one token of the text is changed.

    masked, unmasked: the distances with and without the causal mask, [depth, position].
    """
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9), sharey=True)
    palette = plt.get_cmap("viridis_r").with_extremes(bad="white")
    scale = {"norm": "log", "vmin": 0.1, "vmax": 30, "origin": "lower", "aspect": "auto"}
    titles = "with the causal mask", "without: everyone sees everyone"
    for axis, far, title in zip(axes, (masked, unmasked), titles):
        image = axis.imshow(np.ma.masked_equal(far, 0), cmap=palette, **scale)
        axis.set_xticks(range(len(tokens)), tokens, rotation=90)
        axis.set(title=title, xlabel="input token")
    axes[0].set_ylabel("blocks passed")
    figure.colorbar(image, ax=axes, label="distance moved (log scale)")
    figure.suptitle("One token, Max, becomes Lily: what moves? (white: nothing at all)")


def your_text(tokenizer, model, text, n=11):
    """Plot the logit lens on the last n tokens of a text, for any decoder.

    For each row of the picture, the model stops after a different number of blocks.
    """
    ids, found, n_layer = tokenizer.encode(text), [], len(model.params["blocks"])
    depths = np.unique(np.linspace(0, n_layer, 13).astype(int))  # at most 13 rows
    for depth in depths:
        early = copy.copy(model)
        early.params = {**model.params, "blocks": model.params["blocks"][:depth]}
        found.append(softmax(early(ids)[-n:]))
    lens(np.array(found), ids[-n:], tokenizer, depths)
    lessons.show(f"The best next token after 0 to {n_layer} blocks, for the end of {text!r}.")
