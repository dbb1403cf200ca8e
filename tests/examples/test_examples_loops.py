"""The loops in examples/choosing.py follow their definitions."""

import numpy as np
import pytest

from decoding.score import log_probabilities
from examples import choosing
from generate import generate
from samplers import Sampler
from tests.support.tiny import FIXTURES, tiny_gpt2

REFERENCE = np.load(FIXTURES / "examples.npz")
MODEL = tiny_gpt2(n_vocab=5, stop_ids=[4])
PROMPT, N = [1, 2], 4


def test_chrf_equals_sacrebleu_s():
    for (one, other), expected in zip(REFERENCE["texts"], REFERENCE["chrf"]):
        found = choosing.chrf(choosing.ngrams(str(one)), choosing.ngrams(str(other)))
        assert found == pytest.approx(expected, abs=1e-6), (one, other)


def test_best_of_n_keeps_the_highest_mean_log_p():
    found = [*generate(MODEL, PROMPT, N, Sampler(), 3, choosing.best_of(6))]
    seeds = np.random.default_rng(3).integers(2**62, size=6)
    texts = [list(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    means = [log_probabilities(MODEL, PROMPT + text)[1:].mean() for text in texts]
    assert len({*map(tuple, texts)}) > 3
    assert found == texts[int(np.argmax(means))]


class Letters:
    """A tokenizer whose tokens are the single characters a, b, c, d and the full stop."""

    def decode(self, ids):
        return "".join("abcd."[id] for id in ids)


def test_minimum_bayes_risk_keeps_the_text_most_like_the_others():
    loop = choosing.mbr(7, tokenizer=Letters())
    found = [*generate(MODEL, PROMPT, N, Sampler(), 5, loop)]
    seeds = np.random.default_rng(5).integers(2**62, size=7)
    texts = [Letters().decode(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    grams = [*map(choosing.ngrams, texts)]
    likeness = [sum(choosing.chrf(a, b) for b in grams) for a in grams]
    assert len({*texts}) > 3
    assert Letters().decode(found) == texts[int(np.argmax(likeness))]
