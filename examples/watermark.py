"""A watermark: a mark in the choice of tokens that no reader sees and a test finds.

The previous token and a secret key seed a generator before each token. It makes a share gamma of
the vocabulary green; green logits are raised by delta. Whoever has the key counts green tokens.
Other texts have about a share gamma of them, a marked text far more. The mark is a function of
(logits, ids), so speculation keeps it. (Kirchenbauer et al. 2023, "A Watermark for Large Language
Models", algorithm 2.)

    python generate.py "Once upon a time" --filter "examples/watermark.py:watermark(7)" -n 60
    python examples/measure.py watermark
"""

import math

import numpy as np


def watermark(key, delta=2.0, gamma=0.25):
    """Return the filter. key: a whole number, the secret."""

    def raise_green(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        return logits + np.float32(delta) * green(key, ids[-1], len(logits), gamma)

    return raise_green


def green(key, previous, n_vocab, gamma):  # -> [n_vocab] bools: which may follow this token
    shuffled = np.random.default_rng([key, previous]).permutation(n_vocab)
    return shuffled < gamma * n_vocab


def detect(ids, key, n_vocab, gamma=0.25):
    """Return z = (n_green - gamma n) / sqrt(n gamma (1 - gamma)), equation 3: how many standard
    deviations lie between the green tokens and their number by chance. Equal pairs of tokens are
    not independent, so they count once."""
    pairs = set(zip(ids, ids[1:]))
    if not pairs:
        return 0.0
    n_green = sum(green(key, previous, n_vocab, gamma)[token] for previous, token in pairs)
    return (n_green - gamma * len(pairs)) / math.sqrt(len(pairs) * gamma * (1 - gamma))
