"""Checks of lesson 13's exercises."""

import numpy as np

from llama import rotary_frequencies, rotate


def exercise_1(cache_size):
    """The answer: cache_size(config, n_tokens, n_bytes): n_bytes of one number."""
    small = {"num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2,
             "hidden_size": 256}  # fmt: skip
    assert cache_size(small, 1, 4) is not None, "write cache_size"
    assert cache_size(small, 1, 4) == 2560, "stories-llama: keys and values, in each layer"
    assert cache_size(small, 100, 2) == 128_000, "a hundred tokens of 16 bits"
    wide = small | {"head_dim": 64}
    assert cache_size(wide, 1, 4) == 5120, "head_dim, where the configuration has it"
    old = {key: value for key, value in small.items() if key != "num_key_value_heads"}
    assert cache_size(old, 1, 4) == 10_240, "without num_key_value_heads, a head each"


def exercise_2(rotate_complex):
    """The answer: rotate_complex(x, positions, frequencies): [n, d], [n], [d / 2]."""
    rng, frequencies = np.random.default_rng(0), rotary_frequencies(8, 1e4)
    x, positions = rng.standard_normal((5, 8)), np.arange(3, 8)
    found = rotate_complex(x, positions, frequencies)
    assert found is not None, "write rotate_complex"
    assert np.shape(found) == (5, 8), "as many numbers as before"
    assert np.isrealobj(found), "back to real numbers at the end"
    interleaved = np.concatenate([x[:, ::2], x[:, 1::2]], axis=-1)
    wrong = rotate(interleaved, positions, frequencies)
    wrong = np.stack(np.split(wrong, 2, axis=-1), axis=-1).reshape(5, 8)
    assert not np.allclose(found, wrong), "the partner of number i is number i + d / 2"
    right = rotate(x.astype(np.float32), positions, frequencies)
    assert np.allclose(found, right, atol=1e-5), "the same numbers as rotate gives"


def exercise_3(shared):
    """The answer: shared(w, n_head, n_kv_head): [n_head * d, n] -> [n_kv_head * d, n]."""
    w = np.arange(48.0).reshape(8, 6)  # four heads of two rows each
    found = shared(w, 4, 2)
    assert found is not None, "write shared"
    assert np.shape(found) == (4, 6), "two heads of two rows each are left"
    assert np.allclose(found[0], (w[0] + w[2]) / 2), "the first row: of heads 0 and 1"
    assert np.allclose(found[3], (w[5] + w[7]) / 2), "the last row: of heads 2 and 3"
    assert np.allclose(shared(w, 4, 1)[1], w[1::2].mean(0)), "all heads share one"
    assert np.allclose(shared(w, 4, 4), w), "as many heads as before"
