"""drafters.py: n-gram and lookup drafts follow their definitions, a model accepts all of its own
drafts, Measured counts correctly, and Checked finds mistakes."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.drafters import Checked, DraftModel, Measured, NGramStore, PromptLookup, one_hots
from generate import generate
from samplers import Sampler, greedy, no_repeat_ngram, repetition_penalty, top_p
from tests.support.tiny import drafted_by, tiny_gpt2

TARGET = tiny_gpt2()
SMALL = tiny_gpt2(seed=2, n_embd=4, n_layer=1)
PROMPTS = [[3], [1, 2, 3, 1, 2], [0, 10, 5, 5, 7, 0, 10], [n % 7 for n in range(14)]]
N_VOCAB = TARGET.n_vocab
rng_of = np.random.default_rng


def by_speculation(prompt, n, drafter, gamma, sampler=greedy, model=TARGET):
    return list(generate(model, prompt, n, sampler, loop=drafted_by(drafter, gamma)))


def passes_of(drafter, sampler=greedy, prompt=PROMPTS[1]):
    """Return (number of drafts, number of accepted drafts) for each pass."""
    noted = Mock(wraps=drafter)
    by_speculation(prompt, 100, noted, 5, sampler)
    passes = [call.args for call in noted.learn.call_args_list]
    return [(len(drafts), len(tokens) - 1) for _, drafts, _, tokens in passes]


@pytest.mark.parametrize(
    "sampler", [greedy, Sampler(), Sampler(repetition_penalty(1.5), top_p(0.9))]
)
def test_the_model_as_its_own_draft_is_always_accepted(sampler):
    """If the draft model read the wrong text or had a stale cache, the output would be the same,
    but some drafts would be rejected."""
    for prompt in PROMPTS:
        passes = passes_of(DraftModel(TARGET, sampler, rng_of(7)), sampler, prompt)
        assert all(drafted == accepted for drafted, accepted in passes)
        assert passes[0][0] == 5


def test_the_counts_of_a_few_passes_by_hand():
    measured = Measured(SimpleNamespace())  # a drafter need not have `learn`
    logits = np.zeros((4, 9), np.float32)
    assert measured.tokens_per_pass == measured.tested == 0
    for tokens in ([1, 2, 3, 4], [1, 9], [9], [1, 2]):  # in the last pass, 2 is a stop id
        measured.learn([5], [1, 2, 3], logits, tokens)
    measured.learn([5], [], logits[:1], [9])
    assert (measured.tested, measured.accepted) == (8, 6)
    assert measured.tokens_per_pass == pytest.approx(10 / 5)


def test_a_growing_text_is_counted_once():
    store, text = NGramStore(9, n=3), [1, 2, 3, 1, 2, 4]
    for end in (1, 2, 5, 5, 6):
        store.read(text[:end])
    after_one = {(1,): {2: 2}, (2,): {3: 1, 4: 1}, (3,): {1: 1}}
    assert store.counts == after_one | {(1, 2): {3: 1, 4: 1}, (2, 3): {1: 1}, (3, 1): {2: 1}}
    store.read([1, 2, 7])  # only 7 is new, because the previous text also begins with [1, 2]
    assert store.counts[(2,)] == store.counts[(1, 2)] == {3: 1, 4: 1, 7: 1}


def test_the_longest_known_context_drafts():
    store = NGramStore(9, n=3, before=[1, 2, 3, 5, 2, 4, 6, 2, 4])
    assert store.next([1, 2]) == 3  # the longer context wins, although (2,) -> 4 is more frequent
    assert store.next([7, 2]) == 4  # (7, 2) is unknown, so the store backs off to (2,)
    assert store.next([2]) == 4
    assert store.next([7]) is None and store.next([]) is None


def test_an_unknown_context_stops_drafting():
    store = NGramStore(9, n=3)
    drafts, qs = store.propose([1, 2, 3, 4, 1], 8)
    assert drafts == [2, 3, 4, 1, 2, 3, 4, 1]
    np.testing.assert_array_equal(qs, np.eye(9, dtype=np.float32)[drafts])
    assert store.propose([1, 2, 3, 4, 8], 8) == ([], [])
    store = NGramStore(9, n=2, before=[5, 6, 7])
    assert store.propose([5], 8)[0] == [6, 7]


def test_a_store_learns_the_model_s_best_token_at_every_verified_position():
    logits = np.array([[0, 1, 5, 3, 2], [9, 1, 2, 3, 8]], np.float32)
    store = NGramStore(5, n=3)
    store.learn([4, 1], [3], logits, [3, 0])
    assert store.counts == {(1,): {2: 1}, (4, 1): {2: 1}, (3,): {0: 1}, (1, 3): {0: 1}}
    store = NGramStore(5, n=2)
    store.learn([4, 1], [3], logits, [2])  # the store also learns what follows a rejected draft
    assert store.counts == {(1,): {2: 1}, (3,): {0: 1}}


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=15),
    st.integers(0, 14),  # how many of these tokens, at most, are the source
    st.integers(1, 4),
    st.integers(0, 20),
)
def test_lookup_follows_its_definition(text, n_source, max_size, n):
    """By definition, each draft copies the token that is `distance` positions before it. The source
    counts as the beginning of the text."""
    places = [  # (size, end) for each earlier occurrence of a suffix of the text
        (size, end)
        for size in range(1, max_size + 1)
        for end in range(size, len(text))
        if text[end - size : end] == text[len(text) - size :]
    ]
    longer = list(text)
    if places:
        distance = len(text) - max(places)[1]
        for _ in range(n):
            longer.append(longer[-distance])
    n_source = min(n_source, len(text) - 1)
    drafts, qs = PromptLookup(3, max_size, text[:n_source]).propose(text[n_source:], n)
    assert drafts == longer[len(text) :]
    np.testing.assert_array_equal(qs, one_hots(drafts, 3))


def test_a_draft_that_cannot_be_drawn_is_left_out():
    """If the filters leave no token, the draft model stops drafting. The large model's sampler
    raises an error only when the text reaches that position."""
    sampler = Sampler(no_repeat_ngram(1))
    drafter = DraftModel(SMALL, sampler, rng_of(7))
    drafts, qs = drafter.propose([1, 2, 3, 4, 5, 6, 7, 8], 16)
    assert sorted(drafts) == [0, 9, 10] and len(qs) == 3
    found = by_speculation([1, 2], N_VOCAB - 2, drafter, 16, sampler)
    assert sorted([1, 2, *found]) == list(range(N_VOCAB))
    with pytest.raises(ValueError, match="no token can be drawn"):
        by_speculation([1, 2], N_VOCAB - 1, drafter, 16, sampler)


def test_a_checked_drafter_cannot_change_the_text_and_need_not_learn():
    def rude(ids, n):
        drafts = ids[-1:] * n
        ids.clear()
        return drafts, one_hots(drafts, N_VOCAB)

    checked = Measured(Checked(SimpleNamespace(propose=rude), N_VOCAB))
    bare = SimpleNamespace(propose=lambda ids, n: rude(list(ids), n))
    for drafter in checked, bare:
        assert by_speculation(PROMPTS[1], 15, drafter, 3) == list(generate(TARGET, PROMPTS[1], 15))


WRONG = [  # drafts, their distributions over 4 tokens, part of the error message
    ([1, 1, 1], [[0, 1, 0, 0]] * 3, "3 drafts and 3 distributions, not at most 2"),
    ([1, 1], [[0, 1, 0, 0]], "2 drafts and 1 distributions"),
    ([4], [[1, 0, 0, 0]], "token 4: ids are 0 to 3"),
    ([1], [[np.nan, 1, 0, 0]], "not the distribution"),
    ([1], [[-0.5, 1.5, 0, 0]], "least -0.5"),
    ([2], [[0.5, 0.5, 0, 0]], "at the draft 0"),
    ([1], [[0, 1, 0]], r"the shape \(3,\), not \(4,\)"),
    ([1, 2], [[0, 1, 0, 0], [1, 0, 0, 0]], "of its draft 2"),
]


@pytest.mark.parametrize("drafts, qs, message", WRONG)
def test_wrong_proposals_are_refused(drafts, qs, message):
    """Without the error, texts could have a wrong distribution, and nobody would notice."""
    proposed = drafts, [np.array(q, np.float32) for q in qs]
    drafter = Checked(SimpleNamespace(propose=lambda ids, n: proposed), 4)
    with pytest.raises(ValueError, match=f"a drafter.*{message}"):
        drafter.propose([0], 2)
