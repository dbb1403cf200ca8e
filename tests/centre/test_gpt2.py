"""gpt2.py computes the same logits as transformers, no matter how the tokens are split into chunks,
cached or batched."""

import copy
import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpt2
from decoding.batching import Rows
from families.layers import ACTIVATIONS
from generate import generate
from gpt2 import (
    GPT2,
    Cache,
    attention,
    causal_mask,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    merge_heads,
    softmax,
    split_heads,
)
from tests.support.tiny import GPT2_FOLDERS, Traced, arrays, close, same_greedy, tiny_gpt2, traced
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
    """Return (model, {name: array computed by transformers})."""
    _, model = load(GPT2_FOLDERS / request.param)
    with np.load(GPT2_FOLDERS / request.param / "expected.npz") as expected:
        return model, dict(expected)


SWITCHES = """activation_function scale_attn_weights scale_attn_by_inverse_layer_idx
tie_word_embeddings n_inner""".split()


def test_there_is_a_fixture_of_every_kind():
    configs = [json.loads((GPT2_FOLDERS / name / "config.json").read_text()) for name in FOLDERS]
    assert len({tuple(config[name] for name in SWITCHES) for config in configs}) == 8
    assert {c["n_layer"] for c in configs} == {1, 2, 3}
    assert {c["n_head"] for c in configs} == {1, 2, 4, 8}


def test_logits_equal_the_reference_s(reference):
    model, expected = reference
    close(model(expected["ids"]), expected["logits"])


def test_logits_of_rows_of_different_lengths_equal_the_reference_s(reference):
    """The reference pads the shorter row on the left. Here, each row first fills its own cache. For
    the last step, the caches are joined into a batch."""
    model, expected = reference
    assert (expected["batch"] < 0).sum() == 3
    rows, last = Rows(), []
    for ids in (row[row >= 0] for row in expected["batch"]):
        cache = model.new_cache()
        if len(ids) > 1:
            model(ids[:-1], cache)
        rows.join(cache)
        last.append(ids[-1:])
    close(model(np.array(last), rows)[:, -1], expected["batch_logits"])


def test_greedy_ids_equal_the_reference_s(reference):
    model, expected = reference
    prompt = expected["ids"][:3].tolist()
    ids = list(generate(model, prompt, model.n_ctx))
    same_greedy(model, prompt, ids, expected["greedy"].tolist())


def test_greedy_ids_of_each_row_equal_the_reference_s(reference):
    model, expected = reference
    for row, theirs in zip(expected["batch"], expected["batch_greedy"].tolist()):
        prompt = row[row >= 0].tolist()
        same_greedy(model, prompt, list(generate(model, prompt, 8)), theirs)


def test_the_end_of_text_is_the_stop_id(reference):
    model, _ = reference
    assert model.stop_ids == (model.n_vocab - 1,)


# --- chunks, cut caches and the argument `last` ---------------------------------------------------


def in_chunks(model, ids, cuts, cache):  # ids [..., n_seq], where to split them -> logits
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


def test_one_token_at_a_time_gives_the_reference_s_logits(reference):
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
    with pytest.raises(IndexError):
        MODEL(ids)


@few
@given(st.integers(0, N_CTX), st.integers(1, N_CTX))
def test_a_cut_cache_goes_on_as_if_it_had_never_been_longer(length, first):
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


def test_a_cut_past_the_end_forgets_nothing():
    cache = MODEL.new_cache()
    MODEL(FULL[:5], cache)
    cache.cut(9)
    assert cache.length == 5
    close(MODEL(FULL[5:], cache), LOGITS[5:])


@few
@given(st.integers(1, N_CTX + 2), st.booleans())
def test_last_gives_only_the_last_logits(last, with_cache):
    cache = MODEL.new_cache() if with_cache else None
    close(MODEL(FULL, cache, last=last), LOGITS[-last:])


@pytest.mark.parametrize("last", [0, -1])
def test_last_below_1_is_refused_and_leaves_the_cache_unchanged(last):
    cache = MODEL.new_cache()
    MODEL(FULL[:3], cache)
    for with_cache in (None, cache):
        with pytest.raises(ValueError, match=f"last={last}: at least one position"):
            MODEL(FULL[3:5], with_cache, last=last)
    close(MODEL(FULL[3:], cache), LOGITS[3:])


# --- batches and the memory of the cache ----------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (2, 3), (2, 1, 3)])
def test_any_batch_dimensions_may_precede_the_sequence(shape):
    ids = np.random.default_rng(2).integers(N_VOCAB, size=(*shape, 6))
    expected = np.stack([MODEL(row) for row in ids.reshape(-1, 6)]).reshape(*shape, 6, N_VOCAB)
    close(MODEL(ids), expected)
    cache = MODEL.new_cache(*shape)
    close(in_chunks(MODEL, ids, [2, 3], cache), expected)
    assert cache.length == 6 and cache.kv.shape[2:-3] == shape
    close(MODEL(ids, last=2), expected[..., -2:, :])


BATCH = np.stack([np.roll(FULL, 5 * row)[:7] for row in range(4)])


@few
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
)
@example([3, 2, 0, 1], [0, 1, 2, 3])  # the second selection changes nothing
@example([3, 3, 1], [2, 0])
def test_selected_rows_go_on_in_their_new_order(rows, again):
    """Rows may be repeated, reordered or dropped. Each row continues as if it were alone."""
    cache = MODEL.new_cache(4)
    MODEL(BATCH, cache)
    cache.select(rows)
    again = [i for i in again if i < len(rows)] or [0]
    cache.select(again)
    rows = [rows[i] for i in again]
    assert cache.length == 7
    new = FULL[: 2 * len(rows)].reshape(-1, 2)
    for logits, row, tail in zip(MODEL(new, cache), rows, new, strict=True):
        close(logits, MODEL([*BATCH[row], *tail])[-2:])


def test_a_batch_without_rows_has_no_logits():
    assert MODEL(np.zeros((0, 3), int), MODEL.new_cache(0)).shape == (0, 3, N_VOCAB)


def test_copies_of_a_row_do_not_share_memory():
    cache = MODEL.new_cache(1)
    MODEL(FULL[None, :3], cache)
    cache.select([0, 0])
    logits = MODEL(np.array([[1, 2], [3, 4]]), cache)
    close(logits[0], MODEL([*FULL[:3], 1, 2])[3:])
    close(logits[1], MODEL([*FULL[:3], 3, 4])[3:])


def test_the_slots_of_a_cache_double_and_never_exceed_the_context():
    cache, slots = MODEL.new_cache(2), []
    for _ in range(N_CTX):
        MODEL([[1], [2]], cache)
        slots.append(cache.kv.shape[-2])
    assert slots == sorted(slots) and slots[-1] == N_CTX
    assert all(n <= n_slots <= 2 * n for n, n_slots in enumerate(slots, 1))
    assert len(set(slots)) <= 1 + np.log2(N_CTX)  # for each new size, the cache is copied
    assert all(slots[n - 1] == slots[n - 2] for n in range(2, N_CTX + 1) if n <= slots[n - 2])


def test_selected_rows_keep_their_room():
    """If the free slots were lost, the next token would need another copy of the whole cache."""
    cache = MODEL.new_cache(2)
    MODEL(BATCH[:2, :3], cache)
    MODEL(BATCH[:2, 3:4], cache)
    n_slots = cache.kv.shape[-2]
    assert n_slots > 4
    cache.select([1, 0])
    assert cache.kv.shape[-2] == n_slots


def test_a_cache_returns_the_positions_of_new_tokens():
    cache = Cache(2, (), 3, 8, 4)
    assert cache.kv.shape == (2, 2, 3, 0, 4)
    assert cache.extend(3).tolist() == [0, 1, 2]
    assert cache.length == 0  # the length grows when the last layer stores the new tokens
    k, v = np.random.default_rng(0).normal(size=(2, 3, 3, 4)).astype(np.float32)
    for layer in range(2):
        for held, new in zip(cache.append(layer, k, v), (k, v), strict=True):
            np.testing.assert_array_equal(held, new)
        assert cache.length == (0, 3)[layer]
    assert cache.extend(5).tolist() == [3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="9 tokens do not fit the context of 8"):
        cache.extend(6)
    assert cache.length == 3


# --- a pass that fails ----------------------------------------------------------------------------


class Failure(Exception):
    pass


@pytest.mark.parametrize(
    "name, n_calls, n_passed",
    [
        ("layer_norm", 0, 0),
        ("attention", 0, 0),  # fails in the first of the two layers
        ("linear", 4, 0),  # fails before the second layer stores its keys
        ("attention", 1, 9),  # fails after all layers have stored their keys
        ("feed_forward", 1, 9),
        ("linear", 8, 9),  # fails in the head
    ],
)
@pytest.mark.parametrize("held", [0, 5])
def test_a_cache_goes_on_after_an_error_in_a_pass(name, n_calls, n_passed, held, monkeypatch):
    cache, function, calls = MODEL.new_cache(), getattr(gpt2, name), []
    MODEL(FULL[:held], cache) if held else None

    def fails(*args, **more):
        calls.append(args)
        if len(calls) > n_calls:
            raise Failure
        return function(*args, **more)

    with monkeypatch.context() as patch, pytest.raises(Failure):
        patch.setattr(gpt2, name, fails)
        MODEL(FULL[held : held + 9], cache)
    assert cache.length == held + n_passed
    rest = FULL[cache.length :]
    close(MODEL(rest, cache), LOGITS[-len(rest) :])


# --- replaced functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention", "layer_norm", "linear", "softmax", "causal_mask"])
def test_a_replaced_function_runs(name, monkeypatch):
    """The model looks up its functions at every call, so a user can replace each of them."""
    function, calls = getattr(gpt2, name), []

    def replacement(*args, **more):
        calls.append(name)
        return function(*args, **more)

    monkeypatch.setattr(gpt2, name, replacement)
    close(MODEL(FULL), LOGITS)
    assert len(calls) == {"causal_mask": 1, "layer_norm": 5, "linear": 9}.get(name, 2)


def test_a_wrong_attention_changes_the_logits(monkeypatch):
    monkeypatch.setattr(gpt2, "attention", lambda q, k, v, mask: v[..., -q.shape[-2] :, :])
    assert np.abs(MODEL(FULL) - LOGITS).max() > 1


# --- causality, dtypes and arguments --------------------------------------------------------------


@few
@given(st.integers(0, N_CTX - 1), st.integers(0, N_VOCAB - 1))
def test_a_token_changes_no_earlier_logits(position, token):
    ids = FULL.copy()
    ids[position] = token
    close(MODEL(ids)[:position], LOGITS[:position])
    if token != FULL[position]:  # the logits here and at all later positions change
        changes = np.abs(MODEL(ids) - LOGITS)[position:].max(axis=-1)
        assert (changes > 0).all()


def types_seen(activation, ids, with_cache=False):
    model = GPT2(traced(MODEL.params), MODEL.n_head, activation=activation)
    Traced.seen.clear()
    logits = model(ids, model.new_cache(*np.shape(ids)[:-1]) if with_cache else None)
    assert isinstance(logits, Traced)  # computed from traced arrays
    return Traced.seen - {np.dtype(bool)}


@pytest.mark.parametrize("ids", [[3], [1, 2, 3], [[1, 2], [3, 4]]], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_step_is_float32(activation, ids):
    for with_cache in (False, True):
        assert types_seen(ACTIVATIONS[activation], ids, with_cache) == {np.dtype(np.float32)}


def test_the_trace_finds_a_float64_inside():
    def leaks(x):
        return gelu(x * np.ones(1)).astype(np.float32)

    assert np.dtype(np.float64) in types_seen(leaks, [1, 2, 3])


def test_the_cache_is_float32():
    cache = MODEL.new_cache(2)
    dtypes = {cache.kv.dtype}
    MODEL([[1], [2]], cache)
    dtypes.add(cache.kv.dtype)
    cache.select([1])
    dtypes.add(cache.kv.dtype)
    assert dtypes == {np.dtype(np.float32)}


def test_arguments_are_not_changed():
    before = copy.deepcopy(MODEL.params)
    for ids in ([1, 2, 3], (1, 2, 3), BATCH, np.array([5], np.int32), np.array([5], np.uint16)):
        copied = copy.deepcopy(ids)
        close(MODEL(ids), MODEL(np.array(ids, int)))
        MODEL(ids, MODEL.new_cache(*np.shape(ids)[:-1]))
        np.testing.assert_array_equal(ids, copied)
    for array, old in zip(arrays(MODEL.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)


# --- the functions and the settings of a model ----------------------------------------------------

X = np.linspace(-8, 8, 401, dtype=np.float32)
DEFINITIONS = {
    "gelu_new": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_pytorch_tanh": lambda x: DEFINITIONS["gelu_new"](x),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_follow_their_definitions(name):
    x = X.copy()
    found = ACTIVATIONS[name](x)
    np.testing.assert_allclose(found, [DEFINITIONS[name](float(v)) for v in X], atol=2e-6)
    np.testing.assert_array_equal(x, X)
    with np.errstate(over="raise", invalid="raise"):
        far = ACTIVATIONS[name](np.array([-1000, 1000], np.float32))
    np.testing.assert_allclose(far, [0, 1000], atol=1e-6)


def test_softmax_sums_to_1_for_arguments_of_any_size():
    x = np.array([[1e4, 1e4, -1e4], [0, 0, 0], [-np.inf, 3, 2]], np.float32)
    before = x.copy()
    np.testing.assert_allclose(softmax(x).sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(softmax(x)[:2], [[0.5, 0.5, 0], [1 / 3] * 3], rtol=1e-6)
    assert softmax(x)[2, 0] == 0
    np.testing.assert_array_equal(x, before)


def test_log_softmax_is_right_even_if_softmax_underflows():
    x = np.array([[1, 2, 4], [1000, 0, -9e3], [-np.inf, 3, 3]], np.float32)
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


def test_layer_norm_divides_by_the_root_of_variance_plus_epsilon():
    x = np.array([1, 3], np.float32)  # mean 2, variance 1
    found = layer_norm(x, np.float32(1), np.float32(0), eps=3)
    np.testing.assert_allclose(found, [-0.5, 0.5], rtol=1e-6)
    close(layer_norm(x, np.float32(1), np.float32(0)), np.array([-1, 1], np.float32) / 1.000005)


def test_a_model_has_its_epsilon_and_its_activation():
    ids, small = FULL[:5], GPT2(MODEL.params, 2, eps=1e-9)
    assert MODEL.eps == 1e-5 and MODEL.activation is gelu
    assert 0 < np.abs(small(ids) - MODEL(ids)).max() < 0.1
    for more in ({"eps": 1.0}, {"activation": np.tanh}):
        assert np.abs(GPT2(MODEL.params, 2, **more)(ids) - MODEL(ids)).max() > 0.1


def test_a_model_knows_its_sizes():
    model = tiny_gpt2(n_vocab=13, n_ctx=9, n_embd=6, stop_ids=[3])
    sizes = model.n_vocab, model.n_ctx, model.n_embd, model.n_head, model.stop_ids
    assert sizes == (13, 9, 6, 2, (3,))


def test_a_separate_head_is_optional():
    tied = {name: array for name, array in MODEL.params.items() if name != "lm_head"}
    same = {**MODEL.params, "lm_head": MODEL.params["wte"]}
    close(GPT2(tied, 2)(FULL), GPT2(same, 2)(FULL))


def test_heads_are_neighbouring_features():
    x = np.arange(24).reshape(2, 3, 4)  # [batch, n, n_head * d_head]
    heads = split_heads(x, 2)
    assert heads.shape == (2, 2, 3, 2)
    assert heads[1, 0].tolist() == x[1, :, :2].tolist()
    assert heads[1, 1].tolist() == x[1, :, 2:].tolist()
    np.testing.assert_array_equal(merge_heads(heads), x)


def test_a_linear_layer_is_a_product_and_a_bias():
    x, w, b = np.array([1, 2]), np.array([[3, 4], [5, 6], [7, 8]]), np.array([10, 20, 30])
    assert linear(x, w).tolist() == [11, 17, 23]
    assert linear(x, w, b).tolist() == [21, 37, 53]


def test_attention_follows_its_equation():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, n, 4)).astype(np.float32) for n in (3, 5, 5))
    mask = np.where(rng.random((2, 3, 5)) < 0.3, np.float32(-1e10), np.float32(0))
    before = copy.deepcopy((q, k, v, mask))
    weights = np.exp(np.einsum("bqd,bkd->bqk", q.astype(float), k) / math.sqrt(4) + mask)
    expected = np.einsum("bqk,bkd->bqd", weights / weights.sum(-1, keepdims=True), v)
    close(attention(q, k, v, mask), expected.astype(np.float32))
    for array, old in zip((q, k, v, mask), before):
        np.testing.assert_array_equal(array, old)


def test_attention_to_equal_keys_is_the_mean_of_the_values():
    v = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    q, k = np.ones((5, 3), np.float32), np.ones((5, 3), np.float32)
    running = np.cumsum(v, axis=0) / np.arange(1, 6, dtype=np.float32)[:, None]
    close(attention(q, k, v, causal_mask(np.arange(5))[0]), running)


def test_the_causal_mask():
    _ = -1e10
    mask = causal_mask(np.array([[2, 3], [0, 1]]))  # [2, 1, n_new, n_all]
    expected = [[[[0, 0, 0, _], [0, 0, 0, 0]]], [[[0, _, _, _], [0, 0, _, _]]]]
    np.testing.assert_array_equal(mask, np.array(expected, np.float32))
    assert mask.dtype == np.float32
    square = np.array([[[0, _, _], [0, 0, _], [0, 0, 0]]], np.float32)
    np.testing.assert_array_equal(causal_mask(np.arange(3)), square)
