"""The formulas agree with what the running code counts. A row holds one text at a time."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny import tiny_gpt2

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import counting  # noqa: E402
from drawing.serving import places  # noqa: E402

from decoding.batching import continuous  # noqa: E402
from generate import Sequence  # noqa: E402


@pytest.mark.parametrize("n_rows, n_past, n_new", [(1, 0, 5), (1, 5, 1), (3, 4, 2)])
def test_the_formulas_agree_with_counts_of_the_running_code(n_rows, n_past, n_new):
    model = tiny_gpt2()
    shape, n_all = counting.shape_of(model), n_past + n_new
    cache = model.new_cache(n_rows)
    if n_past:
        model(np.ones((n_rows, n_past), int), cache)
    ids = np.ones((n_rows, n_new), int)
    logits, flops, read = counting.counted(model, model, ids, cache, last=1)
    assert logits.shape == (n_rows, 1, model.n_vocab)
    assert flops == n_rows * counting.pass_flops(shape, n_new, n_all)
    assert read == counting.pass_bytes(shape, n_all, n_rows)


def test_a_row_holds_one_text_at_a_time():
    model, made = tiny_gpt2(), {}
    for n, length in enumerate((5, 2, 7, 1, 3, 4)):
        made[Sequence(model, [1, 2], length, seed=n)] = []
    for turn, (sequence, _) in enumerate(continuous(list(made), max_rows=2)):
        made[sequence].append(turn)
    taken = set()
    for _, row, turns in places(made, 2):
        seats = {(row, turn) for turn in range(turns[0], turns[-1] + 1)}
        assert not seats & taken and row in (0, 1)
        taken |= seats
