"""A watermark: a mark in the choice of tokens. Readers do not notice it, but a test finds it.

Before each token, a random generator is seeded with the previous token and a secret key. It makes a
fraction gamma of the vocabulary green, and the filter adds delta to the logits of green tokens.
Whoever has the key can count the green tokens: their fraction is about gamma in an unmarked text,
and much larger in a marked text. The filter is a function of (logits, ids), so speculation does not
remove the mark. (Kirchenbauer et al. 2023, "A Watermark for Large Language Models", algorithm 2.)

    python generate.py "Once upon a time" --filter "examples/watermark.py:watermark(7)" -n 60
"""

import math

import numpy as np


def watermark(key, delta=2.0, gamma=0.25):
    """Return a filter that adds delta to the logits of green tokens. key: a secret integer;
    gamma: the fraction of the vocabulary that is green."""

    def raise_green(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        return logits + np.float32(delta) * green(key, ids[-1], len(logits), gamma)

    return raise_green


def green(key, previous, n_vocab, gamma):  # -> [n_vocab]: is this token green after `previous`?
    shuffled = np.random.default_rng([key, previous]).permutation(n_vocab)
    return shuffled < gamma * n_vocab


def detect(ids, key, n_vocab, gamma=0.25):
    """Return by how many standard deviations the number of green tokens exceeds its expected value:
    z = (n_green - gamma n) / sqrt(n gamma (1 - gamma)), equation 3. A repeated pair of tokens tells
    nothing new, so each pair counts only once."""
    pairs = set(zip(ids, ids[1:]))
    if not pairs:
        return 0.0
    n_green = sum(green(key, previous, n_vocab, gamma)[token] for previous, token in pairs)
    return (n_green - gamma * len(pairs)) / math.sqrt(len(pairs) * gamma * (1 - gamma))
