"""Helpers for the notebooks: show pictures, check exercises, time and print code, generate texts.

A notebook imports this module first, because the module makes the project's files importable.
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

# Okabe and Ito's colours: colour-blind readers can distinguish them.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#000000"

CENTERED = {"ha": "center", "va": "center"}  # centre a text on its coordinates
DPI = 150  # displayed at 100 dpi, so pictures stay sharp on a projector
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
    """Display a figure, by default the current one; alt: the text that describes it."""
    figure, file = figure or plt.gcf(), io.BytesIO()
    figure.savefig(file, format="png")
    plt.close(figure)
    n_pixels = int.from_bytes(file.getvalue()[16:20], "big")  # the width in a PNG's header
    display(Image(file.getvalue(), alt=alt, width=n_pixels * 100 // DPI))


def replaced(module, **functions):
    """Return a context manager in which a module calls these functions instead of its own."""
    return mock.patch.multiple(module, **functions) if functions else contextlib.nullcontext()


def check(lesson, number, *answers):
    """Print "solved", or say what is missing. Raise no error, so that the notebook runs on.

    answers: the reader's functions. exercise_NUMBER in checks/lesson_LESSON.py tests them.
    """
    test = getattr(importlib.import_module(f"checks.lesson_{lesson}"), f"exercise_{number}")
    try:
        test(*answers)
    except Exception as error:  # an unfinished answer can raise any error
        print(f"not solved yet: {explanation(error)}")
    else:
        print("solved")


def explanation(error):
    """Return the message of an assert; for any other error, add its type and the reader's line."""
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
    """Time functions without arguments: {name: function} -> {name: median seconds}."""
    return {name: statistics.median(found) for name, found in timed(actions, rounds).items()}


def fastest(actions, rounds=7):
    """Time functions that always do the same work: {name: function} -> {name: least seconds}.

    Other programs can only lengthen a run, so the shortest run comes closest to the work itself.
    """
    return {name: min(found) for name, found in timed(actions, rounds).items()}


def timed(actions, rounds):
    """Time functions without arguments: {name: function} -> {name: seconds of each round}.

    The functions take turns, so that other programs slow all of them alike. A first round warms up
    and is not timed.
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

    A comment that does not fit beside its line of code is printed above the line. With
    signature=False, only the function's body is printed.
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

    The line breaks after a space or an opening parenthesis, if possible outside a string. A string
    that must be split is closed at the break and opened again in the next part.
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

    Stop ids do not end a text, so every text has n new tokens.
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
    """Continue each prompt by n tokens, even past a stop id -> ids [n_prompts, n].

    seeds: one for each prompt.
    """
    from decoding.batching import continuous
    from generate import Sequence

    sequences = [Sequence(model, prompt, n, sampler, seed) for prompt, seed in zip(prompts, seeds)]
    for sequence in sequences:
        sequence.stop_ids = ()
    list(continuous(sequences, max_rows=40))
    return np.array([sequence.new_ids for sequence in sequences])


def tiny_model(n_vocab, seed, n_embd=8, scale=0.6):
    """Return a random GPT-2 with a context of 16 tokens, small enough to try all texts."""
    from training.untrained import random_gpt2

    return random_gpt2(n_vocab, 16, n_embd, 2, 2, scale, seed, tied=False)
