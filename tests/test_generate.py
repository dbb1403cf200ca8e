"""generate.py: when a sequence ends; naive, cached and batched make one text; the chain rule."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generate import Sequence, cached, generate, left_pad, naive
from samplers import Sampler, draw, greedy, min_length, no_repeat_ngram, temperature, top_k
from tests.tiny import (
    ModelPerRow,
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
N_CTX = MODEL.n_ctx
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [3], [9, 9], [0, 10, 4, 3, 2], [3]]
NS = [3, 23, 0, 6, 8]  # new tokens; the third sequence ends before it starts
WARM = Sampler(temperature(1.2), top_k(6))


def batch_of(prompts=PROMPTS, ns=NS, sampler=greedy, seeds=range(5), model=MODEL):
    """A sequence for each prompt."""
    return [Sequence(model, ids, n, sampler, seed) for ids, n, seed in zip(prompts, ns, seeds)]


def run(loop, *args, model=MODEL, **more):
    """-> the new ids of each sequence, which are the tokens that the loop yields with it."""
    sequences = batch_of(*args, model=model, **more)
    tokens = {id(sequence): [] for sequence in sequences}
    for sequence, token in loop(model, sequences):
        assert type(token) is int and sequence.ids[-1] == token
        tokens[id(sequence)].append(token)
    assert not any(sequence.running for sequence in sequences)
    assert [sequence.new_ids for sequence in sequences] == list(tokens.values())
    return list(tokens.values())


# --- a sequence -----------------------------------------------------------------------------------


def test_a_sequence_takes_tokens_until_it_has_n_new_ones():
    prompt = [5, 6]
    sequence = Sequence(MODEL, prompt, 2)
    assert (sequence.ids, sequence.n_prompt, sequence.new_ids) == ([5, 6], 2, [])
    assert (sequence.n_left, sequence.stop_reason, sequence.running) == (2, None, True)
    sequence.append(5)
    assert (sequence.new_ids, sequence.n_left, sequence.running) == ([5], 1, True)
    sequence.append(9)
    assert (sequence.ids, sequence.new_ids) == ([5, 6, 5, 9], [5, 9])
    assert (sequence.n_left, sequence.stop_reason, sequence.running) == (0, "length", False)
    assert prompt == [5, 6]


@pytest.mark.parametrize(
    "n_prompt, n, tokens, reason",
    [
        (N_CTX - 3, 4, [1, 2], None),
        (N_CTX - 3, 4, [1, 2, 4], "context"),
        (N_CTX - 3, 3, [1, 2, 4], "length"),  # the context is full, too
        (N_CTX - 3, 2, [1, 2], "length"),
        (N_CTX - 3, 4, [1, 7], "eos"),
        (N_CTX - 3, 2, [1, 7], "eos"),  # n tokens, too
        (N_CTX - 3, 4, [1, 2, 7], "eos"),  # the context is full, too
        (N_CTX - 3, 3, [1, 2, 8], "eos"),  # both, too
        (5, 0, [], "length"),
        (N_CTX, 0, [], "length"),
        (N_CTX, 1, [], "context"),
    ],
)
def test_a_sequence_ends_for_the_first_of_eos_length_and_context(n_prompt, n, tokens, reason):
    sequence = Sequence(tiny_gpt2(stop_ids=[7, 8]), [7] * n_prompt, n)
    for token in tokens:
        assert sequence.running
        sequence.append(token)
    assert sequence.new_ids == tokens
    assert sequence.n_left == min(n, N_CTX - n_prompt) - len(tokens)
    assert sequence.stop_reason == reason


@pytest.mark.parametrize("tokens", [[], [2], [7], [2, 3]])
def test_a_reader_ends_a_sequence_for_its_own_reason(tokens):
    """Also one that ends with this token: a stop text may be complete with the last token."""
    sequence = Sequence(tiny_gpt2(stop_ids=[7]), [1], 2)
    for token in tokens:
        sequence.append(token)
    sequence.finish("stop")
    assert (sequence.stop_reason, sequence.running) == ("stop", False)
    assert sequence.new_ids == tokens


def test_fewer_than_0_new_tokens_are_refused():
    with pytest.raises(ValueError, match="-1 new tokens"):
        Sequence(MODEL, [1], -1)


@pytest.mark.parametrize("prompt, message", [
    ([], f"a prompt of 0 tokens: 1 to {N_CTX} are possible"),
    ([1] * (N_CTX + 1), f"a prompt of {N_CTX + 1} tokens: 1 to {N_CTX} are possible"),
    ("Once", "encode the text first"),
    ("", "encode the text first"),
])  # fmt: skip
def test_a_prompt_that_does_not_fit_is_refused(prompt, message):
    with pytest.raises(ValueError, match=message):
        Sequence(MODEL, prompt, 5)
    with pytest.raises(ValueError, match=message):
        next(generate(MODEL, prompt, 5))
    Sequence(MODEL, [1] * N_CTX, 5)


def test_a_seed_is_a_number_or_a_generator():
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    assert Sequence(MODEL, [1], 2, seed=rng).rng is rng
    assert Sequence(MODEL, [1], 2, seed=3).rng.random() == same.random()
    assert Sequence(MODEL, [1], 2).rng.random() == np.random.default_rng(0).random()


# --- naive == cached == one by one ----------------------------------------------------------------


def batches():
    """(prompts, numbers of new tokens) of up to four rows."""
    prompt = st.lists(st.integers(0, MODEL.n_vocab - 1), min_size=1, max_size=12)
    row = prompt.flatmap(lambda ids: st.tuples(st.just(ids), st.integers(0, N_CTX - len(ids))))
    return st.lists(row, max_size=4).map(lambda rows: tuple(map(list, zip(*rows))) or ([], []))


@given(batches())
@settings(max_examples=12)
def test_greedy_text_is_the_same_by_either_loop_and_in_a_batch(batch):
    prompts, ns = batch
    together = run(cached, prompts, ns)
    assert list(map(len, together)) == ns
    for ids, prompt, n in zip(together, prompts, ns):
        same_greedy(MODEL, prompt, ids, run(naive, [prompt], [n])[0])
        same_greedy(MODEL, prompt, ids, run(cached, [prompt], [n])[0])
    for ids, prompt, others in zip(together, prompts, run(naive, prompts, ns)):
        same_greedy(MODEL, prompt, ids, others)


@pytest.mark.parametrize("sampler", [WARM, Sampler(), Sampler(no_repeat_ngram(2))])
def test_sampled_text_is_the_same_by_either_loop_and_in_a_batch(sampler):
    seeds = [5, 6, 7, 8, 9]
    together = run(cached, sampler=sampler, seeds=seeds)
    assert run(naive, sampler=sampler, seeds=seeds) == together
    for loop in LOOPS:
        for ids, prompt, n, seed in zip(together, PROMPTS, NS, seeds):
            assert run(loop, [prompt], [n], sampler, [seed]) == [ids]


@either_loop
def test_a_seed_reproduces_and_another_does_not(loop):
    text = run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 2])
    assert run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 2]) == text
    assert text[1][:8] == text[4] != run(loop, sampler=WARM, seeds=[1, 2, 3, 4, 5])[4]


@either_loop
def test_a_row_may_fill_the_context(loop):
    sequences = batch_of([[1] * (N_CTX - 1), [4], [2] * N_CTX], [99, 99, 99])
    assert len(list(loop(MODEL, sequences))) == 1 + N_CTX - 1
    assert all(len(sequence.ids) == N_CTX for sequence in sequences)
    assert all(sequence.stop_reason == "context" for sequence in sequences)


def test_the_comparison_allows_only_near_ties_and_prints_them(capsys):
    def two_logits(ids):
        return np.array([[1, 1.5], [1, 1.00005]], np.float32)[[ids[-1]]]

    same_greedy(two_logits, [0, 1], [1, 0, 1], [1, 1, 1])  # beyond the first nothing compares
    assert "near tie after [0, 1, 1]" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="the logits differ by 0.5"):
        same_greedy(two_logits, [1, 0], [0, 1], [1, 1])


# --- what a loop does -----------------------------------------------------------------------------


@either_loop
def test_a_sampler_sees_its_whole_sequence_without_padding(loop):
    sampled = [[] for _ in PROMPTS]

    def sampler_of(row):
        def note(logits, ids):
            assert logits.shape == (MODEL.n_vocab,) and logits.dtype == np.float32
            close(logits, MODEL(ids)[-1])
            sampled[row].append(list(ids))
            return logits

        return Sampler(note, temperature(1.5))

    sequences = [Sequence(MODEL, PROMPTS[row], NS[row], sampler_of(row), row) for row in range(5)]
    assert len(list(loop(MODEL, sequences))) == sum(NS)
    for sequence, seen in zip(sequences, sampled):
        assert seen == [sequence.ids[:n] for n in range(sequence.n_prompt, len(sequence.ids))]


@either_loop
def test_a_row_draws_once_per_token_from_its_own_generator(loop):
    sequences = batch_of(sampler=WARM)
    list(loop(MODEL, sequences))
    for sequence, n, seed in zip(sequences, NS, range(5)):
        expected = np.random.default_rng(seed)
        expected.random(n)
        assert sequence.rng.random() == expected.random()


@either_loop
def test_rows_take_turns(loop):
    sequences = batch_of()
    order = [sequences.index(sequence) for sequence, _ in loop(MODEL, sequences)]
    assert order == [0, 1, 3, 4] * 3 + [1, 3, 4] * 3 + [1, 4] * 2 + [1] * 15


def test_the_cached_loop_runs_each_token_once_and_rows_leave_when_they_end():
    watched = Watched(MODEL)
    run(cached, [[1, 2, 3], [4], [5, 6]], [3, 2, 6], model=watched)
    assert watched.shapes == [(3, 3), (3, 1), (2, 1), (1, 1), (1, 1), (1, 1)]
    assert watched.lasts == {1}  # no unused logits are computed


def test_the_naive_loop_runs_over_the_whole_batch_so_far():
    watched = Watched(MODEL)
    run(naive, [[1, 2, 3], [4], [5, 6]], [3, 2, 6], model=watched)
    assert watched.shapes == [(3, 3), (3, 4), (3, 5), (3, 6), (3, 6), (3, 7)]
    assert watched.lasts == {1}


@either_loop
def test_a_source_stays_with_its_row(loop):
    models, prompts, ns = [MODEL, opposite(MODEL), MODEL], [[1], [1, 2], [1]], [2, 9, 6]
    texts = run(loop, prompts, ns, model=ModelPerRow(models))
    for model, prompt, n, text in zip(models, prompts, ns, texts):
        assert [text] == run(loop, [prompt], [n], model=model)
    assert texts[0] != run(loop, [[1]], [2], model=opposite(MODEL))[0]


@either_loop
def test_nothing_to_do(loop):
    watched = Watched(MODEL)
    assert run(loop, [], [], model=watched) == []
    assert run(loop, [[1], [2, 3], [4] * N_CTX], [0, 0, 5], model=watched) == [[], [], []]
    assert watched.shapes == []


@either_loop
def test_no_model_sampler_or_prompt_is_changed(loop):
    prompts, params = copy.deepcopy(PROMPTS), copy.deepcopy(arrays(MODEL.params))
    list(loop(MODEL, batch_of(prompts, sampler=WARM)))
    assert prompts == PROMPTS
    for array, old in zip(arrays(MODEL.params), params, strict=True):
        np.testing.assert_array_equal(array, old)


@either_loop
def test_a_loop_computes_no_token_before_it_is_asked(loop):
    watched = Watched(MODEL)
    tokens = loop(watched, batch_of([[1]], [9]))
    assert watched.shapes == []
    next(tokens)
    assert len(watched.shapes) == 1


# --- a loop that is left, a sequence that its reader ends -----------------------------------------


@either_loop
@pytest.mark.parametrize("n_taken", [0, 1, 5, 7, 13, 17])
def test_another_loop_goes_on_where_one_was_left(loop, n_taken):
    """In the middle of a turn too: the sequences have just the tokens that were yielded."""
    whole = run(loop, sampler=WARM)
    sequences = batch_of(sampler=WARM)
    tokens = loop(MODEL, sequences)
    taken = list(itertools.islice(tokens, n_taken))
    tokens.close()
    for sequence, prompt, n in zip(sequences, PROMPTS, NS):
        assert sequence.new_ids == [token for owner, token in taken if owner is sequence]
        assert sequence.ids == prompt + sequence.new_ids
        assert sequence.n_left == n - len(sequence.new_ids)
        assert sequence.running == (sequence.n_left > 0)
    for other in LOOPS:
        resumed = copy.deepcopy(sequences)
        list(other(MODEL, resumed))
        assert [sequence.new_ids for sequence in resumed] == whole


@either_loop
@pytest.mark.parametrize("row, n_taken", [(0, 2), (1, 1), (1, 8), (4, 3), (4, 8)])
def test_a_reader_ends_a_row_between_two_tokens_and_the_others_go_on(loop, row, n_taken):
    whole, sequences = run(loop, sampler=WARM), batch_of(sampler=WARM)
    for sequence, _ in loop(MODEL, sequences):
        if sequence is sequences[row] and len(sequence.new_ids) == n_taken:
            sequence.finish("stop")
    assert sequences[row].new_ids == whole[row][:n_taken]
    assert sequences[row].stop_reason == "stop"
    for other in set(range(5)) - {row}:
        assert sequences[other].new_ids == whole[other]
        assert sequences[other].stop_reason == "length"


@either_loop
def test_a_reader_may_end_a_row_whose_turn_is_yet_to_come(loop):
    whole, sequences = run(loop), batch_of()
    for sequence, _ in loop(MODEL, sequences):
        if sequence is sequences[1] and len(sequence.new_ids) == 2:
            sequences[3].finish("stop")  # row 3 comes after row 1
    assert [sequence.new_ids for sequence in sequences] == [*whole[:3], whole[3][:1], whole[4]]
    assert sequences[3].stop_reason == "stop"


@either_loop
def test_a_loop_ends_when_its_reader_has_ended_all_rows(loop):
    watched = Watched(MODEL)
    sequences = batch_of()
    for _, _ in loop(watched, sequences):
        for sequence in sequences:
            sequence.finish("stop")
    assert [len(sequence.new_ids) for sequence in sequences] == [1, 0, 0, 0, 0]
    assert len(watched.shapes) == 1


def test_left_pad():
    padded = left_pad([[1, 2, 3], [4]])
    assert padded.tolist() == [[1, 2, 3], [-1, -1, 4]]
    assert padded.dtype == int


# --- one prompt -----------------------------------------------------------------------------------


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
    assert prompt == [5, 5]


def test_generate_runs_the_model_that_has_read_the_prompt():
    """As for an encoder-decoder: a prompt is a source, and the text begins with other ids."""

    class Reader:
        def begin(self, prompts):
            assert prompts == [[5, 5, 5]]
            return opposite(MODEL), [[2]]

    expected = list(generate(opposite(MODEL), [2], 6))
    assert list(generate(Reader(), [5, 5, 5], 6)) == expected


# --- the chain rule -------------------------------------------------------------------------------

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


@pytest.mark.parametrize("sampler", [Sampler(), SAMPLER, Sampler(top_k(2)), greedy])
def test_the_probabilities_of_all_texts_sum_to_1(sampler):
    probabilities = sequence_probabilities(sampler)
    assert len(probabilities) == 2 * 2 * 3 + 2 + 1  # by length 3, 2 and 1
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)


@either_loop
def test_texts_occur_as_often_as_the_product_of_their_conditionals(loop):
    """Known-wrong products must fail the same test."""
    probabilities = sequence_probabilities(SAMPLER)
    assert sum(p > 0 for p in probabilities.values()) == 13  # two repeat a 3-gram of the prompt
    assert min(p for p in probabilities.values() if p > 0) > 5 / 2000
    texts = [Sequence(TINY, PROMPT, N_NEW, SAMPLER, seed=[7, row]) for row in range(2000)]
    list(loop(TINY, texts))
    counts = Counter(tuple(text.new_ids) for text in texts)
    assert p_value(counts, probabilities) > 1e-3
    colder = Sampler(no_repeat_ngram(3), temperature(1.1))
    assert p_value(counts, sequence_probabilities(colder)) < 1e-6
    first = SAMPLER(TINY(PROMPT)[-1], PROMPT)  # as if no token depended on the one before
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
