"""The filters in examples/shelf.py and watermark.py agree with transformers, with their
definitions and with the expected statistics."""

from collections import Counter

import numpy as np
import pytest

from examples import shelf
from examples.watermark import detect, green, watermark
from generate import generate
from gpt2 import softmax
from samplers import Sampler
from tests.support.tiny import FIXTURES, p_value, tiny_gpt2

REFERENCE = np.load(FIXTURES / "examples.npz")
ALL = [shelf.typical(0.5), shelf.dry(5.0, 1.75, 1), shelf.xtc(0.1, 0.6), watermark(7)]


@pytest.mark.parametrize("case", range(len(REFERENCE["names"])))
def test_a_filter_equals_transformers(case):
    name, value = str(REFERENCE["names"][case]).split()
    made = getattr(shelf, name)(float(value))
    for logits, expected in zip(REFERENCE["logits"], REFERENCE["filtered"][case]):
        np.testing.assert_array_equal(made(logits, []), expected)


@pytest.mark.parametrize("keep", ALL)
def test_a_filter_keeps_its_argument_and_float32(keep):
    logits = np.linspace(-3, 3, 11, dtype=np.float32)
    logits.setflags(write=False)
    assert keep(logits, [1, 2, 1]).dtype == np.float32


def test_dry_penalises_repetitions_of_the_text():
    ids = [1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3]  # earlier, 4 followed 1 2 3, and 5 followed 2 3
    penalty = -shelf.dry(1.0, 2.0, 2)(np.zeros(10, np.float32), ids)
    assert dict(enumerate(penalty)) == dict.fromkeys(range(10), 0) | {4: 2.0, 5: 1.0}


def test_xtc_is_the_mixture_of_both_cases():
    """The published method tosses a coin for each new token. The filter needs no coin and gives the
    same distribution."""
    p, rng = np.array([0.4, 0.3, 0.2, 0.06, 0.04], np.float32), np.random.default_rng(3)
    counts = Counter()
    for _ in range(4000):
        # XTC removes tokens with p >= 0.1, except the least likely of them, which has p = 0.2.
        cut = p * [0, 0, 1, 1, 1] if rng.random() < 0.6 else p
        counts[int(rng.choice(5, p=cut / cut.sum()))] += 1
    mixed = softmax(shelf.xtc(0.1, 0.6)(np.log(p), []))
    assert p_value(counts, dict(enumerate(mixed))) > 1e-3
    assert p_value(counts, dict(enumerate(p))) < 1e-3


# --- the watermark --------------------------------------------------------------------------------


def test_z_counts_each_pair_of_tokens_once():
    follows = green(3, 0, 100, 0.25)
    [*_, good], [*_, bad] = np.flatnonzero(follows), np.flatnonzero(~follows)
    back = [int(green(3, token, 100, 0.25)[0]) for token in (good, bad)]
    for ids, n_green, n in [
        ([0, good], 1, 1),
        ([0, bad], 0, 1),
        ([0, good, 0, good, 0, good], 1 + back[0], 2),
        ([0, good, 0, bad, 0, good], 1 + sum(back), 4),
    ]:
        assert detect(ids, 3, 100) == pytest.approx((n_green - n / 4) / (n * 3 / 16) ** 0.5)
    assert detect([5], 3, 100) == 0


UNSURE = tiny_gpt2(n_vocab=200, n_ctx=200)
UNSURE.params["lm_head"][:] = 0


def test_a_marked_text_is_found_with_its_key_only():
    ids = [0, *generate(UNSURE, [0], 100, Sampler(watermark(7)), seed=1)]
    plain = [0, *generate(UNSURE, [0], 100, Sampler(), seed=1)]
    assert detect(ids, 7, 200) > 6 and detect(ids[50:], 7, 200) > 4
    assert abs(detect(ids, 8, 200)) < 3 and abs(detect(plain, 7, 200)) < 3
