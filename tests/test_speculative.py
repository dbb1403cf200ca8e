"""speculative.py: exact for every drafter and sampler, with caches that fit the text.

Greedy output must be the greedy loop's ids. Sampled output must have the model's own distribution:
over a tiny vocabulary the probability of every sequence is known exactly (the product of its
conditionals), and a chi-square test compares. Three known-wrong variants must fail the same test.
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
from benchmarks.replay import Replay
from drafters import DraftModel, NGramStore, PromptLookup, one_hots
from generate import Sequence, cached, generate, naive
from gpt2 import GPT2
from interface import Drafter
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
from speculative import residual, speculative, verify
from tests.tiny import (
    ModelPerRow,
    Noted,
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
    """Every drafter by its name; `text` is the prompt and its continuation by the greedy loop."""
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
        noted = Noted(make_drafter(name, model, prompt + expected))
        ids = by_speculation(model, prompt, 100, noted, 16)
        assert ids == expected[: expected.index(stop) + 1]
        assert [token for _, _, tokens in noted.passes for token in tokens] == ids


def test_a_prompt_that_fills_the_context_yields_nothing_and_asks_no_drafter():
    full = [1] * TARGET.n_ctx
    assert by_speculation(TARGET, full, 5, None, 4) == []


def test_gamma_0_is_the_cached_loop():
    for name in ("same model", "lookup of 3", "3-grams, top 1", "replay at 1"):
        drafter = make_drafter(name, TARGET, PROMPTS[1] + greedy_ids(1))
        assert by_speculation(TARGET, PROMPTS[1], 100, drafter, 0) == greedy_ids(1)


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2"])
def test_one_drafter_for_all_rows_changes_no_row(name):
    """Each row has its own sampler and generator; the drafter sees their texts by turns."""
    samplers = [greedy, Sampler(temperature(0.7), top_k(3)), greedy, Sampler(temperature(2.0))]
    drafter = make_drafter(name, TARGET, sampler=samplers[1])
    rows = [Sequence(TARGET, PROMPTS[i], 8 - i, samplers[i], seed=i) for i in range(4)]
    order = [rows.index(sequence) for sequence, _ in drafted_by(drafter, gamma=5)(TARGET, rows)]
    assert Counter(order) == {0: 8, 1: 7, 2: 6, 3: 5}
    assert rows[0].new_ids == greedy_ids(0)[:8] and rows[2].new_ids == greedy_ids(2)[:6]


def test_each_row_has_a_drafter_of_its_own_and_all_share_a_pass():
    rows, asked = [Sequence(TARGET, prompt, 9) for prompt in PROMPTS], []

    def new_drafter(sequence):
        asked.append(rows.index(sequence))
        text = sequence.ids + greedy_ids(asked[-1])
        return Replay(TARGET.n_vocab, text, 1, rng_of())

    model = Watched(TARGET)
    order = [rows.index(row) for row, _ in speculative(model, rows, new_drafter, gamma=4)]
    assert [row.new_ids for row in rows] == [greedy_ids(i)[:9] for i in range(4)]
    assert asked == [0, 1, 2, 3]
    assert order == [row for row in range(4) for _ in range(5)] + [0] * 4 + [1] * 4 + [2] * 4 + (
        [3] * 4
    )
    # All drafts are right: the prompts and 4 drafts, then the last token and 3 drafts.
    assert model.shapes == [(4, 14 + 4), (4, 1 + 3)]
    assert model.n_tokens == [sum(map(len, PROMPTS)) + 4 * 4, 4 * 4]


def test_a_pass_has_only_the_rows_that_run_and_only_what_they_have_not_passed():
    """One row's drafts are all right, the other's all wrong; logits only where they are needed."""
    rates = {1: 1, 3: 0}
    rows = [Sequence(TARGET, PROMPTS[i], 6) for i in rates]
    made = [Replay(TARGET.n_vocab, PROMPTS[i] + greedy_ids(i), rate, rng_of())
            for i, rate in rates.items()]  # fmt: skip
    model = Watched(TARGET)
    list(speculative(model, rows, dict(zip(rows, made)).get, gamma=2))
    assert [row.new_ids for row in rows] == [greedy_ids(i)[:6] for i in rates]
    # Left of the first row: 6, 3, 0 tokens; of the other: 6, 5, 4, 3, 2, 1, 0.
    assert model.shapes == [(2, 14 + 2), (2, 1 + 2), (1, 3), (1, 3), (1, 2), (1, 1)]
    assert model.n_tokens == [5 + 2 + 14 + 2, 3 + 3, 3, 3, 2, 1]
    assert model.lasts == {1, 2, 3}


SAMPLERS_OF_ROWS = [greedy, Sampler(temperature(0.7), top_k(3)), Sampler(temperature(1.5)),
                    Sampler(repetition_penalty(1.4), top_p(0.9))]  # fmt: skip
STOPPED = GPT2(TARGET.params, TARGET.n_head, stop_ids=[5])
row_settings = st.tuples(
    st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=TARGET.n_ctx),
    st.integers(0, 16),  # new tokens
    st.sampled_from(NAMES),
    st.sampled_from(SAMPLERS_OF_ROWS),
    st.one_of(st.none(), st.integers(1, 6)),  # the reader ends it after so many tokens
)


def run_rows(loop, model, settings_of_rows):
    """A row of each, with its number as its seed -> the sequences."""
    rows = [Sequence(model, prompt, n, sampler, seed)
            for seed, (prompt, n, _, sampler, _) in settings_of_rows]  # fmt: skip
    of = dict(zip(rows, settings_of_rows))
    for row, token in loop(model, rows, of):
        assert row.running or row.stop_reason != "stop"
        assert row.ids[-1] == token
        if len(row.new_ids) == of[row][1][4]:
            row.finish("stop")
    return rows


def speculated(gamma):
    """A loop for run_rows, in which each row has a drafter of its own."""

    def loop(model, rows, of):
        def new_drafter(row):
            seed, (prompt, _, name, sampler, _) = of[row]
            likely = (prompt + greedy_ids(seed % 4))[: model.n_ctx]
            return make_drafter(name, TARGET, likely, sampler)

        return speculative(model, rows, new_drafter, gamma)

    return loop


@settings(max_examples=60)
@given(st.lists(row_settings, min_size=1, max_size=5), st.integers(1, 8), st.booleans())
def test_every_row_of_a_batch_is_what_it_is_alone(texts, gamma, exact_logits):
    """Whatever the lengths, drafters, samplers and acceptance of its neighbours, and whenever they
    end; greedy rows are those of the cached loop. With as many passes as the slowest row alone."""
    model = Watched(as_function(STOPPED) if exact_logits else STOPPED)
    numbered = list(enumerate(texts))
    together, n_passes = run_rows(speculated(gamma), model, numbered), len(model.shapes)
    passes_alone = [0]
    for row, each in zip(together, numbered):
        model.shapes.clear()
        (alone,) = run_rows(speculated(gamma), model, [each])
        passes_alone.append(len(model.shapes))
        assert (row.ids, row.stop_reason) == (alone.ids, alone.stop_reason)
        assert row.rng.random() == alone.rng.random()
        if row.sampler is greedy:
            plain = lambda model, rows, of: cached(model, rows)  # noqa: E731
            (expected,) = run_rows(plain, model, [each])
            assert (row.ids, row.stop_reason) == (expected.ids, expected.stop_reason)
    assert n_passes == max(passes_alone)


@pytest.mark.parametrize("name", NAMES)
def test_a_greedy_batch_is_the_cached_loop_s_for_every_drafter(name):
    """To the end of the context, which the rows reach after different numbers of passes."""
    for gamma in (1, 3, 16):
        rows = [Sequence(TARGET, prompt, 100) for prompt in PROMPTS]
        made = [make_drafter(name, TARGET, prompt + greedy_ids(i))
                for i, prompt in enumerate(PROMPTS)]  # fmt: skip
        list(speculative(TARGET, rows, dict(zip(rows, made)).get, gamma))
        assert [row.new_ids for row in rows] == [greedy_ids(i) for i in range(4)]
        assert {row.stop_reason for row in rows} == {"context"}


def test_no_draft_is_asked_for_that_could_not_be_used():
    """The last token of a text, and the context's, are never drafts: a pass gives one itself."""
    for n, n_all in ((7, 7), (100, TARGET.n_ctx - len(PROMPTS[1]))):
        noted = Noted(make_drafter("replay at 0", TARGET, PROMPTS[1] + greedy_ids(1)))
        assert by_speculation(TARGET, PROMPTS[1], n, noted, 5) == greedy_ids(1)[:n_all]
        asked = [min(5, n_left - 1) for n_left in range(n_all, 0, -1)]
        assert [n for n, _, _ in noted.passes] == asked


def test_each_row_has_its_own_source():
    """As an encoder-decoder has: the cache of a row holds its source."""
    models = [TARGET, opposite(TARGET)]
    rows = [Sequence(TARGET, PROMPTS[1], 15) for _ in models]
    new_drafter = lambda sequence: NGramStore(TARGET.n_vocab, before=[1, 2, 3])  # noqa: E731
    list(speculative(ModelPerRow(models), rows, new_drafter))
    for model, row in zip(models, rows):
        assert row.new_ids == list(generate(model, PROMPTS[1], 15))
    assert rows[0].ids != rows[1].ids


# --- a loop that is left, a sequence that its reader ends -----------------------------------------


@pytest.mark.parametrize("n_taken", [0, 1, 3, 5, 8, 9, 14, 26])
def test_another_loop_goes_on_where_one_was_left(n_taken):
    """In the middle of a block too: the sequences have just the tokens that were yielded."""
    drafter = Replay(TARGET.n_vocab, PROMPTS[1] + greedy_ids(1), 1, rng_of())
    sequences = [Sequence(TARGET, PROMPTS[1], 9) for _ in range(3)]
    tokens = drafted_by(drafter)(TARGET, sequences)
    taken = list(itertools.islice(tokens, n_taken))
    tokens.close()
    for sequence in sequences:
        assert sequence.new_ids == [token for owner, token in taken if owner is sequence]
        assert sequence.ids == PROMPTS[1] + sequence.new_ids
        assert sequence.n_left == 9 - len(sequence.new_ids)
        assert sequence.running == (sequence.n_left > 0)
    for loop in (naive, cached, drafted_by(drafter)):
        resumed = copy.deepcopy(sequences)
        list(loop(TARGET, resumed))
        assert [sequence.new_ids for sequence in resumed] == [greedy_ids(1)[:9]] * 3


@pytest.mark.parametrize("rate", [0, 0.5, 1])
@pytest.mark.parametrize("n_taken", [1, 2, 3, 5, 6, 7])
def test_a_reader_ends_a_row_inside_a_block_and_the_others_go_on(rate, n_taken):
    rows = [Sequence(TARGET, PROMPTS[1], n) for n in (9, 9, 17)]
    inspector = Inspector(TARGET, rows)
    text = PROMPTS[1] + greedy_ids(1)
    new_drafter = inspector.around(lambda: Replay(TARGET.n_vocab, text, rate, rng_of(3)))
    for row, token in speculative(inspector, rows, new_drafter):
        assert row.ids[-1] == token
        if row is rows[1] and len(row.new_ids) == n_taken:
            row.finish("stop")
    assert [row.new_ids for row in rows] == [greedy_ids(1)[:n] for n in (9, n_taken, 17)]
    assert [row.stop_reason for row in rows] == ["length", "stop", "length"]
    assert inspector.n_passes[1] < inspector.n_passes[2]
    assert_row_is_that_of_a_fresh_pass(TARGET, inspector.cache, 0, rows[2].ids[:-1])


def test_a_reader_may_end_rows_whose_turn_is_yet_to_come():
    """Nothing is drawn for them, and their samplers are not asked."""
    drafter = Replay(TARGET.n_vocab, PROMPTS[1] + greedy_ids(1), 1, rng_of())
    samplers = [greedy, never_asked, greedy, never_asked]
    rows = [Sequence(TARGET, PROMPTS[1], 9, sampler, seed=3) for sampler in samplers]
    for row, _ in drafted_by(drafter)(TARGET, rows):
        if row is rows[0] and len(row.new_ids) == 3:
            for each in (rows[0], rows[1], rows[3]):
                each.finish("stop")
    assert [row.new_ids for row in rows] == [greedy_ids(1)[:n] for n in (3, 0, 9, 0)]
    assert rows[1].rng.random() == rows[3].rng.random() == rng_of(3).random()


def never_asked(logits, ids):
    raise AssertionError("the sampler of a row that has ended")


def fails_at_11(logits, ids):
    return logits if len(ids) < 11 else logits[ids[99]]


@pytest.mark.parametrize(
    "last, error", [(lambda logits, ids: logits, ValueError), (fails_at_11, IndexError)]
)
def test_an_error_after_accepted_drafts_is_raised_where_the_cached_loop_raises_it(last, error):
    """Where the filters leave no token, or fail: not if its reader ends the text before."""
    sampler, prompt = Sampler(no_repeat_ngram(1), last, to_probs=one_hot), [1, 2]
    expected = []
    with contextlib.suppress(error):
        expected.extend(generate(TARGET, prompt, 20, sampler))
    for n_taken in (5, 99):
        sequence = Sequence(TARGET, prompt, 20, sampler)
        tokens = drafted_by(DraftModel(TARGET, sampler, rng_of()), 16)(TARGET, [sequence])
        with contextlib.nullcontext() if n_taken == 5 else pytest.raises(error):
            for _ in tokens:
                if len(sequence.new_ids) == n_taken:
                    sequence.finish("stop")
        assert sequence.new_ids == expected[:n_taken]


# --- sampled: the chi-square test -----------------------------------------------------------------


@pytest.mark.parametrize(
    "x, dof, p",  # upper points as printed in every table of the distribution
    [(3.841, 1, 0.05), (5.991, 2, 0.05), (7.815, 3, 0.05), (16.919, 9, 0.05), (18.307, 10, 0.05)]
    + [(27.877, 9, 0.001), (29.588, 10, 0.001), (76.154, 50, 0.01), (68.669, 51, 0.05)],
)
def test_the_chi_square_tail_is_that_of_the_tables(x, dof, p):
    assert chi_square_tail(x, dof) == pytest.approx(p, rel=1e-3)


def remembered(sampler):
    """The same sampler; its result for the same logits after the same ids is computed once."""
    known = {}

    def look_up(logits, ids):
        key = (logits.tobytes(), *ids)
        if key not in known:
            known[key] = sampler(logits, ids)
        return known[key]

    return look_up


STOP, PROMPT, N_TOKENS, N_TEXTS = 3, [0, 1, 2, 0], 4, 1500
smallest = functools.partial(tiny_gpt2, n_vocab=4, n_embd=4, n_layer=1)
TINY = as_function(smallest(seed=14, stop_ids=[STOP]))
TINY_SMALL, TINY_OPPOSITE = as_function(smallest(seed=9)), as_function(opposite(smallest(seed=14)))
SAMPLERS = {
    "softmax": Sampler(),
    "temperature": Sampler(temperature(1.7)),
    "top-k": Sampler(temperature(1.4), top_k(2)),
    "top-p": Sampler(temperature(1.6), top_p(0.8)),
    "repetition penalty": Sampler(repetition_penalty(1.8), temperature(1.3)),
    "no repeated bigram": Sampler(no_repeat_ngram(2), temperature(1.5)),
}
SAMPLERS = {kind: remembered(sampler) for kind, sampler in SAMPLERS.items()}


def tiny_drafters(sampler, seed=11):
    """Drafters by their names."""
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
    """Every text that may follow PROMPT -> its probability, the product of its conditionals."""
    if len(ids) == N_TOKENS or STOP in ids:
        return {ids: p}
    probs = sampler(TINY.logits([*PROMPT, *ids]), [*PROMPT, *ids]).astype(float)
    branches = [exact(sampler, (*ids, t), p * q) for t, q in enumerate(probs / probs.sum()) if q]
    return functools.reduce(dict.__or__, branches)


rows_in_a_batch = pytest.mark.parametrize("n_rows", [1, 7], ids=["alone", "batch"])


def sampled(sampler, drafter, gamma, rng, n_rows):
    """N_TEXTS texts that follow PROMPT, n_rows in a batch, by one drafter that sees them all -> how
    often each came"""
    texts = [Sequence(TINY, PROMPT, N_TOKENS, sampler, rng) for _ in range(N_TEXTS)]
    for first in range(0, N_TEXTS, n_rows):
        list(drafted_by(drafter, gamma)(TINY, texts[first : first + n_rows]))
    return Counter(tuple(text.new_ids) for text in texts)


@rows_in_a_batch
@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("name", TINY_NAMES)
def test_sampled_texts_have_exactly_the_models_distribution(name, kind, n_rows):
    sampler = SAMPLERS[kind]
    gamma = 1 + (TINY_NAMES.index(name) + list(SAMPLERS).index(kind)) % 3
    counts = sampled(sampler, tiny_drafters(sampler)[name], gamma, rng_of(12), n_rows)
    assert p_value(counts, exact(sampler)) > 1e-3


def test_the_samplers_give_different_distributions():
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
        prefixes = [ids + drafts[:i] for i in range(len(drafts))]
        return drafts, [honest(self.model.logits(prefix), prefix) for prefix in prefixes]


@rows_in_a_batch
@pytest.mark.parametrize("kind", ["softmax", "temperature", "repetition penalty"])
def test_control_the_best_token_with_softmax_acceptance_is_found_wrong(kind, n_rows):
    sampler = SAMPLERS[kind]
    wrong = BestTokenAsIfDrawn(TINY_SMALL, sampler, rng_of(11))
    assert p_value(sampled(sampler, wrong, 3, rng_of(12), n_rows), exact(sampler)) < 1e-6


@rows_in_a_batch
@pytest.mark.parametrize("name", ["smaller model", "bigrams, top 1", "lookup"])
def test_control_a_second_draw_from_p_is_found_wrong(name, n_rows, monkeypatch):
    monkeypatch.setattr(speculative_module, "residual", lambda p, q: p)
    sampler = SAMPLERS["softmax"]
    counts = sampled(sampler, tiny_drafters(sampler)[name], 3, rng_of(12), n_rows)
    assert p_value(counts, exact(sampler)) < 1e-6


def test_control_a_draft_drawn_with_the_loops_own_numbers_is_found_wrong():
    """A draft and its acceptance must be independent: two generators of one seed are not."""
    sampler, wrong = SAMPLERS["softmax"], Counter()
    for seed in range(N_TEXTS):
        drafter = DraftModel(TINY_SMALL, sampler, rng_of(seed))
        wrong[tuple(by_speculation(TINY, PROMPT, N_TOKENS, drafter, 1, sampler, seed))] += 1
    assert p_value(wrong, exact(sampler)) < 1e-6


# --- verification, against theory -----------------------------------------------------------------


class Scripted:
    """In place of a random generator: gives these numbers."""

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


@settings(max_examples=80)
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
            tokens = verify(logits, [], [draft], [q], as_given, Scripted(rate - 1e-4, 0.5))
            assert tokens == [draft, 2]
        out[draft] += q[draft] * rate
        accepted += q[draft] * rate
        if rate < 1:
            steps = round(8 * float(np.maximum(p - q, 0).sum()))  # of one eighth each
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


def test_one_hot_p_and_q_are_compared_as_greedy_does():
    best, other = frozen([0, 8, 0, 0]), frozen([8, 0, 0, 0])
    for u in (0.0, 0.5, 1 - 2**-53):
        logits = np.stack([best, other])
        agreed = verify(logits, [], [1], [best], as_given, Scripted(u, u))
        assert agreed == [1, 0] or agreed == [1] and u > 0.5  # in float32 the last u rounds to 1
        assert verify(logits, [], [0], [other], as_given, Scripted(u, u)) == [1]


def test_the_residual_is_the_excess_of_p_and_p_itself_where_they_are_equal():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    assert residual(p, q).tolist() == [0, 1 / 8, 3 / 8, 0]
    assert residual(p, p).tolist() == p.tolist()


def test_verification_stops_at_the_first_rejection_and_shows_the_sampler_each_prefix():
    """p is the sampler's at ids and the accepted drafts; it is not asked after a rejection."""
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


@pytest.mark.parametrize("drafts, tokens, n_numbers", [
    ([1, 2, 3], [1, 2], 2),  # an accepted draft is a stop id: no sampler is asked after it
    ([1, 0, 3], [1, 2], 3),  # the correction of a rejected one
    ([1], [1, 2], 2),  # the token after the last draft
    ([2, 0, 3], [1], 2),  # a rejected stop id
])  # fmt: skip
def test_nothing_follows_a_stop_id(drafts, tokens, n_numbers):
    logits, given_ids = np.eye(4, dtype=np.float32)[[1, 2, 3, 0]], []

    def sampler(logits, ids):
        given_ids.append(list(ids))
        return logits

    rng, qs = Scripted(*[0.5] * 5), one_hots(drafts, 4)
    rows = logits[: len(drafts) + 1]
    assert verify(rows, [2], drafts, qs, sampler, rng, stop_ids=(2,)) == tokens
    assert len(rng.numbers) == 5 - n_numbers
    assert not any(2 in ids[1:] for ids in given_ids)  # the one in the prompt stops nothing


def test_a_draft_is_accepted_as_often_as_in_theory():
    p, q = np.array([0.5, 0.3, 0.2], np.float32), np.array([0.2, 0.2, 0.6], np.float32)
    rng, n, accepted, made = rng_of(3), 4000, 0, Counter()
    for draft in rng.choice(3, n, p=q.astype(float) / q.sum(dtype=float)).tolist():
        tokens = verify(np.stack([p, p]), [], [draft], [q], as_given, rng)
        accepted += len(tokens) == 2
        made[tokens[0]] += 1
    assert accepted / n == pytest.approx(0.6, abs=4 * math.sqrt(0.24 / n))
    assert p_value(made, dict(enumerate(p.tolist()))) > 1e-3


def test_verification_changes_nothing_that_it_is_given():
    p, q = frozen([1, 3, 4, 0]), frozen([2, 2, 1, 3])
    logits, ids, drafts, qs = np.stack([p, p, p]), [5], [0, 1], [q, q]
    logits.setflags(write=False)
    for seed in range(20):
        verify(logits, ids, drafts, qs, as_given, rng_of(seed))
    assert (ids, drafts) == ([5], [0, 1]) and all(now is q for now in qs)


# --- caches ---------------------------------------------------------------------------------------


def assert_row_is_that_of_a_fresh_pass(model, cache, row, ids):
    fresh = model.new_cache(1)
    if ids:
        model(np.array([ids]), fresh)
    assert cache.lengths[row] == len(ids)
    kept, new = cache.kv[:, :, row, :, : len(ids)], fresh.kv[:, :, 0, :, : len(ids)]
    np.testing.assert_allclose(kept, new, rtol=1e-3, atol=1e-4)


class Inspector:
    """A model around another, for which rows are speculated. It has the cache that the loop has
    made, and compares each row of it when a pass begins, as `propose` is called."""

    def __init__(self, model, rows):
        self.model, self.rows, self.n_ctx, self.stop_ids = model, rows, model.n_ctx, ()
        self.n_passes = [0] * len(rows)

    def new_cache(self, *batch):
        self.cache = self.model.new_cache(*batch)
        return self.cache

    def __call__(self, ids, cache, last):
        assert cache is self.cache
        return self.model(ids, cache, last)

    def around(self, make):
        """-> new_drafter, for which make() is the drafter of each row."""
        return lambda sequence: Inspected(self, sequence, make())


class Inspected:
    """The drafter of one row, around another."""

    def __init__(self, inspector, sequence, drafter):
        self.inspector, self.sequence, self.drafter = inspector, sequence, drafter
        self.text = sequence.ids

    def propose(self, ids, n):
        inspector, number = self.inspector, self.inspector.rows.index(self.sequence)
        assert ids == self.text == self.sequence.ids
        known = ids[:-1] if inspector.n_passes[number] else []  # the first pass brings the prompt
        in_cache = [sequence for sequence in inspector.rows if sequence.running]
        row = in_cache.index(self.sequence)
        assert_row_is_that_of_a_fresh_pass(inspector.model, inspector.cache, row, known)
        drafts, qs = self.drafter.propose(ids, n)
        assert len(drafts) == len(qs) <= n
        if isinstance(self.drafter, DraftModel):
            passed = (ids + drafts[:-1]) if drafts else ids[: self.drafter.cache.length]
            model, cache = self.drafter.model, self.drafter.cache
            assert_row_is_that_of_a_fresh_pass(model, cache, 0, passed)
            assert self.drafter.seen == passed
        inspector.n_passes[number] += 1
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        assert logits.shape == (len(drafts) + 1, TARGET.n_vocab)
        known = TARGET(ids + drafts)[len(ids) - 1 :]
        np.testing.assert_allclose(logits, known, rtol=1e-3, atol=1e-3)
        assert tokens[:-1] == drafts[: len(tokens) - 1]
        self.text = ids + tokens
        self.drafter.learn(ids, drafts, logits, tokens)


prompts = st.lists(st.integers(0, TARGET.n_vocab - 1), min_size=1, max_size=12)


@settings(max_examples=40)
@given(
    st.sampled_from(["smaller model", "same model", "opposite model", "3-grams, top 3"]
                    + ["model with a shorter context", "lookup of 2", "replay at 0.5"]),
    st.lists(st.tuples(prompts, st.integers(1, 20)), min_size=1, max_size=4),
    st.integers(1, 16),
    st.sampled_from([greedy, Sampler(temperature(0.5)), Sampler(top_k(3))]),
    st.booleans(),
)  # fmt: skip
def test_at_every_pass_the_caches_are_those_of_a_fresh_pass(name, texts, gamma, sampler, shared):
    """Unrelated prompts, in one batch; with `shared`, by one drafter that serves them by turns."""
    make = functools.partial(make_drafter, name, TARGET, texts[0][0] + list(range(10)) * 3, sampler)
    one = make()
    rows = [Sequence(TARGET, text, n, sampler, seed) for seed, (text, n) in enumerate(texts)]
    inspector = Inspector(TARGET, rows)
    list(speculative(inspector, rows, inspector.around(lambda: one if shared else make()), gamma))
    assert [len(row.ids) for row in rows] == [min(len(t) + n, TARGET.n_ctx) for t, n in texts]
    assert all(inspector.n_passes)
    in_cache = [i for i, n in enumerate(inspector.n_passes) if n == max(inspector.n_passes)]
    for row, number in enumerate(in_cache):
        assert_row_is_that_of_a_fresh_pass(TARGET, inspector.cache, row, rows[number].ids[:-1])


# --- nothing is changed ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["smaller model", "4-grams, top 3", "lookup of 2", "replay at 1"])
def test_no_argument_is_changed_and_a_seed_gives_the_same_text_again(name):
    sampler, text = Sampler(temperature(0.8), repetition_penalty(1.3)), list(range(11)) * 3
    prompts, texts = copy.deepcopy(PROMPTS), []
    for _ in range(2):
        given_rows = [Sequence(TARGET, prompts[i], 7, sampler, seed=i) for i in range(4)]
        rows = list(given_rows)
        list(speculative(TARGET, rows, lambda _: make_drafter(name, TARGET, text, sampler), 3))
        assert prompts == PROMPTS and text == list(range(11)) * 3
        assert all(a is b for a, b in zip(rows, given_rows, strict=True))
        assert all(row.sampler is sampler for row in rows)
        texts.append([row.new_ids for row in rows])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("n_drafts", "n_qs"), [(3, 3), (2, 1), (1, 2)])
def test_a_drafter_that_proposes_too_much_or_too_few_distributions_is_refused(n_drafts, n_qs):
    class Wrong(Drafter):
        def propose(self, ids, n):
            return [1] * n_drafts, one_hots([1] * n_qs, TARGET.n_vocab)

    with pytest.raises(ValueError, match=f"{n_drafts} drafts and {n_qs} distributions"):
        list(speculative(TARGET, [Sequence(TARGET, [1, 2], 9)], lambda _: Wrong(), gamma=2))


def test_drafts_may_be_an_array():
    class Array(PromptLookup):
        def propose(self, ids, n):
            drafts, qs = super().propose(ids, n)
            return np.array(drafts, int), qs

    texts = []
    for drafter in (Array, PromptLookup):
        row = Sequence(TARGET, [1, 2, 1, 2, 1], 9)
        list(speculative(TARGET, [row], lambda _, kind=drafter: kind(TARGET.n_vocab), gamma=1))
        texts.append(row.ids)
    assert texts[0] == texts[1]
