"""Checks: the nucleus, the diversity of texts, the Gumbel trick, a chosen entropy."""

from types import SimpleNamespace

import numpy as np

from gpt2 import softmax
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/samplers.ipynb nucleus]
with one token too many where a sum equals p: at least p is enough
    (sums, p) -> (sums, p, side="right")
without the token with which the sum reaches p: it stays
    np.searchsorted(sums, p) + 1 -> max(1, np.searchsorted(sums, p, side="right"))
without the token with which the sum reaches p, but not where it equals p
    np.searchsorted(sums, p) + 1 -> np.searchsorted(sums, p)
with ranks used as ids: order[0] is the id of the most probable token
    order[:size] -> :size
of the least probable tokens: sort downwards
    -probs -> probs
[notebooks/samplers.ipynb diversity]
of pairs, not of three tokens in a row
    , ids[2:] ->
with the mean over the texts: a 3-gram in two texts is not different
    => return np.mean([len({*zip(t, t[1:], t[2:])}) / (len(t) - 2) for t in texts])
of all texts in one row: no 3-gram crosses the border of two texts
    => row = sum(texts, []); grams = [*zip(row, row[1:], row[2:])];
        return len(set(grams)) / len(grams)
[notebooks/samplers.ipynb gumbel_draw]
with one random number for all tokens: each has its own
    rng.random(len(logits)) -> rng.random()
with uniform noise
    - np.log(-np.log(rng.random(len(logits)))) -> + rng.random(len(logits))
[notebooks/samplers.ipynb at_entropy]
with nats instead of bits
    < bits -> < bits * np.log(2)
""")


def row(n):  # -> logits [n]
    return np.random.default_rng(n).normal(0, 3, n).astype(np.float32)


def see_nucleus(m, seed):
    """Look at what stays where sums equal p and where they do not."""
    probs = np.array([8, 32, 4, 16, 2, 1, 1]) / 64  # sums without rounding
    for p in 0.3, 0.5, 0.6, 0.75, 0.8, 0.875, 1:
        yield Seen(
            f"what stays of {(probs * 64).astype(int)} / 64 for p = {p}", m.nucleus(probs, p)
        )
    yield Seen("what stays of 40 tokens for p = 0.9", m.nucleus(softmax(row(40)), 0.9))


def see_diversity(m, seed):
    """Look at the diversity of one text, of several, and of a short one."""
    for texts in (
        [[1, 2] * 3],
        [[1, 2, 3, 4], [1, 2, 3, 5, 1, 2, 3]],
        [[7, 8, 9], [8, 7, 9]],
        [[3] * 4, [2]],
    ):
        yield Seen(f"the diversity of {texts}", round(float(m.diversity(texts)), 4))


def see_gumbel_draw(m, seed):
    """Look at 400 draws with known random numbers, and with a token of -inf."""
    logits = row(30) / 2
    logits[2] = -np.inf
    pairs = []  # the id for u and that for 1 - u, in any order, because both are right
    for rng in map(np.random.default_rng, range(200)):
        u = rng.random(30)
        both = [m.gumbel_draw(logits, fixed(numbers)) for numbers in (u, 1 - u)]
        pairs.append(sorted(both))
    yield Seen("the ids of 400 draws", pairs)


def fixed(numbers):  # -> a random generator that returns these numbers
    rest = iter(numbers)
    return SimpleNamespace(
        random=lambda size=None: next(rest) if size is None else np.array([*rest])
    )


def see_at_entropy(m, seed):
    """Look at the entropy, and at whether the logits keep their proportions."""
    for bits in 0.5, 2, 6:
        changed = np.asarray(m.at_entropy(row(90), bits), float)
        p = softmax(changed)
        found = -(p[p > 0] * np.log2(p[p > 0])).sum()
        yield Seen(f"the entropy for bits = {bits}", round(float(found), 2))
        linear = np.corrcoef(changed, row(90))[0, 1] > 0.999
        yield Seen(f"are the logits only divided by a number for bits = {bits}", bool(linear))


exercise_nucleus = Part(("nucleus",), see_nucleus, WRONG)
exercise_diversity = Part(("diversity",), see_diversity, WRONG)
exercise_1 = Part(("gumbel_draw",), see_gumbel_draw, WRONG)
exercise_2 = Part(("at_entropy",), see_at_entropy, WRONG)
