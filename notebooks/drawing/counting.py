"""Pictures. Each function returns the alternative text of its picture."""

import matplotlib.pyplot as plt
import numpy as np


def terms(name, shape, n_ctx):
    """Plot the FLOPs for one token at each position, with a line for each term of the formula."""
    blocks, d, n_vocab = shape
    n = np.geomspace(1, 100_000, 200)
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(9, 3.8))
    titles = "naive: a pass over all n", "cached: a pass over one"
    for axis, title, n_new in zip(axes, titles, (n, np.ones_like(n))):
        axis.loglog(n, 24 * blocks * d**2 * n_new, label="weight matrices")
        axis.loglog(n, 4 * blocks * d * n * n_new, "--", label="attention")
        axis.loglog(n, np.full_like(n, 2 * d * n_vocab), ":", label="logits")
        axis.axvspan(n_ctx, n[-1], color="0.92", zorder=0)
        axis.axvline(6 * d, color="0.5", linewidth=1)
        axis.text(6 * d, 2e5, " n = 6d", color="0.3")
        axis.set(title=title, xlabel="position n (tokens)")
    axes[0].set_ylabel("FLOPs for one token")
    axes[0].legend(frameon=False, loc="upper left")
    figure.suptitle(f"{name}: attention is the larger term only past the context (grey)")
    return f"FLOPs of a token by its position. Attention crosses the matrices at 6 d = {6 * d}."


def clocks(positions, naive, cached):
    """Plot the time of each token, and of all tokens so far.

    naive, cached: the seconds that each token takes, [n].
    """
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for name, times, marker in ("naive", naive, "o"), ("cached", cached, "s"):
        axes[0].plot(positions, 1e3 * times, marker, markersize=3, label=name)
        axes[1].loglog(positions, np.cumsum(times), marker, markersize=3, label=name)
    axes[0].set(title="One token", ylabel="time (ms)", ylim=(0, None))
    axes[1].set(title="All tokens so far (logarithmic)", ylabel="time (s)")
    ticks = [5, 10, 20, 50, 100]
    axes[1].set_xticks(ticks, ticks)
    axes[1].minorticks_off()
    for axis in axes:
        axis.set_xlabel("position (tokens)")
        axis.legend(frameon=False, loc="upper left")
    return "The time by the position, of one token and of all so far."


def saving(positions, counted, measured):
    """Plot the ratio naive / cached at each position.

    counted: the ratios of the FLOPs; measured: the ratios of the times.
    """
    _, axis = plt.subplots(figsize=(8, 3.6))
    axis.loglog(positions, counted, "--", color="0.4", label="FLOPs, counted")
    axis.loglog(positions, measured, "o", markersize=4, label="time, measured")
    axis.set(title="What the cache saves for one token", xlabel="position (tokens)")
    axis.set_ylabel("naive / cached (times)")
    axis.legend(frameon=False, loc="upper left")
    return f"The cache saves {counted[-1]:.0f} times the FLOPs, {measured[-1]:.1f} times the time."


def saving_of(model, ids, recorded_flops, fastest, every=8):
    """Measure and plot what the cache saves at token number `every`, 2 * `every`, and so on.

    recorded_flops(model, ids, ...): returns the FLOPs of a pass; fastest: lessons.fastest.
    """
    lengths = [*range(every, len(ids) + 1, every)] or [len(ids)]
    counted, measured = [], []
    for n in lengths:
        cache = model.new_cache(1)
        model(ids[None, : n - 1], cache)

        def step(cache=cache, n=n):
            """Run the pass over token n. Then cut the cache, so that the pass can run again."""
            model(ids[None, n - 1 : n], cache, last=1)
            cache.cut(n - 1)

        times = fastest({"naive": lambda n=n: model(ids[:n], last=1), "cached": step})
        measured.append(times["naive"] / times["cached"])
        works = [recorded_flops(model, ids[:n], last=1)]
        works.append(recorded_flops(model, ids[None, n - 1 : n], cache, last=1))
        counted.append(works[0] / works[1])
    return saving(lengths, counted, measured)
