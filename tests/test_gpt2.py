"""gpt2.py: the reference's logits; one answer however the tokens are split, cached, or batched."""

import copy
import functools
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generate import Sequence, cached, generate, left_pad
from gpt2 import (
    GPT2,
    Cache,
    attention,
    causal_attention,
    causal_mask,
    gelu,
    layer_norm,
    log_softmax,
    softmax,
)
from layers import ACTIVATIONS
from tests.tiny import GPT2_FOLDERS, Traced, arrays, close, same_greedy, tiny_gpt2, traced
from utils import load

FOLDERS = sorted(folder.name for folder in GPT2_FOLDERS.iterdir())
MODEL = tiny_gpt2()
few = settings(max_examples=40)
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
FULL = np.random.default_rng(1).integers(N_VOCAB, size=N_CTX)  # [n_ctx]
LOGITS = MODEL(FULL)  # [n_ctx, n_vocab]


# --- the reference implementation -----------------------------------------------------------------


@pytest.fixture(scope="module", params=FOLDERS)
def reference(request):
    """(model, what transformers computed with it)"""
    _, model = load(GPT2_FOLDERS / request.param)
    with np.load(GPT2_FOLDERS / request.param / "expected.npz") as expected:
        return model, dict(expected)


def test_there_is_a_fixture_of_every_kind():
    configs = [json.loads((GPT2_FOLDERS / name / "config.json").read_text()) for name in FOLDERS]
    switches = (
        "activation_function", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
        "tie_word_embeddings", "n_inner",
    )  # fmt: skip
    assert len({tuple(config[name] for name in switches) for config in configs}) == 8
    assert {c["n_layer"] for c in configs} == {1, 2, 3}
    assert {c["n_head"] for c in configs} == {1, 2, 4, 8}


def test_logits_are_the_reference_s(reference):
    model, expected = reference
    close(model(expected["ids"]), expected["logits"])


def test_logits_of_a_left_padded_batch_are_the_reference_s(reference):
    model, expected = reference
    assert (expected["batch"] < 0).sum() == 3
    close(model(expected["batch"])[:, -1], expected["batch_logits"])


def test_greedy_ids_are_the_reference_s(reference):
    model, expected = reference
    prompt = expected["ids"][:3].tolist()
    ids = list(generate(model, prompt, model.n_ctx))
    same_greedy(model, prompt, ids, expected["greedy"].tolist())


def test_greedy_ids_of_a_batch_are_the_reference_s(reference):
    model, expected = reference
    prompts = [[int(id) for id in row if id >= 0] for row in expected["batch"]]
    sequences = [Sequence(model, prompt, 8) for prompt in prompts]
    list(cached(model, sequences))
    for prompt, sequence, theirs in zip(prompts, sequences, expected["batch_greedy"].tolist()):
        same_greedy(model, prompt, sequence.new_ids, theirs)


def test_the_end_of_text_stops(reference):
    model, _ = reference
    assert model.stop_ids == (model.n_vocab - 1,)


# --- cached == naive ------------------------------------------------------------------------------


def in_chunks(model, ids, cuts, cache):  # ids [..., n_seq], cut before these positions -> logits
    return np.concatenate([model(part, cache) for part in np.split(ids, cuts, axis=-1)], axis=-2)


@st.composite
def cuts(draw, n=N_CTX):
    return sorted(draw(st.sets(st.integers(1, n - 1))))


@few
@given(cuts())
def test_any_split_into_chunks_gives_the_same_logits(cuts):
    cache = MODEL.new_cache()
    close(in_chunks(MODEL, FULL, cuts, cache), LOGITS)
    assert cache.length == N_CTX


def test_one_token_at_a_time_up_to_the_context(reference):
    model, expected = reference
    cache, n = model.new_cache(), len(expected["ids"])
    assert n == model.n_ctx
    close(in_chunks(model, expected["ids"], range(1, n), cache), expected["logits"])


@pytest.mark.parametrize("held", [0, 1, N_CTX - 1, N_CTX])
def test_one_token_past_the_context_is_an_error_with_both_numbers(held):
    ids = np.zeros(N_CTX + 1, int)
    cache = MODEL.new_cache()
    if held:
        MODEL(ids[:held], cache)
    with pytest.raises(ValueError, match=rf"\b{N_CTX + 1}\b.*\b{N_CTX}\b"):
        MODEL(ids[held:], cache)
    assert cache.length == held
    with pytest.raises(ValueError, match=rf"\b{N_CTX + 1}\b.*\b{N_CTX}\b"):
        MODEL(ids)


@few
@given(st.integers(0, N_CTX), st.integers(1, N_CTX))
def test_a_cache_cut_back_goes_on_as_if_nothing_had_been(length, first):
    length = min(length, first)
    cache = MODEL.new_cache()
    MODEL(np.concatenate([FULL[:length], np.flip(FULL)[: first - length]]), cache)
    cache.cut(length)
    assert cache.length == length
    if length < N_CTX:
        close(MODEL(FULL[length:], cache), LOGITS[length:])


def test_cutting_to_the_same_length_forgets_nothing():
    cache = MODEL.new_cache()
    MODEL(FULL[:5], cache)
    cache.cut(5)
    close(MODEL(FULL[5:], cache), LOGITS[5:])


@few
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_each_row_is_cut_to_a_length_of_its_own(held, data):
    """And goes on as if nothing had been; a length past the row's own cuts nothing."""
    cache, rows = prefilled(held)
    lengths = [data.draw(st.integers(0, n + 2)) for n in held]
    cache.cut(lengths)
    assert cache.lengths.tolist() == [min(n, length) for n, length in zip(held, lengths)]
    rows = [ids[:length] for ids, length in zip(rows, lengths)]
    extend_all(cache, rows, [data.draw(st.integers(0, 3)) for _ in rows])
    check_cache(cache, rows)


def test_one_length_cuts_all_rows():
    cache, rows = prefilled([5, 1, 3])
    cache.cut(2)
    assert cache.lengths.tolist() == [2, 1, 2] and cache.length == 2
    extend_all(cache, [ids[:2] for ids in rows], [2, 2, 2])


@few
@given(st.integers(1, N_CTX + 2), st.booleans())
def test_only_the_last_positions(last, with_cache):
    cache = MODEL.new_cache() if with_cache else None
    close(MODEL(FULL, cache, last=last), LOGITS[-last:])


def test_the_last_0_positions_are_none():
    assert MODEL(FULL, last=0).shape == MODEL(FULL, last=-1).shape == (0, N_VOCAB)


# --- batches --------------------------------------------------------------------------------------


@few
@given(st.lists(st.integers(1, N_CTX), min_size=1, max_size=4), st.data())
def test_left_padding_changes_no_logits(lengths, data):
    rows = [FULL[:length] for length in lengths]
    ids = left_pad(rows)  # [n_rows, n_longest]
    split = data.draw(cuts(ids.shape[1])) if ids.shape[1] > 1 else []
    cache = MODEL.new_cache(len(rows))
    for logits in (MODEL(ids), in_chunks(MODEL, ids, split, cache)):
        assert np.isfinite(logits).all()  # those of padding mean nothing, yet are numbers
        for row_logits, length in zip(logits, lengths):
            close(row_logits[-length:], LOGITS[:length])
    assert cache.lengths.tolist() == lengths and cache.length == max(lengths)


@pytest.mark.parametrize("shape", [(1,), (2, 3), (2, 1, 3)])
def test_any_batch_dimensions_may_precede_the_sequence(shape):
    ids = np.random.default_rng(2).integers(N_VOCAB, size=(*shape, 6))
    ids[..., 0, :2] = -1  # where the logits mean nothing
    expected = np.stack([MODEL(row) for row in ids.reshape(-1, 6)]).reshape(*shape, 6, N_VOCAB)
    close(MODEL(ids)[..., 2:, :], expected[..., 2:, :])
    cache = MODEL.new_cache(*shape)
    close(in_chunks(MODEL, ids, [2, 3], cache)[..., 2:, :], expected[..., 2:, :])
    assert cache.lengths.shape == shape


PADS = [3, 1, 0, 2]  # of each row
BATCH = np.stack([np.where(np.arange(7) < pad, -1, np.roll(FULL, pad)[:7]) for pad in PADS])


@few
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 5), max_size=3))
@example([3, 2, 0, 1], [0, 1, 2, 3])  # the same rows again, in order
@example([3, 3, 1], [2, 0])
def test_selected_rows_go_on_in_their_new_order(rows, again):
    """Repeated, re-ordered, dropped, twice in a row: as if each had always been the only one."""
    cache = MODEL.new_cache(4)
    MODEL(BATCH, cache)
    cache.select(rows)
    again = [i for i in again if i < len(rows)]
    cache.select(again)
    kept = [rows[i] for i in again]
    assert cache.lengths.shape == (len(kept),)
    assert cache.lengths.tolist() == [7 - PADS[row] for row in kept]
    assert cache.length == max((7 - PADS[row] for row in kept), default=0)
    if kept:
        new = FULL[: 2 * len(kept)].reshape(-1, 2)
        for logits, row, tail in zip(MODEL(new, cache), kept, new):
            close(logits, MODEL([*BATCH[row, PADS[row] :], *tail])[-2:])


@pytest.mark.parametrize("n_new", [0, 1, 3])
def test_a_batch_without_rows_has_no_logits(n_new):
    """As an empty sequence has none; the cache goes on with the rows that join it."""
    cache = MODEL.new_cache(0)
    assert MODEL(np.zeros((0, n_new), int), cache).shape == (0, n_new, N_VOCAB)
    joining, rows = prefilled([3, 1])
    cache.join(joining)
    extend_all(cache, rows, [1, 2])
    assert MODEL(np.zeros((2, 0), int), cache).shape == (2, 0, N_VOCAB)
    check_cache(cache, rows)


def test_padding_takes_no_slots():
    """Slot i of a row holds its token at position i, however much padding came before it."""
    padded, plain = MODEL.new_cache(2), MODEL.new_cache(2)
    MODEL([[-1, -1, -1, 1], [-1, -1, 2, 3]], padded)
    MODEL([[-1, 1], [2, 3]], plain)
    for cache in (padded, plain):
        assert (cache.length, cache.lengths.tolist()) == (2, [1, 2])
        logits = MODEL([[-1, -1, 4], [5, 6, 7]], cache)
        assert cache.lengths.tolist() == [2, 5]
        close(logits[0, 2:], MODEL([1, 4])[1:])
        close(logits[1], MODEL([2, 3, 5, 6, 7])[2:])
    close(padded.kv[:, :, 0, :, :2], plain.kv[:, :, 0, :, :2])
    close(padded.kv[:, :, 1, :, :5], plain.kv[:, :, 1, :, :5])


def test_a_pass_of_only_padding_adds_nothing():
    """Its logits mean nothing, yet are numbers."""
    for held in ([0, 0], [2, 1]):
        cache, rows = prefilled(held)
        assert np.isfinite(MODEL([[-1, -1]] * 2, cache)).all()
        assert cache.lengths.tolist() == held
        extend_all(cache, rows, [2, 3])


def test_a_selected_row_has_the_whole_context_to_itself():
    cache = MODEL.new_cache(2)
    MODEL(np.array([[-1] * 10 + [1, 2], list(range(10)) + [3, 4]]), cache)
    cache.select([0])
    rest = FULL[: N_CTX - 2]
    close(MODEL(rest[None], cache)[0], MODEL([1, 2, *rest])[2:])


def test_to_select_all_rows_in_their_order_copies_nothing():
    cache = MODEL.new_cache(2)
    MODEL([[1, 2], [-1, 3]], cache)
    before = cache.kv
    cache.select([0, 1])
    assert cache.kv is before


def test_copies_of_a_row_do_not_share_memory():
    cache = MODEL.new_cache(1)
    MODEL(FULL[None, :3], cache)
    cache.select([0, 0])
    logits = MODEL(np.array([[1, 2], [3, 4]]), cache)
    close(logits[0], MODEL([*FULL[:3], 1, 2])[3:])
    close(logits[1], MODEL([*FULL[:3], 3, 4])[3:])


def test_nbytes_counts_the_keys_and_values_that_are_held():
    assert MODEL.new_cache(3).nbytes == 0
    cache = MODEL.new_cache(3)
    MODEL(np.tile(FULL[:5], (3, 1)), cache)
    n_layer, n_embd = len(MODEL.params["blocks"]), MODEL.n_embd
    assert cache.nbytes == 2 * n_layer * 3 * 5 * n_embd * 4
    cache.select([0])
    cache.cut(2)
    assert cache.nbytes == 2 * n_layer * 1 * 2 * n_embd * 4
    gpt2_124m = Cache(12, (), 12, 1024, 64)
    gpt2_124m.extend(np.zeros(1024, int))
    assert gpt2_124m.nbytes == 72 * 2**20


def test_a_cache_has_slots_for_twice_its_tokens_but_never_for_more_than_the_context():
    cache, slots = MODEL.new_cache(2), []
    for _ in range(N_CTX):
        MODEL([[1], [2]], cache)
        slots.append(cache.kv.shape[-2])
    assert slots == sorted(slots) and slots[-1] == N_CTX
    assert all(n <= n_slots <= 2 * n for n, n_slots in enumerate(slots, 1))
    assert len(set(slots)) <= 1 + np.log2(N_CTX)  # it was copied so few times


def test_gpt2_continues_the_prompts_themselves():
    prompts = [[1, 2], [3]]
    assert MODEL.begin(prompts) == (MODEL, prompts)


# --- joined caches --------------------------------------------------------------------------------


@functools.cache
def logits_after(ids):  # a tuple of ids -> [n_vocab]
    return MODEL(ids, last=1)[-1]


def prefilled(lengths):
    """-> a cache of rows with so many tokens, and those tokens."""
    rows = [np.roll(FULL, 5 * i)[:length].tolist() for i, length in enumerate(lengths)]
    cache = MODEL.new_cache(len(rows))
    if any(rows):
        MODEL(left_pad(rows), cache)
    return cache, rows


def check_cache(cache, rows):
    assert cache.lengths.tolist() == [len(ids) for ids in rows]
    assert cache.length == max(map(len, rows), default=0)
    assert cache.kv.dtype == np.float32
    assert cache.kv.shape[2] == len(rows) and cache.length <= cache.kv.shape[-2] <= N_CTX


def extend_all(cache, rows, ns):
    """Run ns new tokens of the rows through the model; the logits are those of each row alone."""
    new = [[(3 * len(ids) + row + k) % N_VOCAB for k in range(n)]
           for row, (ids, n) in enumerate(zip(rows, ns))]  # fmt: skip
    if any(new):
        for logits, ids, tokens in zip(MODEL(left_pad(new), cache), rows, new):
            for token, found in zip(tokens, logits[len(logits) - len(tokens) :]):
                ids.append(token)
                close(found, logits_after(tuple(ids)))


@pytest.mark.parametrize(
    "one, other",
    [([3], [3]), ([7], [2]), ([2], [7]), ([5, 1], [2, 4, 3]), ([0], [3]), ([4, 2], [0, 0]),
     ([], [3, 1]), ([3, 1], []), ([], []), ([0], [0]), ([N_CTX - 1, 1], [2]), ([1], [12, 12])],
    ids=str,
)  # fmt: skip
def test_joined_rows_go_on_as_if_each_were_the_only_one(one, other):
    """One token at a time, up to the context: the slots grow more than once."""
    cache, rows = prefilled(one)
    joining, more = prefilled(other)
    before = copy.deepcopy(joining)
    cache.join(joining)
    rows += more
    check_cache(cache, rows)
    assert cache.length == max([*one, *other, 0])
    if rows:
        while cache.length < N_CTX:
            extend_all(cache, rows, [1] * len(rows))
            check_cache(cache, rows)
        with pytest.raises(ValueError, match=f"{N_CTX + 1} tokens"):
            MODEL([[1]] * len(rows), cache)
    np.testing.assert_array_equal(joining.kv, before.kv)  # the other cache is as it was
    assert joining.lengths.tolist() == before.lengths.tolist()


some = st.lists(st.integers(0, 6), min_size=1, max_size=4)  # of each row; repeated for more rows
operations = st.one_of(
    st.tuples(st.just("extend"), some),
    st.tuples(st.just("cut"), some),  # so many tokens less
    st.tuples(st.just("cut all"), st.integers(0, 9)),
    st.tuples(st.just("select"), st.lists(st.integers(0, 5), max_size=4)),
    st.tuples(st.just("join"), st.lists(st.integers(0, 9), max_size=3)),
)


@settings(max_examples=100)
@given(st.lists(operations, min_size=3, max_size=14))
@example([("join", [3, 1]), ("extend", [4]), ("cut", [6, 1]), ("join", [2]), ("extend", [1])])
@example([("join", [2, 5]), ("select", [0]), ("join", [4]), ("extend", [6]), ("extend", [6])] * 2)
@example([("join", [9]), ("extend", [6]), ("select", []), ("join", [1, 0]), ("extend", [2, 0])])
@example([("join", [4, 4]), ("cut", [3, 0]), ("extend", [1, 5]), ("select", [1, 0, 1])])
def test_any_order_of_operations_leaves_each_row_its_own_text(operations):
    cache, rows = prefilled([])
    for name, argument in operations:
        if name == "extend":
            ns = [min(n, N_CTX - len(ids)) for n, ids in zip(itertools.cycle(argument), rows)]
            extend_all(cache, rows, ns)
        elif name == "cut":
            lengths = [len(ids) - n for n, ids in zip(itertools.cycle(argument), rows)]
            lengths = [max(0, length) for length in lengths]
            rows = [ids[:length] for ids, length in zip(rows, lengths)]
            cache.cut(lengths)
        elif name == "cut all":
            rows = [ids[:argument] for ids in rows]
            cache.cut(argument)
        elif name == "select":
            chosen = [row for row in argument if row < len(rows)]
            rows = [list(rows[row]) for row in chosen]
            cache.select(chosen)
        elif name == "join":
            joining, more = prefilled(argument)
            cache.join(joining)
            rows += more
        check_cache(cache, rows)
    extend_all(cache, rows, [int(len(ids) < N_CTX) for ids in rows])


# --- causality, types, arguments ------------------------------------------------------------------


@few
@given(st.integers(0, N_CTX - 1), st.integers(0, N_VOCAB - 1))
def test_a_token_changes_no_earlier_logits(position, token):
    ids = FULL.copy()
    ids[position] = token
    close(MODEL(ids)[:position], LOGITS[:position])
    if token != FULL[position]:  # and it does change the later ones, to the very last
        changes = np.abs(MODEL(ids) - LOGITS)[position:].max(axis=-1)
        assert (changes > 0).all()


def types_seen(activation, ids, with_cache=False):
    model = GPT2(traced(MODEL.params), MODEL.n_head, activation=activation)
    Traced.seen.clear()
    logits = model(ids, model.new_cache(*np.shape(ids)[:-1]) if with_cache else None)
    assert isinstance(logits, Traced)  # the trace went all the way
    return Traced.seen - {np.dtype(bool)}


@pytest.mark.parametrize("ids", [[3], [1, 2, 3], [[-1, 2], [3, 4]]], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_step_is_float32(activation, ids, either_product):
    for with_cache in (False, True):
        assert types_seen(ACTIVATIONS[activation], ids, with_cache) == {np.dtype(np.float32)}


def test_the_trace_finds_a_float64_inside(either_product):
    def leaks(x):
        return gelu(x * np.ones(1)).astype(np.float32)

    assert np.dtype(np.float64) in types_seen(leaks, [1, 2, 3])


def test_the_cache_is_float32():
    cache = MODEL.new_cache(2)
    kept = [cache.kv]
    MODEL([[1], [2]], cache)
    kept.append(cache.kv)
    cache.select([1])
    kept.append(cache.kv)
    cache.join(MODEL.new_cache(1))
    assert {kv.dtype for kv in (*kept, cache.kv)} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "ids, message",
    [
        ([5, -3, 7], "token ids are 0 to 10, not -3 to 7"),
        ([N_VOCAB], "token ids are 0 to 10, not 11 to 11"),
        ("Once", "token ids are whole numbers, not <U4: encode a text first"),
        (["a"], "token ids are whole numbers"),
        ([1.0], "token ids are whole numbers, not float64"),
        ([5, -1, 7], r"padding \(-1\) comes before the tokens of a row, not after"),
        ([[1, 2], [3, -1]], r"padding \(-1\) comes before the tokens of a row, not after"),
    ],
    ids=str,
)
def test_ids_that_are_not_tokens_are_refused_in_one_line(ids, message):
    with pytest.raises(ValueError, match=message):
        MODEL(ids)


def test_padding_may_come_in_any_pass():
    """Rows take different numbers of new tokens, none too."""
    cache = MODEL.new_cache(2)
    MODEL([[-1, 1], [-1, -1]], cache)
    assert cache.lengths.tolist() == [1, 0]
    logits = MODEL([[-1, 2], [3, 4]], cache)
    close(logits[0, 1:], MODEL([1, 2])[1:])
    close(logits[1], MODEL([3, 4]))
    logits = MODEL([[5, 6], [-1, -1]], cache)
    assert cache.lengths.tolist() == [4, 2]
    close(logits[0], MODEL([1, 2, 5, 6])[2:])
    close(MODEL([[-1], [7]], cache)[1], MODEL([3, 4, 7])[2:])


@pytest.mark.parametrize(
    "ids",
    [
        [[1] * (N_CTX - 1)] * 2,  # past the context
        [[1] * (N_CTX - 2), [-1] * (N_CTX - 2)],  # the longer row, by one
        [[-1] * (N_CTX - 2) + [1], [1] * (N_CTX - 1)],  # the shorter row, by one
        [[3, -1], [4, 5]],  # after a token of its own
        [[3, N_VOCAB], [4, 5]],
        [[3, -2], [4, 5]],
        [[3, 4.5], [4, 5]],
    ],
    ids=str,
)
def test_refused_ids_leave_the_cache_unchanged(ids):
    cache = MODEL.new_cache(2)
    MODEL([[1, 2, 6], [-1, 3, 7]], cache)
    before = copy.deepcopy(cache)
    with pytest.raises(ValueError):
        MODEL(ids, cache)
    assert cache.length == before.length == 3
    assert cache.lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(cache.kv[..., :3, :], before.kv[..., :3, :])
    logits = MODEL([[5], [4]], cache)
    close(logits[0], MODEL([1, 2, 6, 5])[3:])
    close(logits[1], MODEL([3, 7, 4])[2:])


def test_arguments_are_not_changed():
    before = copy.deepcopy(MODEL.params)
    for ids in ([1, 2, 3], BATCH, np.array([5], np.int32), np.array([5], np.uint16)):
        copied = copy.deepcopy(ids)
        close(MODEL(ids), MODEL(np.array(ids, int)))
        MODEL(ids, MODEL.new_cache(*np.shape(ids)[:-1]))
        np.testing.assert_array_equal(ids, copied)
    for array, old in zip(arrays(MODEL.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)


# --- the parts ------------------------------------------------------------------------------------

X = np.linspace(-8, 8, 401, dtype=np.float32)
DEFINITIONS = {
    "gelu_new": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_pytorch_tanh": lambda x: DEFINITIONS["gelu_new"](x),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_definitions(name):
    x = X.copy()
    found = ACTIVATIONS[name](x)
    np.testing.assert_allclose(found, [DEFINITIONS[name](float(v)) for v in X], atol=2e-6)
    np.testing.assert_array_equal(x, X)
    with np.errstate(over="raise", invalid="raise"):
        far = ACTIVATIONS[name](np.array([-1000, 1000], np.float32))
    np.testing.assert_allclose(far, [0, 1000], atol=1e-6)


def test_softmax_sums_to_1_at_any_size_of_its_argument():
    x = np.array([[1e4, 1e4, -1e4], [0, 0, 0], [-np.inf, 3, 2]], np.float32)
    before = x.copy()
    np.testing.assert_allclose(softmax(x).sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(softmax(x)[:2], [[0.5, 0.5, 0], [1 / 3] * 3], rtol=1e-6)
    assert softmax(x)[2, 0] == 0
    np.testing.assert_array_equal(x, before)


def test_log_softmax_is_the_logarithm_where_softmax_underflows_too():
    x = np.array([[1, 2, 4], [0, -1000, -1e4], [-np.inf, 3, 3]], np.float32)
    before = x.copy()
    found = log_softmax(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], np.log(softmax(x[0])), rtol=1e-5)
    np.testing.assert_allclose(found[1], [0, -1000, -1e4], rtol=1e-6)
    np.testing.assert_allclose(found[2], [-np.inf, -math.log(2), -math.log(2)], rtol=1e-6)
    np.testing.assert_array_equal(x, before)


def test_layer_norm_has_mean_b_and_deviation_g():
    x = np.random.default_rng(0).normal(3, 5, (4, 64)).astype(np.float32)
    g, b = np.float32(2), np.float32(-1)
    before = x.copy()
    y = layer_norm(x, np.full(64, g), np.full(64, b))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(y.mean(-1), -1, atol=1e-5)
    np.testing.assert_allclose(y.std(-1), 2, rtol=1e-4)


def test_attention_is_the_mean_of_the_values_where_all_keys_are_alike():
    v = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    q, k = np.ones((5, 3), np.float32), np.ones((5, 3), np.float32)
    running = np.cumsum(v, axis=0) / np.arange(1, 6, dtype=np.float32)[:, None]
    close(attention(q, k, v, causal_mask(np.arange(5), 5)[0], scale=0.5), running)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=3),
    st.integers(0, 3),  # columns of padding before all tokens
    st.integers(1, 8),
)
@example([(5, 0), (0, 9)], 0, 4)
@example([(0, 1)], 3, 1)
def test_queries_in_blocks_attend_as_all_at_once(rows, n_pad, n):
    """Rows of so many cached and so many new tokens; of each, the queries that are tokens."""
    rng, n_new = np.random.default_rng(0), n_pad + max(new for _, new in rows)
    lengths = np.array([sum(row) for row in rows])
    n_all = max(1, int(lengths.max()))
    positions = np.maximum(lengths[:, None] - np.arange(n_new, 0, -1), 0)
    q, k, v = (rng.normal(size=(len(rows), 2, length, 3)).astype(np.float32)
               for length in (n_new, n_all, n_all))  # fmt: skip
    mask = causal_mask(positions, n_all)
    found = causal_attention(q, k, v, mask, 0.5, n=n)
    expected = attention(q, k, v, mask, 0.5)
    assert np.isfinite(found).all() and found.shape == expected.shape
    for row, (_, new) in enumerate(rows):
        close(found[row, :, n_new - new :], expected[row, :, n_new - new :])


def test_a_block_of_queries_is_computed_without_the_keys_after_it():
    """Values that are not numbers would show, though masked: 0 times nan is nan."""
    q, k = np.ones((10, 2), np.float32), np.ones((12, 2), np.float32)  # two keys are cached
    mask = causal_mask(np.arange(2, 12), 12)[0]
    for n_keys in (5, 8, 11):  # at the end of each block but the last
        v = np.where(np.arange(12)[:, None] < n_keys, np.float32(1), np.float32(np.nan))
        assert np.isfinite(causal_attention(q, k, v, mask, 1.0, n=3)[: n_keys - 2]).all()


def test_a_long_prompt_has_the_same_logits_as_its_parts():
    """In several blocks of queries, after cached tokens, in rows of several lengths."""
    model = tiny_gpt2(n_ctx=400)
    ids = np.random.default_rng(0).integers(N_VOCAB, size=400)
    expected = in_chunks(model, ids, range(100, 400, 100), model.new_cache())
    close(model(ids), expected)
    cache = model.new_cache(3)
    model(left_pad([ids[:70], ids[:1], ids[:128]]), cache)
    new = left_pad([ids[70:400], ids[1:141], ids[128:129]])
    for logits, begin, end in zip(model(new, cache), (70, 1, 128), (400, 141, 129)):
        close(logits[len(logits) - (end - begin) :], expected[begin:end])
    padded = model(np.concatenate([np.full(300, -1), ids[:5]]))  # more padding than tokens
    close(padded[300:], expected[:5])
    close(model(np.concatenate([np.full(300, -1), ids[:1]]))[300:], expected[:1])


def test_the_causal_mask():
    _ = -1e10
    mask = causal_mask(np.array([[2, 3], [0, 1]]), 4)  # [2, 1, n_new, n_all]
    expected = [[[[0, 0, 0, _], [0, 0, 0, 0]]], [[[0, _, _, _], [0, 0, _, _]]]]
    np.testing.assert_array_equal(mask, np.array(expected, np.float32))
    assert mask.dtype == np.float32
    assert causal_mask(np.full((4, 1), 8), 9) is None
    assert causal_mask(np.array([[8], [7]]), 9) is not None


def test_rows_that_are_selected_or_joined_keep_their_room():
    """Else the next token copies the whole cache once more."""
    model = tiny_gpt2()
    cache, longer = model.new_cache(2), model.new_cache(1)
    model([[1, 2, 3], [4, 5, 6]], cache)
    model([[1, 2, 3, 4, 5]], longer)
    cache.select([1, 0])
    assert cache.kv.shape[-2] == 6
    cache.join(longer)
    assert cache.kv.shape[-2] == 10
