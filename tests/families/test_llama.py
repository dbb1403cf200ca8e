"""families/llama.py computes the same logits as transformers for every family, in one pass or in
several passes."""

import copy
import functools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpt2
from decoding.batching import Rows
from decoding.beam import beam_search
from decoding.drafters import PromptLookup
from families.llama import (
    Llama,
    attention,
    llama3_frequencies,
    rotary_frequencies,
    rotate,
    soft_cap,
    window_mask,
)
from generate import generate
from loading.config import read_json
from loading.llama import FAMILIES, read_llama
from tests.support.tiny import (
    LLAMA_FOLDERS,
    Traced,
    arrays,
    close,
    dense,
    drafted_by,
    filled,
    same_greedy,
    traced,
)

NAMES = sorted(folder.name for folder in LLAMA_FOLDERS.iterdir())
# Fixtures with and without windows, q_norm, post-norms and layers without positions:
SEVERAL = ["gemma3", "llama", "mistral", "olmo2", "qwen3", "smollm3"]
every_model = pytest.mark.parametrize("name", NAMES)
several_models = pytest.mark.parametrize("name", SEVERAL)


@functools.cache
def load(name):
    """Read the model of a fixture. utils.load cannot do it: the fixtures have no tokenizer."""
    folder = LLAMA_FOLDERS / name
    model = read_llama(folder, read_json(folder / "config.json"), n_tokens=64)
    model.stop_ids = (2,)
    return model


@functools.cache
def reference(name):
    """Return the arrays that transformers computed for this fixture."""
    with np.load(LLAMA_FOLDERS / name / "expected.npz") as expected:
        found = dict(expected)
    return found | {key: a.astype(int) for key, a in found.items() if a.dtype == np.int8}


# --- the reference implementation -----------------------------------------------------------------


def test_there_is_a_fixture_of_every_family_and_of_every_kind_of_block():
    configs = [json.loads((LLAMA_FOLDERS / name / "config.json").read_text()) for name in NAMES]
    assert {config["model_type"] for config in configs} == FAMILIES.keys()
    blocks = [load(name).params["blocks"][0] for name in NAMES]
    assert len({tuple(sorted(names(block))) for block in blocks}) == 7
    assert {load(name).n_head // load(name).n_kv_head for name in NAMES} == {1, 2, 4}
    assert {"lm_head" in load(name).params for name in NAMES} == {True, False}


def names(params, path=""):  # -> the name of every array in a block
    if not isinstance(params, dict):
        return [path]
    return [name for key, part in params.items() for name in names(part, f"{path}.{key}")]


@every_model
def test_logits_equal_the_reference_s(name):
    close(load(name)(reference(name)["ids"]), reference(name)["logits"])


@every_model
def test_logits_of_rows_of_different_lengths_equal_the_reference_s(name):
    """The reference pads the rows on the left. Here, every row first fills a cache of its own. For
    the last step, the caches are joined into a batch."""
    model, batch, rows = load(name), reference(name)["batch"], Rows()
    assert (batch < 0).sum() == 5
    for ids in (row[row >= 0] for row in batch):
        cache = model.new_cache()
        model(ids[:-1], cache)
        rows.join(cache)
    close(model(batch[:, -1:], rows)[:, 0], reference(name)["batch_logits"])


@every_model
def test_greedy_ids_equal_the_reference_s(name):
    prompt = reference(name)["ids"][:20].tolist()
    ids = list(generate(load(name), prompt, 24))
    same_greedy(load(name), prompt, ids, reference(name)["greedy"].tolist())


@every_model
def test_beams_equal_the_reference_s(name):
    prompt = reference(name)["ids"][:20].tolist()
    found = beam_search(load(name), prompt, 24, 3, n_return=3)
    expected = [[id for id in ids if id >= 0] for ids in reference(name)["beams"].tolist()]
    assert [hypothesis.ids for hypothesis in found] == expected
    scores = [hypothesis.score for hypothesis in found]
    np.testing.assert_allclose(scores, reference(name)["scores"], rtol=1e-5)


# --- chunks, batches and a model's own cache ------------------------------------------------------


def in_chunks(model, ids, cuts, cache):  # ids [..., n_seq] -> logits; a chunk begins at each cut
    return np.concatenate([model(part, cache) for part in np.split(ids, cuts, axis=-1)], axis=-2)


@every_model
def test_one_token_at_a_time_gives_the_same_logits(name):
    model, ids = load(name), reference(name)["ids"]
    cache = model.new_cache()
    close(in_chunks(model, ids, range(1, len(ids)), cache), reference(name)["logits"])
    assert cache.kv.shape[2] == model.n_kv_head


@several_models
@settings(max_examples=10)
@given(st.sets(st.integers(1, 39)))
def test_chunks_give_the_same_logits(name, cuts):
    model, ids = load(name), reference(name)["ids"]
    close(in_chunks(model, ids, sorted(cuts), model.new_cache()), reference(name)["logits"])


@several_models
def test_a_cache_is_cut_and_selected(name):
    model, ids = load(name), reference(name)["ids"]
    cache = model.new_cache(2)
    model(np.stack([ids[:20], ids[5:25]]), cache)
    cache.cut(18)
    cache.select([1, 0, 1])
    logits = model(np.stack([ids[23:28], ids[18:23], ids[:5]]), cache)
    texts = ids[5:28], ids[:23], np.concatenate([ids[5:23], ids[:5]])
    for row, text in zip(logits, texts, strict=True):
        close(row, model(text)[-5:])


@several_models
@pytest.mark.parametrize("shape", [(1,), (2, 3), (0,)])
def test_any_batch_dimensions_may_precede_the_sequence(name, shape):
    model = load(name)
    ids = np.random.default_rng(2).integers(64, size=(*shape, 11))
    rows = [model(row) for row in ids.reshape(-1, 11)]
    close(model(ids), np.reshape(rows, (*shape, 11, 64)).astype(np.float32))


@every_model
def test_greedy_speculation_finds_the_greedy_text(name):
    model, prompt = load(name), reference(name)["ids"][:20].tolist() * 2
    ids = list(generate(model, prompt, 12, loop=drafted_by(PromptLookup(64))))
    same_greedy(model, prompt, ids, list(generate(model, prompt, 12)))


def test_a_pass_beyond_the_context_is_an_error():
    model = load("llama")
    with pytest.raises(ValueError, match="65 tokens do not fit the context of 64"):
        model([1] * 65, model.new_cache())


@several_models
@pytest.mark.parametrize("last", [1, 3, 40, 50])
def test_last_gives_only_the_last_logits(name, last):
    ids = reference(name)["ids"]
    close(load(name)(ids, last=last), reference(name)["logits"][-last:])


def test_last_below_1_is_refused():
    for last in (0, -1):
        with pytest.raises(ValueError, match=f"last={last}: at least one position"):
            load("llama")([1, 2], last=last)


# --- causality and windows ------------------------------------------------------------------------


def changed(model, ids, position):
    """Return the positions whose logits change when the token at `position` changes."""
    other = ids.copy()
    other[position] = (other[position] + 1) % 64
    differ = np.abs(model(ids) - model(other)).max(axis=-1) > 0
    return np.flatnonzero(differ).tolist()


def test_a_token_changes_no_earlier_logits():
    assert changed(load("llama"), reference("llama")["ids"], 7) == list(range(7, 40))


def test_two_windows_of_8_reach_15_tokens():
    """Each layer reaches 7 tokens back, so two layers reach 14 tokens back. The token itself is
    number 15."""
    assert changed(load("mistral"), reference("mistral")["ids"], 3) == list(range(3, 18))


def test_each_layer_has_its_window():
    windows = {name: load(name).windows for name in NAMES}
    assert windows["gemma3"] == [8, 8, 8, 8, 8, None, 8]
    assert windows["gemma2"] == [8, None] and windows["qwen2-window"] == [None, 8]
    assert windows["mistral"] == [8, 8] and windows["qwen2"] == [None, None]


def test_a_layer_without_positions_does_not_see_the_order():
    """The model has only one layer, the second layer of SmolLM3."""
    whole = load("smollm3")
    params = {**whole.params, "blocks": whole.params["blocks"][1:]}
    model = Llama(params, whole.n_head, whole.n_ctx, frequencies=[None])
    close(model([4, 5, 6, 7], last=1), model([6, 4, 5, 7], last=1))
    rotated = Llama(params, whole.n_head, whole.n_ctx, whole.frequencies[:1])
    assert np.abs(rotated([4, 5, 6, 7]) - rotated([6, 4, 5, 7]))[-1].max() > 1e-3


# --- float32, arguments and optional arrays -------------------------------------------------------


@every_model
def test_every_step_is_float32(name):
    model = copy.copy(load(name))
    model.params = traced(model.params)
    for ids in ([3], list(range(12)), [[1, 2], [3, 4]]):
        for cache in (None, model.new_cache(*np.shape(ids)[:-1])):
            Traced.seen.clear()
            assert isinstance(model(ids, cache), Traced)  # computed from traced arrays
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
    model, ids = load(name), reference(name)["ids"].reshape(2, 20)
    before, copied = copy.deepcopy(model.params), ids.copy()
    model(ids, model.new_cache(2))
    np.testing.assert_array_equal(ids, copied)
    for array, old in zip(arrays(model.params), arrays(before), strict=True):
        np.testing.assert_array_equal(array, old)


# No q_norm, one q_norm for the 4 features of each head, or one for all 24 features together:
@pytest.mark.parametrize("norm_size", [None, 4, 24])
@pytest.mark.parametrize("bias, tied", [(False, True), (True, False)])
def test_a_model_has_the_parts_that_its_parameters_name(bias, tied, norm_size):
    """The model has 6 query heads, 2 key-value heads and 4 features per head."""
    attn = {name: dense(6, n, bias) for name, n in (("q", 24), ("k", 8), ("v", 8))}
    attn["o"] = dense(24, 6, bias)
    if norm_size:
        attn |= {"q_norm": {"g": (norm_size,)}, "k_norm": {"g": (min(norm_size, 8),)}}
    mlp = {"c_fc": dense(6, 10, bias), "gate": dense(6, 10, bias), "c_proj": dense(10, 6, bias)}
    block = {"attn": attn, "mlp": mlp, "attn_post_norm": {"g": (6,)}}
    tree = {"wte": (11, 6), "blocks": [block] * 2, "norm": {"g": (6,)}}
    if not tied:
        tree["lm_head"] = (11, 6)
    rng = np.random.default_rng(0)
    params = filled(tree, lambda _, shape: rng.normal(0, 0.4, shape).astype(np.float32))
    model = Llama(params, 6, 8, [rotary_frequencies(4, 1e4)] * 2)
    assert model((1, 2, 3)).shape == (3, 11)
    assert model.new_cache(5).kv.shape == (2, 2, 5, 2, 0, 4)
    for array in arrays(params):
        before = model([1, 2, 3])
        array += rng.normal(0, 0.4, array.shape).astype(np.float32)
        assert np.abs(model([1, 2, 3]) - before).max() > 0  # the model uses this array


# --- attention, rotary positions, windows, soft caps ----------------------------------------------


def test_grouped_attention_is_attention_with_repeated_keys():
    rng = np.random.default_rng(0)
    shapes = (3, 6, 4, 8), (3, 2, 9, 8), (3, 2, 9, 8)  # [batch, n_head, n, d_head]
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    mask = gpt2.causal_mask(np.arange(4) + [[5], [3], [0]])  # the rows have different lengths
    repeated = [np.repeat(x, 3, axis=1) for x in (k, v)]  # query head h uses key head h // 3
    expected = gpt2.attention(q, *repeated, mask)
    close(attention(q, k, v, mask, 1 / math.sqrt(8), None), expected)
    close(attention(q * 2, k, v, mask, 0.5 / math.sqrt(8), None), expected)
    assert np.abs(attention(q, k, v, mask, 1 / math.sqrt(8), 0.5) - expected).max() > 0.01


def test_a_rotation_turns_pairs_and_keeps_lengths():
    """The expected rotation uses complex numbers: each x[i] + 1j * x[i + d / 2] is multiplied by
    exp(1j * position * frequency)."""
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    positions, frequencies = np.array([0, 1, 2, 7, 60]), rotary_frequencies(8, 100)
    np.testing.assert_allclose(frequencies, [1, 100**-0.25, 0.1, 100**-0.75], rtol=1e-6)
    found = rotate(x, positions, frequencies)
    pairs = (x[..., :4] + 1j * x[..., 4:]) * np.exp(1j * positions[:, None] * frequencies)
    np.testing.assert_allclose(found, np.concatenate([pairs.real, pairs.imag], -1), atol=1e-5)
    np.testing.assert_array_equal(found[:, 0], x[:, 0])


def test_attention_scores_depend_only_on_the_distance():
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, 1, 8)).astype(np.float32)

    def dot_product(at, other):  # at: the query's position; other: the key's
        q_at = rotate(q[None], np.array([at]), FREQUENCIES)
        k_at = rotate(k[None], np.array([other]), FREQUENCIES)
        return float((q_at * k_at).sum())

    assert dot_product(9, 4) == pytest.approx(dot_product(105, 100), abs=1e-4)
    assert dot_product(9, 4) != pytest.approx(dot_product(9, 5), abs=1e-2)


FREQUENCIES = rotary_frequencies(8, 500)


def test_linear_scaling_stretches_positions():
    x = np.random.default_rng(0).normal(size=(1, 1, 8)).astype(np.float32)
    far = rotate(x, np.array([12]), rotary_frequencies(8, 500, factor=4))
    np.testing.assert_allclose(far, rotate(x, np.array([3]), FREQUENCIES), atol=1e-6)


def test_llama3_scaling_has_three_bands():
    """The reference defines three bands of wavelengths. The fixture has all three."""
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
    _ = False
    one = np.array([4])  # the query's position
    mask = gpt2.causal_mask(one)
    assert window_mask(mask, 5, one) is mask and window_mask(mask, None, one) is mask
    assert (window_mask(mask, 3, one) == 0).tolist() == [[[_, _, True, True, True]]]
    rows = np.array([[3], [1]])  # the shorter row has unused slots at its end
    found = window_mask(gpt2.causal_mask(rows), 2, rows)
    assert (found == 0).tolist() == [[[[_, _, True, True]]], [[[True, True, _, _]]]]
    two = np.array([2, 3])
    found = window_mask(gpt2.causal_mask(two), 2, two)  # [1, 2, 4]
    assert (found == 0).tolist() == [[[_, True, True, _], [_, _, True, True]]]
    assert found.dtype == np.float32 and found.min() == np.float32(-1e10)


def test_a_soft_cap_bounds_large_numbers_and_hardly_changes_small_ones():
    x = np.array([-1e3, -0.1, 0, 0.1, 1e3], np.float32)
    np.testing.assert_allclose(soft_cap(x, 5.0), [-5, -0.1, 0, 0.1, 5], atol=1e-4)
    assert soft_cap(x, None) is x
