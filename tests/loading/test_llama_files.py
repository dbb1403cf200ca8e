"""Llama and its relatives can be loaded from both dialects of config.json, the older and the newer
one, and from 16-bit files. Folders with wrong or unsupported settings are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import utils
from families.llama import rotary_frequencies
from generate import generate
from loading.config import read_json
from loading.errors import UserError
from loading.llama import FAMILIES, read_llama
from loading.weights import read_safetensors
from samplers import Sampler, temperature
from tests.support.checkpoints import write_tokenizer_json
from tests.support.tiny import LLAMA_FOLDERS

IDS = list(range(3, 33))
NAMES = sorted(folder.name for folder in LLAMA_FOLDERS.iterdir())
QWEN = {
    "model_type": "qwen2",
    "vocab_size": 270,
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "intermediate_size": 10,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "eos_token_id": 258,
    "tie_word_embeddings": True,
}


@pytest.fixture
def folder(tmp_path):
    """Return a function that copies the fixture `name`, so that a test can damage the copy."""

    def copied(name):
        return Path(shutil.copytree(LLAMA_FOLDERS / name, tmp_path / name))

    return copied


def model(folder):
    return read_llama(folder, read_json(folder / "config.json"), n_tokens=64)


def logits(folder):
    return model(folder)(IDS)


def change(folder, *dropped, **entries):
    """Remove the keys `dropped` from config.json and set the `entries`."""
    config = json.loads((folder / "config.json").read_text()) | entries
    config = {key: value for key, value in config.items() if key not in dropped}
    (folder / "config.json").write_text(json.dumps(config))


def assert_refused(folder, words):
    """Assert that load raises a UserError whose message is one line and matches `words`."""
    write_tokenizer_json(folder)
    with pytest.raises(UserError, match=words) as caught:
        utils.load(folder)
    assert "\n" not in str(caught.value)


# --- config.json ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_hub_s_dialect_means_the_same(folder, name):
    """The older dialect has rope_theta and rope_scaling instead of rope_parameters. For Gemma 3, it
    also has a second theta and a pattern of windows."""
    copy = folder(name)
    expected, config = logits(copy), json.loads((copy / "config.json").read_text())
    rope = config["rope_parameters"]
    local, rope = rope.get("sliding_attention"), rope.get("full_attention", rope)
    old = {"rope_theta": rope.pop("rope_theta")}
    if local:
        old |= {"rope_local_base_freq": local["rope_theta"], "sliding_window_pattern": 6}
    if rope["rope_type"] == "linear":
        rope["type"] = rope.pop("rope_type")  # the name of this key in the oldest files
    old["rope_scaling"] = rope if len(rope) > 1 else None
    dropped = "rope_parameters", "layer_types", "no_rope_layers", "_sliding_window_pattern"
    change(copy, *dropped, **old)
    np.testing.assert_array_equal(logits(copy), expected)


@pytest.mark.parametrize("name", NAMES)
def test_keys_with_their_usual_value_may_be_absent(folder, name):
    copy = folder(name)
    expected, config = logits(copy), json.loads((copy / "config.json").read_text())
    usual = {"hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh", "head_dim": 8}
    usual |= {"attention_bias": False, "mlp_bias": False, "use_sliding_window": False}
    usual["tie_word_embeddings"] = name.startswith(("gemma", "smollm3"))
    usual["rms_norm_eps"] = 1e-5 if name == "olmo2" else 1e-6
    change(copy, *(key for key, value in usual.items() if config.get(key) == value))
    np.testing.assert_array_equal(logits(copy), expected)


@pytest.mark.parametrize(
    "name, theta, local",
    [
        ("llama", 1e4, 1e4),
        ("qwen3", 1e4, 1e4),
        ("smollm3", 2e6, 2e6),
        ("gemma2", 1e4, 1e4),
        ("gemma3", 1e6, 1e4),
    ],
)
def test_each_family_has_its_default_theta(folder, name, theta, local):
    copy = folder(name)
    dropped = "rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq"
    change(copy, *dropped)
    found = model(copy)
    for window, frequencies in zip(found.windows, found.frequencies):
        if frequencies is not None:
            expected = rotary_frequencies(found.d_head, local if window else theta)
            np.testing.assert_array_equal(frequencies, expected)
    assert any(frequencies is not None for frequencies in found.frequencies)


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "mistral"])
def test_the_default_window_is_4096_tokens_and_null_means_none(folder, name):
    copy = folder(name)
    change(copy, "sliding_window")
    assert set(model(copy).windows) - {None} == {4096}
    change(copy, sliding_window=None)
    assert set(model(copy).windows) == {None}


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_qwen_s_window_needs_use_sliding_window(folder, name):
    copy = folder(name)
    change(copy, "layer_types", sliding_window=8, max_window_layers=1, use_sliding_window=False)
    assert model(copy).windows == [None, None]
    change(copy, "use_sliding_window")
    assert model(copy).windows == [None, None]
    change(copy, use_sliding_window=True)
    assert model(copy).windows == [None, 8]


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "mistral"])
def test_a_family_ignores_the_keys_of_others(folder, name):
    copy = folder(name)
    expected, windows = logits(copy), model(copy).windows
    change(copy, use_sliding_window=False, max_window_layers=9, no_rope_layers=[0, 0], mlp_bias=1)
    np.testing.assert_array_equal(logits(copy), expected)
    assert model(copy).windows == windows != [None, None]


def test_max_window_layers_may_be_0(folder):
    """With max_window_layers = 0, every layer has a window."""
    copy = folder("qwen2")
    change(copy, "layer_types", sliding_window=8, max_window_layers=0, use_sliding_window=True)
    assert model(copy).windows == [8, 8]
    change(copy, "max_window_layers")
    assert model(copy).windows == [None, None]  # the default, 28, exceeds the number of layers


def test_gemma2_has_default_caps(folder):
    copy = folder("gemma2")
    change(copy, "attn_logit_softcapping", "final_logit_softcapping")
    assert (model(copy).score_cap, model(copy).logit_cap) == (50, 30)
    change(copy, attn_logit_softcapping=None, final_logit_softcapping=None)
    assert (model(copy).score_cap, model(copy).logit_cap) == (None, None)
    copy = folder("gemma3")
    change(copy, attn_logit_softcapping=5.0)  # Gemma 3 ignores this key
    assert model(copy).score_cap is None


def test_no_rope_layers_lists_the_layers_without_positions(folder):
    copy = folder("smollm3")
    change(copy, no_rope_layers=[0, 1])
    assert [part is None for part in model(copy).frequencies] == [True, False]
    change(copy, "no_rope_layers", "no_rope_layer_interval")
    assert [part is None for part in model(copy).frequencies] == [False, False]


@pytest.mark.parametrize(
    "name, entries, words",
    [
        ("llama", {"model_type": "phi3"}, "model_type is phi3"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ("llama", {"hidden_act": "snake"}, "'snake' is not one of"),
        ("gemma2", {"hidden_activation": "snake"}, "'snake' is not one of"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is not"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is yarn"),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "rope_type is dynamic"),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "'low_freq_factor'"),
        ("llama", {"rope_scaling": "linear"}, "cannot be used: AttributeError"),
        ("gemma3", {"rope_scaling": {"full_attention": 3}}, "cannot be used: AttributeError"),
        ("llama", {"rope_theta": 10**400, "rope_parameters": None}, "OverflowError"),
        ("llama", {"partial_rotary_factor": {}}, "partial_rotary_factor is not supported"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is"),
        ("llama", {"rms_norm_eps": "small"}, "could not convert string to float"),
        ("llama", {"num_key_value_heads": 3}, "4 heads of 8 numbers, 3 of keys and values"),
        (
            "llama",
            {"num_attention_heads": True},
            "num_attention_heads = True in config.json is not",
        ),
        ("llama", {"intermediate_size": 21}, "up_proj.weight has shape .20, 32., .* .21, 32."),
        (
            "llama",
            {"num_hidden_layers": 3},
            "the array layers.2.self_attn.q_proj.weight is missing",
        ),
        ("llama-biases", {"attention_bias": False}, "config.json asks for no array layers.0.self_"),
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types = "),
        ("qwen2", {"layer_types": ["full_attention", "linear"]}, "layer_types = "),
        ("smollm3", {"no_rope_layers": [1]}, "IndexError"),
    ],
)
def test_unknown_or_wrong_settings_are_refused_by_name(folder, name, entries, words):
    copy = folder(name)
    change(copy, **entries)
    assert_refused(copy, words)


def test_every_family_has_its_loader():
    assert {family: utils.LOADERS[family] for family in FAMILIES}
    for name in NAMES:
        assert read_json(LLAMA_FOLDERS / name / "config.json")["model_type"] in utils.LOADERS


# --- a folder with a tokenizer: tokens and stop ids -----------------------------------------------


def write_qwen(folder, **entries):
    """Write a Qwen2 model whose tokenizer has no tokens for the last 11 rows of the embedding. If
    the model used these rows, their logits would be large."""
    rng, d = np.random.default_rng(0), QWEN["hidden_size"]
    shapes = {"embed_tokens": (270, d), "norm": (d,)}
    queries = {"q": 12, "k": 6, "v": 6}
    layer = {f"self_attn.{name}_proj": (n, d) for name, n in queries.items()}
    layer |= {"self_attn.o_proj": (d, 12), "mlp.gate_proj": (10, d), "mlp.up_proj": (10, d)}
    layer |= {"mlp.down_proj": (d, 10), "input_layernorm": (d,), "post_attention_layernorm": (d,)}
    shapes |= {f"layers.0.{name}": shape for name, shape in layer.items()}
    arrays = {f"model.{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    for name, n in queries.items():
        arrays[f"model.layers.0.self_attn.{name}_proj.bias"] = np.zeros(n)
    arrays["model.embed_tokens.weight"][259:] *= 100
    arrays = {name: array.astype(np.float16) for name, array in arrays.items()}
    save_file(arrays, folder / "model.safetensors")
    write_tokenizer_json(folder)
    (folder / "config.json").write_text(json.dumps(QWEN | entries))
    return folder


def test_rows_without_a_token_are_never_drawn(tmp_path):
    tokenizer, model = utils.load(write_qwen(tmp_path))
    assert model.n_vocab == tokenizer.n_vocab == 259 < QWEN["vocab_size"]
    assert model([1, 2]).shape == (2, 259)
    model.stop_ids = ()
    assert max(generate(model, [1], 60, Sampler(temperature(9.0)), seed=0)) < 259


def test_stop_ids_come_from_generation_config_first(tmp_path):
    assert utils.load(write_qwen(tmp_path))[1].stop_ids == (258,)
    assert utils.load(write_qwen(tmp_path, eos_token_id=[258, 7]))[1].stop_ids == (258, 7)
    settings = {"eos_token_id": [5, 258], "temperature": 0.7}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    _, model = utils.load(tmp_path)
    assert model.stop_ids == (5, 258) and model.generation_config == settings


# --- the weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-tied", "gemma3"])
def test_arrays_may_lack_the_prefix_model(folder, name):
    copy = folder(name)
    expected, path = logits(copy), copy / "model.safetensors"
    tensors = {key.removeprefix("model."): array for key, array in read_float32(path).items()}
    tensors["lm_head.weight"] = tensors["embed_tokens.weight"]  # some files also store a tied head
    tensors["layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)
    save_file(tensors, path)
    np.testing.assert_array_equal(logits(copy), expected)
    del tensors["embed_tokens.weight"]  # safetensors' save_model keeps one name of a tied matrix
    save_file(tensors, path)
    np.testing.assert_array_equal(logits(copy), expected)


def read_float32(path):
    return {name: np.array(array) for name, array in read_safetensors(path).items()}


def test_float16_files_are_read(folder):
    copy = folder("llama")
    path = copy / "model.safetensors"
    exact = {name: array.astype(np.float16) for name, array in read_float32(path).items()}
    save_file(exact, path)
    found = logits(copy)
    save_file({name: array.astype(np.float32) for name, array in exact.items()}, path)
    np.testing.assert_array_equal(logits(copy), found)


def test_float32_files_are_mapped(folder):
    copy = folder("llama-tied")
    params = model(copy).params
    for array in (params["wte"], params["blocks"][1]["mlp"]["gate"]["w"], params["norm"]["g"]):
        assert not array.flags.owndata and not array.flags.writeable
