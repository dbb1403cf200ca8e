"""generate.py: naive, cached and batched are one and the same text; and the chain rule holds."""

import copy
import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate import cached, generate, left_pad, naive
from gpt2 import Cache
from samplers import Sampler, draw, greedy, min_length, no_repeat_ngram, temperature, top_k
from speculative import speculative
from tests.tiny import arrays, chi_square, close, same_greedy, tiny_gpt2

LOOPS = [naive, cached]
MODEL = tiny_gpt2()
N_CTX = MODEL.n_ctx
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [3], [9, 9], [0, 10, 4, 3, 2], [3]]
LENGTHS = [10, 24, 2, 11, 9]  # in all; the third is done before it starts
WARM = Sampler(temperature(1.2), top_k(6))


def run(loop, prompts=PROMPTS, lengths=LENGTHS, sampler=greedy, seeds=None, model=MODEL):
    """-> [n_rows] lists of new ids: row i until it has lengths[i] ids."""
    found = [[] for _ in prompts]
    rngs = [np.random.default_rng(seed) for seed in seeds or range(len(prompts))]
    samplers = [sampler] * len(prompts)
    for row, token in loop(
        model, prompts, samplers, rngs, lambda row, ids: len(ids) >= lengths[row]
    ):
        assert type(token) is int
        found[row].append(token)
    return found


def batches():
    """(prompts, lengths in all) of up to four rows."""
    prompt = st.lists(st.integers(0, MODEL.n_vocab - 1), min_size=1, max_size=12)
    row = prompt.flatmap(lambda ids: st.tuples(st.just(ids), st.integers(len(ids), N_CTX)))
    return st.lists(row, max_size=4).map(lambda rows: tuple(map(list, zip(*rows))) or ([], []))


# --------------------------------------------------------------- naive == cached == one by one


@given(batches())
@settings(max_examples=12)
def test_greedy_text_is_the_same_by_either_loop_alone_or_in_a_batch(batch):
    prompts, lengths = batch
    together = run(cached, prompts, lengths)
    assert list(map(len, together)) == [n - len(ids) for ids, n in zip(prompts, lengths)]
    for ids, prompt, length in zip(together, prompts, lengths):
        same_greedy(MODEL, prompt, ids, run(naive, [prompt], [length])[0])
        same_greedy(MODEL, prompt, ids, run(cached, [prompt], [length])[0])
    for ids, prompt, others in zip(together, prompts, run(naive, prompts, lengths)):
        same_greedy(MODEL, prompt, ids, others)


@pytest.mark.parametrize("sampler", [WARM, Sampler(), Sampler(no_repeat_ngram(2))])
def test_sampled_text_is_the_same_by_either_loop_alone_or_in_a_batch(sampler):
    seeds = [5, 6, 7, 8, 9]
    together = run(cached, sampler=sampler, seeds=seeds)
    assert run(naive, sampler=sampler, seeds=seeds) == together
    for loop in LOOPS:
        for row, (prompt, length, seed) in enumerate(zip(PROMPTS, LENGTHS, seeds)):
            assert run(loop, [prompt], [length], sampler, [seed])[0] == together[row]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_seed_reproduces_and_another_does_not(loop):
    text = run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 2])
    assert run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 2]) == text
    assert text[1][:8] == text[4] != run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 5])[4]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_row_may_fill_the_context(loop):
    text = run(loop, [[1] * (N_CTX - 1), [4]], [N_CTX, N_CTX])
    assert [len(ids) for ids in text] == [1, N_CTX - 1]


@pytest.mark.parametrize("loop", LOOPS)
def test_one_token_past_the_context_is_an_error_with_both_numbers(loop):
    with pytest.raises(ValueError, match=rf"\b{N_CTX + 1}\b.*\b{N_CTX}\b"):
        run(loop, [[4]], [N_CTX + 2])


def test_the_comparison_allows_near_ties_alone_and_prints_them(capsys):
    def two_logits(ids):
        return np.array([[1, 1.5], [1, 1.00005]], np.float32)[[ids[-1]]]

    same_greedy(two_logits, [0, 1], [1, 0, 1], [1, 1, 1])  # beyond the first nothing compares
    assert "near tie after [0, 1, 1]" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="the logits differ by 0.5"):
        same_greedy(two_logits, [1, 0], [0, 1], [1, 1])


# --------------------------------------------------------------------------- what a loop does


@pytest.mark.parametrize("loop", LOOPS)
def test_done_and_samplers_see_the_whole_sequence_without_padding(loop):
    asked, sampled = [[] for _ in PROMPTS], [[] for _ in PROMPTS]

    def sampler_of(row):
        def note(logits, ids):
            assert logits.shape == (MODEL.n_vocab,) and logits.dtype == np.float32
            close(logits, MODEL(ids)[-1])
            sampled[row].append(list(ids))
            return logits

        return Sampler(note, temperature(1.5))

    def done(row, ids):
        asked[row].append(list(ids))
        return len(ids) >= LENGTHS[row]

    found = [list(prompt) for prompt in PROMPTS]
    rngs = [np.random.default_rng(row) for row in range(5)]
    for row, token in loop(MODEL, PROMPTS, [sampler_of(row) for row in range(5)], rngs, done):
        found[row].append(token)
    for row, ids in enumerate(found):
        prefixes = [ids[:n] for n in range(len(PROMPTS[row]), len(ids) + 1)]
        assert asked[row] == prefixes
        assert sampled[row] == prefixes[:-1]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_row_draws_once_a_token_from_its_own_generator(loop):
    rngs, expected = ([np.random.default_rng(i) for i in range(5)] for _ in range(2))
    done = lambda row, ids: len(ids) >= LENGTHS[row]  # noqa: E731
    for row, _ in loop(MODEL, PROMPTS, [WARM] * 5, rngs, done):
        expected[row].random()
    assert [rng.random() for rng in rngs] == [rng.random() for rng in expected]


@pytest.mark.parametrize("loop", LOOPS)
def test_rows_take_turns(loop):
    done = lambda row, ids: len(ids) >= LENGTHS[row]  # noqa: E731
    rngs = [np.random.default_rng()] * 5
    order = [row for row, _ in loop(MODEL, PROMPTS, [greedy] * 5, rngs, done)]
    assert order == [0, 1, 3, 4] * 3 + [1, 3, 4] * 3 + [1, 4] * 2 + [1] * 15


class Watched:
    """A model that notes the shape of what it is asked."""

    def __init__(self, model):
        self.model, self.shapes = model, []
        self.new_cache, self.n_ctx, self.stop_ids = model.new_cache, model.n_ctx, model.stop_ids

    def select(self, rows):
        return self

    def __call__(self, ids, cache=None, last=None):
        assert last == 1  # no logits are computed that nobody looks at
        self.shapes.append(np.shape(ids))
        return self.model(ids, cache, last)


def test_the_cached_loop_runs_each_token_once_and_rows_leave_when_they_end():
    watched = Watched(MODEL)
    run(cached, [[1, 2, 3], [4], [5, 6]], [6, 3, 8], model=watched)
    assert watched.shapes == [(3, 3), (3, 1), (2, 1), (1, 1), (1, 1), (1, 1)]


def test_the_naive_loop_runs_over_all_so_far():
    watched = Watched(MODEL)
    run(naive, [[1, 2, 3], [4], [5, 6]], [6, 3, 8], model=watched)
    assert watched.shapes == [(3, 3), (3, 4), (2, 5), (1, 5), (1, 6), (1, 7)]


class Conditioned:
    """In the place of an encoder-decoder: every row has a source, whose id is all it says. Without
    a cache the model holds the sources, with one the cache does."""

    class Cache(Cache):
        def select(self, rows):
            super().select(rows)
            self.sources = [self.sources[row] for row in rows]

    def __init__(self, sources):
        self.sources = sources

    def select(self, rows):
        return Conditioned([self.sources[row] for row in rows])

    def new_cache(self, n_rows):
        cache = Conditioned.Cache(1, (n_rows,), 1, 9, 1)
        cache.sources = self.sources
        return cache

    def __call__(self, ids, cache=None, last=None):
        sources = self.sources if cache is None else cache.sources
        assert len(ids) == len(sources)
        return np.eye(5, dtype=np.float32)[sources][:, None]  # [n_rows, 1, n_vocab]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_source_stays_with_its_row(loop):
    model = Conditioned([4, 3, 2, 1])
    text = run(loop, [[1], [1, 2], [3], [4]], [3, 2, 6, 2], model=model)
    assert text == [[4, 4], [], [2] * 5, [1]]


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_to_do(loop):
    assert run(loop, [], []) == []
    assert run(loop, [[1], [2, 3]], [1, 2]) == [[], []]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_left_early_leaves_nothing_behind(loop):
    prompts, params = copy.deepcopy(PROMPTS), copy.deepcopy(arrays(MODEL.params))
    rngs = [np.random.default_rng(row) for row in range(5)]
    tokens = loop(MODEL, prompts, [WARM] * 5, rngs, lambda row, ids: False)
    first = list(itertools.islice(tokens, 7))
    tokens.close()
    assert prompts == PROMPTS
    for array, old in zip(arrays(MODEL.params), params, strict=True):
        np.testing.assert_array_equal(array, old)
    rngs = [np.random.default_rng(row) for row in range(5)]
    again = loop(MODEL, prompts, [WARM] * 5, rngs, lambda row, ids: False)
    assert list(itertools.islice(again, 7)) == first


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_computes_no_token_before_it_is_asked(loop):
    watched = Watched(MODEL)
    tokens = loop(watched, [[1]], [greedy], [np.random.default_rng()], lambda row, ids: False)
    assert watched.shapes == []
    next(tokens)
    assert len(watched.shapes) == 1


def test_left_pad():
    padded = left_pad([[1, 2, 3], [4]])
    assert padded.tolist() == [[1, 2, 3], [-1, -1, 4]]
    assert padded.dtype == int
    assert left_pad([]).dtype == int
    with pytest.raises(ValueError, match="at least one token"):
        left_pad([[1, 2], []])


# --------------------------------------------------------------------------------- one prompt


@pytest.mark.parametrize("loop", [*LOOPS, partial(speculative, drafters=[None])])
def test_generate_refuses_an_empty_prompt(loop):
    with pytest.raises(ValueError, match="at least one token"):
        next(generate(MODEL, [], 5, loop=loop))


def test_generate_refuses_a_prompt_longer_than_the_context():
    assert list(generate(MODEL, [1] * N_CTX, 5)) == []
    with pytest.raises(ValueError, match=f"{N_CTX + 1} tokens"):
        list(generate(MODEL, [1] * (N_CTX + 1), 5))


@pytest.mark.parametrize("loop", LOOPS)
def test_generate_ends_after_n_tokens_or_at_the_context(loop):
    whole = list(generate(MODEL, [3, 1], 100, loop=loop))
    assert len(whole) == N_CTX - 2
    for n in (0, 1, 5, N_CTX - 2):
        assert list(generate(MODEL, [3, 1], n, loop=loop)) == whole[:n]
    assert list(generate(MODEL, [1] * N_CTX, 5, loop=loop)) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_generate_ends_with_a_stop_id(loop):
    text = list(generate(MODEL, [3, 1], 20, WARM, seed=4, loop=loop))
    assert len(set(text)) > 3
    for stop_ids in ({text[6]}, {text[0]}, {text[3], text[9]}):
        model = tiny_gpt2(stop_ids=stop_ids)
        end = min(text.index(stop) for stop in stop_ids)
        assert list(generate(model, [3, 1], 20, WARM, seed=4, loop=loop)) == text[: end + 1]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_id_in_the_prompt_stops_nothing(loop):
    model = tiny_gpt2(stop_ids=[1, 3])
    sampler = Sampler(min_length(9, [1, 3]))
    assert len(list(generate(model, [1, 3, 1], 6, sampler, loop=loop))) == 6


@pytest.mark.parametrize("loop", LOOPS)
def test_generate_is_reproducible_and_greedy_unless_told_otherwise(loop):
    prompt = [5, 5]
    plain = list(generate(MODEL, prompt, 9, loop=loop))
    assert plain == list(generate(MODEL, prompt, 9, greedy, seed=3, loop=loop))
    warm = [list(generate(MODEL, prompt, 9, WARM, seed=s, loop=loop)) for s in (0, 0, 1)]
    assert warm[0] == warm[1] != warm[2]
    assert prompt == [5, 5]


# ------------------------------------------------------------------------------- the chain rule

TINY = tiny_gpt2(n_vocab=3, n_ctx=8, n_embd=4, seed=32, stop_ids=[2])
PROMPT, N_NEW = [0, 1], 3
SAMPLER = Sampler(no_repeat_ngram(3), temperature(1.5))


def sequence_probabilities(sampler):
    """{new ids: product of the conditionals} of every text that ends by a stop id or in length."""
    found, open_texts = {}, {(): 1.0}
    for n in range(1, N_NEW + 1):
        longer = {}
        for ids, p in open_texts.items():
            conditional = sampler(TINY([*PROMPT, *ids])[-1], [*PROMPT, *ids])  # [n_vocab]
            longer |= {(*ids, token): p * float(q) for token, q in enumerate(conditional)}
        ended = {ids for ids in longer if ids[-1] in TINY.stop_ids or n == N_NEW}
        found |= {ids: longer[ids] for ids in ended}
        open_texts = {ids: p for ids, p in longer.items() if ids not in ended}
    return found


def sampled(loop, sampler, n_rows=2000):
    rngs = [np.random.default_rng([7, row]) for row in range(n_rows)]

    def done(row, ids):
        new = ids[len(PROMPT) :]
        return len(new) == N_NEW or (len(new) > 0 and new[-1] in TINY.stop_ids)

    texts = [()] * n_rows
    for row, token in loop(TINY, [PROMPT] * n_rows, [sampler] * n_rows, rngs, done):
        texts[row] += (token,)
    return Counter(texts)


@pytest.mark.parametrize("sampler", [Sampler(), SAMPLER, Sampler(top_k(2)), greedy])
def test_the_probabilities_of_all_texts_sum_to_1(sampler):
    probabilities = sequence_probabilities(sampler)
    assert len(probabilities) == 2 * 2 * 3 + 2 + 1  # by length 3, 2 and 1
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("loop", LOOPS)
def test_texts_occur_as_often_as_the_product_of_their_conditionals_says(loop):
    """Pearson's chi-square over the texts of TINY, at p = 0.001; wrong products must fail."""
    probabilities = sequence_probabilities(SAMPLER)
    assert sum(p > 0 for p in probabilities.values()) == 13  # two repeat a 3-gram of the prompt
    assert min(p for p in probabilities.values() if p > 0) > 5 / 2000
    counts = sampled(loop, SAMPLER)
    limit = 32.91  # of chi-square with 12 degrees of freedom
    assert chi_square(counts, probabilities) < limit
    colder = Sampler(no_repeat_ngram(3), temperature(1.1))
    assert chi_square(counts, sequence_probabilities(colder)) > limit
    first = SAMPLER(TINY(PROMPT)[-1], PROMPT)  # as if no token depended on the one before
    independent = {ids: float(np.prod(first[list(ids)])) for ids in probabilities}
    assert chi_square(counts, independent) > limit


@pytest.mark.parametrize("loop", LOOPS)
def test_a_draw_by_hand_is_the_loop_s_draw(loop):
    rng, ids = np.random.default_rng(11), list(PROMPT)
    for _ in range(N_NEW):
        ids.append(draw(SAMPLER(TINY(ids)[-1], ids), rng))
    endless = tiny_gpt2(n_vocab=3, n_ctx=8, n_embd=4, seed=32)
    found = list(generate(endless, PROMPT, N_NEW, SAMPLER, seed=11, loop=loop))
    assert found == ids[len(PROMPT) :]
