"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt
import numpy as np

from decoding.drafters import common_prefix


def rounds(tokenizer, found, first=0, gamma=4):
    """Draw the drafts and the tokens of each round, with one row for each round.

    found: the (drafts, tokens) of each round; first: the number of the first round; gamma: the
    maximum number of drafts in a round.
    """
    _, axis = plt.subplots(figsize=(9, 0.9 + 0.36 * len(found)))
    for y, (drafts, tokens) in enumerate(found):
        accepted = common_prefix(drafts, tokens)
        boxes = [(i, id, "✓ ", lessons.BLUE, "white") for i, id in enumerate(drafts[:accepted])]
        boxes += [(i, id, "× ", "0.93", "0.35") for i, id in enumerate(drafts) if i >= accepted]
        boxes += [(gamma + 0.2, id, "", lessons.YELLOW, "black") for id in tokens[accepted:]]
        for x, id, mark, face, color in boxes:
            token = tokenizer.decode([id]).replace("\n", "\\n").replace("$", r"\$")
            text = mark + (token.strip() or token)
            box = {"boxstyle": "round", "facecolor": face, "edgecolor": "0.6"}
            axis.text(x, y, text, **lessons.CENTERED, color=color, fontsize=10, bbox=box)
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
    return (
        f"{len(found)} rounds, a row for each. Accepted drafts are blue with a check mark, "
        "rejected ones are grey with a cross, and the model's own token is yellow, at the right. "
        f"{n_accepted} of {sum(len(drafts) for drafts, _ in found)} drafts are accepted."
    )


def timeline(large, small, alone, found, n_rounds=4):
    """Plot when each model runs. Leave out the passes over the prompt.

    large, small: the (start, end) of each model's passes in the loop with drafts.
    alone: the (start, end) of the large model's passes in the plain loop.
    found: the (drafts, tokens) of each round.
    """
    _, axis = plt.subplots(figsize=(9, 3))
    tokens = [len(round_tokens) for _, round_tokens in found]
    begin, end = large[0][1], large[n_rounds][1]
    plain = [p for p in alone[1:] if p[1] - alone[0][1] <= end - begin]
    lanes = [
        (2, [p for p in small if begin <= p[0] < end], lessons.ORANGE, "//"),
        (1, large[1 : n_rounds + 1], lessons.BLUE, ""),
        (0, plain, lessons.BLUE, ""),
    ]
    for y, passes, color, hatch in lanes:
        since = alone[0][1] if y == 0 else begin
        bars = [(1e3 * (a - since), 1e3 * (b - a)) for a, b in passes]
        axis.broken_barh(bars, (y - 0.3, 0.6), facecolor=color, hatch=hatch, edgecolor="white")
        counts = tokens[1 : n_rounds + 1] if y == 1 else [1] * len(bars)
        for (x, width), n in zip(bars, counts if y < 2 else []):
            axis.text(x + width / 2, y + 0.33, n, ha="center", va="bottom", fontsize=10)
    axis.set_yticks([2, 1, 0], ["small model", "large model", "large model,\nno drafts"])
    axis.set(xlabel="time (ms)", ylim=(-0.5, 2.7))
    made = f"{n_rounds} rounds make {sum(tokens[1 : n_rounds + 1])} tokens"
    axis.set_title(f"{made}; in this time the plain loop makes {len(plain)}")
    return (
        "Time runs to the right. With drafts, each round has a few short passes of the small model "
        f"and one of the large model. {made}; in the same time the large model alone makes "
        f"{len(plain)}."
    )


def account(names, p, q):
    """Plot the parts of the proposed distribution q, and of the resulting distribution p."""
    accepted, owed = np.minimum(p, q), np.maximum(p - q, 0)
    _, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    rejected = {"color": "0.85", "hatch": "//", "edgecolor": "0.5", "label": "rejected"}
    axes[0].bar(names, q - accepted, bottom=accepted, **rejected)
    axes[0].set(title="Proposed: q", ylabel="probability")
    residual = {"color": lessons.ORANGE, "hatch": "..", "edgecolor": "white"}
    axes[1].bar(names, owed, bottom=accepted, label="residual: max(0, p - q)", **residual)
    axes[1].set_title("Resulting: p")
    for axis in axes:
        axis.bar(names, accepted, color=lessons.BLUE, label="accepted: min(p, q)")
        axis.set_xticks(range(len(names)), names, rotation=60, ha="right")
        axis.legend(frameon=False)
    return (
        "Two bar charts over the same tokens. On the left, the part of q over p is rejected. On "
        "the right, the same accepted part and the residual on top of it make up p."
    )


def hill(scatter, values):
    """Plot a histogram of chi-squares of draws from p, and a line for the chi-square of each rule.

    scatter: the chi-squares of counts that were drawn from p; values: {rule: its chi-square}.
    """
    _, axis = plt.subplots(figsize=(9, 3.2))
    axis.hist(scatter, np.geomspace(0.1, 1e5, 150), color="0.7")
    axis.set(title=r"$\chi^2$ of each rule, and of honest counts (grey)", xscale="log")
    axis.set(xlabel=r"$\chi^2$ (log scale)", ylabel="honest repetitions")
    axis.set_ylim(0, 1.5 * axis.get_ylim()[1])
    colors, sides = (lessons.BLUE, lessons.RED, lessons.PURPLE), ("left", "left", "right")
    for (name, value), color, style, side in zip(values.items(), colors, ("-", "--", ":"), sides):
        axis.axvline(value, color=color, linestyle=style, linewidth=2)
        x, top = value * (1.1 if side == "left" else 0.9), axis.get_ylim()[1]
        axis.text(x, top, name, color=color, va="top", ha=side)
    places = ", ".join(f"{name} at {value:.0f}" for name, value in values.items())
    return f"The chi-square of honest counts as a grey hill, and a line for each rule: {places}."


def gains(rates, gammas, per_pass, faster, b):
    """Plot tokens per pass and speed-ups, as measured and as expected by the formula.

    per_pass: {(rate, gamma): a list with the tokens per pass of each text}.
    faster: {(rate, gamma): the measured speed-up}.
    b: {gamma: the time of a pass over gamma + 1 tokens}, where a pass over one token takes 1.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    curve = np.arange(0, 9)
    for rate, color, marker in zip(rates, (lessons.BLUE, lessons.RED), "os"):
        E = np.cumsum(rate**curve)  # 1 + a + ... + a ** gamma
        left.plot(curve, E, "--", color=color, linewidth=1)
        found = [per_pass[rate, g] for g in gammas]
        errors = [2 * np.std(runs, ddof=1) / len(runs) ** 0.5 for runs in found]
        style = {"fmt": marker, "color": color, "capsize": 4, "label": f"a = {rate}"}
        left.errorbar(gammas, np.mean(found, axis=1), errors, **style)
        right.plot(gammas, [E[g] / b[g] for g in gammas], "--", color=color, linewidth=1)
        right.plot(gammas, [faster[rate, g] for g in gammas], marker, color=color)
    left.set(title="Tokens per pass", ylabel="tokens")
    left.legend(frameon=False)
    right.set(title="Speed-up over the cached loop", ylabel="times", ylim=(0, None))
    right.axhline(1, color="0.6", linewidth=0.8)
    for axis in (left, right):
        axis.set(xlabel=r"$\gamma$ (drafts per pass)", xticks=curve)
    figure.suptitle("Expected (dashed) and measured (points)")
    best = {rate: max(gammas, key=lambda g, rate=rate: faster[rate, g]) for rate in rates}
    text = "; ".join(
        f"a = {rate}: {faster[rate, g]:.2f} times at gamma = {g}" for rate, g in best.items()
    )
    return (
        "Left: tokens per pass against gamma, as points with error bars beside the curves of the "
        f"formula. Right: the speed-up, expected and measured. The fastest are {text}."
    )


def histogram(rates):
    """Plot a histogram of acceptance rates; rates: the rate at each position of a story, [n]."""
    _, axis = plt.subplots(figsize=(8, 3))
    axis.hist(rates, np.linspace(0, 1, 21), color=lessons.SKY, edgecolor="white")
    axis.axvline(rates.mean(), color="black", linestyle="--", label=f"mean {rates.mean():.2f}")
    axis.set_title("Acceptance rate of the small model's draft (temperature 0.8)")
    axis.set(xlabel="a", ylabel="positions")
    axis.legend(frameon=False, loc="upper center")
    counts, _ = np.histogram(rates, 20, (0, 1))
    return (
        "A histogram of the acceptance rate over the positions of a story. The mean is "
        f"{rates.mean():.2f}. The bar next to 1 holds {counts[-1]} of {len(rates)} positions, and "
        f"no other holds more than {counts[:-1].max()}."
    )


def free(penalties, found):
    """Plot tokens per pass as bars; found: {(repetition penalty, drafter): tokens per pass}."""
    _, axis = plt.subplots(figsize=(9.5, 3.8))
    names = list(dict.fromkeys(name for _, name in found))
    colors = (lessons.BLUE, lessons.ORANGE, lessons.GREEN, lessons.PURPLE)
    for i, (name, color, hatch) in enumerate(zip(names, colors, ("", "//", "..", "xx"))):
        heights = [found[penalty, name] for penalty in penalties]
        style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": name}
        bars = axis.bar(np.arange(len(penalties)) + 0.2 * i - 0.3, heights, 0.19, **style)
        axis.bar_label(bars, fmt="%.1f", fontsize=10)
    axis.set_xticks(range(len(penalties)), [f"repetition penalty {p}" for p in penalties])
    axis.set(title="Tokens per pass, with at most 4 drafts", ylabel="tokens", ylim=(0, 4.4))
    axis.legend(frameon=False, ncols=2, loc="upper left")
    rows = "; ".join(
        f"{name}: " + ", ".join(f"{found[p, name]:.1f}" for p in penalties) for name in names
    )
    return f"Tokens per pass at the penalties {', '.join(map(str, penalties))}. {rows}."
