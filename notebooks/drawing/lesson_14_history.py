"""The pictures of lesson 14. Each function returns its picture's alternative text."""

import lessons
import matplotlib.pyplot as plt

COUNTED = "frequency", "given", "zlib", "lzma"


def strip(named, title):
    """A bar of bits per byte for each model, {name: bits}; counts in another colour."""
    _, axis = plt.subplots(figsize=(8, 0.42 * len(named) + 1))
    colors = [lessons.SKY if any(word in name for word in COUNTED) else lessons.BLUE
              for name in named]  # fmt: skip
    bars = axis.barh(list(named), list(named.values()), color=colors)
    axis.bar_label(bars, fmt=" %.2f")
    axis.invert_yaxis()
    axis.set(xlabel="bits per byte of the same text: less is better", title=title,
             xlim=(0, 1.1 * max(named.values())))  # fmt: skip
    bits = "; ".join(f"{name.strip()}: {value:.2f}" for name, value in named.items())
    return f"Bars of bits per byte, all on the same text. {bits}."


def sizes(bits, low, high):
    """Published bits per byte, {millions of parameters: bits}, and the bounds of another text."""
    _, axis = plt.subplots(figsize=(8, 3.4))
    axis.semilogx(list(bits), list(bits.values()), "o-", label="GPT-2 on enwik8, per byte")
    axis.axhspan(low, high, facecolor=lessons.YELLOW, alpha=0.25, hatch="//", edgecolor="0.7",
                 label="people on a novel, per letter (1951): not the same text")  # fmt: skip
    for x, y in bits.items():
        axis.annotate(f"{y}", (x, y), (0, 7), textcoords="offset points", ha="center")
    axis.set_xticks(list(bits), [f"{n:,} M" for n in bits])
    axis.minorticks_off()
    axis.set(ylim=(0, 1.6), xlabel="parameters (logarithmic)", ylabel="bits")
    axis.legend(loc="lower left")
    values = ", ".join(f"{y} with {x} million parameters" for x, y in bits.items())
    return (
        f"Bits per byte of the four GPT-2 sizes on enwik8: {values}. A hatched band from {low} to "
        f"{high} bits per letter is marked as measured on another text."
    )
