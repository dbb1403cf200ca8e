"""llama.py: the reference's logits for every family; one answer however the tokens are split."""

import copy
import functools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpt2
import llama
from beam import beam_search
from drafters import PromptLookup
from generate import Sequence, cached, generate, left_pad
from llama import (
    Llama,
    attention,
    llama3_frequencies,
    llama_shapes,
    rotary_frequencies,
    rotate,
    soft_cap,
    window_mask,
)
from loading.config import read_config
from loading.llama import FAMILIES, read_llama
from loading.params import flatten, tree_map
from speculative import speculative
from tests.tiny import LLAMA_FOLDERS, Traced, arrays, close, same_greedy, traced

NAMES = sorted(folder.name for folder in LLAMA_FOLDERS.iterdir())
SEVERAL = ["gemma3", "llama", "mistral", "olmo2", "qwen3", "smollm3"]  # every kind of block
every_model = pytest.mark.parametrize("name", NAMES)
several_models = pytest.mark.parametrize("name", SEVERAL)


@functools.cache
def load(name):
    """A fixture's model, without a tokenizer."""
    folder = LLAMA_FOLDERS / name
    model = read_llama(folder, read_config(folder / "config.json"), n_tokens=64)
    model.stop_ids = (2,)
    return model


@functools.cache
def reference(name):
    """What transformers computed with it."""
    with np.load(LLAMA_FOLDERS / name / "expected.npz") as expected:
        return {key: array.astype(int) if array.dtype == np.int8 else array
                for key, array in expected.items()}  # fmt: skip


# --- the reference implementation -----------------------------------------------------------------


def test_there_is_a_fixture_of_every_family_and_of_every_kind_of_block():
    configs = [json.loads((LLAMA_FOLDERS / name / "config.json").read_text()) for name in NAMES]
    assert {config["model_type"] for config in configs} == FAMILIES.keys()
    blocks = [load(name).params["blocks"][0] for name in NAMES]
    assert len({tuple(sorted(flatten(shapes(block)))) for block in blocks}) == 7
    assert {load(name).n_head // load(name).n_kv_head for name in NAMES} == {1, 2, 4}
    assert {"lm_head" in load(name).params for name in NAMES} == {True, False}


def shapes(params):  # a tree of arrays -> the same of their shapes
    if isinstance(params, dict):
        return {key: shapes(part) for key, part in params.items()}
    return [*map(shapes, params)] if isinstance(params, list) else params.shape


@every_model
def test_logits_are_the_reference_s(name):
    close(load(name)(reference(name)["ids"]), reference(name)["logits"])


@every_model
def test_logits_of_a_left_padded_batch_are_the_reference_s(name):
    batch = reference(name)["batch"]
    assert (batch < 0).sum() == 5
    close(load(name)(batch, last=1)[:, 0], reference(name)["batch_logits"])


@every_model
def test_greedy_ids_are_the_reference_s(name):
    prompt = reference(name)["ids"][:20].tolist()
    ids = list(generate(load(name), prompt, 24))
    same_greedy(load(name), prompt, ids, reference(name)["greedy"].tolist())


@every_model
def test_beams_are_the_reference_s(name):
    prompt = reference(name)["ids"][:20].tolist()
    found = beam_search(load(name), prompt, 24, 3, n_return=3)
    expected = [[id for id in ids if id >= 0] for ids in reference(name)["beams"].tolist()]
    assert [hypothesis.ids for hypothesis in found] == expected
    scores = [hypothesis.score for hypothesis in found]
    np.testing.assert_allclose(scores, reference(name)["scores"], rtol=1e-5)


# --- cached == naive, batched == one by one -------------------------------------------------------


def in_chunks(model, ids, cuts, cache):  # ids [..., n_seq], cut before these positions -> logits
    return np.concatenate([model(part, cache) for part in np.split(ids, cuts, axis=-1)], axis=-2)


@every_model
def test_one_token_at_a_time_gives_the_same_logits(name):
    model, ids = load(name), reference(name)["ids"]
    cache = model.new_cache()
    close(in_chunks(model, ids, range(1, len(ids)), cache), reference(name)["logits"])
    assert cache.kv.shape[2] == model.n_kv_head


@several_models
@settings(max_examples=10)
@given(st.sets(st.integers(1, 39)), st.lists(st.integers(1, 40), min_size=1, max_size=3))
def test_chunks_of_a_padded_batch_give_each_row_its_own_logits(name, cuts, lengths):
    model, ids = load(name), reference(name)["ids"]
    rows = left_pad([ids[:length] for length in lengths])
    cuts = sorted(cut for cut in cuts if cut < rows.shape[1])
    for logits in (model(rows), in_chunks(model, rows, cuts, model.new_cache(len(rows)))):
        assert np.isfinite(logits).all()  # those of padding mean nothing, yet are numbers
        for row, length in zip(logits, lengths):
            close(row[-length:], reference(name)["logits"][:length])


@several_models
def test_rows_are_cut_selected_and_joined(name):
    model, ids = load(name), reference(name)["ids"]
    cache, other = model.new_cache(2), model.new_cache(1)
    model(np.stack([ids[:20], ids[5:25]]), cache)
    model(ids[None, :9], other)
    cache.cut(18)
    cache.join(other)
    cache.select([2, 0, 1, 0])  # rows are ids[:9], ids[:18], ids[5:23], ids[:18]
    logits = model(np.stack([ids[9:14], ids[18:23], ids[23:28], ids[:5]]), cache)
    texts = ids[:14], ids[:23], ids[5:28], np.concatenate([ids[:18], ids[:5]])
    for row, text in zip(logits, texts):
        close(row, model(text)[-5:])


@several_models
@pytest.mark.parametrize("shape", [(1,), (2, 3), (0,)])
def test_any_batch_dimensions_may_precede_the_sequence(name, shape):
    model = load(name)
    ids = np.random.default_rng(2).integers(64, size=(*shape, 11))
    rows = [model(row) for row in ids.reshape(-1, 11)]
    close(model(ids), np.reshape(rows, (*shape, 11, 64)).astype(np.float32))


@every_model
def test_speculation_is_greedy(name):
    model, prompt = load(name), reference(name)["ids"][:20].tolist() * 2
    sequence = Sequence(model, prompt, 12)
    list(speculative(model, [sequence], lambda sequence: PromptLookup(64), gamma=4))
    same_greedy(model, prompt, sequence.new_ids, list(generate(model, prompt, 12)))


def test_a_batch_of_sequences_is_each_alone():
    model, ids = load("gemma3"), reference("gemma3")["ids"].tolist()
    sequences = [Sequence(model, ids[:n], 10) for n in (3, 19, 11)]
    list(cached(model, sequences))
    for sequence in sequences:
        prompt = sequence.ids[: -len(sequence.new_ids)]
        same_greedy(model, prompt, sequence.new_ids, list(generate(model, prompt, 10)))


@pytest.mark.parametrize("name", ["mistral", "gemma2"])
def test_a_long_prompt_has_the_same_logits_in_blocks_of_queries(name, monkeypatch):
    """Groups of heads, a window and a soft cap; blocks of 5 queries in the place of 128."""
    model, ids = load(name), np.random.default_rng(0).integers(0, 64, (2, 40))
    whole = model(ids)
    calls = []

    def few(*args, attention):
        calls.append(args)
        return gpt2.causal_attention(*args, attention=attention, n=5)

    monkeypatch.setattr(llama, "causal_attention", few)
    close(model(ids), whole)
    assert calls


def test_past_the_context_is_an_error():
    with pytest.raises(ValueError, match="65 tokens do not fit the context of 64"):
        load("llama")([1] * 65)


# --- what a position sees -------------------------------------------------------------------------


def changed(model, ids, position):
    """The positions whose logits change with one token."""
    other = ids.copy()
    other[position] = (other[position] + 1) % 64
    differ = np.abs(model(ids) - model(other)).max(axis=-1) > 0
    return np.flatnonzero(differ).tolist()


def test_a_token_changes_no_earlier_logits():
    assert changed(load("llama"), reference("llama")["ids"], 7) == list(range(7, 40))


def test_two_windows_of_8_reach_15_tokens():
    """Each layer sees 8 tokens, so 7 back; two layers 14 back."""
    assert changed(load("mistral"), reference("mistral")["ids"], 3) == list(range(3, 18))


def test_windows_are_those_of_the_layers():
    windows = {name: load(name).windows for name in NAMES}
    assert windows["gemma3"] == [8, 8, 8, 8, 8, None, 8]
    assert windows["gemma2"] == [8, None] and windows["qwen2-window"] == [None, 8]
    assert windows["mistral"] == [8, 8] and windows["qwen2"] == [None, None]


def test_a_layer_without_positions_does_not_see_the_order():
    """All heads of SmolLM3's second layer, alone."""
    whole = load("smollm3")
    params = {**whole.params, "blocks": whole.params["blocks"][1:]}
    model = Llama(params, whole.n_head, whole.n_ctx, frequencies=[None])
    close(model([4, 5, 6, 7], last=1), model([6, 4, 5, 7], last=1))
    rotated = Llama(params, whole.n_head, whole.n_ctx, whole.frequencies[:1])
    assert np.abs(rotated([4, 5, 6, 7]) - rotated([6, 4, 5, 7]))[-1].max() > 1e-3


# --- types, arguments, shapes ---------------------------------------------------------------------


@every_model
def test_every_step_is_float32(name, either_product):
    model = copy.copy(load(name))
    model.params = traced(model.params)
    for ids in ([3], list(range(12)), [[-1, 2], [3, 4]]):
        for cache in (None, model.new_cache(*np.shape(ids)[:-1])):
            Traced.seen.clear()
            assert isinstance(model(ids, cache), Traced)  # the trace went all the way
            assert Traced.seen - {np.dtype(bool)} == {np.dtype(np.float32)}
            assert cache is None or cache.kv.dtype == np.float32


def test_the_trace_finds_a_float64_inside():
    model = copy.copy(load("gemma3"))
    model.params, model.embed_scale = traced(model.params), np.float64(3)
    Traced.seen.clear()
    model([1, 2])
    assert np.dtype(np.float64) in Traced.seen


@several_models
def test_arguments_are_not_changed(name):
    model, ids = load(name), left_pad([reference(name)["ids"][:9], [4, 5]])
    before, copied = copy.deepcopy(model.params), ids.copy()
    model(ids, model.new_cache(2))
    np.testing.assert_array_equal(ids, copied)
    for array, old in zip(arrays(model.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("qk_norm", ["", "head", "all"])
@pytest.mark.parametrize("biases, tied", [("", True), ("qkv", False), ("qkvom", True)])
def test_a_model_runs_on_the_parameters_that_llama_shapes_names(biases, tied, qk_norm):
    tree = llama_shapes(11, 6, 2, n_inner=10, n_head=6, n_kv_head=2, d_head=4, tied=tied,
                        biases=biases, norms=("attn_post_norm",), qk_norm=qk_norm)  # fmt: skip
    rng = np.random.default_rng(0)
    params = tree_map(lambda name, shape: rng.normal(0, 0.4, shape).astype(np.float32), tree)
    model = Llama(params, 6, 8, [rotary_frequencies(4, 1e4)] * 2)
    assert model([1, 2, 3]).shape == (3, 11)
    assert ("lm_head" in params) != tied
    assert model.new_cache(5).kv.shape == (2, 2, 5, 2, 0, 4)
    for array in arrays(params):
        before = model([1, 2, 3])
        array += rng.normal(0, 0.4, array.shape).astype(np.float32)
        assert np.abs(model([1, 2, 3]) - before).max() > 0  # it is used


# --- the parts ------------------------------------------------------------------------------------


def test_grouped_attention_is_attention_with_repeated_keys():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(3, n, t, 8)).astype(np.float32)
               for n, t in ((6, 4), (2, 9), (2, 9)))  # fmt: skip
    causal = gpt2.causal_mask(np.arange(4) + [[5], [3], [0]], 9)  # rows of different lengths
    repeated = [np.repeat(x, 3, axis=1) for x in (k, v)]  # head h of q has head h // 3 of k
    for mask in (causal, None):
        close(attention(q, k, v, mask, 0.3, None), gpt2.attention(q, *repeated, mask, 0.3))


def test_a_rotation_turns_pairs_and_keeps_lengths():
    """As complex numbers x[i] + 1j * x[i + d / 2], times exp(1j * position * frequency)."""
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    positions, frequencies = np.array([0, 1, 2, 7, 60]), rotary_frequencies(8, 100)
    np.testing.assert_allclose(frequencies, [1, 100**-0.25, 0.1, 100**-0.75], rtol=1e-6)
    found = rotate(x, positions, frequencies)
    pairs = (x[..., :4] + 1j * x[..., 4:]) * np.exp(1j * positions[:, None] * frequencies)
    np.testing.assert_allclose(found, np.concatenate([pairs.real, pairs.imag], -1), atol=1e-5)
    np.testing.assert_array_equal(found[:, 0], x[:, 0])


def test_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, 1, 8)).astype(np.float32)

    def score(at, other):
        q_at, k_at = (rotate(x[None], np.array([position]), FREQUENCIES)
                      for x, position in ((q, at), (k, other)))  # fmt: skip
        return float((q_at * k_at).sum())

    assert score(9, 4) == pytest.approx(score(105, 100), abs=1e-4)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-2)


FREQUENCIES = rotary_frequencies(8, 500)


def test_linear_scaling_stretches_positions():
    x = np.random.default_rng(0).normal(size=(1, 1, 8)).astype(np.float32)
    far = rotate(x, np.array([12]), rotary_frequencies(8, 500, factor=4))
    np.testing.assert_allclose(far, rotate(x, np.array([3]), FREQUENCIES), atol=1e-6)


def test_llama3_scaling_has_three_bands():
    """By wavelength, as the reference defines it; the fixture has all three."""
    found = llama3_frequencies(FREQUENCIES, 8.0, 1.0, 4.0, 32)
    np.testing.assert_array_equal(found, load("llama-llama3").frequencies[0])
    bands = []
    for frequency, scaled in zip(FREQUENCIES.tolist(), found.tolist()):
        wavelength = 2 * math.pi / frequency
        between = (32 / wavelength - 1) / (4 - 1)
        if wavelength > 32 / 1:
            band, expected = "long", frequency / 8
        elif wavelength < 32 / 4:
            band, expected = "short", frequency
        else:
            band, expected = "middle", (1 - between) * frequency / 8 + between * frequency
        bands.append(band)
        assert scaled == pytest.approx(expected, rel=1e-5)
    assert bands == ["short", "middle", "long", "long"]


def test_a_window_hides_older_keys():
    _ = -1e10
    one, two = np.array([4]), np.array([2, 3])  # positions of the queries
    assert window_mask(None, 5, one, 5) is None and window_mask(None, None, one, 5) is None
    np.testing.assert_array_equal(window_mask(None, 3, one, 5), [[[_, _, 0, 0, 0]]])
    rows = window_mask(None, 2, np.array([[3], [1]]), 4)  # a longer row and a shorter one
    np.testing.assert_array_equal(rows == 0, [[[[False, False, True, True]]],
                                              [[[True, True, True, True]]]])  # fmt: skip
    found = window_mask(gpt2.causal_mask(two, 4), 2, two, 4)  # [1, 2, 4]
    np.testing.assert_array_equal(found == 0, [[[False, True, True, False],
                                                [False, False, True, True]]])  # fmt: skip
    assert found.dtype == np.float32


def test_a_soft_cap_bounds_and_hardly_changes_small_numbers():
    x = np.array([-1e3, -0.1, 0, 0.1, 1e3], np.float32)
    np.testing.assert_allclose(soft_cap(x, 5.0), [-5, -0.1, 0, 0.1, 5], atol=1e-4)
    assert soft_cap(x, None) is x
