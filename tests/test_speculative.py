"""speculative.py: exact for every drafter and sampler, caches that fit the text, honest counts.

Greedy output must be the greedy loop's ids. Sampled output must have the model's own distribution:
over a tiny vocabulary the probability of every sequence is known exactly (the product of its
conditionals), and a chi-square test compares. Three known-wrong variants must fail the same test.
"""

import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import speculative as speculative_module
from generate import cached, generate
from gpt2 import GPT2
from samplers import Sampler, greedy, no_repeat_ngram, repetition_penalty, temperature, top_k, top_p
from speculative import (
    DraftModel,
    NGramStore,
    PromptLookup,
    Replay,
    Statistics,
    certain,
    common_prefix,
    residual,
    speculative,
    verify,
)

# ------------------------------------------------------------------------------- small models


def random_gpt2(seed, n_vocab=11, n_ctx=24, n_embd=8, n_layer=2, stop_ids=(), scale=1.0):
    """A GPT-2 with random weights, its head its own, lest it say the same token for ever."""
    rng = np.random.default_rng(seed)

    def matrix(*shape):
        return rng.normal(scale=scale, size=shape).astype(np.float32)

    def layer(n_out, n_in):
        return {"w": matrix(n_out, n_in), "b": matrix(n_out)}

    def norm():
        return {"g": 1 + matrix(n_embd) / 4, "b": matrix(n_embd) / 4}

    def block():
        attn = {"c_attn": layer(3 * n_embd, n_embd), "c_proj": layer(n_embd, n_embd)}
        mlp = {"c_fc": layer(4 * n_embd, n_embd), "c_proj": layer(n_embd, 4 * n_embd)}
        return {"ln_1": norm(), "attn": attn, "ln_2": norm(), "mlp": mlp}

    params = {"wte": matrix(n_vocab, n_embd), "wpe": matrix(n_ctx, n_embd)}
    params |= {"lm_head": matrix(n_vocab, n_embd), "ln_f": norm()}
    params |= {"blocks": [block() for _ in range(n_layer)]}
    return GPT2(params, n_head=2, stop_ids=stop_ids)


def opposite(model):
    """The same model, but what it finds best the other finds worst."""
    return GPT2({**model.params, "lm_head": -model.params["lm_head"]}, model.n_head)


TARGET = random_gpt2(4)
SMALL = random_gpt2(2, n_embd=4, n_layer=1)
SHORT = random_gpt2(3, n_embd=4, n_layer=1, n_ctx=12)
PROMPTS = [[3], [1, 2, 3, 1, 2], [0, 10, 5, 5, 7, 0, 10], [n % 7 for n in range(14)]]


def rng_of(seed=0):
    return np.random.default_rng(seed)


def drafters(model, text, sampler):
    """Every drafter by its name; `text` is the prompt and what the greedy loop makes of it."""
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


def by_speculation(model, prompt, n, drafter, gamma, sampler=greedy, seed=0, watch=None):
    loop = functools.partial(speculative, drafters=[drafter], gamma=gamma, watch=watch)
    return list(generate(model, prompt, n, sampler, seed, loop))


# ------------------------------------------------------------------------------------- greedy


@functools.cache
def greedy_ids(n_prompt):
    return list(generate(TARGET, PROMPTS[n_prompt], 100))


def test_the_prompts_make_texts_that_vary():
    assert all(len(set(greedy_ids(i))) > 3 for i in range(len(PROMPTS)))


@pytest.mark.parametrize("name", NAMES)
def test_greedy_speculation_is_the_greedy_loop_up_to_the_whole_context(name):
    for gamma in range(1, 17):
        which = gamma % len(PROMPTS)
        prompt, expected = PROMPTS[which], greedy_ids(which)
        drafter = make_drafter(name, TARGET, prompt + expected)
        assert by_speculation(TARGET, prompt, 100, drafter, gamma) == expected
        assert len(prompt) + len(expected) == TARGET.n_ctx


@pytest.mark.parametrize("name", ["same model", "replay at 1", "replay at 0", "3-grams, top 1"])
def test_never_more_than_n_tokens(name):
    prompt, expected = PROMPTS[1], greedy_ids(1)
    for n, gamma in itertools.product(range(7), (1, 3, 16)):
        drafter = make_drafter(name, TARGET, prompt + expected)
        assert by_speculation(TARGET, prompt, n, drafter, gamma) == expected[:n]


@pytest.mark.parametrize("name", ["same model", "replay at 1", "3-grams, top 1"])
def test_a_stop_id_inside_an_accepted_block_ends_the_text_there(name):
    prompt, expected = PROMPTS[2], greedy_ids(2)
    for stop in set(expected):
        model = GPT2(TARGET.params, TARGET.n_head, stop_ids=[stop])
        ids = by_speculation(model, prompt, 100, make_drafter(name, model, prompt + expected), 16)
        assert ids == expected[: expected.index(stop) + 1]


def test_a_prompt_that_is_done_yields_nothing_and_asks_no_drafter():
    full = [1] * TARGET.n_ctx
    assert by_speculation(TARGET, full, 5, None, 4) == []


def test_gamma_0_is_the_cached_loop():
    for name in ("same model", "lookup of 3", "3-grams, top 1", "replay at 1"):
        drafter = make_drafter(name, TARGET, PROMPTS[1] + greedy_ids(1))
        assert by_speculation(TARGET, PROMPTS[1], 100, drafter, 0) == greedy_ids(1)


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2"])
def test_one_drafter_kept_for_many_rows_changes_no_row(name):
    """A row after the other, each with its own done, sampler and generator; one drafter for all."""
    samplers = [greedy, Sampler(temperature(0.7), top_k(3)), greedy, Sampler(temperature(2.0))]
    drafter = make_drafter(name, TARGET, sampler=samplers[1])
    rows = {0: [], 1: [], 2: [], 3: []}

    def done(row, ids):
        return len(ids) >= len(PROMPTS[row]) + 8 - row

    rngs = [rng_of(row) for row in rows]
    for row, token in speculative(TARGET, PROMPTS, samplers, rngs, done, [drafter] * 4, gamma=5):
        assert not any(rows[later] for later in range(row + 1, 4))
        rows[row].append(token)
    assert [len(ids) for ids in rows.values()] == [8, 7, 6, 5]
    assert rows[0] == greedy_ids(0)[:8] and rows[2] == greedy_ids(2)[:6]


def test_each_row_has_the_model_that_is_conditioned_for_it():
    """As an encoder-decoder does: `select` gives the model that looks at that row's source."""

    class Conditioned:
        sources = [TARGET, opposite(TARGET)]

        def select(self, rows):
            (row,) = rows
            return self.sources[row]

    prompts, made = [PROMPTS[1], PROMPTS[1]], [[], []]
    stores = [NGramStore(TARGET.n_vocab, before=[1, 2, 3]) for _ in prompts]

    def done(row, ids):
        return len(ids) == 20

    loop = speculative(Conditioned(), prompts, [greedy] * 2, [rng_of()] * 2, done, stores)
    for row, token in loop:
        made[row].append(token)
    for source, ids in zip(Conditioned.sources, made):
        assert ids == list(generate(source, PROMPTS[1], 15))
    assert made[0] != made[1]


# ------------------------------------------------------- sampled: the chi-square test and tables


def chi_square_tail(x, dof):
    """P(a chi-square variable of `dof` degrees of freedom > x): the finite sums of Abramowitz &
    Stegun 26.4.4 (odd) and 26.4.5 (even)."""
    half, odd = x / 2, dof % 2
    steps = (i + odd / 2 for i in range(dof // 2))
    terms = (math.exp(-half + i * math.log(half) - math.lgamma(i + 1)) for i in steps)
    return sum(terms) + (math.erfc(math.sqrt(half)) if odd else 0)


@pytest.mark.parametrize(
    "x, dof, p",  # upper points as printed in every table of the distribution
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (7.815, 3, 0.05), (16.919, 9, 0.05), (18.307, 10, 0.05)]
    + [(27.877, 9, 0.001), (29.588, 10, 0.001), (76.154, 50, 0.01), (68.669, 51, 0.05)],
)
def test_the_chi_square_tail_is_that_of_the_tables(x, dof, p):
    assert chi_square_tail(x, dof) == pytest.approx(p, rel=1e-3)


class Table:
    """A GPT-2's logits, each prefix computed once: the same model, at a hundred times the speed."""

    def __init__(self, model):
        self.model, self.known = model, {}
        self.n_vocab, self.n_ctx, self.stop_ids = model.n_vocab, model.n_ctx, model.stop_ids

    def new_cache(self, *batch):
        return Tokens()

    def select(self, rows):
        return self

    def row(self, prefix):  # a tuple of ids -> [n_vocab]
        if prefix not in self.known:
            self.known[prefix] = self.model(prefix, last=1)[-1]
        return self.known[prefix]

    def __call__(self, ids, cache, last):  # [1, n_new] -> [1, last, n_vocab]
        cache.ids += ids[0].tolist()
        ends = range(len(cache.ids) - last + 1, len(cache.ids) + 1)
        return np.stack([self.row(tuple(cache.ids[:end])) for end in ends])[None]


class Tokens:
    """What Table needs of a cache: the tokens that are in it."""

    def __init__(self):
        self.ids = []

    @property
    def length(self):
        return len(self.ids)

    def cut(self, length):
        del self.ids[length:]


def tiny(seed, **sizes):
    return Table(random_gpt2(seed, n_vocab=4, n_ctx=20, n_embd=4, n_layer=1, scale=0.6, **sizes))


def remembered(sampler):
    """The same sampler; what it makes of the same logits behind the same ids is computed once."""
    known = {}

    def look_up(logits, ids):
        key = (logits.tobytes(), *ids)
        if key not in known:
            known[key] = sampler(logits, ids)
        return known[key]

    return look_up


STOP, PROMPT, N_TOKENS, N_TEXTS = 3, [0, 1, 2, 0], 3, 1500
TINY = tiny(8, stop_ids=[STOP])
TINY_SMALL = tiny(9)
TINY_OPPOSITE = Table(opposite(TINY.model))
SAMPLERS = {
    "softmax": Sampler(),
    "temperature": Sampler(temperature(1.7)),
    "top-k": Sampler(temperature(1.4), top_k(2)),
    "top-p": Sampler(temperature(1.6), top_p(0.8)),
    "repetition penalty": Sampler(repetition_penalty(1.8), temperature(1.3)),
    "no repeated bigram": Sampler(no_repeat_ngram(2), temperature(1.5)),
}
SAMPLERS = {kind: remembered(sampler) for kind, sampler in SAMPLERS.items()}


def tiny_drafter(name, sampler, seed=11):
    n_vocab, rng = TINY.n_vocab, rng_of(seed)
    return {
        "smaller model": lambda: DraftModel(TINY_SMALL, sampler, rng),
        "smaller model, greedy": lambda: DraftModel(TINY_SMALL, greedy, rng),
        "smaller model, flatter": lambda: DraftModel(TINY_SMALL, Sampler(temperature(3.0)), rng),
        "same model": lambda: DraftModel(TINY, sampler, rng),
        "opposite model": lambda: DraftModel(TINY_OPPOSITE, sampler, rng),
        "bigrams, top 1": lambda: NGramStore(n_vocab, 2, 1),
        "3-grams, top 2": lambda: NGramStore(n_vocab, 3, 2),
        "lookup": lambda: PromptLookup(n_vocab, 2),
        "replay": lambda: Replay(n_vocab, PROMPT + [1, 2, 1, 0, 0, 1, 2, 1], 0.5, rng),
    }[name]()


TINY_NAMES = ["smaller model", "smaller model, greedy", "smaller model, flatter", "same model"]
TINY_NAMES += ["opposite model", "bigrams, top 1", "3-grams, top 2", "lookup", "replay"]


def exact(sampler, ids=(), p=1.0):
    """Every text that may follow PROMPT -> its probability, the product of its conditionals."""
    if len(ids) == N_TOKENS or STOP in ids:
        return {ids: p}
    probs = sampler(TINY.row((*PROMPT, *ids)), [*PROMPT, *ids]).astype(float)
    branches = [exact(sampler, (*ids, t), p * q) for t, q in enumerate(probs / probs.sum()) if q]
    return functools.reduce(dict.__or__, branches)


def sampled(sampler, drafter, gamma, rng):
    """N_TEXTS texts that follow PROMPT, by one drafter that sees them all -> how often each came"""

    def done(row, ids):
        return len(ids) == len(PROMPT) + N_TOKENS or STOP in ids[len(PROMPT) :]

    texts = [() for _ in range(N_TEXTS)]
    rows = ([PROMPT] * N_TEXTS, [sampler] * N_TEXTS, [rng] * N_TEXTS)
    for row, token in speculative(TINY, *rows, done, [drafter] * N_TEXTS, gamma):
        texts[row] += (token,)
    return Counter(texts)


def p_value(counts, probs):
    """Of Pearson's chi-square test, texts expected fewer than 5 times taken as one."""
    assert set(counts) <= set(probs), "a text that cannot be"
    total = sum(counts.values())
    frequent = [text for text in probs if total * probs[text] >= 5]
    cells = [(counts[text], total * probs[text]) for text in frequent]
    observed, expected = (sum(column) for column in zip(*cells))
    if total - expected > 1e-3:
        cells.append((total - observed, total - expected))
    return chi_square_tail(sum((o - e) ** 2 / e for o, e in cells), len(cells) - 1)


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("name", TINY_NAMES)
def test_sampled_texts_have_exactly_the_models_distribution(name, kind):
    sampler = SAMPLERS[kind]
    gamma = 1 + (TINY_NAMES.index(name) + list(SAMPLERS).index(kind)) % 3  # more: bigrams run out
    counts = sampled(sampler, tiny_drafter(name, sampler), gamma, rng_of(12))
    assert p_value(counts, exact(sampler)) > 1e-3


def test_the_texts_tell_distributions_apart():
    """Each sampler spreads over several texts, none has the distribution of another."""
    known = {kind: exact(sampler) for kind, sampler in SAMPLERS.items()}
    for probs in known.values():
        assert sum(probs.values()) == pytest.approx(1)
        assert sum(p > 0.01 for p in probs.values()) >= 5
    for one, other in itertools.combinations(known.values(), 2):
        assert sum(abs(one.get(t, 0) - other.get(t, 0)) for t in one | other) > 0.1


class BestTokenAsIfDrawn(DraftModel):
    """Known to be wrong: drafts its best token and passes that off as a draw from its softmax."""

    def propose(self, ids, n):
        self.sampler, honest = greedy, self.sampler
        drafts, _ = super().propose(ids, n)
        self.sampler = honest
        prefixes = [tuple(ids + drafts[:i]) for i in range(len(drafts))]
        return drafts, [honest(self.model.row(prefix), list(prefix)) for prefix in prefixes]


@pytest.mark.parametrize("kind", ["softmax", "temperature", "repetition penalty"])
def test_control_the_best_token_with_softmax_acceptance_is_found_wrong(kind):
    sampler = SAMPLERS[kind]
    wrong = BestTokenAsIfDrawn(TINY_SMALL, sampler, rng_of(11))
    assert p_value(sampled(sampler, wrong, 3, rng_of(12)), exact(sampler)) < 1e-6


@pytest.mark.parametrize("name", ["smaller model", "bigrams, top 1", "lookup"])
def test_control_a_second_draw_from_p_is_found_wrong(name, monkeypatch):
    monkeypatch.setattr(speculative_module, "residual", lambda p, q: p)
    sampler = SAMPLERS["softmax"]
    counts = sampled(sampler, tiny_drafter(name, sampler), 3, rng_of(12))
    assert p_value(counts, exact(sampler)) < 1e-6


def test_control_a_draft_drawn_with_the_loops_own_numbers_is_found_wrong():
    """A draft and its acceptance must be independent: two generators of one seed are not."""
    sampler, wrong = SAMPLERS["softmax"], Counter()
    for seed in range(N_TEXTS):
        drafter = tiny_drafter("smaller model", sampler, seed)
        ids = generate(TINY, PROMPT, N_TOKENS, sampler, seed, functools.partial(
            speculative, drafters=[drafter], gamma=1))  # fmt: skip
        wrong[tuple(ids)] += 1
    assert p_value(wrong, exact(sampler)) < 1e-6


# ------------------------------------------------------------------- verification, against theory


class Scripted:
    """In place of a random generator: the numbers that it is to give."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def as_given(logits, ids):
    """A sampler for which the logits are the probabilities."""
    return logits


def frozen(counts):
    """Eighths -> probabilities [n_vocab] that nobody can write to"""
    probs = np.array(counts, np.float32) / 8
    probs.setflags(write=False)
    return probs


eighths = st.lists(st.integers(0, 8), min_size=3, max_size=3).filter(lambda c: sum(c) <= 8)
distributions = eighths.map(lambda c: frozen([*c, 8 - sum(c)]))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(distributions, distributions)
def test_one_draft_accepted_or_corrected_is_distributed_as_p(p, q):
    """All that can happen, with its probability: drafts x ~ q; acceptance at u < min(1, p / q), u
    on either side; the correction at each step of the residual's cumulative mass."""
    after = frozen([0, 0, 8, 0])
    logits = np.stack([p, after])
    out, accepted = np.zeros(4), 0.0
    for draft in np.flatnonzero(q).tolist():
        rate = min(1.0, float(p[draft] / q[draft]))
        if rate > 0:
            tokens = list(verify(logits, [], [draft], [q], as_given, Scripted(rate - 1e-4, 0.5)))
            assert tokens == [draft, 2]
        out[draft] += q[draft] * rate
        accepted += q[draft] * rate
        if rate < 1:
            steps = round(8 * float(np.maximum(p - q, 0).sum()))  # of one eighth each
            for step in range(steps):
                rng = Scripted(rate + 1e-4 * (rate > 0), (step + 0.5) / steps)
                (token,) = list(verify(logits, [], [draft], [q], as_given, rng))
                out[token] += q[draft] * (1 - rate) / steps
    np.testing.assert_allclose(out, p, atol=1e-6)
    assert accepted == pytest.approx(np.minimum(p, q).sum())


def test_a_token_that_the_model_cannot_say_is_never_accepted():
    p, q = frozen([0, 4, 4, 0]), frozen([8, 0, 0, 0])
    for u in (0.0, 0.5, 1 - 2**-53):
        tokens = list(verify(np.stack([p, p]), [], [0], [q], as_given, Scripted(u, 0.6)))
        assert tokens == [2]


def test_one_hot_p_and_q_are_compared_as_greedy_does():
    best, other = frozen([0, 8, 0, 0]), frozen([8, 0, 0, 0])
    for u in (0.0, 0.5, 1 - 2**-53):
        agreed = list(verify(np.stack([best, other]), [], [1], [best], as_given, Scripted(u, u, u)))
        assert agreed[0] == 1 and agreed in ([1], [1, 0])
        agreed = verify(np.stack([best, other]), [], [0], [other], as_given, Scripted(u, u))
        assert list(agreed) == [1]


def test_the_residual_is_what_p_has_more_and_p_itself_where_they_are_equal():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    assert residual(p, q).tolist() == [0, 1 / 8, 3 / 8, 0]
    assert residual(p, p).tolist() == p.tolist()


def test_verification_stops_at_the_first_rejection_and_shows_the_sampler_each_prefix():
    """p is the sampler's at ids and the accepted drafts; none behind a rejection is looked at."""
    seen = []

    def sampler(logits, ids):
        seen.append((logits.tolist(), ids))
        return logits

    rows = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]]
    qs = certain([1, 2, 2], 4)
    tokens = list(verify(rows, [9], [1, 2, 2], qs, sampler, Scripted(*[0.5] * 4)))
    assert tokens == [1, 2, 3]
    prefixes = [[9], [9, 1], [9, 1, 2]]
    assert seen == [(row, ids) for row, ids in zip(rows[:3].tolist(), prefixes)]
    scripted = Scripted(*[0.5] * 4)
    tokens = list(verify(rows, [9], [1, 2, 3], certain([1, 2, 3], 4), sampler, scripted))
    assert tokens == [1, 2, 3, 0]
    assert seen[-1] == (rows[3].tolist(), [9, 1, 2, 3])


def test_a_draft_is_accepted_as_often_as_the_theory_says():
    p, q = np.array([0.5, 0.3, 0.2], np.float32), np.array([0.2, 0.2, 0.6], np.float32)
    rng, n, accepted, made = rng_of(3), 4000, 0, Counter()
    for draft in rng.choice(3, n, p=q.astype(float) / q.sum(dtype=float)).tolist():
        tokens = list(verify(np.stack([p, p]), [], [draft], [q], as_given, rng))
        accepted += len(tokens) == 2
        made[tokens[0]] += 1
    assert accepted / n == pytest.approx(0.6, abs=4 * math.sqrt(0.24 / n))
    assert p_value(made, dict(enumerate(p.tolist()))) > 1e-3


# ---------------------------------------------------------------------------------------- caches


def assert_cache_is_that_of_a_fresh_pass(model, cache, ids):
    fresh = model.new_cache(1)
    if ids:
        model(np.array([ids]), fresh)
    assert cache.length == len(ids)
    for kept, new in zip((*cache.keys, *cache.values), (*fresh.keys, *fresh.values)):
        np.testing.assert_allclose(
            kept[..., : len(ids), :], new[..., : len(ids), :], rtol=1e-3, atol=1e-4
        )


class Inspector:
    """A drafter around another: looks at the caches when a round begins, as `propose` is called. It
    is also the model that is speculated for, so that it knows the cache the loop has made."""

    def __init__(self, model, drafter):
        self.model, self.drafter, self.n_ctx, self.rounds = model, drafter, model.n_ctx, 0

    def select(self, rows):
        return self

    def new_cache(self, *batch):
        self.cache = self.model.new_cache(*batch)
        return self.cache

    def __call__(self, ids, cache, last):
        assert cache is self.cache
        return self.model(ids, cache, last)

    def propose(self, ids, n):
        known = ids[:-1] if self.cache.length else []  # the first round brings the whole prompt
        assert_cache_is_that_of_a_fresh_pass(self.model, self.cache, known)
        drafts, qs = self.drafter.propose(ids, n)
        assert len(drafts) == len(qs) <= max(0, n)
        if isinstance(self.drafter, DraftModel):
            passed = (ids + drafts[:-1]) if drafts else ids[: self.drafter.cache.length]
            assert_cache_is_that_of_a_fresh_pass(self.drafter.model, self.drafter.cache, passed)
            assert self.drafter.seen == passed
        self.rounds += 1
        return drafts, qs

    def learn(self, ids, drafts, logits):
        assert logits.shape == (len(drafts) + 1, self.model.n_vocab)
        known = self.model(ids + drafts)[len(ids) - 1 :]
        np.testing.assert_allclose(logits, known, rtol=1e-3, atol=1e-3)
        self.drafter.learn(ids, drafts, logits)


prompts = st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(["smaller model", "same model", "opposite model", "3-grams, top 3"]
                    + ["model with a shorter context", "lookup of 2", "replay at 0.5"]),
    st.lists(prompts, min_size=2, max_size=2),
    st.integers(1, 16),
    st.integers(1, 20),
    st.sampled_from([greedy, Sampler(temperature(0.5)), Sampler(top_k(3))]),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_at_every_round_the_caches_are_those_of_a_fresh_pass(name, texts, gamma, n, sampler, seed):
    """Two unrelated prompts, the second with the drafter that the first left, cache and all."""
    drafter = make_drafter(name, TARGET, texts[0] + list(range(10)) * 3, sampler)
    inspector = Inspector(TARGET, drafter)

    def done(row, ids):
        return len(ids) >= min(len(texts[row]) + n, TARGET.n_ctx)

    made = [list(text) for text in texts]
    rngs = [rng_of(seed), rng_of(seed + 1)]
    loop = speculative(inspector, texts, [sampler] * 2, rngs, done, [inspector] * 2, gamma)
    for row, token in loop:
        made[row].append(token)
    assert [len(ids) for ids in made] == [min(len(t) + n, TARGET.n_ctx) for t in texts]
    assert_cache_is_that_of_a_fresh_pass(TARGET, inspector.cache, made[1][:-1])
    assert inspector.rounds >= 2


# ------------------------------------------------------------------------------------ statistics


def test_statistics_add_up():
    text = PROMPTS[1] + greedy_ids(1)
    statistics, rounds = Statistics(), []

    def watch(row, drafts, tokens):
        rounds.append((drafts, tokens))
        statistics.record(row, drafts, tokens)

    drafter = Replay(TARGET.n_vocab, text, 0.6, rng_of(4))
    ids = by_speculation(TARGET, PROMPTS[1], 100, drafter, 4, watch=watch)
    assert [token for _, tokens in rounds for token in tokens] == ids
    assert all(drafts[: len(tokens) - 1] == tokens[:-1] for drafts, tokens in rounds)
    assert statistics.drafted == sum(len(drafts) for drafts, _ in rounds)
    assert statistics.accepted == sum(len(tokens) - 1 for _, tokens in rounds) > 0
    assert statistics.rejected == sum(len(t) <= len(d) for d, t in rounds) > 0
    assert statistics.lengths == Counter(len(tokens) - 1 for _, tokens in rounds)
    assert statistics.tokens_per_call == pytest.approx(len(ids) / len(rounds))


def test_statistics_of_a_few_rounds_by_hand():
    statistics = Statistics()
    assert statistics.acceptance == statistics.tokens_per_call == 0
    drafts = [1, 2, 3]
    for tokens in ([1, 2, 3, 4], [1, 9], [9]):
        statistics.record(0, drafts, tokens)
    statistics.record(0, [], [9])
    assert (statistics.drafted, statistics.accepted, statistics.rejected) == (9, 4, 2)
    assert statistics.lengths == {3: 1, 1: 1, 0: 2}
    assert statistics.acceptance == pytest.approx(4 / 6)  # 3 were behind a rejection: not looked at
    assert statistics.tokens_per_call == pytest.approx(8 / 4)


@pytest.mark.parametrize("gamma", [0, 1, 4, 16])
@pytest.mark.parametrize("accepted, rejected", [(0, 3), (1, 1), (9, 1), (7, 0)])
def test_expected_tokens_per_call_is_the_closed_form(gamma, accepted, rejected):
    statistics = Statistics()
    statistics.accepted, statistics.rejected = accepted, rejected
    a = accepted / (accepted + rejected)

    def closed(n):
        return (1 - a ** (n + 1)) / (1 - a) if a < 1 else n + 1

    statistics.sizes[gamma] = 3
    assert statistics.expected_tokens_per_call == pytest.approx(closed(gamma))
    statistics.sizes[1] += 2  # rounds with a single draft: less was to be had of them
    sizes = list(statistics.sizes.elements())
    mean = sum(map(closed, sizes)) / len(sizes)
    assert statistics.expected_tokens_per_call == pytest.approx(mean)


class Counting(Table):
    """A model for which after t comes t + 1."""

    n_vocab, n_ctx, stop_ids = 9, 10**6, ()

    def __init__(self):
        pass

    def row(self, prefix):
        return np.eye(self.n_vocab, dtype=np.float32)[(prefix[-1] + 1) % self.n_vocab]

    def __call__(self, ids, cache, last):
        cache.ids += ids[0].tolist()
        return np.stack([self.row([token]) for token in cache.ids[-last:]])[None]


@pytest.mark.parametrize("rate, gamma", [(0.3, 2), (0.7, 4), (0.9, 8)])
def test_a_replay_at_some_rate_gives_that_acceptance_and_the_theorys_tokens_per_call(rate, gamma):
    statistics, n = Statistics(), 4000
    drafter = Replay(9, [i % 9 for i in range(2 * n)], rate, rng_of(5))
    ids = by_speculation(Counting(), [0], n, drafter, gamma, watch=statistics.record)
    assert ids == [(i + 1) % 9 for i in range(n)]
    looked_at = statistics.accepted + statistics.rejected
    assert statistics.acceptance == pytest.approx(rate, abs=4 * math.sqrt(0.25 / looked_at))
    theory = (1 - rate ** (gamma + 1)) / (1 - rate)
    lengths = list(statistics.lengths.elements())
    noise = np.std(lengths) / math.sqrt(len(lengths))
    assert statistics.tokens_per_call == pytest.approx(theory, abs=4 * noise)
    assert statistics.expected_tokens_per_call == pytest.approx(theory, rel=0.1)
    assert noise < 0.15


def rounds_of(name, sampler, prompt=1, gamma=5):
    rounds, text = [], PROMPTS[prompt] + greedy_ids(prompt)
    drafter = make_drafter(name, TARGET, text, sampler)
    watch = lambda row, drafts, tokens: rounds.append((len(drafts), len(tokens) - 1))  # noqa: E731
    by_speculation(TARGET, PROMPTS[prompt], 100, drafter, gamma, sampler, watch=watch)
    return rounds


@pytest.mark.parametrize(
    "sampler", [greedy, Sampler(), Sampler(repetition_penalty(1.5), top_p(0.9))]
)
def test_the_model_as_its_own_draft_is_always_accepted(sampler):
    """As a draft model that sees a wrong text or a stale cache would not be, though still exact."""
    for prompt in range(len(PROMPTS)):
        rounds = rounds_of("same model", sampler, prompt)
        assert all(drafted == accepted for drafted, accepted in rounds)
        assert rounds[0][0] == 5


def test_right_drafts_are_all_accepted_and_wrong_ones_never():
    assert all(drafted == accepted for drafted, accepted in rounds_of("replay at 1", greedy))
    for name in ("replay at 0", "opposite model"):
        assert all(accepted == 0 for _, accepted in rounds_of(name, greedy))


# ---------------------------------------------------------------------------- n-grams and lookup


def test_ngram_counts_of_a_small_text():
    store = NGramStore(9, n=3)
    store.read([1, 2, 3, 1, 2, 4, 1, 2, 3])
    assert store.counts == {
        (1,): {2: 3}, (2,): {3: 2, 4: 1}, (3,): {1: 1}, (4,): {1: 1},
        (1, 2): {3: 2, 4: 1}, (2, 3): {1: 1}, (3, 1): {2: 1}, (2, 4): {1: 1}, (4, 1): {2: 1},
    }  # fmt: skip


def test_a_text_that_grows_is_counted_once():
    whole, grown, text = NGramStore(9, n=4), NGramStore(9, n=4), [1, 2, 3, 1, 2, 4, 1, 2, 3]
    whole.read(text)
    for end in (1, 2, 5, 5, 6, 9):
        grown.read(text[:end])
    assert grown.counts == whole.counts
    grown.read([1, 2, 7])  # another text: what is new in it alone
    assert grown.counts[(2,)] == {3: 2, 4: 1, 7: 1} and grown.counts[(1, 2)] == {3: 2, 4: 1, 7: 1}


def test_the_longest_known_context_drafts_and_shorter_ones_when_it_is_unknown():
    store = NGramStore(9, n=3, before=[1, 2, 3, 5, 2, 4, 6, 2, 4])
    assert store.next([1, 2]) == 3  # (1, 2) -> 3 once, though (2,) -> 4 twice
    assert store.next([7, 2]) == 4  # (7, 2) is unknown: back off to (2,)
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


def test_a_store_learns_the_models_best_tokens_at_every_verified_position():
    logits = np.array([[0, 1, 5, 3, 2], [9, 1, 2, 3, 8]], np.float32)
    store = NGramStore(5, n=3, filler_top_k=1)
    store.learn([4, 1], [3], logits)
    assert store.counts == {(1,): {2: 1}, (4, 1): {2: 1}, (3,): {0: 1}, (1, 3): {0: 1}}
    store = NGramStore(5, n=2, filler_top_k=3)
    store.learn([4, 1], [3], logits)
    assert store.counts == {(1,): {2: 1, 3: 1, 4: 1}, (3,): {0: 1, 4: 1, 3: 1}}


def test_of_what_a_store_has_learned_at_once_the_best_is_drafted():
    for seed in range(20):
        logits = rng_of(seed).normal(size=(1, 50)).astype(np.float32)
        store = NGramStore(50, n=2, filler_top_k=8)
        store.learn([4], [], logits)
        assert store.next([4]) == logits.argmax()


def test_more_fillers_than_tokens_are_all_the_tokens():
    store = NGramStore(5, n=2, filler_top_k=8)
    store.learn([4], [], np.arange(5, dtype=np.float32)[None])
    assert store.counts == {(4,): dict.fromkeys(range(5), 1)}


def test_a_store_kept_between_prompts_knows_more():
    store, prompt = NGramStore(TARGET.n_vocab, n=3), PROMPTS[2]
    calls = []
    for _ in range(2):
        statistics = Statistics()
        ids = by_speculation(TARGET, prompt, 15, store, 8, watch=statistics.record)
        assert ids == greedy_ids(2)[:15]
        calls.append(statistics.lengths.total())
    assert calls[1] < calls[0]


def copied(text, n, max_size=3, before=()):
    drafts, qs = PromptLookup(12, max_size, before).propose(list(text), n)
    np.testing.assert_array_equal(qs, certain(drafts, 12))
    return drafts


def test_lookup_takes_the_latest_occurrence_of_the_longest_suffix():
    assert copied([1, 2, 3, 1, 2, 4, 5, 1, 2], 2) == [4, 5]  # the latest (1, 2)
    assert copied([5, 1, 2, 7, 1, 2, 8, 6, 5, 1, 2], 2) == [7, 1]  # (5, 1, 2) is longer
    assert copied([5, 1, 2, 7, 1, 2, 8, 6, 5, 1, 2], 2, max_size=2) == [8, 6]  # not longer than 2
    assert copied([3, 3, 3], 2) == [3, 3]  # occurrences may overlap


def test_lookup_goes_on_with_its_own_copy_past_the_end_of_the_text():
    assert copied([1, 2, 3, 1, 2], 7) == [3, 1, 2, 3, 1, 2, 3]
    assert copied([4, 4], 3) == [4, 4, 4]


def test_lookup_drafts_nothing_without_an_earlier_occurrence():
    assert copied([1, 2, 3], 4) == copied([1], 4) == []


def test_lookup_reads_the_source_before_the_text():
    assert copied([0, 6], 3, before=[5, 6, 7, 8]) == [7, 8, 0]
    assert copied([0, 6, 9, 6], 1, before=[5, 6, 7, 8]) == [9]  # later than the source's


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=15), st.integers(1, 4), st.integers(0, 20))
def test_lookup_is_its_definition(text, max_size, n):
    """Write down one token after the other, each copied from `distance` tokens back."""
    places = [  # (size, end) of every earlier occurrence of a suffix
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
    assert copied(text, n, max_size) == longer[len(text) :]


def test_the_prefix_that_two_texts_share():
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == common_prefix([1, 2, 3], [1, 2]) == 2
    assert common_prefix([], [1]) == common_prefix([2], [1]) == 0


# --------------------------------------------------------------------------- nothing is changed


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2", "replay at 1"])
def test_no_argument_is_changed_and_a_seed_gives_the_same_text_again(name):
    sampler, text = Sampler(temperature(0.8), repetition_penalty(1.3)), list(range(11)) * 3
    texts = []
    for _ in range(2):
        rows = [list(prompt) for prompt in PROMPTS]
        samplers, rngs = [sampler] * 4, [rng_of(row) for row in range(4)]
        given_drafters = [make_drafter(name, TARGET, text, sampler) for _ in rows]
        lists = (rows, samplers, rngs, given_drafters)
        copies = [list(items) for items in lists]

        def done(row, ids):
            return len(ids) >= len(PROMPTS[row]) + 7

        texts.append(list(speculative(TARGET, *lists[:3], done, given_drafters, gamma=3)))
        assert rows == PROMPTS
        assert all(a is b for now, was in zip(lists, copies) for a, b in zip(now, was))
        assert text == list(range(11)) * 3
    assert texts[0] == texts[1]


def test_verification_and_drafters_change_nothing_that_they_are_given():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    logits, ids, drafts, qs = np.stack([p, p, p]), [5], [0, 1], [q, q]
    logits.setflags(write=False)
    for seed in range(20):
        list(verify(logits, ids, drafts, qs, as_given, rng_of(seed)))
    assert (ids, drafts) == ([5], [0, 1]) and all(now is q for now in qs)
    before, ids = [4, 1, 2, 4], [1, 2, 3, 1]
    given_drafters = [NGramStore(11, before=before), PromptLookup(11, before=before)]
    given_drafters += [Replay(11, ids + ids, 0.5, rng_of()), DraftModel(SMALL, greedy, rng_of())]
    for drafter in given_drafters:
        drafts, _ = drafter.propose(ids, 3)
        asked = list(drafts)
        drafter.learn(ids, drafts, np.zeros((len(drafts) + 1, 11), np.float32))
        assert drafts == asked and len(drafts) > 0
    assert (before, ids) == ([4, 1, 2, 4], [1, 2, 3, 1])


def test_all_distributions_are_float32():
    for name in ("smaller model", "3-grams, top 1", "lookup of 2", "replay at 1"):
        drafts, qs = make_drafter(name, TARGET, [1, 2] * 5, Sampler()).propose([1, 2, 1, 2], 3)
        assert len(drafts) == 3 and all(q.dtype == np.float32 and q.shape == (11,) for q in qs)


def test_a_draft_that_may_not_be_is_none():
    """A filter that leaves no token behind the row's end is asked about none there."""
    sampler, n_vocab = Sampler(no_repeat_ngram(1)), 13
    model, smaller = random_gpt2(1, n_vocab=n_vocab), random_gpt2(2, n_vocab=n_vocab, n_layer=1)

    def done(row, ids):
        return len(ids) >= n_vocab - 1

    expected = [t for _, t in cached(model, [[1, 2]], [sampler], [rng_of()], done)]
    drafter = DraftModel(smaller, sampler, rng_of(7))
    loop = speculative(model, [[1, 2]], [sampler], [rng_of()], done, [drafter], gamma=16)
    found = [t for _, t in loop]
    assert len(found) == len(expected) == n_vocab - 3
    assert len({1, 2, *found}) == n_vocab - 1
