"""Checks: a mixed probability, the length of a code, a mixture of two models, ranks of tokens."""

from collections import Counter

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/history.ipynb probability]
with the same weight for a long and a short context: u is the number of different bytes
    (seen[byte] + unlike * p) / (n + unlike) -> (seen[byte] / n + p) / 2
with the whole context for k = 0, where [-k:] begins at 0
    context[len(context) - k :] -> context[-k:]
[notebooks/history.ipynb code_length]
with each symbol rounded up to whole bits: round once, at the end
    -np.log2(probabilities).sum() -> np.ceil(-np.log2(probabilities)).sum()
in bits, not bytes
    bits / 8 -> bits
in nats: use the logarithm to the base 2
    np.log2 -> np.log
rounded down
    math.ceil(bits / 8 - 1e-9) -> int(bits / 8)
[notebooks/history.ipynb mixed]
with logarithms mixed: mix the probabilities
    np.log2(w * p + (1 - w) * q) -> (w * np.log2(p) + (1 - w) * np.log2(q))
with w as the weight of q: it is that of p, the first model
    w * p + (1 - w) * q -> w * q + (1 - w) * p
[notebooks/history.ipynb ranks]
from 0: the first guess has rank 1
    1 + ( -> (
with the token at a place of the sorted row, not the place of a token
    return -> return (-logits).argsort(-1)[range(len(ids)), ids] + 1  #
""")


def see_probability(m, seed):
    """Look at the probabilities for k = 0, 1 and 2, also of unseen bytes."""
    tables = [
        {b"": Counter({97: 3, 98: 1, 0: 1})},
        {b"a": Counter({97: 1, 98: 1}), b"b": Counter({0: 4})},
        {b"ab": Counter({0: 1})},
    ]
    for context, byte in (b"\0\0", 97), (b"ab", 0), (b"ba", 98), (b"bb", 97), (b"ab", 99):
        for k in range(3):
            found = m.probability(tables[: k + 1], context, byte)
            yield Seen(f"P_{k} of byte {byte} after {context}", np.array([found]), "number")


def see_length(m, seed):
    """Look at the lengths of five codes, some with whole bytes."""
    for p, n in (0.5, 8), (0.5, 9), (0.9, 100), (1.0, 50), (1e-3, 5000):
        found = m.code_length([p] * n)
        yield Seen(f"the bytes of {n} symbols of probability {p}", found)


def see_mixed(m, seed):
    """Look at mixtures with four weights."""
    p, q = np.array([0.9, 0.01, 0.5]), np.array([0.1, 0.6, 0.5])
    for w in 1, 0, 0.5, 0.2:
        yield Seen(f"mixed({p}, {q}, {w})", np.array([m.mixed(p, q, w)]), "number")


def see_ranks(m, seed):
    """Look at the ranks of likely and unlikely tokens."""
    logits = np.random.default_rng(0).standard_normal((4, 50))
    few = logits[:3, :3]
    yield Seen("three ranks of three tokens", np.array(m.ranks(few, [1, 1, 0])), "token")
    yield Seen("ranks of fifty tokens", np.array(m.ranks(logits, [7, 3, 49, 0])), "token")


exercise_probability = Part(("probability",), see_probability, WRONG)
exercise_1 = Part(("code_length",), see_length, WRONG)
exercise_2 = Part(("mixed",), see_mixed, WRONG)
exercise_3 = Part(("ranks",), see_ranks, WRONG)
