"""Checks: the length of a code, a mixture of two models, the ranks of tokens."""

import numpy as np


def exercise_1(code_length):
    """Check code_length(probabilities) -> the length of the code in bytes, an int.

    probabilities: P(x_i | x_<i) of each symbol of a text.
    """
    found = code_length([0.5] * 8)
    assert found is not None, "write code_length"
    assert found == int(found), f"return whole bytes: {found} is not a whole number"
    assert found != 8, "eight symbols of probability 1/2 are eight bits: how many bytes is that?"
    assert found != 6, "these are nats: use the logarithm to the base 2"
    assert found == 1, f"eight symbols of probability 1/2 fit one byte: you found {found}"
    assert code_length([0.5] * 9) == 2, "nine bits do not fit one byte: round up"
    assert code_length([0.9] * 100) == 2, "a symbol may cost less than a bit: round at the end"
    assert code_length([1.0] * 50) == 0, "a symbol of probability 1 costs nothing"
    long = code_length([1e-3] * 5000)
    assert long == 6229, f"5000 symbols of probability 0.001 take 6229 bytes, not {long}"


def exercise_2(mixed):
    """Check mixed(p, q, w) -> bits per symbol.

    p, q: the probabilities of n symbols under two models, both [n]; w: the weight of p.
    """
    p, q = np.array([0.9, 0.01, 0.5]), np.array([0.1, 0.6, 0.5])
    found = mixed(p, q, 1)
    assert found is not None, "write mixed"
    assert np.shape(found) == (), "return one number, the mean over the symbols"
    of_p, of_q = -np.log2(p).mean(), -np.log2(q).mean()
    assert not np.isclose(found, of_q), "w is the weight of p, the first model"
    assert not np.isclose(found, 3 * of_p), "return bits per symbol: take the mean, not the sum"
    assert not np.isclose(found, of_p * np.log(2)), "these are nats, not bits"
    assert np.isclose(found, of_p), "with w = 1, the first model alone should count"
    assert np.isclose(mixed(p, q, 0), of_q), "with w = 0, the second model alone should count"
    both = mixed(p, q, 0.5)
    assert not np.isclose(both, (of_p + of_q) / 2), "mix the probabilities, not their logarithms"
    assert np.isclose(both, -np.log2(p / 2 + q / 2).mean()), "the mixture is w p + (1 - w) q"
    uneven = np.isclose(mixed(p, q, 0.2), -np.log2(0.2 * p + 0.8 * q).mean())
    assert uneven, "the mixture is wrong for w = 0.2: w may be any weight from 0 to 1"


def exercise_3(ranks):
    """Check ranks(logits, ids): [n, n_vocab], [n] -> the rank of each id, [n] ints from 1."""
    logits = np.array([[0.1, 3.0, -1.0], [2.0, 1.0, 5.0], [0.5, 0.2, 0.1]])
    found = ranks(logits, [1, 1, 0])
    assert found is not None, "write ranks"
    assert np.shape(found) == (3,), "return a rank for each id"
    found = list(found)
    assert found != [0, 2, 0], "the first guess has rank 1, not 0"
    assert found != [3, 1, 3], "the ranks are upside down: the likeliest token is the first guess"
    mine = ", ".join(map(str, found))
    assert found == [1, 3, 1], f"these ids have the ranks 1, 3, 1 in their rows, not {mine}"
    assert list(ranks(logits, [2, 0, 2])) == [3, 2, 3], "the ranks are wrong for other ids"
    wide = np.random.default_rng(0).standard_normal((4, 50))
    order = (-wide).argsort(-1)  # [4, 50], the ids of each row, likeliest first
    assert list(ranks(wide, order[:, 7])) == [8] * 4, (
        "the ranks are wrong for fifty tokens: a rank is the position of a token in the sorted row,"
        " not the token at a position"
    )
