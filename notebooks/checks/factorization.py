"""Checks: the factors of a text and of a table, bits per byte, Bayes' rule, two temperatures."""

import lessons
import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

MODEL, RNG = lessons.tiny_model(11, seed=3), np.random.default_rng(0)
JOINT = RNG.dirichlet(np.ones(7**4)).reshape((7,) * 4)
WRONG = mistakes("""
[notebooks/factorization.ipynb log_factors]
without the shift: row i is about ids[i + 1]
    model(ids[:-1]) -> model(ids[1:])
without the shift, for all ids: row i is about ids[i + 1]
    ids[:-1] -> ids
    ids[1:] -> ids
without the shift, but one row for each target: row i is about ids[i + 1]
    model(ids[:-1]) -> model(ids)[1:]
of probabilities: return their logarithms
    log_softmax -> softmax
[notebooks/factorization.ipynb factors_of]
of the words one by one: P(x2) instead of P(x2 | x1)
    tuple(range(i + 1, joint.ndim)) -> tuple({*range(joint.ndim)} - {i})
[notebooks/factorization.ipynb bits_per_byte]
in nats instead of bits
    log2 -> log
per character: some characters are two bytes
    .encode("utf-8") ->
per token
    n_tokens * math.log2(perplexity) / len(text.encode("utf-8")) -> math.log2(perplexity)
[notebooks/factorization.ipynb first_given_second]
of P(second | x1): divide by the sum over all first tokens
    / both[:, second].sum() -> / both.sum(axis=1)
of P(x2 | x1), the second token given the first
    both[:, second] -> both[second]
[notebooks/factorization.ipynb sharpened_texts]
with sharpened_texts like sharpened_tokens: normalise once, over all texts
    => return sharpened_tokens(joint, t)
[notebooks/factorization.ipynb sharpened_tokens]
with sharpened_tokens not normalised: divide each factor by its own sum
    power / power.sum(axis=-1, keepdims=True) -> power
with sharpened_tokens like sharpened_texts: divide each factor by its own sum
    => return sharpened_texts(joint, t)
""")


def part(names, axes, *cases, change=np.array):
    """Return the Part of some functions. cases: (label, arguments); change: what is compared."""

    def observe(m, seed):
        for name in names:
            for label, *given in cases:
                given = [x.copy() if hasattr(x, "copy") else x for x in given]
                found = getattr(m, name)(*given)
                found = found if found is None else change(np.asarray(found, float))
                yield Seen(f"{name} {label}", found, axes)

    return Part(names, observe, WRONG)


def see_factors_of(m, seed):
    """Look at how many factors there are, and at each factor."""
    found = m.factors_of(JOINT.copy())
    yield Seen("how many factors it returns", found and len(found))
    for i, factor in enumerate(found):
        axes = ", ".join(f"x{k}" for k in range(1, i + 2))
        yield Seen(f"the factor of x{i + 1}", np.asarray(factor, float), axes)


exercise_log_factors = part(
    ("log_factors",), "token", *((f"of {ids}", MODEL, ids) for ids in ([3, 1, 4, 1], [2, 7, 7]))
)
exercise_factors_of = Part(("factors_of",), see_factors_of, WRONG)
exercise_1 = part(("bits_per_byte",), "", *((t, 9.5, 7, t) for t in ("a frog.", "süße Äpfel")))
exercise_2 = part(("first_given_second",), "x1", ("3", JOINT, 3), ("0", JOINT, 0))
PAIR = "sharpened_texts", "sharpened_tokens"
exercise_3 = part(PAIR, "x1, x2, x3, x4", ("t = 0.5, log of", JOINT, 0.5), change=np.log)
