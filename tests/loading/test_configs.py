"""config.json and generation_config.json: both dialects and each family's defaults mean what they
mean to transformers, and what is wrong or not supported is refused by its name."""

import json

import numpy as np
import pytest

from families.llama import rotary_frequencies
from loading.llama import read_frequencies
from tests.support.checkpoints import FOLDERS, assert_refused, change, logits
from utils import READERS, load

LLAMAS = sorted(name for name in FOLDERS if FOLDERS[name].parent.name == "llama")
ROPE = "rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq"
CAPS = "attn_logit_softcapping", "final_logit_softcapping"


def test_every_family_has_its_reader_and_a_fixture():
    configs = [json.loads((folder / "config.json").read_text()) for folder in FOLDERS.values()]
    assert {config["model_type"] for config in configs} == READERS.keys()


# --- Llama and its relatives ----------------------------------------------------------------------


def test_a_full_layer_of_gemma_3_is_stretched_in_both_dialects():
    stretch = {"rope_type": "linear", "factor": 8.0}
    for entry in ({"rope_scaling": stretch}, {"rope_parameters": {"full_attention": stretch}}):
        config = {"rope_local_base_freq": 1e4, "rope_theta": 1e6, "head_dim": 8} | entry
        found = read_frequencies(config, "full_attention")
        np.testing.assert_array_equal(found, rotary_frequencies(8, 1e6, 8.0))
        found = read_frequencies(config, "sliding_attention")
        np.testing.assert_array_equal(found, rotary_frequencies(8, 1e4))


@pytest.mark.parametrize("name", LLAMAS)
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


@pytest.mark.parametrize("name", LLAMAS)
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
    [("llama", 1e4, 1e4), ("smollm3", 2e6, 2e6), ("gemma2", 1e4, 1e4), ("gemma3", 1e6, 1e4)],
)
def test_each_family_has_its_default_theta(folder, name, theta, local):
    copy = folder(name)
    change(copy, *ROPE)
    _, model = load(copy)
    for window, found in zip(model.windows, model.frequencies):
        if found is not None:
            expected = rotary_frequencies(model.d_head, local if window else theta)
            np.testing.assert_array_equal(found, expected)
    assert any(found is not None for found in model.frequencies)


QWEN = {"layer_types": None, "sliding_window": 8}


@pytest.mark.parametrize(
    "name, dropped, entries, windows",
    [
        ("gemma2", ["sliding_window"], {}, [4096, None]),
        ("gemma3", ["sliding_window"], {}, [4096] * 5 + [None, 4096]),
        ("mistral", ["sliding_window"], {}, [4096, 4096]),
        ("mistral", [], {"sliding_window": None}, [None, None]),
        ("qwen2", [], QWEN | {"max_window_layers": 1, "use_sliding_window": False}, [None, None]),
        ("qwen3", ["use_sliding_window"], QWEN | {"max_window_layers": 1}, [None, None]),
        ("qwen3", [], QWEN | {"max_window_layers": 1, "use_sliding_window": True}, [None, 8]),
        ("qwen2", [], QWEN | {"max_window_layers": 0, "use_sliding_window": True}, [8, 8]),
        ("qwen2", ["max_window_layers"], QWEN | {"use_sliding_window": True}, [None, None]),  # 28
        # A family ignores the keys of others.
        ("gemma2", [], {"use_sliding_window": False, "max_window_layers": 9}, [8, None]),
        ("mistral", [], {"use_sliding_window": False, "max_window_layers": 9}, [8, 8]),
    ],
)
def test_windows_have_the_defaults_and_the_rules_of_their_family(
    folder, name, dropped, entries, windows
):
    copy = folder(name)
    change(copy, *dropped, **entries)
    assert load(copy)[1].windows == windows


def test_gemma_2_has_default_caps(folder):
    copy = folder("gemma2")
    for dropped, entries, caps in (CAPS, {}, (50, 30)), ((), dict.fromkeys(CAPS), (None, None)):
        change(copy, *dropped, **entries)
        _, model = load(copy)
        assert (model.score_cap, model.logit_cap) == caps


def test_no_rope_layers_lists_the_layers_without_positions(folder):
    copy = folder("smollm3")
    change(copy, no_rope_layers=[0, 1])
    assert [part is None for part in load(copy)[1].frequencies] == [True, False]
    change(copy, "no_rope_layers", "no_rope_layer_interval")
    assert [part is None for part in load(copy)[1].frequencies] == [False, False]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, entries, words",
    [
        ("plain", {"model_type": "phi3"}, "model_type is phi3, not one of gpt2, t5"),
        ("plain", {"activation_function": "swish7"}, "'swish7' is not one of gelu_new"),
        ("plain", {"n_head": 5}, "n_embd = 8 is not a multiple of n_head = 5"),
        ("plain", {"n_head": 2.0}, "n_head = 2.0 in config.json is not a positive whole number"),
        ("plain", {"n_layer": 10**30}, "the array h.2.ln_1.weight is missing"),
        ("plain", {"n_layer": 1}, "config.json asks for no array h.1.attn.c_attn.bias"),
        ("plain", {"tie_word_embeddings": False}, "lm_head.weight is missing"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config is not supported"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention is not"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is yarn"),
        ("llama", {"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "'low_freq_factor'"),
        ("llama", {"rope_scaling": "linear"}, "cannot be used: AttributeError"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
        ("llama", {"num_key_value_heads": 3}, "4 heads of 8 numbers, 3 of keys and values"),
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types = "),
        ("t5-gated-untied", {"dense_act_fn": "tanh"}, "'tanh' is not one of"),
        ("bart", {"max_position_embeddings": 41}, "positions.weight has shape .42, 16., .*43"),
        ("bart", {"decoder_attention_heads": 3}, "not a multiple"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_by_name(folder, name, entries, words):
    copy = folder(name)
    change(copy, **entries)
    assert_refused(copy, words)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_files_that_are_not_json_objects_are_refused(folder, file):
    copy = folder("t5")
    for data in (b"{", b"[]", b"[" * 100_000, b"\xff\xfe"):
        (copy / file).write_bytes(data)
        assert_refused(copy, f"{file} is damaged: .*; fetch")


# --- how texts begin and end ----------------------------------------------------------------------


@pytest.mark.parametrize("name, n_vocab, end", [("plain", 259, (258,)), ("qwen2", 64, (2,))])
def test_stop_ids_come_from_generation_config_first_or_have_a_default(
    folder, name, n_vocab, end, capsys
):
    copy = folder(name)
    (copy / "generation_config.json").unlink(missing_ok=True)

    def stop_ids(*dropped, **entries):
        change(copy, *dropped, **entries)
        return load(copy)[1].stop_ids

    assert stop_ids() == end
    assert stop_ids(eos_token_id=[9, 3]) == (9, 3)
    assert stop_ids(eos_token_id=None) == () and capsys.readouterr().err == ""
    for lost in ("2", 2.0, n_vocab, -1, True, None, [2]):
        assert stop_ids(eos_token_id=[9, lost]) == (9,)
        assert f"note: eos_token_id {lost!r} is no id" in capsys.readouterr().err
    assert stop_ids(eos_token_id="2") == ()
    assert stop_ids("eos_token_id") == (n_vocab - 1,)  # <|endoftext|>
    settings = {"eos_token_id": 7, "temperature": 0.8}
    (copy / "generation_config.json").write_text(json.dumps(settings))
    assert stop_ids() == (7,) and load(copy)[1].generation_config == settings


def test_the_first_summarisers_have_the_settings_of_generation_in_their_config():
    config = load(FOLDERS["bart-cnn"])[1].generation_config
    assert (config["num_beams"], config["length_penalty"]) == (4, 2.0)  # not task_specific_params
    assert (config["forced_bos_token_id"], config.get("forced_eos_token_id")) == (0, None)


def test_special_ids_of_an_encoder_decoder_outside_the_vocabulary_have_no_effect(folder, capsys):
    copy, file = folder("bart"), "generation_config.json"
    change(copy, file=file, eos_token_id=[2, 999], forced_bos_token_id=-1)
    _, model = load(copy)
    assert model.stop_ids == (2,) and model.generation_config["forced_bos_token_id"] is None
    change(copy, file=file, eos_token_id=2, decoder_start_token_id="x")
    assert load(copy)[1].start_ids == [2]  # BART's default start id is eos_token_id
    said = capsys.readouterr().err
    for key in ("forced_bos_token_id -1", "eos_token_id 999", "decoder_start_token_id 'x'"):
        assert f"note: {key} is no id of the vocabulary: " in said
    copy = folder("t5")
    for file in ("config.json", "generation_config.json"):
        change(copy, file=file, decoder_start_token_id=None, pad_token_id=None)
    assert_refused(copy, "no decoder_start_token_id")
