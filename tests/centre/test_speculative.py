"""speculative.py is exact for every drafter and sampler.

Greedy texts must equal those of the cached loop. Sampled texts must have the model's distribution.
With a tiny vocabulary, the exact probability of every short text can be computed by the chain rule.
A chi-square test compares these probabilities with how often each text is sampled.
"""

import copy
import functools
import itertools
from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoding.drafters import DraftModel, NGramStore, PromptLookup, one_hots
from generate import Sequence, cached, generate, naive
from gpt2 import GPT2
from samplers import Sampler, greedy, no_repeat_ngram, temperature, top_k
from speculative import residual, speculative, verify
from tests.support.tiny import (
    Watched,
    chain_rule,
    drafted_by,
    opposite,
    p_value,
    tiny_gpt2,
)

TARGET = tiny_gpt2()
SMALL = tiny_gpt2(seed=2, n_embd=4, n_layer=1)
SHORT = tiny_gpt2(seed=3, n_embd=4, n_layer=1, n_ctx=12)
PROMPTS = [[3], [1, 2, 3, 1, 2], [0, 10, 5, 5, 7, 0, 10], [n % 7 for n in range(14)]]
rng_of = np.random.default_rng


class Replay:
    """Proposes a known text's tokens. It keeps each with probability `rate`, or makes it wrong."""

    def __init__(self, n_vocab, text, rate, rng):
        self.n_vocab, self.text, self.rate, self.rng = n_vocab, list(text), rate, rng

    def propose(self, ids, n):
        right = self.text[len(ids) : len(ids) + n]
        drafts = [t if self.rng.random() < self.rate else (t + 1) % self.n_vocab for t in right]
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        pass


def drafters(model, text, sampler):
    """Return {name: a function that makes the drafter}. `Replay` drafts the tokens of `text`."""
    n_vocab, source = model.n_vocab, [4, 5, 6, 4, 5, 7]
    return {
        "smaller model": lambda: DraftModel(SMALL, sampler, rng_of(7)),
        "model with a shorter context": lambda: DraftModel(SHORT, sampler, rng_of(7)),
        "4-grams": lambda: NGramStore(n_vocab, 4, source),
        "lookup of 2": lambda: PromptLookup(n_vocab, 2, source),
        "replay": lambda: Replay(n_vocab, text, 0.5, rng_of(7)),
    }


NAMES = list(drafters(TARGET, [], greedy))


def by_speculation(model, prompt, n, drafter, gamma, sampler=greedy, seed=0):
    return list(generate(model, prompt, n, sampler, seed, drafted_by(drafter, gamma)))


@functools.cache
def greedy_ids(n_prompt):
    return list(generate(TARGET, PROMPTS[n_prompt], 100))


@pytest.mark.parametrize("name", ["smaller model", "4-grams", "lookup of 2"])
def test_one_drafter_may_serve_many_texts_in_turn(name):
    """The texts take turns. Each text has its own sampler and its own random generator."""
    samplers = [greedy, Sampler(temperature(0.7), top_k(3)), greedy, Sampler(temperature(2.0))]
    drafter = drafters(TARGET, [], samplers[1])[name]()
    texts = [Sequence(TARGET, PROMPTS[i], 8 - i, samplers[i], seed=i) for i in range(4)]
    running = [speculative(TARGET, text, drafter, gamma=5) for text in texts]
    for _ in range(8):
        for tokens in running:
            next(tokens, None)
    assert [len(text.new_ids) for text in texts] == [8, 7, 6, 5]
    assert texts[0].new_ids == greedy_ids(0)[:8] and texts[2].new_ids == greedy_ids(2)[:6]


def test_the_passes_have_the_prompt_then_the_last_token_and_the_drafts():
    """The first pass has the prompt without its last token. The second pass has this token and the
    first drafts. Here, all drafts are accepted."""
    model, text = Watched(TARGET), PROMPTS[1] + greedy_ids(1)
    ids = by_speculation(model, PROMPTS[1], 9, Replay(TARGET.n_vocab, text, 1, rng_of()), 4)
    assert ids == greedy_ids(1)[:9]
    assert model.shapes == [(4,), (1 + 4,), (1 + 3,)]
    assert model.lasts == {1, None}  # the pass over the prompt computes one row of logits


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=TARGET.n_ctx),
    st.integers(0, 16),  # new tokens
    st.sampled_from(NAMES),
    st.integers(1, 16),  # gamma
    st.one_of(st.none(), st.integers(1, 6)),  # new tokens until the caller ends the text, or None
)
@example([1] * 9, 9, "model with a shorter context", 4, None)
def test_greedy_texts_and_stop_reasons_equal_the_cached_loop_s(prompt, n, name, gamma, finish_at):
    model = GPT2(TARGET.params, TARGET.n_head)
    model.stop_ids = [5]
    drafter = drafters(TARGET, (prompt + greedy_ids(1))[: model.n_ctx], greedy)[name]()
    texts = []
    for loop in (cached, drafted_by(drafter, gamma)):
        texts.append(Sequence(model, prompt, n))
        for token in loop(model, texts[-1]):
            assert token == texts[-1].ids[-1]
            if len(texts[-1].new_ids) == finish_at:
                texts[-1].finish("stop")
    assert texts[0].ids == texts[1].ids
    assert texts[0].stop_reason == texts[1].stop_reason


def test_a_drafter_proposes_no_more_than_can_be_used():
    """Each pass adds one token that is not a draft. So at most n_left - 1 drafts are useful."""
    for n, n_all in ((7, 7), (100, TARGET.n_ctx - len(PROMPTS[1]))):
        noted = Mock(wraps=Replay(TARGET.n_vocab, PROMPTS[1] + greedy_ids(1), 0, rng_of(7)))
        assert by_speculation(TARGET, PROMPTS[1], n, noted, 5) == greedy_ids(1)[:n_all]
        expected = [min(5, n_left - 1) for n_left in range(n_all, 0, -1)]
        assert [call.args[1] for call in noted.propose.call_args_list] == expected
        assert noted.learn.call_count == len(expected)  # the drafter learns from each pass


@pytest.mark.parametrize("n_taken", [0, 1, 3, 5, 8, 9])
def test_any_loop_goes_on_where_the_caller_left_one(n_taken):
    """If the caller leaves between two tokens of a pass, the sequence has only the yielded ones."""
    drafter = Replay(TARGET.n_vocab, PROMPTS[1] + greedy_ids(1), 1, rng_of())
    sequence = Sequence(TARGET, PROMPTS[1], 9)
    tokens = speculative(TARGET, sequence, drafter)
    taken = list(itertools.islice(tokens, n_taken))
    tokens.close()
    assert sequence.new_ids == taken == greedy_ids(1)[:n_taken]
    assert sequence.n_left == 9 - n_taken and sequence.running == (n_taken < 9)
    for loop in (naive, cached, drafted_by(drafter)):
        resumed = copy.deepcopy(sequence)
        list(loop(TARGET, resumed))
        assert resumed.new_ids == greedy_ids(1)[:9]


STOP, PROMPT, N_TOKENS, N_TEXTS = 3, [0, 1, 2, 0], 4, 700
smallest = functools.partial(tiny_gpt2, n_vocab=4, n_embd=4, n_layer=1)
TINY, TINY_SMALL = smallest(seed=14, stop_ids=[STOP]), smallest(seed=9)
NO_BIGRAM_TWICE = Sampler(no_repeat_ngram(2), temperature(1.5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "drafter, gamma, sampler",
    [
        (DraftModel(TINY_SMALL, greedy, rng_of(11)), 2, Sampler(temperature(1.7))),
        (DraftModel(opposite(TINY), NO_BIGRAM_TWICE, rng_of(11)), 3, NO_BIGRAM_TWICE),
        (NGramStore(TINY.n_vocab, 2), 2, Sampler(temperature(1.4), top_k(2))),
    ],
    ids=["greedy model", "opposite model", "bigrams"],
)
def test_sampled_texts_have_exactly_the_model_s_distribution(drafter, gamma, sampler):
    """The promise of Leviathan et al. 2023: neither drafter nor sampler changes it."""
    rng, counts = rng_of(12), Counter()
    for _ in range(N_TEXTS):
        text = by_speculation(TINY, PROMPT, N_TOKENS, drafter, gamma, sampler, rng)
        counts[tuple(text)] += 1
    assert p_value(counts, chain_rule(TINY, PROMPT, N_TOKENS, sampler)) > 1e-3


def test_the_residual_is_the_excess_of_p_or_p_itself_if_p_equals_q():
    p, q = np.array([[1, 3, 4, 0], [2, 2, 1, 3]], np.float32) / 8
    assert residual(p, q).tolist() == [0, 1 / 4, 3 / 4, 0]
    assert residual(p, p).tolist() == p.tolist()


@pytest.mark.parametrize(
    "drafts, tokens, n_numbers",
    [
        ([1, 2, 3], [1, 2], 2),  # an accepted draft is a stop id
        ([1, 0, 3], [1, 2], 3),  # a rejected draft is replaced by a stop id
        ([1], [1, 2], 2),  # the token after the last draft is a stop id
        ([2, 0, 3], [1], 2),  # a rejected draft is a stop id
    ],
)
def test_nothing_follows_a_stop_id(drafts, tokens, n_numbers):
    logits, given_ids = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]], []

    def sampler(logits, ids):
        given_ids.append(list(ids))
        return logits

    rng, qs = Mock(random=Mock(return_value=0.5)), one_hots(drafts, 4)
    rows = logits[: len(drafts) + 1]
    assert verify(rows, [2], drafts, qs, sampler, rng, stop_ids=(2,)) == tokens
    assert rng.random.call_count == n_numbers
    assert not any(2 in ids[1:] for ids in given_ids)  # the prompt's stop id does not count
