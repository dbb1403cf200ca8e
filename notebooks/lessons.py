"""What the notebooks share: where the project is, how pictures look, and the check of an exercise.

A notebook imports this first of all: it makes the project's own files importable.
"""

import statistics
import sys
import textwrap
import time
import traceback
from pathlib import Path

import matplotlib.pyplot as plt

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

# Okabe and Ito's colours, which colour-blind readers tell apart, and print too.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#000000"

plt.rcParams.update({
    "figure.figsize": (8, 3.6), "figure.dpi": 100, "savefig.bbox": "tight", "font.size": 11,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK]),
    "axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True,
})  # fmt: skip


def check(test):
    """Decorates a function of asserts about the reader's answer: runs it, and says what is missing,
    or which line failed, instead of stopping the notebook."""
    try:
        test()
    except Exception as error:  # an answer that is not there yet may fail in any way
        print(f"not solved yet: {explanation(error)}")
    else:
        print("solved")


def explanation(error):
    """What an assert says, if it says something; of other errors the line, too."""
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if "site-packages" not in line.filename][-1]
    return f"{type(error).__name__}: {error} (line {own.lineno}: {own.line})"


def medians(actions, rounds=5):
    """{name: function of nothing} -> {name: its median seconds}. They take turns, so that whatever
    else the machine does in the meantime meets them all; a first round, not timed, warms up."""
    times = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def paragraph(text):
    """Prints what a model wrote as one indented paragraph."""
    print(textwrap.indent(textwrap.fill(" ".join(text.split()), width=92), "    "))


def tiny_model(n_vocab, seed, n_embd=8, scale=0.6):
    """A GPT-2 with random weights, so small that every text over its vocabulary can be tried."""
    from loading.layouts import random_gpt2

    return random_gpt2(n_vocab, 16, n_embd, 2, 2, scale, seed, tied=False)
