"""In a batch, each sequence gets the text that it would get alone, whenever it arrives. The model's
passes have the expected sizes and order."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoding.batching import Prefill, Rows, continuous
from generate import Sequence, begin, cached
from samplers import Sampler, greedy, no_repeat_ngram, repetition_penalty, temperature, top_k
from tests.support.tiny import Watched, checkpoint, close, tiny_gpt2

MODEL = tiny_gpt2(stop_ids=[5])
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
WARM = Sampler(temperature(1.2), top_k(6))
PENALISED = Sampler(repetition_penalty(1.5), temperature(0.7))
SAMPLERS = [greedy, WARM, PENALISED, Sampler(no_repeat_ngram(2))]


def arrivals(sequences, gaps):
    """Before each sequence, yield None `gap` times. None means that no sequence is waiting yet."""
    for sequence, gap in zip(sequences, gaps):
        yield from [None] * gap
        yield sequence


def run(sequences, gaps=None, finish_at=(), **settings):
    """Run all sequences to their ends and return the (sequence, token) pairs.

    finish_at: one entry per sequence. It is the number of new tokens after which the caller
        finishes the sequence, or None if the caller does not.
    """
    waiting, pairs = arrivals(sequences, gaps or [0] * len(sequences)), []
    finish_at = dict(zip(sequences, finish_at))
    for _ in range(100):  # continuous() returns each time that no sequence runs or waits
        for sequence, token in continuous(waiting, **settings):
            assert sequence.ids[-1] == token
            pairs.append((sequence, token))
            if len(sequence.new_ids) == finish_at.get(sequence):
                sequence.finish("stop")
    assert not any(sequence.running for sequence in sequences)
    return pairs


texts = st.tuples(
    st.sampled_from([0, 1, 2]),  # the index of the prompt's beginning in BEGINNINGS
    st.integers(0, 12),  # how many tokens of this beginning the prompt has
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=12),  # the rest of the prompt
    st.integers(0, 20),  # the number of new tokens
    st.sampled_from(SAMPLERS),
    st.one_of(st.none(), st.integers(1, 6)),  # the caller finishes the text after this many tokens
)
BEGINNINGS = np.random.default_rng(4).integers(N_VOCAB, size=(3, 12)).tolist()


def make(seed, text):
    which, n, rest, n_new, sampler, _ = text
    return Sequence(MODEL, BEGINNINGS[which][:n] + rest, n_new, sampler, seed)


@settings(max_examples=120)
@given(
    st.lists(st.tuples(texts, st.integers(0, 3)), max_size=8),
    st.integers(1, 5),
    st.integers(1, 26),
)
@example([((0, 9, [1], 5, WARM, None), 0)] * 4, 2, 4)  # four samples of one prompt
@example([((0, 12, [1] * 12, 9, WARM, None), 0), ((0, 9, [1], 0, WARM, None), 0)] * 2, 1, 9)
def test_every_sequence_is_the_same_as_alone(arriving, max_rows, chunk):
    """A sequence's ids, stop reason and random numbers do not depend on other sequences or on
    arrival times."""
    chosen, gaps = [text for text, _ in arriving], [gap for _, gap in arriving]
    sequences = [make(seed, text) for seed, text in enumerate(chosen)]
    finish_at = [text[-1] for text in chosen]
    pairs = run(sequences, gaps, finish_at, max_rows=max_rows, chunk=chunk)
    for seed, (sequence, text) in enumerate(zip(sequences, chosen)):
        alone = make(seed, text)
        for _ in cached(MODEL, alone):
            if len(alone.new_ids) == text[-1]:
                alone.finish("stop")
        assert (sequence.ids, sequence.stop_reason) == (alone.ids, alone.stop_reason)
        assert [token for owner, token in pairs if owner is sequence] == sequence.new_ids
        assert sequence.rng.random() == alone.rng.random()


ENDLESS = tiny_gpt2()


def test_a_common_beginning_is_passed_once():
    a, b = BEGINNINGS[0][:9], BEGINNINGS[1][:6]
    assert a[0] != b[0]
    prompts = [[*a, 1, 2], [*a, 3], a, [*a, 3, 4, 5], b, [*b, 7], [*a, 1, 2]]
    watched = Watched(ENDLESS)
    run([Sequence(watched, prompt, 3) for prompt in prompts])
    passed = [shape for shape in watched.shapes if len(shape) == 1]  # parts of prompts
    assert passed == [(11,), (1,), (1,), (3,), (6,), (1,), (11,)]


def test_a_chunk_of_a_prompt_passes_between_two_steps_of_the_running_rows():
    watched = Watched(ENDLESS)
    run([Sequence(watched, [1], 9), Sequence(watched, BEGINNINGS[0][:11], 3)], chunk=4)
    reading, one, two = (4,), (1, 1), (2, 1)
    assert watched.shapes == [(1,), one, reading, one, reading, one, (3,), two, two, one, one, one]
    assert watched.lasts == {1}  # only the last logits are computed


def test_the_next_sequence_is_made_when_a_row_is_free():
    """The command line starts a text's clock when it makes the sequence. So it must not make the
    sequence before a row is free."""
    made = []

    def arriving():
        for i, n in enumerate([4, 9, 2, 3]):
            made.append(i)
            yield Sequence(ENDLESS, [i], n)

    seen = [(len(made), sequence.ids[0]) for sequence, _ in continuous(arriving(), 2)]
    assert [n for n, which in seen if which == 0] == [1, 1, 2, 2]
    assert max(seen) == (4, 3) and min(n for n, which in seen if which == 2) == 3


def test_the_loop_ends_when_no_sequence_runs_or_waits():
    assert list(continuous([])) == []
    waiting = iter([None, Sequence(ENDLESS, [1], 2), None, None, None])
    assert list(continuous(waiting)) == []  # None means that no sequence is waiting yet
    assert len(list(continuous(waiting))) == 2
    assert len(list(waiting)) == 2


PROMPTS = [BEGINNINGS[0], [3], BEGINNINGS[0][:9] + [1, 2], [9, 9], [3]]
NS = [5, 17, 4, 8, 6]


def batch():
    return [Sequence(ENDLESS, prompt, n, WARM, i) for i, (prompt, n) in enumerate(zip(PROMPTS, NS))]


def alone(sequence):
    """Generate the sequence with the cached loop, and return its new ids."""
    list(cached(ENDLESS, sequence))
    return sequence.new_ids


WHOLE = [alone(sequence) for sequence in batch()]


@pytest.mark.parametrize("n_taken", [0, 1, 2, 5, 7, 13, 17, 25, 39])
def test_any_loop_goes_on_where_the_caller_left_one(n_taken):
    """The caller may leave the loop in the middle of a step or between two chunks of a prompt. The
    sequences then have exactly the tokens that were yielded."""
    sequences = batch()
    tokens = continuous(sequences, max_rows=3, chunk=2)
    taken = list(itertools.islice(tokens, n_taken))
    tokens.close()
    for sequence, n in zip(sequences, NS):
        assert sequence.new_ids == [token for owner, token in taken if owner is sequence]
        assert sequence.running == (len(sequence.new_ids) < n)
    assert [alone(sequence) for sequence in copy.deepcopy(sequences)] == WHOLE
    list(continuous(sequences))
    assert [sequence.new_ids for sequence in sequences] == WHOLE


@pytest.mark.parametrize(
    "ender, n_taken, ended",  # when `ender` has n_taken tokens, the caller finishes `ended`
    [
        (1, 2, 0),  # `ended` is in an earlier row
        (0, 2, 1),  # `ended` is the next sequence to be read
        (0, 3, 1),  # `ended` is in a later row
        (1, 3, 2),  # with small chunks, only a part of the prompt of `ended` has been read
    ],
)
def test_a_caller_may_finish_any_sequence_and_the_others_go_on(ender, n_taken, ended):
    sequences = batch()
    for sequence, _ in continuous(sequences, max_rows=3, chunk=1):
        if sequence is sequences[ender] and len(sequence.new_ids) == n_taken:
            sequences[ended].finish("stop")
            last_ids = list(sequences[ended].new_ids)
    for i, (sequence, whole) in enumerate(zip(sequences, WHOLE)):
        assert sequence.new_ids == (last_ids if i == ended else whole)
        assert sequence.stop_reason == ("stop" if i == ended else "length")


def test_a_different_source_begins_with_an_empty_cache():
    bart = checkpoint("seq2seq/bart")
    one, other = (Watched(bart.read(source)) for source in ([5, 6, 7], [8, 9]))
    prefill = Prefill()
    for reader, n_passed in ((one, 3), (one, 1), (other, 3), (one, 3)):
        prefill.admit(Sequence(reader, [2, 5, 9], 4))
        close(prefill.step(9), reader.model([2, 5, 9])[-1])
        assert reader.shapes.pop() == (n_passed,)


def test_a_model_with_a_custom_cache_is_refused():
    with pytest.raises(ValueError, match="a custom cache cannot join a batch"):
        list(continuous([Sequence(tiny_gpt2(new_cache=object), [1], 3)]))


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 9)])
def test_max_rows_and_chunk_are_at_least_one(numbers):
    with pytest.raises(ValueError, match="at least 1"):
        list(continuous([Sequence(MODEL, [1], 2)], *numbers))


@pytest.mark.parametrize("family", ["llama/llama", "llama/gemma2", "seq2seq/t5", "seq2seq/bart"])
def test_texts_of_any_family_share_a_batch_and_each_keeps_its_own_source(family):
    """llama's query heads share key-value heads; gemma2 has windows."""
    sources = [5, 6, 7], [9], [8, 4, 11, 12, 9, 10, 5], [7, 7]
    sequences = []
    for source, n in zip(sources, (3, 12, 9, 5)):
        model, ids = begin(checkpoint(family), source)
        sequences.append(Sequence(model, ids, n, WARM))
    list(continuous(sequences, max_rows=3))
    for sequence in sequences:
        ids, n = sequence.ids[: sequence.n_prompt], len(sequence.new_ids)
        own = Sequence(sequence.model, ids, n, WARM)
        assert list(cached(own.model, own)) == sequence.new_ids


def test_the_slots_of_rows_double_and_never_exceed_the_context():
    rows, slots, cache = Rows(), [0], ENDLESS.new_cache()
    ENDLESS([5], cache)
    rows.join(cache)
    rows.join(ENDLESS.new_cache())
    for n in range(2, N_CTX + 1):
        ENDLESS([[1], [1]], rows)
        slots.append(rows.kv.shape[-2])
        assert n <= slots[-1] <= 2 * n
        assert slots[-1] == slots[-2] or n > slots[-2]
    assert slots[-1] == N_CTX and len(set(slots)) <= 2 + np.log2(N_CTX)
    with pytest.raises(ValueError, match=f"{N_CTX + 1} tokens do not fit the context of {N_CTX}"):
        ENDLESS([[1], [1]], rows)
    assert rows.length.tolist() == [N_CTX, N_CTX - 1]
    rows.cut([3, 30])  # a cut past the end changes nothing
    rows.cut([9, 8])
    logits = ENDLESS([[7, 8, 9], [7, 8, 9]], rows)
    close(logits[0], ENDLESS([5, 1, 1, 7, 8, 9])[-3:])
    close(logits[1], ENDLESS([1] * 8 + [7, 8, 9])[-3:])
