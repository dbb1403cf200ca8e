"""Checks of lesson 13's exercises."""

import math
from unittest import mock

import numpy as np

from families.llama import rotary_frequencies, rotate

SMALL = {
    "num_hidden_layers": 5,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 256,
}


def exercise_1(cache_size):
    """The answer: cache_size(config, n_tokens, n_bytes): n_bytes of one number."""
    found = cache_size(SMALL, 1, 4)
    assert found is not None, "write cache_size"
    assert found != 1280, "keys *and* values"
    assert found != 512, "each layer has keys and values of its own"
    assert found != 10_240, "for stories-llama: only 2 of the 8 heads have keys and values"
    assert found == 2560, f"stories-llama takes 2560 bytes a token, with numbers of 4: not {found}"
    assert cache_size(SMALL, 100, 2) == 128_000, "a hundred tokens of numbers of 2 bytes"
    assert cache_size(SMALL | {"head_dim": 64}, 1, 4) == 5120, (
        "head_dim, where the configuration has it: it need not be hidden_size / heads"
    )
    old = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    assert cache_size(old, 1, 4) == 10_240, "without num_key_value_heads, a head each"


def forbidden(*args, **settings):
    raise AssertionError("without sine or cosine: what is e to an imaginary number?")


def exercise_2(rotate_complex):
    """The answer: rotate_complex(x, positions, frequencies): [n, d], [n], [d / 2]."""
    rng, frequencies = np.random.default_rng(0), rotary_frequencies(8, 1e4)
    x, positions = rng.standard_normal((5, 8)), np.arange(3, 8)
    right = rotate(x.astype(np.float32), positions, frequencies)[0]
    back = rotate(x.astype(np.float32), -positions, frequencies)[0]
    one = rotate(x.astype(np.float32), positions, np.full(4, frequencies[0]))[0]
    interleaved = np.concatenate([x[:, ::2], x[:, 1::2]], axis=-1)
    wrong = rotate(interleaved, positions, frequencies)[0]
    wrong = np.stack(np.split(wrong, 2, axis=-1), axis=-1).reshape(5, 8)
    with mock.patch.multiple(np, sin=forbidden, cos=forbidden):
        with mock.patch.multiple(math, sin=forbidden, cos=forbidden):
            found = rotate_complex(x, positions, frequencies)
    assert found is not None, "write rotate_complex"
    assert np.isrealobj(found), "back to real numbers at the end"
    assert np.shape(found) == (5, 8), f"as many numbers as before, not {np.shape(found)}"
    assert not np.allclose(found, wrong), "the partner of number i is number i + d / 2"
    assert not np.allclose(found, back, atol=1e-5), "it turns the other way round"
    assert not np.allclose(found, one, atol=1e-5), "each pair has a frequency of its own"
    assert np.allclose(found[:, :4], right[:, :4], atol=1e-5), (
        "the first half of the numbers, the real parts, are others than those of rotate"
    )
    assert np.allclose(found, right, atol=1e-5), (
        "the second half of the numbers, the imaginary parts, are others than those of rotate"
    )


def exercise_3(shared):
    """The answer: shared(w, n_head, n_kv_head): [n_head * d, n] -> [n_kv_head * d, n]."""
    w = np.random.default_rng(0).standard_normal((8, 6))  # four heads of two rows each
    found = shared(w, 4, 2)
    assert found is not None, "write shared"
    assert np.shape(found) == (4, 6), f"two heads of two rows each are left, not {np.shape(found)}"
    first = (w[0] + w[2]) / 2  # the first rows of heads 0 and 1
    assert not np.allclose(found[0], 2 * first), "the mean of the heads of a group, not their sum"
    assert not np.allclose(found[0], (w[0] + w[1]) / 2), "rows 0 and 1 are of the same head"
    assert not np.allclose(found[0], (w[0] + w[4]) / 2), "neighbours share: heads 0 and 1, not 0, 2"
    assert np.allclose(found[0], first), "the first row: the mean of rows 0 and 2, of heads 0 and 1"
    assert np.allclose(found[3], (w[5] + w[7]) / 2), "the last row: of heads 2 and 3"
    assert np.allclose(shared(w, 4, 1)[1], w[1::2].mean(0)), "all heads share one"
    assert np.allclose(shared(w, 4, 4), w), "as many heads as before"
