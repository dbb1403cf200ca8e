"""Rotary positions and windows of families/llama.py. For its logits, see test_every_model.py."""

import numpy as np

import gpt2
from families.llama import rotary_frequencies, rotate, rotations, window_mask


def test_a_rotation_turns_pairs_and_keeps_lengths():
    """The expected rotation uses complex numbers: each x[i] + 1j * x[i + d / 2] is multiplied by
    exp(1j * position * frequency)."""
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    positions, frequencies = np.array([0, 1, 2, 7, 60]), rotary_frequencies(8, 100)
    np.testing.assert_allclose(frequencies, [1, 100**-0.25, 0.1, 100**-0.75], rtol=1e-6)
    found = rotate(x, *rotations(positions, [frequencies]))
    pairs = (x[..., :4] + 1j * x[..., 4:]) * np.exp(1j * positions[:, None] * frequencies)
    np.testing.assert_allclose(found, np.concatenate([pairs.real, pairs.imag], -1), atol=1e-5)
    np.testing.assert_array_equal(found[:, 0], x[:, 0])


def test_a_window_hides_older_keys():
    _ = False
    one = np.array([4])  # the query's position
    mask = gpt2.causal_mask(one)
    assert window_mask(mask, 5, one) is mask and window_mask(mask, None, one) is mask
    assert (window_mask(mask, 3, one) == 0).tolist() == [[[_, _, True, True, True]]]
    rows = np.array([[3], [1]])  # the shorter row has unused slots at its end
    found = window_mask(gpt2.causal_mask(rows), 2, rows)
    assert (found == 0).tolist() == [[[[_, _, True, True]]], [[[True, True, _, _]]]]
    two = np.array([2, 3])
    found = window_mask(gpt2.causal_mask(two), 2, two)  # [1, 2, 4]
    assert (found == 0).tolist() == [[[_, True, True, _], [_, _, True, True]]]
    assert found.dtype == np.float32 and found.min() == np.float32(-1e10)
