"""Helpers for the notebooks: pictures, checks of exercises, timing, printed code, texts of a model.

A notebook imports this module first, because it makes the project's own files importable.
"""

import ast
import contextlib
import importlib
import inspect
import io
import json
import statistics
import sys
import textwrap
import time
import traceback
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
from IPython import get_ipython
from IPython.display import Image, display

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

# Okabe and Ito's colours: colour-blind readers can distinguish them, and they print well.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#000000"

CENTERED = {"ha": "center", "va": "center"}  # a text's place is its middle
DPI = 150  # saved pictures are shown at 100 dpi and stay sharp when projected
plt.rcParams.update(
    {
        "figure.figsize": (8, 3.6),
        "figure.dpi": 100,
        "savefig.dpi": DPI,
        "savefig.bbox": "tight",
        "font.size": 11,
        "axes.titlesize": 11,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "legend.fontsize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK]),
        "figure.constrained_layout.use": True,
    }
)


def show(alt, figure=None):
    """Display this figure, or else the current one, with an alternative text that describes it."""
    figure, file = figure or plt.gcf(), io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    n_pixels = int.from_bytes(file.getvalue()[16:20], "big")  # the width in a PNG's header
    display(Image(file.getvalue(), alt=alt, width=n_pixels * 100 // DPI))


def replaced(module, **functions):
    """Let a module call these functions instead of its own, in a `with` statement."""
    return mock.patch.multiple(module, **functions) if functions else contextlib.nullcontext()


def check(lesson, number, *answers):
    """Print "solved", or what the answers to an exercise still lack; the notebook always goes on.

    The check is a function of asserts, exercise_NUMBER(*answers) in checks/lesson_LESSON.py.
    """
    test = getattr(importlib.import_module(f"checks.lesson_{lesson}"), f"exercise_{number}")
    try:
        test(*answers)
    except Exception as error:  # a missing answer may fail in any way
        print(f"not solved yet: {explanation(error)}")
    else:
        print("solved")


def explanation(error):
    """Return an assert's message, or another error with the reader's own line, if there is one."""
    if isinstance(error, AssertionError):
        return str(error)
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if "ipykernel" in line.filename or line.filename[0] == "<"]
    place = f" (line {own[-1].lineno}: {own[-1].line})" if own else ""
    return f"{type(error).__name__}: {error}{place}"


def ours(lesson, cell):
    """Print and run a cell that the class edition leaves empty, for a reader who gives up."""
    notebook = json.loads((PROJECT / f"notebooks/{lesson}.ipynb").read_text(encoding="utf-8"))
    [source] = ["".join(c["source"]) for c in notebook["cells"] if c["id"] == cell]
    print(source)
    get_ipython().run_cell(source)


def medians(actions, rounds=5):
    """Time functions without arguments: {name: function} -> {name: its median seconds}."""
    return {name: statistics.median(found) for name, found in timed(actions, rounds).items()}


def fastest(actions, rounds=7):
    """Time functions that always do the same work: {name: function} -> {name: its least seconds}.

    Load on the machine only ever adds to a time, so the least one is the nearest to the work's own.
    """
    return {name: min(found) for name, found in timed(actions, rounds).items()}


def timed(actions, rounds):
    """Time functions without arguments: {name: function} -> {name: the seconds of each round}.

    The functions take turns, so that other load on the machine affects them all. The first round
    is a warm-up and is not timed.
    """
    times = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return times


def paragraph(text):
    """Print a text as one indented paragraph of at most 76 columns."""
    print(textwrap.indent(textwrap.fill(" ".join(text.split()), width=72), "    "))


def source(function, signature=True):
    """Print a function without its docstring, in at most 79 columns.

    A comment that does not fit beside its line is printed above it.
    signature: False prints the function's body alone.
    """
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    body = ast.parse("\n".join(lines)).body[0].body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        del lines[body[0].lineno - 1 : body[1].lineno - 1]
    if not signature:
        lines = textwrap.dedent("\n".join(lines[body[0].lineno - 1 :])).splitlines()
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) > 79 and "# " in line:
            line, comment = line.split("# ", 1)
            begin = f"{indent}# "
            print(textwrap.fill(comment, 79, initial_indent=begin, subsequent_indent=begin))
        if line.strip() or not indent:
            print("\n".join(broken(line.rstrip())))


def broken(line, width=79):
    """Yield a line of code in parts of at most `width` columns.

    A break comes after a space or an opening parenthesis, and outside a string if possible. A
    string that has to be broken is closed, and opened again in the next line.
    """
    indent = len(line) - len(line.lstrip()) + 4
    while len(line) > width:
        ends = [i for i in range(indent + 1, width) if line[i - 1] in " ("]
        if line.lstrip().startswith("def "):  # break between parameters
            ends = [i for i in ends if line[i - 2] == ","] or ends
        end = max(ends, key=lambda i: (line[:i].count('"') % 2 == 0, i))
        begin, rest = line[:end].rstrip(), line[end:]
        if line[:end].count('"') % 2:
            is_f = line[line.rindex('"', 0, end) - 1] == "f"
            begin, rest = line[:end] + '"', "f" * is_f + '"' + rest
        yield begin
        line = " " * indent + rest
    yield line


def continuations(model, prompt, sampler, n_texts, n):
    """Continue one prompt n_texts times in one batch, with seeds 0, 1, ... -> ids [n_texts, n].

    A stop id does not end a text here, so that every text has n tokens.
    """
    from generate import advance
    from samplers import draw

    ids, cache = np.tile(prompt, (n_texts, 1)), model.new_cache(n_texts)
    rngs = [np.random.default_rng(seed) for seed in range(n_texts)]
    for _ in range(n):
        logits = advance(model, ids, cache)  # [n_texts, n_vocab]
        drawn = [draw(sampler(row, text), rng) for row, text, rng in zip(logits, ids, rngs)]
        ids = np.column_stack([ids, drawn])
    return ids[:, len(prompt) :]


def continued(model, prompts, sampler, seeds, n):
    """Continue each prompt by n tokens, even past a stop id -> ids [n_prompts, n]."""
    from decoding.batching import continuous
    from generate import Sequence

    sequences = [Sequence(model, prompt, n, sampler, seed) for prompt, seed in zip(prompts, seeds)]
    for sequence in sequences:
        sequence.stop_ids = ()
    list(continuous(sequences, max_rows=40))
    return np.array([sequence.new_ids for sequence in sequences])


def tiny_model(n_vocab, seed, n_embd=8, scale=0.6):
    """Return a random GPT-2 with a context of 16 tokens, so small that all texts can be tried."""
    from training.untrained import random_gpt2

    return random_gpt2(n_vocab, 16, n_embd, 2, 2, scale, seed, tied=False)
