"""Tests of the first lessons. Their own step agrees with the model."""

import base64
import copy
import importlib
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

import utils

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402

LESSONS = "forward_pass", "tokens", "factorization", "loop_and_cache"
TOKENIZER, MODEL = utils.load("stories")
PROMPT = TOKENIZER.encode("Once upon a time")


def cells(lesson, *ids):
    """Run a notebook's imports and the cells with these ids. Return {name: value} for all that they
    define."""
    notebook = nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    names: dict = {}
    for id in ("imports", *ids):
        exec(source[id], names)
    return names


def test_the_lesson_s_own_step_agrees_with_the_model():
    names = cells("loop_and_cache", "pass", "step")
    shape = MODEL.n_head, 0, MODEL.n_embd // MODEL.n_head
    keys, values = ([np.zeros(shape, np.float32)] * len(MODEL.params["blocks"]) for _ in range(2))
    for token in PROMPT:
        logits = names["step"](token, keys, values)
    np.testing.assert_allclose(logits, MODEL(np.array(PROMPT))[-1], atol=1e-4)


@pytest.mark.slow
def test_the_reader_s_own_text_is_plotted_for_any_model(monkeypatch):
    _, llama = utils.load("stories-llama")
    llama = copy.copy(llama)
    blocks = llama.params["blocks"] * 4  # 20 layers, as in a larger model
    llama.params = {**llama.params, "blocks": blocks}
    llama.frequencies, llama.windows = llama.frequencies * 4, llama.windows * 4
    shown = []
    monkeypatch.setattr(lessons, "display", shown.append)
    for name in LESSONS:
        drawing = importlib.import_module(f"drawing.{name}")
        drawing.your_text(TOKENIZER, llama, "A dragon\nsang for 12 Zoës 🍓.")
    assert len(shown) == len(LESSONS) and not lessons.plt.get_fignums()
    pngs = [base64.b64decode(picture.url.partition(",")[2]) for picture in shown]
    heights = [int.from_bytes(png[20:24], "big") for png in pngs]
    assert max(heights) < 1500  # in pixels, so that 20 layers fit on a page
