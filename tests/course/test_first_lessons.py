"""The step of the lesson The loop and its cache agrees with the model."""

import sys
from pathlib import Path

import nbformat
import numpy as np

import utils

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

TOKENIZER, MODEL = utils.load("stories")


def test_the_lesson_s_own_step_agrees_with_the_model():
    notebook = nbformat.read(FOLDER / "loop_and_cache.ipynb", as_version=4)
    source, names = {cell.id: cell.source for cell in notebook.cells}, {}
    for id in ("imports", "pass", "step"):
        exec(source[id], names)
    shape = MODEL.n_head, 0, MODEL.n_embd // MODEL.n_head
    keys, values = ([np.zeros(shape, np.float32)] * len(MODEL.params["blocks"]) for _ in range(2))
    prompt = TOKENIZER.encode("Once upon a time")
    for token in prompt:
        logits = names["step"](token, keys, values)
    np.testing.assert_allclose(logits, MODEL(np.array(prompt))[-1], atol=1e-4)
