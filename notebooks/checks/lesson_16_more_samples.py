"""The checks of lesson 16's exercises."""

import math

import lessons  # noqa: F401, it makes the project's files importable
import numpy as np


def exercise_1(voted):
    """The answer: voted(answers, weights): lists of the same length -> one of the answers."""
    found = voted(["a", "b", "b"], [1, 1, 1])
    assert found is not None, "write voted"
    assert found in ("a", "b"), f"one of the answers, not {found!r}"
    assert found == "b", "two votes against one: the sum of an answer's weights decides"
    assert voted(["a", "b", "b", "c"], [9, 3, 3, 1]) == "a", "weights count, not answers"
    assert voted(["a", "b", "a", "b"], [2, 5, 4, 0.5]) == "a", (
        "the sum of an answer's weights, not its largest weight"
    )
    assert voted(["a", "a", "a", "b"], [1, 1, 1, 2.5]) == "a", (
        "the sum of an answer's weights, not their mean"
    )
    assert voted(["z", "a"], [1, 1]) == "z", "of equals the one that came first"
    assert voted(["a", "b", "b"], [-1, -3, -3]) == "a", "weights may be negative, such as log P"


def exercise_2(draws_needed):
    """The answer: draws_needed(p, sure) -> a number of draws."""
    found = draws_needed(0.5, 0.7)
    assert found is not None, "write draws_needed"
    assert found == int(found), f"a whole number of draws, not {found}"
    assert found != 1, "one draw is right with 0.5 only: at least `sure`, so round up"
    assert found == 2, "with p = 0.5, two draws miss with 0.25: that is sure enough for 0.7"
    for p, sure in (0.01, 0.95), (0.3, 0.9), (0.9, 0.5), (0.25, 0.4375):
        right = next(k for k in range(1, 10_000) if 1 - (1 - p) ** k >= sure - 1e-12)
        assert draws_needed(p, sure) == right, (
            f"p = {p}, sure = {sure}: {right} draws, not {draws_needed(p, sure)}"
        )
    assert draws_needed(1, 0.99) == 1, "where every draw is right, one"
    assert draws_needed(0, 0.5) == math.inf, "where no draw is right, no number is enough"


def exercise_3(trusted):
    """The answer: trusted(p, catch, slip) -> 0 to 1."""
    found = trusted(0.5, 0.9, 0.3)
    assert found is not None, "write trusted"
    assert not np.isclose(found, 0.45), (
        "that is how often an answer is right *and* accepted; of which answers is it to be a share?"
    )
    assert not np.isclose(found, 0.6), "that is how often an answer is accepted, right or wrong"
    assert not np.isclose(found, 0.9), "that is `catch`: of the right answers, those accepted"
    assert np.isclose(found, 0.75), "p = 0.5, catch = 0.9, slip = 0.3: 0.45 of 0.45 + 0.15"
    rng = np.random.default_rng(0)
    for p, catch, slip in (0.01, 1, 0.05), (0.2, 0.6, 0.1), (0.9, 0.5, 0.5):
        right = rng.random(400_000) < p
        accepted = rng.random(400_000) < np.where(right, catch, slip)
        assert abs(trusted(p, catch, slip) - right[accepted].mean()) < 0.01, (
            f"of {accepted.sum():,} accepted answers another share is right, at p = {p}, catch ="
            f" {catch}, slip = {slip}"
        )
