"""Checks: weighted votes, the number of draws, trust in a verifier."""

import math

import numpy as np


def exercise_1(voted):
    """Check voted(answers, weights) -> the answer with the largest sum of weights."""
    found = voted(["a", "b", "b"], [1, 1, 1])
    assert found is not None, "write voted"
    assert found in ("a", "b"), f"return one of the answers, not {found!r}"
    assert found == "b", "b has two votes against one: the sum of an answer's weights decides"
    assert voted(["a", "b", "b", "c"], [9, 3, 3, 1]) == "a", "weights count, not answers"
    assert voted(["a", "b", "a", "b"], [2, 5, 4, 0.5]) == "a", (
        "take the sum of an answer's weights, not its largest weight"
    )
    assert voted(["a", "a", "a", "b"], [1, 1, 1, 2.5]) == "a", (
        "take the sum of an answer's weights, not their mean"
    )
    assert voted(["z", "a"], [1, 1]) == "z", "if sums are equal, take the answer that came first"
    assert voted(["a", "b", "b"], [-1, -3, -3]) == "a", "weights may be negative, such as log P"


def exercise_2(draws_needed):
    """Check draws_needed(p, sure) -> how many draws are needed.

    Each draw is right with probability p. The probability that at least one of them is right must
    be at least `sure`.
    """
    found = draws_needed(0.5, 0.7)
    assert found is not None, "write draws_needed"
    assert found == int(found), f"return a whole number of draws, not {found}"
    assert found != 1, "one draw is right with probability 0.5, but `sure` is 0.7: round up"
    assert found == 2, "two draws at p = 0.5 succeed with probability 0.75: enough for `sure` = 0.7"
    for p, sure in (0.01, 0.95), (0.3, 0.9), (0.9, 0.5), (0.25, 0.4375):
        right = next(k for k in range(1, 10_000) if 1 - (1 - p) ** k >= sure - 1e-12)
        found = draws_needed(p, sure)
        assert found == right, f"p = {p} and sure = {sure} need {right} draws, not {found}"
    assert draws_needed(1, 0.99) == 1, "if every draw is right, one is enough"
    assert draws_needed(0, 0.5) == math.inf, "if no draw is right, no number is enough"


def exercise_3(trusted):
    """Check trusted(p, catch, slip) -> the probability that an accepted answer is right.

    p: the probability that an answer is right; catch, slip: the probabilities that the verifier
    accepts a right answer, and a wrong answer.
    """
    found = trusted(0.5, 0.9, 0.3)
    assert found is not None, "write trusted"
    assert not np.isclose(found, 0.45), (
        "this is how often an answer is right *and* accepted: which answers do you divide by?"
    )
    assert not np.isclose(found, 0.6), "this is how often an answer is accepted, right or wrong"
    assert not np.isclose(found, 0.9), "this is `catch`, the share of right answers accepted"
    assert np.isclose(found, 0.75), f"0.45 of the accepted 0.45 + 0.15 is 0.75, not {found:.3f}"
    rng = np.random.default_rng(0)
    for p, catch, slip in (0.01, 1, 0.05), (0.2, 0.6, 0.1), (0.9, 0.5, 0.5):
        right = rng.random(400_000) < p
        accepted = rng.random(400_000) < np.where(right, catch, slip)
        found, share = trusted(p, catch, slip), right[accepted].mean()
        assert abs(found - share) < 0.01, (
            f"with p = {p}, catch = {catch} and slip = {slip}, {share:.3f} of the accepted answers"
            f" are right, not {found:.3f}"
        )
