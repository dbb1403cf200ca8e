"""Tests of generate.py. A sequence ends at the right token, `naive` and `cached` generate the same
text, and wrong arguments are refused."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate import Sequence, advance, cached, generate, naive
from samplers import Sampler, greedy, no_repeat_ngram, temperature, top_k
from tests.support.tiny import Watched, close, opposite, tiny_gpt2

LOOPS = [naive, cached]
either_loop = pytest.mark.parametrize("loop", LOOPS)
MODEL = tiny_gpt2()
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
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


def test_a_sequence_takes_tokens_until_it_has_n_new_ones():
    prompt = [5, 6]
    sequence = Sequence(MODEL, prompt, 2)
    assert sequence.append(5) == 5 and sequence.running
    token = sequence.append(np.int64(9))  # a user's loop may append NumPy's integers
    assert type(token) is int and type(sequence.ids[-1]) is int
    assert (sequence.ids, sequence.n_prompt, sequence.new_ids) == ([5, 6, 5, 9], 2, [5, 9])
    assert prompt == [5, 6] and not sequence.running


@pytest.mark.parametrize(
    "n_prompt, n, tokens, reason",
    [
        (N_CTX - 3, 4, [1, 2], None),
        (N_CTX - 3, 4, [1, 2, 4], "context"),
        (N_CTX - 3, 3, [1, 2, 4], "length"),  # the text also fills the context
        (N_CTX - 3, 4, [1, 7], "eos"),
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


@pytest.mark.parametrize(
    "prompt, message",
    [
        ([], f"a prompt of 0 tokens: 1 to {N_CTX} are possible"),
        ([1] * (N_CTX + 1), f"a prompt of {N_CTX + 1} tokens"),
        ("Once", "encode the text first"),
        ([1.0, 2.5], "encode the text first"),
        ([[1, 2]], "encode the text first"),
        ([5, -3, 7], "token ids are 0 to 10, not -3 to 7"),
        ([3, N_VOCAB, 0], "token ids are 0 to 10, not 0 to 11"),
    ],
)
def test_a_prompt_that_is_not_a_list_of_ids_or_does_not_fit_is_refused(prompt, message):
    with pytest.raises(ValueError, match=message):
        next(generate(MODEL, prompt, 5))


def test_a_filter_is_not_a_sampler_and_minus_one_is_no_number_of_tokens():
    """A filter returns logits, which a loop would mistake for probabilities."""
    for wrong in (top_k(3), None):
        with pytest.raises(ValueError, match=r"not a Sampler: wrap a filter as Sampler\(filter\)"):
            Sequence(MODEL, [1], 2, wrong)
    with pytest.raises(ValueError, match="-1 new tokens are not possible"):
        Sequence(MODEL, [1], -1)


prompts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=N_CTX)


@given(prompts, st.integers(0, 2**32), st.sampled_from([WARM, Sampler(no_repeat_ngram(2))]))
@settings(max_examples=25)
def test_sampled_text_is_the_same_in_both_loops(prompt, seed, sampler):
    assert run(naive, prompt, 12, sampler, seed) == run(cached, prompt, 12, sampler, seed)


FULL = np.random.default_rng(1).integers(N_VOCAB, size=N_CTX)


def test_advance_passes_new_tokens_in_chunks_and_at_least_the_last_token():
    """The text may be longer or shorter than the cached text, or equal to it."""
    watched, cache = Watched(MODEL), MODEL.new_cache()
    for length in (11, 11, 17, 3):
        close(advance(watched, FULL[:length], cache, chunk=4), MODEL(FULL[:length])[-1])
        assert cache.length == length
    assert watched.shapes == [(4,), (4,), (3,), (1,), (4,), (2,), (1,)]
    assert watched.lasts == {1}  # only the last logits are computed


def test_a_long_prompt_passes_in_chunks_of_256():
    watched = Watched(tiny_gpt2(n_ctx=600))
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


@either_loop
def test_a_sampler_sees_its_whole_sequence(loop):
    seen = []

    def record(logits, ids):
        assert logits.shape == (N_VOCAB,) and logits.dtype == np.float32
        close(logits, MODEL(ids)[-1])
        seen.append(list(ids))
        return logits

    prompt = [1, 2, 3, 4, 5, 6, 7]
    sequence = Sequence(MODEL, prompt, 9, Sampler(record, temperature(1.5)))
    list(loop(MODEL, sequence))
    assert seen == [sequence.ids[:n] for n in range(7, 16)]


@pytest.mark.parametrize(
    "loop, shapes", [(cached, [(3,), (1,), (1,), (1,)]), (naive, [(3,), (4,), (5,), (6,)])]
)
def test_cached_passes_each_token_once_and_naive_the_whole_text_for_each_token(loop, shapes):
    watched = Watched(MODEL)
    run(loop, [1, 2, 3], 4, model=watched)
    assert watched.shapes == shapes
    assert watched.lasts == {1}  # only the last logits are computed


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
def test_generate_is_reproducible_and_greedy_by_default(loop):
    prompt = [5, 5]
    plain = list(generate(MODEL, prompt, 9, loop=loop))
    assert plain == list(generate(MODEL, prompt, 9, greedy, seed=3, loop=loop))
    warm = [list(generate(MODEL, prompt, 9, WARM, seed=s, loop=loop)) for s in (0, 0, 1)]
    assert warm[0] == warm[1] != warm[2]
    assert warm[0] == list(generate(MODEL, prompt, 9, WARM, loop=loop))  # the default seed is 0
    own = np.random.default_rng(0)  # a seed may be a generator
    assert warm[0] == list(generate(MODEL, prompt, 9, WARM, own, loop=loop))
    assert prompt == [5, 5]


def test_generate_runs_the_model_that_has_read_the_prompt():
    """As an encoder-decoder: the prompt is its source, and the text begins with start_ids."""
    decoder = opposite(MODEL)
    decoder.start_ids = [2]
    reader = SimpleNamespace(read=lambda source: source == [5, 5, 5] and decoder)
    assert list(generate(reader, [5, 5, 5], 6)) == list(generate(decoder, [2], 6))
