"""Pictures. Each function returns the alternative text of its picture."""

import lessons
import matplotlib.pyplot as plt

COUNTED = "frequency", "given", "zlib", "lzma"  # parts of the names of models that are not neural


def strip(named, title):
    """Plot each model's bits per byte as a bar, lighter for models that are not neural.

    named: {name of a model: bits per byte}.
    """
    _, axis = plt.subplots(figsize=(8, 0.42 * len(named) + 1))
    counted = [any(word in name for word in COUNTED) for name in named]
    colors = [lessons.SKY if counts else lessons.BLUE for counts in counted]
    bars = axis.barh(list(named), list(named.values()), color=colors)
    axis.bar_label(bars, fmt=" %.2f")
    axis.invert_yaxis()
    axis.set(title=title, xlim=(0, 1.1 * max(named.values())))
    axis.set_xlabel("bits per byte of the same text: less is better")
    return "Bars of bits per byte, all on the same text."


def sizes(bits, low, high):
    """Plot bits per byte against the number of parameters, and a band for human readers.

    bits: {millions of parameters: bits per byte}; low, high: the edges of the band.
    """
    _, axis = plt.subplots(figsize=(8, 3.4))
    axis.semilogx(list(bits), list(bits.values()), "o-", label="GPT-2 on enwik8, per byte")
    style = {"facecolor": lessons.YELLOW, "alpha": 0.25, "hatch": "//", "edgecolor": "0.7"}
    people = "people on a novel, per letter (1951): not the same text"
    axis.axhspan(low, high, label=people, **style)
    for x, y in bits.items():
        axis.annotate(f"{y}", (x, y), (0, 7), textcoords="offset points", ha="center")
    axis.set_xticks(list(bits), [f"{n:,} M" for n in bits])
    axis.minorticks_off()
    axis.set(ylim=(0, 1.6), xlabel="parameters (logarithmic)", ylabel="bits")
    axis.legend(loc="lower left")
    return f"Bits by millions of parameters. A band for people: {low} to {high}."
