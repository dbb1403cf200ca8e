"""Checks: the size of a cache, rotation by complex numbers, shared heads."""

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
    """Check cache_size(config, n_tokens, n_bytes) -> a number of bytes. n_bytes: per number."""
    found = cache_size(SMALL, 1, 4)
    assert found is not None, "write cache_size"
    assert found != 1280, "count keys *and* values"
    assert found != 512, "each layer has keys and values of its own: multiply by the layers"
    assert found != 10_240, "only 2 of the 8 heads of stories-llama have keys and values"
    assert found == 2560, f"a token of stories-llama takes 2560 bytes at 4 each, not {found}"
    hundred = cache_size(SMALL, 100, 2)
    assert hundred == 128_000, f"a hundred tokens at 2 bytes take 128000 bytes, not {hundred}"
    assert cache_size(SMALL | {"head_dim": 64}, 1, 4) == 5120, (
        "use head_dim if the configuration has it: it need not be hidden_size / heads"
    )
    old = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    assert cache_size(old, 1, 4) == 10_240, (
        "without num_key_value_heads, each query head has its own keys and values"
    )


def forbidden(*args, **settings):
    """Raise an error, because the exercise must be solved without sine and cosine."""
    raise AssertionError("do it without sine and cosine: what is e to an imaginary number?")


def exercise_2(rotate_complex):
    """Check rotate_complex(x, positions, frequencies): [n, d], [n], [d / 2] -> [n, d]."""
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
    assert np.isrealobj(found), "return real numbers: take the real and imaginary parts"
    assert np.shape(found) == (5, 8), f"return x's shape, (5, 8), not {np.shape(found)}"
    assert not np.allclose(found, wrong), "the partner of number i is number i + d / 2"
    assert not np.allclose(found, back, atol=1e-5), "turn the pairs the other way: change the sign"
    assert not np.allclose(found, one, atol=1e-5), "each pair has a frequency of its own"
    assert np.allclose(found[:, :4], right[:, :4], atol=1e-5), (
        "the first half of the numbers, the real parts, differs from that of rotate"
    )
    assert np.allclose(found, right, atol=1e-5), (
        "the second half of the numbers, the imaginary parts, differs from that of rotate"
    )


def exercise_3(shared):
    """Check shared(w, n_head, n_kv_head): [n_head * d, n] -> [n_kv_head * d, n]."""
    w = np.random.default_rng(0).standard_normal((8, 6))  # four heads of two rows each
    found = shared(w, 4, 2)
    assert found is not None, "write shared"
    shape = np.shape(found)
    assert shape == (4, 6), f"two heads of two rows each are left, (4, 6), not {shape}"
    first = (w[0] + w[2]) / 2  # the mean of the first rows of heads 0 and 1
    assert not np.allclose(found[0], 2 * first), "take the mean of a group's heads, not their sum"
    assert not np.allclose(found[0], (w[0] + w[1]) / 2), "rows 0 and 1 belong to the same head"
    assert not np.allclose(found[0], (w[0] + w[4]) / 2), "neighbours share: average heads 0 and 1"
    assert np.allclose(found[0], first), "the first row should be the mean of rows 0 and 2"
    assert np.allclose(found[3], (w[5] + w[7]) / 2), "the last row should be that of rows 5 and 7"
    assert np.allclose(shared(w, 4, 1)[1], w[1::2].mean(0)), "with n_kv_head = 1, all heads share"
    assert np.allclose(shared(w, 4, 4), w), "with n_kv_head = n_head, nothing should change"
