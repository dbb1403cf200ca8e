"""Tests of generate.py. A sequence ends at the right token, `naive` and `cached` generate the same
text, wrong arguments are refused, and sampled texts follow the chain rule."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate import Sequence, advance, begin, cached, generate, naive
from samplers import (
    Sampler,
    draw,
    greedy,
    min_length,
    no_repeat_ngram,
    one_hot,
    temperature,
    top_k,
)
from tests.support.tiny import (
    FunctionModel,
    Watched,
    arrays,
    close,
    opposite,
    p_value,
    same_greedy,
    tiny_gpt2,
)

LOOPS = [naive, cached]
either_loop = pytest.mark.parametrize("loop", LOOPS)
MODEL = tiny_gpt2()
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [3], [0, 10, 4, 3, 2]]
WARM = Sampler(temperature(1.2), top_k(6))


def run(loop, prompt, n, sampler=greedy, seed=0, model=MODEL):
    """Run a loop to its end. Return the new ids, which must equal the yielded tokens."""
    sequence, tokens = Sequence(model, prompt, n, sampler, seed), []
    for token in loop(model, sequence):
        assert type(token) is int and sequence.ids[-1] == token
        tokens.append(token)
    assert not sequence.running
    assert sequence.new_ids == tokens
    return tokens


# --- a sequence -----------------------------------------------------------------------------------


def test_a_sequence_takes_tokens_until_it_has_n_new_ones():
    prompt = [5, 6]
    sequence = Sequence(MODEL, prompt, 2)
    assert (sequence.ids, sequence.n_prompt, sequence.new_ids) == ([5, 6], 2, [])
    assert (sequence.n_left, sequence.stop_reason, sequence.running) == (2, None, True)
    assert sequence.append(5) == 5
    assert (sequence.new_ids, sequence.n_left, sequence.running) == ([5], 1, True)
    token = sequence.append(np.int64(9))  # a user's loop may append NumPy's integers
    assert type(token) is int and type(sequence.ids[-1]) is int
    assert (sequence.ids, sequence.new_ids) == ([5, 6, 5, 9], [5, 9])
    assert (sequence.n_left, sequence.stop_reason, sequence.running) == (0, "length", False)
    assert prompt == [5, 6]


@pytest.mark.parametrize(
    "n_prompt, n, tokens, reason",
    [
        (N_CTX - 3, 4, [1, 2], None),
        (N_CTX - 3, 4, [1, 2, 4], "context"),
        (N_CTX - 3, 3, [1, 2, 4], "length"),  # the text also fills the context
        (N_CTX - 3, 2, [1, 2], "length"),
        (N_CTX - 3, 4, [1, 7], "eos"),
        (N_CTX - 3, 2, [1, 7], "eos"),  # the text also has n new tokens
        (N_CTX - 3, 4, [1, 2, 7], "eos"),  # the text also fills the context
        (N_CTX - 3, 3, [1, 2, 8], "eos"),  # the text also has n new tokens and fills the context
        (5, 0, [], "length"),
        (N_CTX, 0, [], "length"),
        (N_CTX, 1, [], "context"),
    ],
)
def test_a_sequence_ends_with_eos_at_its_length_or_at_the_context(n_prompt, n, tokens, reason):
    sequence = Sequence(tiny_gpt2(stop_ids=[7, 8]), [7] * n_prompt, n)
    for token in tokens:
        assert sequence.running
        sequence.append(token)
    assert sequence.new_ids == tokens
    assert sequence.n_left == min(n, N_CTX - n_prompt) - len(tokens)
    assert sequence.stop_reason == reason


@pytest.mark.parametrize("tokens", [[], [2], [7], [2, 3]])
def test_a_caller_may_finish_a_sequence_for_its_own_reason(tokens):
    """The caller's reason replaces "eos" or "length": the last token may also complete a stop text,
    which only the caller knows."""
    sequence = Sequence(tiny_gpt2(stop_ids=[7]), [1], 2)
    for token in tokens:
        sequence.append(token)
    sequence.finish("stop")
    assert (sequence.stop_reason, sequence.running) == ("stop", False)
    assert sequence.new_ids == tokens


def test_a_negative_number_of_new_tokens_is_refused():
    with pytest.raises(ValueError, match="-1 new tokens"):
        Sequence(MODEL, [1], -1)


@pytest.mark.parametrize(
    "prompt, message",
    [
        ([], f"a prompt of 0 tokens: 1 to {N_CTX} are possible"),
        ([1] * (N_CTX + 1), f"a prompt of {N_CTX + 1} tokens: 1 to {N_CTX} are possible"),
        ("Once", "encode the text first"),
        ("", "encode the text first"),
        (["a"], "encode the text first"),
        ([1.0, 2.5], "encode the text first"),
        ([[1, 2]], "encode the text first"),
        (7, "encode the text first"),
        ([5, -3, 7], "token ids are 0 to 10, not -3 to 7"),
        ([3, N_VOCAB, 0], "token ids are 0 to 10, not 0 to 11"),
    ],
)
def test_a_prompt_that_is_not_a_list_of_ids_or_does_not_fit_is_refused(prompt, message):
    with pytest.raises(ValueError, match=message):
        Sequence(MODEL, prompt, 5)
    with pytest.raises(ValueError, match=message):
        next(generate(MODEL, prompt, 5))


@pytest.mark.parametrize("prompt", [[0], [N_VOCAB - 1, 0], [1] * N_CTX, (3, 4), np.array([3, 4])])
def test_any_sequence_of_token_ids_is_a_prompt(prompt):
    ids = Sequence(MODEL, prompt, 5).ids
    assert ids == list(prompt) and {type(id) for id in ids} == {int}


def test_a_filter_is_not_a_sampler():
    """For example, a filter returns logits, which a loop would mistake for probabilities."""
    for wrong in (top_k(3), own_softmax, None):
        with pytest.raises(ValueError, match=r"not a Sampler: wrap a filter as Sampler\(filter\)"):
            Sequence(MODEL, [1], 2, wrong)
        with pytest.raises(ValueError, match="not a Sampler"):
            next(generate(MODEL, [1], 2, wrong))


def own_softmax(logits, ids):
    return np.exp(logits) / np.exp(logits).sum()


@either_loop
@pytest.mark.parametrize("to_probs", [lambda logits: logits, lambda logits: 2 * one_hot(logits)])
def test_probabilities_that_do_not_sum_to_1_are_refused_at_the_first_token(loop, to_probs):
    with pytest.raises(ValueError, match="probabilities sum to .*, not to 1"):
        next(generate(MODEL, [1], 2, Sampler(to_probs=to_probs), loop=loop))


def test_a_seed_is_a_number_or_a_generator():
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    assert Sequence(MODEL, [1], 2, seed=rng).rng is rng
    assert Sequence(MODEL, [1], 2, seed=3).rng.random() == same.random()
    assert Sequence(MODEL, [1], 2).rng.random() == np.random.default_rng(0).random()


# --- the same text in both loops ------------------------------------------------------------------

prompts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=N_CTX)


@given(prompts, st.integers(0, N_CTX))
@settings(max_examples=25)
def test_greedy_text_is_the_same_in_both_loops(prompt, n):
    ids = run(cached, prompt, n)
    assert len(ids) == min(n, N_CTX - len(prompt))
    same_greedy(MODEL, prompt, ids, run(naive, prompt, n))


@given(prompts, st.integers(0, 2**32), st.sampled_from([WARM, Sampler(no_repeat_ngram(2))]))
@settings(max_examples=25)
def test_sampled_text_is_the_same_in_both_loops(prompt, seed, sampler):
    assert run(naive, prompt, 12, sampler, seed) == run(cached, prompt, 12, sampler, seed)


@either_loop
def test_a_seed_reproduces_a_text_and_a_different_seed_does_not(loop):
    text = run(loop, [3], 12, WARM, 4)
    assert run(loop, [3], 12, WARM, 4) == text != run(loop, [3], 12, WARM, 5)


@either_loop
@pytest.mark.parametrize("n_prompt", [1, N_CTX - 1, N_CTX])
def test_a_text_may_fill_the_context(loop, n_prompt):
    sequence = Sequence(MODEL, [1] * n_prompt, 99)
    assert len(list(loop(MODEL, sequence))) == N_CTX - n_prompt
    assert len(sequence.ids) == N_CTX and sequence.stop_reason == "context"


@either_loop
def test_a_model_may_have_its_own_kind_of_cache(loop):
    """For example, the cache of a FunctionModel contains only ids."""
    after = np.roll(np.eye(9, dtype=np.float32), 2, axis=1)  # (t + 2) % 9 follows t
    counting = FunctionModel(lambda ids: after[ids[-1]], n_vocab=9)
    assert run(loop, [5, 1], 6, model=counting) == [3, 5, 7, 0, 2, 4]


def test_the_comparison_allows_only_near_ties_and_prints_them(capsys):
    def two_logits(ids):
        return np.array([[1, 1.5], [1, 1.00005]], np.float32)[[ids[-1]]]

    same_greedy(two_logits, [0, 1], [1, 0, 1], [1, 1, 1])  # the comparison ends at a near tie
    assert "near tie after [0, 1, 1]" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="their logits differ by 0.5"):
        same_greedy(two_logits, [1, 0], [0, 1], [1, 1])


# --- advance --------------------------------------------------------------------------------------

FULL = np.random.default_rng(1).integers(N_VOCAB, size=N_CTX)


@given(st.lists(st.tuples(st.integers(1, N_CTX), st.integers(1, 9)), min_size=1, max_size=5))
@settings(max_examples=40)
def test_advance_gives_the_logits_after_the_last_token_for_any_cached_length(steps):
    """The text may be longer or shorter than the cached text, or equal to it."""
    cache = MODEL.new_cache()
    for length, chunk in steps:
        found = advance(MODEL, FULL[:length].tolist(), cache, chunk)
        close(found, MODEL(FULL[:length])[-1])
        assert cache.length == length


def test_advance_passes_new_tokens_in_chunks_and_at_least_the_last_token():
    watched, cache = Watched(MODEL), MODEL.new_cache()
    for length in (11, 11, 17, 3):
        advance(watched, FULL[:length], cache, chunk=4)
    assert watched.shapes == [(4,), (4,), (3,), (1,), (4,), (2,), (1,)]
    assert watched.lasts == {1}  # only the last logits are computed


def test_advance_takes_a_batch():
    ids, cache = FULL[:20].reshape(2, 10), MODEL.new_cache(2)
    found = advance(MODEL, ids.tolist(), cache, chunk=3)
    close(found, MODEL(ids)[:, -1])


def test_a_long_prompt_passes_in_chunks_of_256():
    model, watched = tiny_gpt2(n_ctx=600), []
    watched = Watched(model)
    next(generate(watched, [1] * 550, 3))
    assert watched.shapes == [(256,), (256,), (38,)]


def test_cached_goes_on_after_the_tokens_in_its_cache():
    """In a chat, for example, the model does not read the earlier turns again. It reads only the
    new tokens."""
    watched, cache = Watched(MODEL), MODEL.new_cache()
    sequence = Sequence(watched, [1, 2, 3], 4)
    first = list(cached(watched, sequence, cache))
    assert first == run(naive, [1, 2, 3], 4) and cache.length == 6
    watched.shapes.clear()
    longer = [*sequence.ids, 5, 6]
    assert list(cached(watched, Sequence(watched, longer, 2), cache)) == run(naive, longer, 2)
    assert watched.shapes == [(3,), (1,)]
    cache.cut(5)
    other = [*longer[:5], 9]
    assert list(cached(watched, Sequence(watched, other, 3), cache)) == run(naive, other, 3)


# --- the sampler, passes and arguments of a loop --------------------------------------------------


@either_loop
def test_a_sampler_sees_its_whole_sequence(loop):
    seen = []

    def record(logits, ids):
        assert logits.shape == (N_VOCAB,) and logits.dtype == np.float32
        close(logits, MODEL(ids)[-1])
        seen.append(list(ids))
        return logits

    sequence = Sequence(MODEL, PROMPTS[0], 9, Sampler(record, temperature(1.5)))
    list(loop(MODEL, sequence))
    assert seen == [sequence.ids[:n] for n in range(7, 16)]


@either_loop
def test_a_loop_draws_once_per_token_from_its_sequence_s_generator(loop):
    sequence, expected = Sequence(MODEL, [3], 9, WARM, seed=6), np.random.default_rng(6)
    list(loop(MODEL, sequence))
    expected.random(9)
    assert sequence.rng.random() == expected.random()


def test_the_cached_loop_passes_each_token_once():
    watched = Watched(MODEL)
    run(cached, [1, 2, 3], 4, model=watched)
    assert watched.shapes == [(3,), (1,), (1,), (1,)]
    assert watched.lasts == {1}  # only the last logits are computed


def test_the_naive_loop_passes_the_whole_text_for_each_token():
    watched = Watched(MODEL)
    run(naive, [1, 2, 3], 4, model=watched)
    assert watched.shapes == [(3,), (4,), (5,), (6,)]
    assert watched.lasts == {1}


@either_loop
def test_a_finished_sequence_takes_no_pass(loop):
    watched = Watched(MODEL)
    for prompt, n in (([1], 0), ([4] * N_CTX, 5)):
        assert run(loop, prompt, n, model=watched) == []
    assert watched.shapes == []


@either_loop
def test_model_sampler_and_prompt_are_not_changed(loop):
    prompt, params = list(PROMPTS[0]), copy.deepcopy(arrays(MODEL.params))
    run(loop, prompt, 9, WARM)
    assert prompt == PROMPTS[0] and len(WARM.filters) == 2
    for array, old in zip(arrays(MODEL.params), params, strict=True):
        np.testing.assert_array_equal(array, old)


@either_loop
def test_a_loop_computes_no_token_before_the_caller_wants_it(loop):
    watched = Watched(MODEL)
    tokens = loop(watched, Sequence(watched, [1], 9))
    assert watched.shapes == []
    next(tokens)
    assert len(watched.shapes) == 1


# --- callers that leave the loop or finish a sequence ---------------------------------------------


@either_loop
@pytest.mark.parametrize("n_taken", [0, 1, 5, 12])
def test_any_loop_goes_on_where_the_caller_left_one(loop, n_taken):
    whole = run(loop, [3, 4], 12, WARM)
    sequence = Sequence(MODEL, [3, 4], 12, WARM)
    tokens = loop(MODEL, sequence)
    taken = list(itertools.islice(tokens, n_taken))
    tokens.close()
    assert sequence.new_ids == taken == whole[:n_taken]
    assert sequence.n_left == 12 - n_taken and sequence.running == (n_taken < 12)
    for other in LOOPS:
        resumed = copy.deepcopy(sequence)
        list(other(MODEL, resumed))
        assert resumed.new_ids == whole


@either_loop
@pytest.mark.parametrize("n_taken", [1, 4])
def test_a_caller_may_finish_a_text(loop, n_taken):
    watched = Watched(MODEL)
    sequence = Sequence(watched, [3], 9, WARM)
    for _ in loop(watched, sequence):
        if len(sequence.new_ids) == n_taken:
            sequence.finish("stop")
    assert sequence.new_ids == run(loop, [3], 9, WARM)[:n_taken]
    assert sequence.stop_reason == "stop" and len(watched.shapes) == n_taken


# --- generate -------------------------------------------------------------------------------------


@either_loop
def test_generate_ends_after_n_tokens_or_at_the_context(loop):
    whole = list(generate(MODEL, [3, 1], 100, loop=loop))
    assert len(whole) == N_CTX - 2
    for n in (0, 1, 5, N_CTX - 2):
        assert list(generate(MODEL, [3, 1], n, loop=loop)) == whole[:n]
    assert list(generate(MODEL, [1] * N_CTX, 5, loop=loop)) == []


@either_loop
def test_generate_ends_with_a_stop_id(loop):
    text = list(generate(MODEL, [3, 1], 20, WARM, seed=4, loop=loop))
    assert len(set(text)) > 3
    for stop_ids in ({text[6]}, {text[0]}, {text[3], text[9]}):
        model = tiny_gpt2(stop_ids=stop_ids)
        end = min(text.index(stop) for stop in stop_ids)
        assert list(generate(model, [3, 1], 20, WARM, seed=4, loop=loop)) == text[: end + 1]


@either_loop
def test_a_stop_id_in_the_prompt_stops_nothing(loop):
    model = tiny_gpt2(stop_ids=[1, 3])
    sampler = Sampler(min_length(9, [1, 3]))
    assert len(list(generate(model, [1, 3, 1], 6, sampler, loop=loop))) == 6


@either_loop
def test_generate_is_reproducible_and_greedy_by_default(loop):
    prompt = [5, 5]
    plain = list(generate(MODEL, prompt, 9, loop=loop))
    assert plain == list(generate(MODEL, prompt, 9, greedy, seed=3, loop=loop))
    warm = [list(generate(MODEL, prompt, 9, WARM, seed=s, loop=loop)) for s in (0, 0, 1)]
    assert warm[0] == warm[1] != warm[2]
    assert warm[0] == list(generate(MODEL, prompt, 9, WARM, loop=loop))  # the default seed is 0
    assert prompt == [5, 5]


class Reader:
    """A fake encoder-decoder. The prompt is its source, and the text begins with start_ids."""

    def read(self, source):
        assert source == [5, 5, 5]
        model = opposite(MODEL)
        model.start_ids = [2]
        return model


def test_generate_runs_the_model_that_has_read_the_prompt():
    expected = list(generate(opposite(MODEL), [2], 6))
    assert list(generate(Reader(), [5, 5, 5], 6)) == expected


def test_only_a_model_with_a_source_reads_the_prompt():
    assert begin(MODEL, [1, 2]) == (MODEL, [1, 2])
    model, ids = begin(Reader(), [5, 5, 5])
    assert ids == [2] and model.n_vocab == N_VOCAB


# --- the chain rule -------------------------------------------------------------------------------

TINY = tiny_gpt2(n_vocab=3, n_ctx=8, n_embd=4, seed=32, stop_ids=[2])
PROMPT, N_NEW = [0, 1], 3
SAMPLER = Sampler(no_repeat_ngram(3), temperature(1.5))


def sequence_probabilities(sampler):
    """Return {new ids: the product of their conditional probabilities} for every text.

    A text ends with a stop id or after N_NEW tokens.
    """
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


@pytest.mark.parametrize("sampler", [Sampler(), SAMPLER, Sampler(top_k(2)), greedy])
def test_the_probabilities_of_all_texts_sum_to_1(sampler):
    probabilities = sequence_probabilities(sampler)
    assert len(probabilities) == 2 * 2 * 3 + 2 + 1  # texts of 3, 2 and 1 tokens
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)


@either_loop
def test_texts_occur_as_often_as_the_product_of_their_conditionals(loop):
    """The statistical test accepts these products and rejects two kinds of wrong products."""
    probabilities = sequence_probabilities(SAMPLER)
    assert sum(p > 0 for p in probabilities.values()) == 13  # 2 of the 15 texts repeat a 3-gram
    assert min(p for p in probabilities.values() if p > 0) > 5 / 2000
    counts = Counter(
        tuple(run(loop, PROMPT, N_NEW, SAMPLER, [7, row], TINY)) for row in range(2000)
    )
    assert p_value(counts, probabilities) > 1e-3
    colder = Sampler(no_repeat_ngram(3), temperature(1.1))
    assert p_value(counts, sequence_probabilities(colder)) < 1e-6
    first = SAMPLER(TINY(PROMPT)[-1], PROMPT)  # as if each token depended only on PROMPT
    independent = {ids: float(np.prod(first[list(ids)])) for ids in probabilities}
    assert p_value(counts, independent) < 1e-6


@either_loop
def test_a_draw_by_hand_is_the_loop_s_draw(loop):
    rng, ids = np.random.default_rng(11), list(PROMPT)
    for _ in range(N_NEW):
        ids.append(draw(SAMPLER(TINY(ids)[-1], ids), rng))
    endless = tiny_gpt2(n_vocab=3, n_ctx=8, n_embd=4, seed=32)
    found = list(generate(endless, PROMPT, N_NEW, SAMPLER, seed=11, loop=loop))
    assert found == ids[len(PROMPT) :]
