"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np

from decoding.drafters import common_prefix

YES, NO = (lessons.BLUE, "white"), ("0.93", "0.35")  # a box and its text: an accepted draft, or not
OWN, KNOWN, CACHED = (lessons.YELLOW, "black"), ("white", "black"), (lessons.SKY, "black")


def rounds(tokenizer, found, first=0, gamma=4):
    """Draw the drafts and the tokens of each round, with one row for each round.

    found: the (drafts, tokens) of each round; first: the number of the first round; gamma: the
    maximum number of drafts in a round.
    """
    _, axis = plt.subplots(figsize=(9, 0.9 + 0.36 * len(found)))
    for y, (drafts, tokens) in enumerate(found):
        accepted = common_prefix(drafts, tokens)
        for i, id in enumerate(drafts):
            mark, look = ("✓ ", YES) if i < accepted else ("× ", NO)
            box(axis, i, y, tokenizer.decode([id]), look, mark)
        for id in tokens[accepted:]:
            box(axis, gamma + 0.2, y, tokenizer.decode([id]), OWN)
        if not drafts:
            axis.text(0, y, "(no drafts)", **lessons.CENTERED, color="0.35", fontsize=10)
    axis.set(xlim=(-0.6, gamma + 0.8), ylim=(len(found) - 0.4, -0.6), ylabel="round")
    axis.set_yticks(range(len(found)), range(first, first + len(found)))
    labels = [f"draft {i + 1}" for i in range(gamma)] + ["the model's own"]
    axis.set_xticks([*range(gamma), gamma + 0.2], labels)
    axis.xaxis.tick_top()
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_title("✓ accepted (blue), × rejected (grey), the model's own token (yellow)", pad=12)
    n_accepted = sum(common_prefix(*pair) for pair in found)
    n_drafts = sum(len(drafts) for drafts, _ in found)
    return f"{len(found)} rounds: {n_accepted} of {n_drafts} drafts accepted."


def box(axis, x, y, token, look, mark=""):
    """Draw a token in a box with these two colours."""
    face, color = look
    token = token.replace("\n", "\\n").replace("$", r"\$")
    text = mark + (token.strip() or token)
    style = {"boxstyle": "round", "facecolor": face, "edgecolor": "0.6"}
    axis.text(x, y, text, **lessons.CENTERED, color=color, fontsize=10, bbox=style)


def one_round(tokenizer, text, drafts, best, n_accepted):
    """Draw a round: the text, the large model's cache, the ids that it reads, and their logits.

    best: the best token of each row of logits.
    """
    n, n_read = len(text), len(text) + len(drafts)
    own = best[n_accepted]
    accepted = [YES] * n_accepted
    rejected = [NO] * (len(drafts) - n_accepted)
    lanes = {  # name: (the position of its first box, ids, looks)
        "text": (0, text, [KNOWN] * n),
        "cache before the pass": (0, text[:-1], [CACHED] * (n - 1)),
        "the model reads": (n - 1, [text[-1], *drafts], [KNOWN, *accepted, *rejected]),
        "best token of its row": (n - 1, best, [*accepted, OWN, *rejected]),
        "cache after the pass": (0, [*text, *drafts], [CACHED] * (n + n_accepted) + rejected),
        "text after the round": (
            0,
            [*text, *drafts[:n_accepted], own],
            [KNOWN] * n + accepted + [OWN],
        ),
    }
    _, axis = plt.subplots(figsize=(9.5, 3.6))
    for y, (first, ids, looks) in enumerate(lanes.values()):
        for x, id, (face, color) in zip(range(first, n_read), ids, looks):
            hatch = "//" if y == 4 and x >= n + n_accepted else ""  # it is cut
            place = x + 0.04, y - 0.36
            axis.add_patch(plt.Rectangle(place, 0.92, 0.72, fc=face, hatch=hatch, ec="0.6"))
            token = tokenizer.decode([id]).strip()
            axis.text(x + 0.5, y, token, **lessons.CENTERED, color=color, fontsize=10)
    for x in range(n, n_read):
        arrow = {"arrowstyle": "->", "color": "0.4"}
        axis.annotate("", (x + 0.3, 2.4), (x - 0.3, 2.64), arrowprops=arrow)
    axis.set(xlim=(0, n_read), ylim=(5.5, -0.5), xlabel="position")
    axis.set_xticks(np.arange(n_read) + 0.5, range(n_read))
    axis.set_yticks(range(len(lanes)), list(lanes))
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_title("Blue: accepted; grey: rejected and cut; yellow: the model's own token")
    return f"{n_accepted} drafts are accepted, so {n + n_accepted} tokens stay in the cache."


def timeline(large, small, alone, found, n_rounds=4):
    """Plot when each model runs. Leave out the passes over the prompt.

    large, small: the (start, end) of each model's passes in the loop with drafts.
    alone: the (start, end) of the large model's passes in the plain loop.
    found: the (drafts, tokens) of each round.
    """
    _, axis = plt.subplots(figsize=(9, 3))
    counts = [len(tokens) for _, tokens in found[1 : n_rounds + 1]]
    begin, end = large[0][1], large[n_rounds][1]
    begin_alone = alone[0][1]
    plain = [p for p in alone[1:] if p[1] - begin_alone <= end - begin]
    drafting = [p for p in small if begin <= p[0] < end]
    lanes = [  # y, passes, when they begin, how many tokens each makes, colour, hatch
        (2, drafting, begin, [], lessons.ORANGE, "//"),
        (1, large[1 : n_rounds + 1], begin, counts, lessons.BLUE, ""),
        (0, plain, begin_alone, [1] * len(plain), lessons.BLUE, ""),
    ]
    for y, passes, since, each, color, hatch in lanes:
        bars = [(1e3 * (a - since), 1e3 * (b - a)) for a, b in passes]
        axis.broken_barh(bars, (y - 0.3, 0.6), facecolor=color, hatch=hatch, edgecolor="white")
        for (x, width), n in zip(bars, each):
            axis.text(x + width / 2, y + 0.33, n, ha="center", va="bottom", fontsize=10)
    axis.set_yticks([2, 1, 0], ["small model", "large model", "large model,\nno drafts"])
    axis.set(xlabel="time (ms)", ylim=(-0.5, 2.7))
    made = f"{n_rounds} rounds make {sum(counts)} tokens"
    axis.set_title(f"{made}; in this time the plain loop makes {len(plain)}")
    return f"{made}; in the same time the large model alone makes {len(plain)}."


def account(names, p, q):
    """Plot the parts of the proposed distribution q, and of the resulting distribution p."""
    accepted, owed = np.minimum(p, q), np.maximum(p - q, 0)
    _, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    rejected = {"color": "0.85", "hatch": "//", "edgecolor": "0.5", "label": "rejected"}
    left.bar(names, q - accepted, bottom=accepted, **rejected)
    left.set(title="Proposed: q", ylabel="probability")
    residual = {"color": lessons.ORANGE, "hatch": "..", "edgecolor": "white"}
    right.bar(names, owed, bottom=accepted, label="residual: max(0, p - q)", **residual)
    right.set_title("Resulting: p")
    for axis in left, right:
        axis.bar(names, accepted, color=lessons.BLUE, label="accepted: min(p, q)")
        axis.set_xticks(range(len(names)), names, rotation=60, ha="right")
        axis.legend(frameon=False)
    return "Left: the part of q over p is rejected. Right: accepted part and residual make up p."


def histogram(rates):
    """Plot a histogram of acceptance rates; rates: the rate at each position of a story, [n]."""
    _, axis = plt.subplots(figsize=(8, 3))
    axis.hist(rates, np.linspace(0, 1, 21), color=lessons.SKY, edgecolor="white")
    axis.axvline(rates.mean(), color="black", linestyle="--", label=f"mean {rates.mean():.2f}")
    axis.set_title("Acceptance rate of the small model's draft (temperature 0.8)")
    axis.set(xlabel="a", ylabel="positions")
    axis.legend(frameon=False, loc="upper center")
    counts, _ = np.histogram(rates, 20, (0, 1))
    return f"Acceptance rates: mean {rates.mean():.2f}, and {counts[-1]} of {len(rates)} next to 1."
