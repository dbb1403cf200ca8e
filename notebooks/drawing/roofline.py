"""Pictures. Each function returns the alternative text of its picture."""

import functools

import lessons
import matplotlib.pyplot as plt
import numpy as np

from page.recorder import counted


def limits(sizes, prefill, batch, reading, computing):
    """Plot the measured times of passes over n tokens, and the least possible times.

    prefill, batch: {n: measured seconds}; reading, computing: the least seconds for each size.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
    n = np.array(sizes)
    axes[0].plot(n, 1e3 * reading, "--", color="0.5", label="reading, at least")
    axes[0].plot(n, 1e3 * computing, ":", color="0.3", label="computing, at least")
    axes[1].plot(n, n / np.maximum(reading, computing), "--", color="0.5", label="at most")
    for name, times, marker in ("prefill", prefill, "o"), ("batch", batch, "s"):
        m, seconds = np.array(list(times)), np.array([*times.values()])
        axes[0].plot(m, 1e3 * seconds, f"{marker}-", markersize=5, label=name)
        axes[1].plot(m, m / seconds, f"{marker}-", markersize=5, label=name)
    axes[0].set(title="Time of a pass (ms)", yscale="log")
    axes[1].set(title="Tokens per second", ylim=(0, None))
    for axis in axes:
        axis.set(xlabel="tokens in the pass", xscale="log")
        axis.set_xticks(n, n)
        axis.minorticks_off()
        axis.legend(frameon=False, loc="upper left")
    return "The time of a pass and the tokens per second, by the tokens in the pass."


def roof(found, bandwidth, peak):
    """Plot a roofline with measured points, in a separate panel for each kind of pass.

    found: {kind of pass: {n: (FLOPs per byte, FLOPs per second)}}; bandwidth: bytes per second;
    peak: FLOPs per second.
    """
    figure, axes = plt.subplots(1, len(found), figsize=(9.5, 4.2), sharey=True, squeeze=False)
    intensity = np.geomspace(0.2, 300, 100)
    ridge = peak / bandwidth
    limit = np.minimum(bandwidth * intensity, peak)
    styles = ("o", lessons.BLUE), ("s", lessons.RED)
    for axis, (name, points), (marker, color) in zip(axes[0], found.items(), styles):
        axis.loglog(intensity, limit / 1e9, color="0.3")
        axis.text(300, 1.15 * peak / 1e9, "limit: arithmetic", color="0.3", ha="right")
        axis.text(ridge / 3, peak / 2.6e9, "limit: memory", color="0.3", ha="right")
        style = {"textcoords": "offset points", "ha": "center", "color": color}
        for n, (x, rate) in points.items():
            axis.plot(x, rate / 1e9, marker, color=color)
            axis.annotate(n, (x, rate / 1e9), (0, -16), **style)
        axis.set(title=name, xlabel="intensity (FLOPs per byte read)")
    low = min(rate for points in found.values() for _, rate in points.values())
    axes[0, 0].set_ylabel("rate (GFLOP/s)")
    axes[0, 0].set_ylim(low / 2.5e9, peak / 1e9 * 1.8)
    ends = []
    for name, points in found.items():
        most = max(rate for _, rate in points.values()) / 1e9
        ends.append(f"{name}: from {min(points)} to {max(points)}, up to {most:.0f} GFLOP/s")
    return f"A slope, a flat roof at {peak / 1e9:.0f}, and points. {'; '.join(ends)}."


def roof_of(model, ids, bandwidth, peak):
    """Measure a text's prefills and one cached step, and plot them with a roofline.

    The prefills are passes over the first 1, 2, 4, ... tokens of the text.
    """
    found = {"prefill of n tokens": {}, "a cached step at position n": {}}
    longest = 2 ** (len(ids).bit_length() - 1)
    for n in (2**i for i in range(len(ids).bit_length())):
        cache = model.new_cache(1)
        if n > 1:
            model(np.array([ids[: n - 1]]), cache, last=1)

        def step(cache=cache, n=n):
            """Run the pass over token n. Then cut the cache, so that the pass can run again."""
            logits = model(np.array([ids[n - 1 : n]]), cache, last=1)
            cache.cut(n - 1)
            return logits

        whole = functools.partial(model, np.array([ids[:n]]), last=1)
        actions = (whole, step) if n == longest else (whole,)
        for points, action in zip(found.values(), actions):
            _, work, read = counted(model, action)
            points[n] = work / read, work / lessons.fastest({0: action})[0]
    roof(found, bandwidth, peak)
    prefill, cached = (points[longest][1] / 1e9 for points in found.values())
    return f"A prompt of {longest} runs at {prefill:.0f} GFLOP/s, a cached step at {cached:.1f}."
