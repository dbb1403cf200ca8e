"""examples/pico.py computes what gpt2.py computes, and prints what generate.py prints."""

import runpy
import sys

import numpy as np
import pytest

from examples import pico
from loading.parameters import plain
from terminal import cli
from utils import load


@pytest.mark.parametrize("model_name", ["stories", "stories-draft"])
def test_the_logits_are_those_of_gpt2(model_name):
    tokenizer, model = load(model_name)
    ids = np.random.default_rng(0).integers(0, model.n_vocab, 60)
    found, right = pico.gpt2(ids, **plain(model.params), n_head=model.n_head), model(ids)
    assert (type(found), found.dtype, found.shape) == (np.ndarray, np.float32, right.shape)
    assert np.abs(found - right).max() <= 1e-5 * np.abs(right).max()


@pytest.mark.parametrize("prompt", ["Once upon a time", "Lily. " * 253])
def test_the_text_is_that_of_generate_at_temperature_0(prompt, capsys, monkeypatch):
    assert cli.main([prompt, "--temperature", "0"]) == 0
    expected = capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["pico.py", prompt])
    runpy.run_path(pico.__file__, run_name="__main__")
    assert capsys.readouterr().out == expected


def test_a_step_into_a_product_stays_in_the_file():
    """In a plain tree, `@` is NumPy's own."""
    _, model = load("stories-draft")
    frames = set()
    sys.setprofile(lambda frame, event, arg: frames.add(frame.f_code.co_filename))
    try:
        pico.gpt2([1, 2, 3], **plain(model.params), n_head=model.n_head)
    finally:
        sys.setprofile(None)
    assert {path for path in frames if path.endswith(("few_rows.py", "gpt2.py"))} == set()
