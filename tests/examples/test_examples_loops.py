"""The loops in examples/choosing.py and the drafters in examples/drafts.py follow their
definitions."""

import numpy as np
import pytest

from decoding.drafters import Measured
from decoding.score import log_probabilities
from examples import choosing
from examples.drafts import Recycling
from generate import Sequence, begin, generate
from samplers import Sampler
from tests.support.tiny import FIXTURES, drafted_by, of_last_token, tiny_gpt2

REFERENCE = np.load(FIXTURES / "examples.npz")
MODEL = tiny_gpt2(n_vocab=5, stop_ids=[4])
PROMPT, N = [1, 2], 4


def run(loop, model=MODEL, prompt=PROMPT, n=N, sampler=None, seed=0):
    sequence = Sequence(*begin(model, prompt), n, sampler or Sampler(), seed)
    for token in loop(sequence.model, sequence):
        assert sequence.ids[-1] == token
    return sequence


# --- choosing among texts -------------------------------------------------------------------------


def test_chrf_equals_sacrebleu_s():
    for (one, other), expected in zip(REFERENCE["texts"], REFERENCE["chrf"]):
        found = choosing.chrf(choosing.ngrams(str(one)), choosing.ngrams(str(other)))
        assert found == pytest.approx(expected, abs=1e-6), (one, other)


def test_best_of_n_keeps_the_highest_mean_log_p():
    row = run(choosing.best_of(6), seed=3)
    seeds = np.random.default_rng(3).integers(2**62, size=6)
    texts = [list(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    means = [log_probabilities(MODEL, PROMPT + text)[1:].mean() for text in texts]
    assert len({*map(tuple, texts)}) > 3
    assert row.new_ids == texts[int(np.argmax(means))]


class Letters:
    """A tokenizer whose tokens are the single characters a, b, c, d and the full stop."""

    def decode(self, ids):
        return "".join("abcd."[id] for id in ids)


def test_minimum_bayes_risk_keeps_the_text_most_like_the_others():
    row = run(choosing.mbr(7, tokenizer=Letters()), seed=5)
    seeds = np.random.default_rng(5).integers(2**62, size=7)
    texts = [Letters().decode(generate(MODEL, PROMPT, N, Sampler(), seed)) for seed in seeds]
    grams = [*map(choosing.ngrams, texts)]
    likeness = [sum(choosing.chrf(a, b) for b in grams) for a in grams]
    assert len({*texts}) > 3
    assert Letters().decode(row.new_ids) == texts[int(np.argmax(likeness))]


# --- drafts ---------------------------------------------------------------------------------------


def test_many_drafts_are_accepted_if_each_token_depends_only_on_the_token_before_it():
    model = of_last_token(n_ctx=60, seed=1)  # its text repeats six tokens
    measured = Measured(Recycling(model))
    drafted = generate(model, [0], 40, loop=drafted_by(measured))
    assert list(drafted) == list(generate(model, [0], 40))
    assert measured.tokens_per_pass > 2.5
