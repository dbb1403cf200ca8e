"""Checks of lesson 14's exercises."""

import numpy as np


def exercise_1(code_length):
    """The answer: code_length(probabilities): a list of P(x_i | x_<i) -> bytes, an int."""
    assert code_length([0.5] * 8) is not None, "write code_length"
    assert code_length([0.5] * 8) == 1, "eight symbols of probability 1/2"
    assert code_length([0.5] * 9) == 2, "nine bits do not fit one byte"
    assert code_length([0.9] * 100) == 2, "a symbol may cost less than a bit: round at the end"
    assert code_length([1.0] * 50) == 0, "what is certain"
    assert code_length([1e-3] * 5000) == 6229, "a long text"


def exercise_2(mixed):
    """The answer: mixed(p, q, w): [n], [n], a weight -> bits per symbol."""
    p, q = np.array([0.9, 0.01, 0.5]), np.array([0.1, 0.6, 0.5])
    assert mixed(p, q, 1) is not None, "write mixed"
    assert np.isclose(mixed(p, q, 1), -np.log2(p).mean()), "with w = 1, the first model alone"
    assert np.isclose(mixed(p, q, 0), -np.log2(q).mean()), "with w = 0, the second"
    both = mixed(p, q, 0.5)
    assert both < min(mixed(p, q, 0), mixed(p, q, 1)), "these two know different things"
    assert np.isclose(both, 1.2377, atol=1e-3), "mix the probabilities, not their logarithms"


def exercise_3(ranks):
    """The answer: ranks(logits, ids): [n, n_vocab], [n] -> [n] ints from 1."""
    logits = np.array([[0.1, 3.0, -1.0], [2.0, 1.0, 5.0], [0.5, 0.2, 0.1]])
    found = ranks(logits, [1, 1, 0])
    assert found is not None, "write ranks"
    assert list(found) == [1, 3, 1], "the likeliest token has rank 1"
    assert list(ranks(logits, [2, 0, 2])) == [3, 2, 3], "the last of three"
    wide = np.random.default_rng(0).standard_normal((4, 50))
    order = (-wide).argsort(-1)
    assert list(ranks(wide, order[:, 7])) == [8] * 4, "fifty tokens"
