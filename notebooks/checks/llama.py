"""Checks: rotation, the size of a cache, rotation by complex numbers, shared heads."""

import numpy as np

from families.llama import rotary_frequencies
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/llama.ipynb rotate rotate_complex]
with neighbours as pairs: the partner of number i is number i + d / 2
    np.split(x, 2, axis=-1) -> (x[..., ::2], x[..., 1::2])
    np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
        -> np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
with neighbours as pairs: the partner of number i is number i + d / 2
    x[:, :half] + 1j * x[:, half:] -> x[:, ::2] + 1j * x[:, 1::2]
    np.concatenate([z.real, z.imag], axis=-1)
        -> np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
with the pairs turned the other way
    np.sin(angles) -> -np.sin(angles)
with the pairs turned the other way
    np.exp(1j -> np.exp(-1j
with one frequency for all pairs: each pair has its own
    * frequencies -> * frequencies[0]
with the place in x as the position: use positions
    np.float32(positions)[:, None] -> np.arange(x.shape[-2])[:, None]
[notebooks/llama.ipynb cache_size]
with keys and values for each query head: a group of heads shares them
    config.get("num_key_value_heads", n_head) -> n_head
with the width divided by the heads, although the config has a head_dim
    config.get("head_dim", config["hidden_size"] // n_head) -> config["hidden_size"] // n_head
[notebooks/llama.ipynb shared]
of heads that are not neighbours: the first n_head / n_kv_head heads share
    n_kv_head, n_head // n_kv_head, len(w) -> n_head // n_kv_head, n_kv_head, len(w)
    axis=1 -> axis=0
of the rows of a single head: average the same row of a group's heads
    heads.mean(axis=1).reshape(-1, w.shape[1])
        -> w.reshape(-1, n_head // n_kv_head, w.shape[1]).mean(axis=1)
""")
SMALL = {"num_hidden_layers": 5, "num_attention_heads": 8, "hidden_size": 256}


def see_rotate(m, seed):
    """Look at the rotated rows of one head and of two."""
    x, positions = np.random.default_rng(0).standard_normal((2, 5, 8)), np.array([0, 1, 3, 10, 200])
    theta = rotary_frequencies(8, 50)
    yield Seen("the rotated rows", m.rotate(x[0], positions, theta), "token, d")
    yield Seen("the rotated rows of two heads", m.rotate(x, positions, theta), "head, token, d")


def see_complex(m, seed):
    """Look at the rotated rows and their type."""
    x = np.random.default_rng(0).standard_normal((5, 8))
    found = m.rotate_complex(x, np.arange(3, 8), rotary_frequencies(8, 50))
    yield Seen("the rotated rows", found, "token, d")
    yield Seen("whether they are real numbers", bool(np.isrealobj(found)))


def see_size(m, seed):
    """Look at the sizes for shared heads, for heads of a given width, and for neither."""
    grouped = SMALL | {"num_key_value_heads": 2}
    for config in grouped, grouped | {"head_dim": 64}, SMALL:
        for n_tokens, n_bytes in (1, 4), (100, 2):
            found = m.cache_size(config, n_tokens, n_bytes)
            yield Seen(f"{n_tokens} tokens, {n_bytes} bytes a number, {config}", found)


def see_shared(m, seed):
    """Look at the means of groups of one, two and four heads."""
    w = np.random.default_rng(0).standard_normal((8, 6))
    for n_head, n_kv_head in (4, 2), (4, 1), (4, 4), (8, 2):
        found = m.shared(w, n_head, n_kv_head)
        yield Seen(f"{n_head} heads that become {n_kv_head}", found, "row, n")


exercise_rotate = Part(("rotate",), see_rotate, WRONG)
exercise_1 = Part(("cache_size",), see_size, WRONG)
exercise_2 = Part(("rotate_complex",), see_complex, WRONG)
exercise_3 = Part(("shared",), see_shared, WRONG)
