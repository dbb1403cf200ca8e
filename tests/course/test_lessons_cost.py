"""The formulas agree with what the running code counts."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny import tiny_gpt2

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import counting  # noqa: E402

from page.recorder import counted  # noqa: E402


@pytest.mark.parametrize("n_rows, n_past, n_new", [(1, 0, 5), (1, 5, 1), (3, 4, 2)])
def test_the_formulas_agree_with_counts_of_the_running_code(n_rows, n_past, n_new):
    model = tiny_gpt2()
    shape, n_all = counting.shape_of(model), n_past + n_new
    cache = model.new_cache(n_rows)
    if n_past:
        model(np.ones((n_rows, n_past), int), cache)
    ids = np.ones((n_rows, n_new), int)
    logits, flops, read = counted(model, model, ids, cache, last=1)
    assert logits.shape == (n_rows, 1, model.n_vocab)
    assert flops == n_rows * counting.pass_flops(shape, n_new, n_all)
    assert read == counting.pass_bytes(shape, n_all, n_rows)
