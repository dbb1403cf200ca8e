"""speculative.py is exact for every drafter and sampler, and its caches match the text.

Greedy texts must equal those of the cached loop. Sampled texts must have the model's distribution.
With a tiny vocabulary, the exact probability of every short text can be computed by the chain rule.
A chi-square test compares these probabilities with how often each text is sampled. Three variants
that are wrong on purpose must fail this test.
"""

import contextlib
import copy
import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import speculative as speculative_module
from decoding.drafters import DraftModel, NGramStore, PromptLookup, one_hots
from generate import Sequence, cached, generate, naive
from gpt2 import GPT2
from samplers import (
    Sampler,
    greedy,
    no_repeat_ngram,
    one_hot,
    repetition_penalty,
    temperature,
    top_k,
    top_p,
)
from speculative import Drafter, check_drafts, residual, speculative, verify
from tests.support.tiny import (
    Noted,
    Replay,
    Watched,
    as_function,
    chi_square_tail,
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


def drafters(model, text, sampler):
    """Return {name: a function that makes the drafter}. `Replay` drafts the tokens of `text`."""
    n_vocab = model.n_vocab
    made = {
        "smaller model": lambda: DraftModel(SMALL, sampler, rng_of(7)),
        "smaller model, other sampler": lambda: DraftModel(SMALL, Sampler(), rng_of(7)),
        "same model": lambda: DraftModel(model, sampler, rng_of(7)),
        "opposite model": lambda: DraftModel(opposite(model), sampler, rng_of(7)),
        "model with a shorter context": lambda: DraftModel(SHORT, sampler, rng_of(7)),
        "n-grams of a source": lambda: NGramStore(n_vocab, before=[4, 5, 6, 4, 5, 7]),
        "lookup in a source": lambda: PromptLookup(n_vocab, before=[4, 5, 6, 4, 5, 7]),
    }
    for n, k in itertools.product((2, 3, 4, 5), (1, 3, 8)):
        made[f"{n}-grams, top {k}"] = functools.partial(NGramStore, n_vocab, n, k)
    for n in (1, 2, 3):
        made[f"lookup of {n}"] = functools.partial(PromptLookup, n_vocab, n)
    for rate in (0, 0.5, 1):
        made[f"replay at {rate}"] = lambda rate=rate: Replay(n_vocab, text, rate, rng_of(7))
    return made


NAMES = list(drafters(TARGET, [], greedy))


def make_drafter(name, model, text=(), sampler=greedy):
    return drafters(model, text, sampler)[name]()


def by_speculation(model, prompt, n, drafter, gamma, sampler=greedy, seed=0):
    return list(generate(model, prompt, n, sampler, seed, drafted_by(drafter, gamma)))


# --- greedy ---------------------------------------------------------------------------------------


@functools.cache
def greedy_ids(n_prompt):
    return list(generate(TARGET, PROMPTS[n_prompt], 100))


def test_the_greedy_texts_have_different_tokens():
    assert all(len(set(greedy_ids(i))) > 3 for i in range(len(PROMPTS)))


@pytest.mark.parametrize("name", NAMES)
def test_greedy_speculation_equals_the_greedy_loop_up_to_the_whole_context(name):
    for gamma in range(1, 17):
        which = gamma % len(PROMPTS)
        prompt, expected = PROMPTS[which], greedy_ids(which)
        drafter = make_drafter(name, TARGET, prompt + expected)
        assert by_speculation(TARGET, prompt, 100, drafter, gamma) == expected
        assert len(prompt) + len(expected) == TARGET.n_ctx


@pytest.mark.parametrize("name", ["same model", "replay at 1", "replay at 0", "3-grams, top 1"])
def test_speculation_yields_at_most_n_tokens(name):
    prompt, expected = PROMPTS[1], greedy_ids(1)
    for n, gamma in itertools.product(range(7), (1, 3, 16)):
        drafter = make_drafter(name, TARGET, prompt + expected)
        assert by_speculation(TARGET, prompt, n, drafter, gamma) == expected[:n]


@pytest.mark.parametrize("name", ["same model", "replay at 1", "3-grams, top 1"])
def test_a_stop_id_inside_an_accepted_block_ends_the_text_there(name):
    prompt, expected = PROMPTS[2], greedy_ids(2)
    for stop in set(expected):
        model = GPT2(TARGET.params, TARGET.n_head, stop_ids=[stop])
        noted = Noted(make_drafter(name, model, prompt + expected))
        ids = by_speculation(model, prompt, 100, noted, 16)
        assert ids == expected[: expected.index(stop) + 1]
        assert [token for _, _, tokens in noted.passes for token in tokens] == ids


def test_a_prompt_that_fills_the_context_yields_nothing_and_calls_no_drafter():
    full = [1] * TARGET.n_ctx
    assert by_speculation(TARGET, full, 5, None, 4) == []


def test_gamma_0_equals_the_cached_loop():
    for name in ("same model", "lookup of 3", "3-grams, top 1", "replay at 1"):
        drafter = make_drafter(name, TARGET, PROMPTS[1] + greedy_ids(1))
        assert by_speculation(TARGET, PROMPTS[1], 100, drafter, 0) == greedy_ids(1)


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2"])
def test_one_drafter_may_serve_many_texts_in_turn(name):
    """The texts take turns. Each text has its own sampler and its own random generator."""
    samplers = [greedy, Sampler(temperature(0.7), top_k(3)), greedy, Sampler(temperature(2.0))]
    drafter = make_drafter(name, TARGET, sampler=samplers[1])
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


def test_the_default_of_gamma_is_4():
    model, sequence = Watched(TARGET), Sequence(TARGET, PROMPTS[1], 9)
    text = PROMPTS[1] + greedy_ids(1)
    list(speculative(model, sequence, Replay(TARGET.n_vocab, text, 1, rng_of())))
    assert model.shapes == [(4,), (1 + 4,), (1 + 3,)]


def test_a_pass_after_wrong_drafts_has_one_new_token():
    model, text = Watched(TARGET), PROMPTS[1] + greedy_ids(1)
    ids = by_speculation(model, PROMPTS[1], 6, Replay(TARGET.n_vocab, text, 0, rng_of()), 2)
    assert ids == greedy_ids(1)[:6]
    # The first pass has the prompt without its last token. Before the later passes, 6, 5, ..., 1
    # tokens are still to be generated.
    assert model.shapes == [(4,), (3,), (3,), (3,), (3,), (2,), (1,)]


def test_a_prompt_of_one_token_passes_with_the_first_drafts():
    model = Watched(TARGET)
    by_speculation(model, [3], 4, Replay(TARGET.n_vocab, [3, *greedy_ids(0)], 1, rng_of()), 3)
    assert model.shapes == [(4,)]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=TARGET.n_ctx),
    st.integers(0, 16),  # new tokens
    st.sampled_from(NAMES),
    st.integers(1, 8),  # gamma
    st.one_of(st.none(), st.integers(1, 6)),  # new tokens until the caller ends the text, or None
)
def test_greedy_texts_and_stop_reasons_equal_the_cached_loop_s(prompt, n, name, gamma, finish_at):
    model = GPT2(TARGET.params, TARGET.n_head, stop_ids=[5])
    drafter = make_drafter(name, TARGET, (prompt + greedy_ids(1))[: model.n_ctx])
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
        noted = Noted(make_drafter("replay at 0", TARGET, PROMPTS[1] + greedy_ids(1)))
        assert by_speculation(TARGET, PROMPTS[1], n, noted, 5) == greedy_ids(1)[:n_all]
        expected = [min(5, n_left - 1) for n_left in range(n_all, 0, -1)]
        assert [n for n, _, _ in noted.passes] == expected


# --- callers that leave the loop or finish a text, and errors -------------------------------------


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


@pytest.mark.parametrize("prompt", [[1], [1, 2]])
def test_a_text_that_the_cached_loop_began_goes_on(prompt):
    model = tiny_gpt2()
    expected = list(generate(model, prompt, 14))
    sequence = Sequence(model, prompt, 14)
    first = [token for _, token in zip(range(6), cached(model, sequence))]
    rest = list(speculative(model, sequence, PromptLookup(model.n_vocab)))
    assert first + rest == expected


@pytest.mark.parametrize("rate", [0, 0.5, 1])
@pytest.mark.parametrize("n_taken", [1, 2, 3, 5, 6, 7])
def test_a_caller_may_finish_a_text_inside_a_block(rate, n_taken):
    """After `finish`, the loop yields no more tokens of the pass, and runs no further pass."""
    model, text = Watched(TARGET), PROMPTS[1] + greedy_ids(1)
    sequence = Sequence(TARGET, PROMPTS[1], 9)
    for token in speculative(model, sequence, Replay(TARGET.n_vocab, text, rate, rng_of(3))):
        assert sequence.ids[-1] == token
        if len(sequence.new_ids) == n_taken:
            sequence.finish("stop")
            model.shapes.clear()
    assert sequence.new_ids == greedy_ids(1)[:n_taken]
    assert sequence.stop_reason == "stop" and model.shapes == []


def fails_at_11(logits, ids):
    return logits if len(ids) < 11 else logits[ids[99]]


@pytest.mark.parametrize(
    "last, error", [(lambda logits, ids: logits, ValueError), (fails_at_11, IndexError)]
)
def test_a_sampler_s_error_is_raised(last, error):
    """The filters remove all tokens, or one filter raises an error. The tokens before the error
    equal those of the cached loop."""
    sampler, prompt = Sampler(no_repeat_ngram(1), last, to_probs=one_hot), [1, 2]
    expected = []
    with contextlib.suppress(error):
        expected.extend(generate(TARGET, prompt, 20, sampler))
    sequence = Sequence(TARGET, prompt, 20, sampler)
    drafter = PromptLookup(TARGET.n_vocab, before=prompt + expected + [0])
    with pytest.raises(error):
        list(speculative(TARGET, sequence, drafter, 16))
    assert sequence.new_ids == expected[: len(sequence.new_ids)]


# --- sampled texts and the chi-square test --------------------------------------------------------


@pytest.mark.parametrize(
    "x, dof, p",  # from printed tables of the chi-square distribution
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (7.815, 3, 0.05), (16.919, 9, 0.05), (18.307, 10, 0.05)]
    + [(27.877, 9, 0.001), (29.588, 10, 0.001), (76.154, 50, 0.01), (68.669, 51, 0.05)],
)
def test_the_chi_square_tail_agrees_with_the_tables(x, dof, p):
    assert chi_square_tail(x, dof) == pytest.approx(p, rel=1e-3)


class Remembered(Sampler):
    """A sampler that stores its results, because the tests repeat the same logits and ids often."""

    def __init__(self, *filters):
        super().__init__(*filters)
        self.known = {}

    def __call__(self, logits, ids):
        key = (logits.tobytes(), *ids)
        if key not in self.known:
            self.known[key] = super().__call__(logits, ids)
        return self.known[key]


STOP, PROMPT, N_TOKENS, N_TEXTS = 3, [0, 1, 2, 0], 4, 1500
smallest = functools.partial(tiny_gpt2, n_vocab=4, n_embd=4, n_layer=1)
TINY = as_function(smallest(seed=14, stop_ids=[STOP]))
TINY_SMALL, TINY_OPPOSITE = as_function(smallest(seed=9)), as_function(opposite(smallest(seed=14)))
SAMPLERS = {
    "softmax": Remembered(),
    "temperature": Remembered(temperature(1.7)),
    "top-k": Remembered(temperature(1.4), top_k(2)),
    "top-p": Remembered(temperature(1.6), top_p(0.8)),
    "repetition penalty": Remembered(repetition_penalty(1.8), temperature(1.3)),
    "no repeated bigram": Remembered(no_repeat_ngram(2), temperature(1.5)),
}


def tiny_drafters(sampler, seed=11):
    """Return {name: a drafter for the model TINY}."""
    n_vocab, rng = TINY.n_vocab, rng_of(seed)
    return {
        "smaller model": DraftModel(TINY_SMALL, sampler, rng),
        "smaller model, greedy": DraftModel(TINY_SMALL, greedy, rng),
        "smaller model, flatter": DraftModel(TINY_SMALL, Sampler(temperature(3.0)), rng),
        "same model": DraftModel(TINY, sampler, rng),
        "opposite model": DraftModel(TINY_OPPOSITE, sampler, rng),
        "bigrams, top 1": NGramStore(n_vocab, 2, 1),
        "3-grams, top 2": NGramStore(n_vocab, 3, 2),
        "lookup": PromptLookup(n_vocab, 2),
        "replay": Replay(n_vocab, PROMPT + [1, 2, 1, 0, 0, 1, 2, 1], 0.5, rng),
    }


TINY_NAMES = list(tiny_drafters(greedy))


def exact(sampler, ids=(), p=1.0):
    """Return {text: its probability by the chain rule} for each text that may follow PROMPT."""
    if len(ids) == N_TOKENS or STOP in ids:
        return {ids: p}
    probs = sampler(TINY.logits([*PROMPT, *ids]), [*PROMPT, *ids]).astype(float)
    branches = [exact(sampler, (*ids, t), p * q) for t, q in enumerate(probs / probs.sum()) if q]
    return functools.reduce(dict.__or__, branches)


def sampled(sampler, drafter, gamma, rng):
    """Generate N_TEXTS texts after PROMPT with one drafter; return how often each text occurs."""
    return Counter(
        tuple(by_speculation(TINY, PROMPT, N_TOKENS, drafter, gamma, sampler, rng))
        for _ in range(N_TEXTS)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("name", TINY_NAMES)
def test_sampled_texts_have_exactly_the_model_s_distribution(name, kind):
    sampler = SAMPLERS[kind]
    gamma = 1 + (TINY_NAMES.index(name) + list(SAMPLERS).index(kind)) % 3
    counts = sampled(sampler, tiny_drafters(sampler)[name], gamma, rng_of(12))
    assert p_value(counts, exact(sampler)) > 1e-3


def test_the_samplers_give_different_distributions():
    """Under each sampler, at least five texts have P > 1%. No two distributions are close."""
    known = {kind: exact(sampler) for kind, sampler in SAMPLERS.items()}
    for probs in known.values():
        assert sum(probs.values()) == pytest.approx(1)
        assert sum(p > 0.01 for p in probs.values()) >= 5
    for one, other in itertools.combinations(known.values(), 2):
        assert sum(abs(one.get(t, 0) - other.get(t, 0)) for t in one | other) > 0.1


class BestTokenAsIfDrawn(DraftModel):
    """A wrong drafter: it drafts its best token, but returns the q from which it should draw."""

    def propose(self, ids, n):
        self.sampler, honest = greedy, self.sampler
        drafts, _ = super().propose(ids, n)
        self.sampler = honest
        prefixes = [ids + drafts[:i] for i in range(len(drafts))]
        return drafts, [honest(self.model.logits(prefix), prefix) for prefix in prefixes]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["softmax", "temperature", "repetition penalty"])
def test_control_the_best_token_with_softmax_acceptance_is_found_wrong(kind):
    sampler = SAMPLERS[kind]
    wrong = BestTokenAsIfDrawn(TINY_SMALL, sampler, rng_of(11))
    assert p_value(sampled(sampler, wrong, 3, rng_of(12)), exact(sampler)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smaller model", "bigrams, top 1", "lookup"])
def test_control_a_second_draw_from_p_is_found_wrong(name, monkeypatch):
    monkeypatch.setattr(speculative_module, "residual", lambda p, q: p)
    sampler = SAMPLERS["softmax"]
    counts = sampled(sampler, tiny_drafters(sampler)[name], 3, rng_of(12))
    assert p_value(counts, exact(sampler)) < 1e-6


@pytest.mark.slow
def test_control_a_draft_drawn_with_the_loop_s_own_numbers_is_found_wrong():
    """Drafts must be independent of their acceptance. Here, drafter and loop have the same seed."""
    sampler, wrong = SAMPLERS["softmax"], Counter()
    for seed in range(N_TEXTS):
        drafter = DraftModel(TINY_SMALL, sampler, rng_of(seed))
        wrong[tuple(by_speculation(TINY, PROMPT, N_TOKENS, drafter, 1, sampler, seed))] += 1
    assert p_value(wrong, exact(sampler)) < 1e-6


# --- verification, compared with theory -----------------------------------------------------------


class Scripted:
    """A random generator that returns the given numbers in order."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def as_given(logits, ids):
    """A sampler that returns the logits themselves as probabilities."""
    return logits


def frozen(counts):
    """Return counts / 8 as read-only probabilities [n_vocab]."""
    probs = np.array(counts, np.float32) / 8
    probs.setflags(write=False)
    return probs


eighths = st.lists(st.integers(0, 8), min_size=3, max_size=3).filter(lambda c: sum(c) <= 8)
distributions = eighths.map(lambda c: frozen([*c, 8 - sum(c)]))


@settings(max_examples=80)
@given(distributions, distributions)
def test_an_accepted_or_corrected_draft_is_distributed_as_p(p, q):
    """A draft is drawn from q and accepted if u < min(1, p / q). Otherwise, a token is drawn from
    the residual. The test adds up each token's probability over these outcomes."""
    after = frozen([0, 0, 8, 0])
    logits = np.stack([p, after])
    out, accepted = np.zeros(4), 0.0
    for draft in np.flatnonzero(q).tolist():
        rate = min(1.0, float(p[draft] / q[draft]))
        if rate > 0:
            tokens = verify(logits, [], [draft], [q], as_given, Scripted(rate - 1e-4, 0.5))
            assert tokens == [draft, 2]
        out[draft] += q[draft] * rate
        accepted += q[draft] * rate
        if rate < 1:
            steps = round(8 * float(np.maximum(p - q, 0).sum()))  # the excess in eighths
            for step in range(steps):
                rng = Scripted(rate + 1e-4 * (rate > 0), (step + 0.5) / steps)
                (token,) = verify(logits, [], [draft], [q], as_given, rng)
                out[token] += q[draft] * (1 - rate) / steps
    np.testing.assert_allclose(out, p, atol=1e-6)
    assert accepted == pytest.approx(np.minimum(p, q).sum())


def test_a_token_that_the_model_cannot_draw_is_never_accepted():
    p, q = frozen([0, 4, 4, 0]), frozen([8, 0, 0, 0])
    for u in (0.0, 0.5, 1 - 2**-53):
        assert verify(np.stack([p, p]), [], [0], [q], as_given, Scripted(u, 0.6)) == [2]


def test_one_hot_p_and_q_accept_only_the_same_token():
    best, other = frozen([0, 8, 0, 0]), frozen([8, 0, 0, 0])
    for u in (0.0, 0.5, 1 - 2**-53):
        logits = np.stack([best, other])
        agreed = verify(logits, [], [1], [best], as_given, Scripted(u, u))
        assert agreed == [1, 0] or agreed == [1] and u > 0.5  # in float32, 1 - 2**-53 is 1
        assert verify(logits, [], [0], [other], as_given, Scripted(u, u)) == [1]


def test_the_residual_is_the_excess_of_p_or_p_itself_if_p_equals_q():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    assert residual(p, q).tolist() == [0, 1 / 4, 3 / 4, 0]
    assert residual(p, p).tolist() == p.tolist()


def test_verification_stops_at_the_first_rejection_and_gives_the_sampler_each_prefix():
    """The sampler gets the ids with the accepted drafts. It is not called after a rejection."""
    seen = []

    def sampler(logits, ids):
        seen.append((logits.tolist(), list(ids)))
        return logits

    rows = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]
    scripted = Scripted(*[0.5] * 4)
    assert verify(rows, [9], [1, 2, 2], one_hots([1, 2, 2], 4), sampler, scripted) == [1, 2, 3]
    prefixes = [[9], [9, 1], [9, 1, 2]]
    assert seen == [(row, ids) for row, ids in zip(rows[:3].tolist(), prefixes)]
    scripted = Scripted(*[0.5] * 4)
    assert verify(rows, [9], [1, 2, 3], one_hots([1, 2, 3], 4), sampler, scripted) == [1, 2, 3, 0]
    assert seen[-1] == (rows[3].tolist(), [9, 1, 2, 3])


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

    rng, qs = Scripted(*[0.5] * 5), one_hots(drafts, 4)
    rows = logits[: len(drafts) + 1]
    assert verify(rows, [2], drafts, qs, sampler, rng, stop_ids=(2,)) == tokens
    assert len(rng.numbers) == 5 - n_numbers
    assert not any(2 in ids[1:] for ids in given_ids)  # the prompt's stop id does not count


def test_a_draft_is_accepted_at_the_rate_of_the_theory():
    p, q = np.array([0.5, 0.3, 0.2], np.float32), np.array([0.2, 0.2, 0.6], np.float32)
    rng, n, accepted, made = rng_of(3), 4000, 0, Counter()
    for draft in rng.choice(3, n, p=q.astype(float) / q.sum(dtype=float)).tolist():
        tokens = verify(np.stack([p, p]), [], [draft], [q], as_given, rng)
        accepted += len(tokens) == 2
        made[tokens[0]] += 1
    assert accepted / n == pytest.approx(0.6, abs=4 * math.sqrt(0.24 / n))
    assert p_value(made, dict(enumerate(p.tolist()))) > 1e-3


def test_verification_does_not_change_its_arguments():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    logits, ids, drafts, qs = np.stack([p, p, p]), [5], [0, 1], [q, q]
    logits.setflags(write=False)
    for seed in range(20):
        verify(logits, ids, drafts, qs, as_given, rng_of(seed))
    assert (ids, drafts) == ([5], [0, 1]) and all(now is q for now in qs)


# --- caches ---------------------------------------------------------------------------------------


def assert_cache_equals_a_fresh_pass(model, cache, ids):
    fresh, n = model.new_cache(), len(ids)
    if ids:
        model(np.array(ids), fresh)
    assert cache.length == n
    np.testing.assert_allclose(cache.kv[..., :n, :], fresh.kv[..., :n, :], rtol=1e-3, atol=1e-4)


class Inspector:
    """A wrapper around a model and a drafter. Each call of `propose` compares the loop's cache with
    the cache of a fresh pass over the same ids."""

    def __init__(self, model, drafter):
        self.model, self.drafter, self.n_passes = model, drafter, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache, last=None):
        assert cache is self.cache
        return self.model(ids, cache, last)

    def new_cache(self):
        self.cache, self.text = self.model.new_cache(), None
        return self.cache

    def propose(self, ids, n):
        assert self.text in (None, ids)
        assert_cache_equals_a_fresh_pass(self.model, self.cache, ids[:-1])
        drafts, qs = self.drafter.propose(list(ids), n)
        if isinstance(self.drafter, DraftModel):
            passed = (ids + drafts)[: self.drafter.cache.length]
            assert len(passed) >= len(ids) + len(drafts) - 1 or not drafts
            assert_cache_equals_a_fresh_pass(self.drafter.model, self.drafter.cache, passed)
        self.n_passes += 1
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        assert logits.shape == (len(drafts) + 1, TARGET.n_vocab)
        known = TARGET(ids + drafts)[len(ids) - 1 :]
        np.testing.assert_allclose(logits, known, rtol=1e-3, atol=1e-3)
        assert tokens[:-1] == drafts[: len(tokens) - 1]
        self.text = ids + tokens
        self.drafter.learn(ids, drafts, logits, tokens)


prompts = st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=12)


INSPECTED = ["smaller model", "same model", "opposite model", "3-grams, top 3"]
INSPECTED += ["model with a shorter context", "lookup of 2", "replay at 0.5"]


@settings(max_examples=40)
@given(
    st.sampled_from(INSPECTED),
    st.lists(st.tuples(prompts, st.integers(1, 20)), min_size=1, max_size=3),
    st.integers(1, 16),
    st.sampled_from([greedy, Sampler(temperature(0.5)), Sampler(top_k(3))]),
)
def test_the_caches_equal_a_fresh_pass_at_every_pass(name, texts, gamma, sampler):
    """One drafter serves unrelated prompts, one after the other."""
    drafter = make_drafter(name, TARGET, texts[0][0] + list(range(10)) * 3, sampler)
    for seed, (text, n) in enumerate(texts):
        inspector = Inspector(TARGET, drafter)
        sequence = Sequence(TARGET, text, n, sampler, seed)
        list(speculative(inspector, sequence, inspector, gamma))
        assert len(sequence.ids) == min(len(text) + n, TARGET.n_ctx)
        assert inspector.n_passes
        assert_cache_equals_a_fresh_pass(TARGET, inspector.cache, sequence.ids[:-1])


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2", "replay at 1"])
def test_no_argument_is_changed_and_a_seed_gives_the_same_text_again(name):
    sampler, text = Sampler(temperature(0.8), repetition_penalty(1.3)), list(range(11)) * 3
    prompt, texts = list(PROMPTS[1]), []
    for _ in range(2):
        sequence = Sequence(TARGET, prompt, 7, sampler, seed=3)
        list(speculative(TARGET, sequence, make_drafter(name, TARGET, text, sampler), 3))
        assert prompt == PROMPTS[1] and text == list(range(11)) * 3
        assert sequence.sampler is sampler
        texts.append(sequence.new_ids)
    assert texts[0] == texts[1]


def test_a_drafter_cannot_change_the_text():
    """The drafter gets a copy of the ids."""

    class Rude(PromptLookup):
        def propose(self, ids, n):
            drafts, qs = super().propose(ids, n)
            ids.clear()
            return drafts, qs

    found = by_speculation(TARGET, PROMPTS[1], 15, Rude(TARGET.n_vocab), 3)
    assert found == greedy_ids(1)[:15]


def test_a_drafter_that_changes_the_arguments_of_learn_changes_no_text():
    class Greedy(PromptLookup):
        def learn(self, ids, drafts, logits, tokens):
            tokens.clear()

    model = tiny_gpt2()
    drafted = generate(model, [1, 2], 12, loop=drafted_by(Greedy(model.n_vocab)))
    assert list(drafted) == list(generate(model, [1, 2], 12))


# --- right and wrong proposals --------------------------------------------------------------------


class Proposes(Drafter):
    """A drafter that always proposes the same drafts and distributions."""

    def __init__(self, drafts, qs):
        self.proposed = drafts, qs

    def propose(self, ids, n):
        return self.proposed


def q_of(*numbers):  # -> [n_vocab]: these numbers, then zeros
    q = np.zeros(TARGET.n_vocab, np.float32)
    q[: len(numbers)] = numbers
    return q


WRONG = {  # name -> (drafts, their distributions, part of the error message)
    "too many": ([1, 1, 1], [q_of(0, 1)] * 3, "3 drafts and 3 distributions, not at most 2"),
    "too few distributions": ([1, 1], [q_of(0, 1)], "2 drafts and 1 distributions"),
    "too many distributions": ([1], [q_of(0, 1)] * 2, "1 drafts and 2 distributions"),
    "a large id": ([10**6], [q_of(1)], "token 1000000: token ids are 0 to 10"),
    "the id n_vocab": ([TARGET.n_vocab], [q_of(1)], "token 11: token ids are 0 to 10"),
    "a negative id": ([-1], [q_of(1)], "token -1: token ids are 0 to 10"),
    "not a number": ([1], [q_of(np.nan, 1)], "not the distribution"),
    "no numbers": ([1], [np.full(TARGET.n_vocab, np.nan)], "not the distribution"),
    "negative": ([1], [q_of(-0.5, 1.5)], "least -0.5"),
    "does not sum to 1": ([1], [q_of(1, 1)], "sum 2"),
    "sums to less": ([1], [q_of(0, 0.9)], "sum 0.9"),
    "counts": ([1], [q_of(3, 5, 1)], "sum 9"),
    "logits": ([1], [q_of(0.5, 2, -1.5)], "not the distribution"),
    "log-probabilities": ([1], [np.log(np.full(11, 1 / 11, np.float32))], "not the distribution"),
    "a draft of probability 0": ([2], [q_of(0.5, 0.5)], "at the draft 0"),
    "too short": ([1], [q_of(0, 1)[:-1]], r"the shape \(10,\), not \(11,\)"),
    "a number": ([1], [0.5], r"the shape \(\), not \(11,\)"),
    "only the second": ([1, 2], [q_of(0, 1), q_of(1)], "of its draft 2"),
}


@pytest.mark.parametrize("drafts, qs, message", WRONG.values(), ids=WRONG)
def test_wrong_proposals_are_refused(drafts, qs, message):
    """Without the error, texts could have a wrong distribution, and nobody would notice."""
    sequence = Sequence(TARGET, [1, 2], 9)
    with pytest.raises(ValueError, match=f"a drafter.*{message}"):
        list(speculative(TARGET, sequence, Proposes(drafts, qs), gamma=2))
    assert sequence.new_ids == []


@pytest.mark.parametrize(
    "drafts, qs",
    [
        ([], []),
        ([0, 10], [q_of(1), q_of(*[0] * 10, 1)]),
        ([1], [q_of(0, 0.9995, 0.0001)]),  # the sum, 0.9996, is close enough to 1
        ([1], [q_of(0, 1.0005)]),
        ([1], [q_of(0.5, 0.5).astype(float)]),
        (np.array([1, 0]), np.stack([q_of(0, 1), q_of(1)])),
    ],
)
def test_right_proposals_are_accepted(drafts, qs):
    assert check_drafts(drafts, qs, 2, TARGET.n_vocab) is None
    with pytest.raises(ValueError) if len(drafts) == 2 else contextlib.nullcontext():
        check_drafts(drafts, qs, 1, TARGET.n_vocab)


def test_drafts_may_be_an_array():
    class Array(PromptLookup):
        def propose(self, ids, n):
            drafts, qs = super().propose(ids, n)
            return np.array(drafts, int), np.array(qs)

    found, expected = (
        by_speculation(TARGET, [1, 2, 1, 2, 1], 9, drafter(TARGET.n_vocab), 2)
        for drafter in (Array, PromptLookup)
    )
    assert found == expected


def test_a_distribution_that_is_not_an_array_is_refused():
    with pytest.raises(ValueError, match="array"):
        check_drafts([1], [[0.5, 0.5]], 1, 2)  # type: ignore[list-item]
