"""Variants of GPT-2 are loaded from Hugging Face's folder layout. Damaged folders are refused."""

import struct

import numpy as np
import pytest

from tests.support.checkpoints import (
    CONFIG,
    LOGITS,
    VARIANTS,
    assert_logits,
    assert_refused,
    random_arrays,
    write_folder,
    write_shards,
)
from tests.support.tiny import arrays
from utils import load


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_transformers(tmp_path, variant):
    _, model = load(write_folder(tmp_path, CONFIG | VARIANTS[variant]))
    assert_logits(model, LOGITS[variant])


def test_prefix_masks_and_a_stored_tied_head_make_no_difference(tmp_path):
    arrays = {f"transformer.{name}": array for name, array in random_arrays(CONFIG).items()}
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"]
    for i in range(CONFIG["n_layer"]):
        arrays[f"transformer.h.{i}.attn.bias"] = np.tri(16, dtype=bool)[None, None]
        arrays[f"transformer.h.{i}.attn.masked_bias"] = np.array(-1e4, np.float32)
    assert_logits(load(write_folder(tmp_path, arrays=arrays))[1], LOGITS["plain"])
    del arrays["transformer.wte.weight"]  # safetensors' save_model keeps one name of a tied matrix
    assert_logits(load(write_folder(tmp_path, arrays=arrays))[1], LOGITS["plain"])


def test_shards_are_one_model(tmp_path):
    write_shards(tmp_path)
    assert_logits(load(tmp_path)[1], LOGITS["plain"])


def test_a_pickle_is_never_opened(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert_refused(tmp_path, "has no model.safetensors; other formats can run .*save_pretrained")


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    write_folder(tmp_path)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 497774208\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    line = "model.safetensors is damaged: .*; if it is a Git LFS pointer, .*pull"
    assert_refused(tmp_path, line)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"model_type": "phi3"}, "model_type is phi3, not one of gpt2, t5"),
        ({"model_type": ["gpt2"]}, "model_type is"),
        ({"model_type": None}, "model_type is None"),
        ({"activation_function": "swish7"}, "'swish7' is not one of gelu_new"),
        ({"activation_function": ["gelu"]}, "cannot be used: TypeError"),
        ({"n_head": 5}, "n_embd = 12 is not a multiple of n_head = 5"),
        ({"n_head": 3.0}, "n_head = 3.0 in config.json is not a positive whole number"),
        ({"n_layer": 10**30}, "the array h.2.attn.c_attn.weight is missing"),
        ({"n_layer": 1}, "config.json asks for no array h.1.attn.c_attn.bias"),
        ({"tie_word_embeddings": False}, "lm_head.weight is missing"),
        ({"layer_norm_epsilon": "small"}, "could not convert string to float: 'small'"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(tmp_path, change, match):
    assert_refused(write_folder(tmp_path, CONFIG | change, random_arrays(CONFIG)), match)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\xff\xfe", "1e999"])
@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "model.safetensors"])
def test_files_that_are_not_json_objects_are_refused(tmp_path, file, text):
    write_folder(tmp_path)
    data = text.encode("latin-1")
    if file == "model.safetensors":
        data = struct.pack("<Q", len(data)) + data
    (tmp_path / file).write_bytes(data)
    assert_refused(tmp_path, "fetch")


def test_stop_ids_come_from_the_config_and_have_a_default(tmp_path):
    def stop_ids(config, **files):
        folder = write_folder(tmp_path, config, **files)
        return load(folder)[1].stop_ids

    assert stop_ids(CONFIG) == (258,)
    assert stop_ids(CONFIG | {"eos_token_id": [258, 3]}) == (258, 3)
    assert stop_ids(CONFIG | {"eos_token_id": None}) == ()
    assert stop_ids(CONFIG | {"eos_token_id": 50256}) == ()  # this id is outside the vocabulary
    assert stop_ids({k: v for k, v in CONFIG.items() if k != "eos_token_id"}) == (258,)
    assert load(tmp_path)[1].generation_config["n_embd"] == CONFIG["n_embd"]  # from config.json
    generation_config = {"eos_token_id": 7, "temperature": 0.8}
    assert stop_ids(CONFIG, generation_config=generation_config) == (7,)
    assert load(tmp_path)[1].generation_config == generation_config


def test_a_tokenizer_that_is_damaged_or_too_large_is_refused(tmp_path):
    arrays = random_arrays(CONFIG | {"vocab_size": 257})
    write_folder(tmp_path, CONFIG | {"vocab_size": 257}, arrays)
    assert_refused(tmp_path, "the tokenizer has 259 tokens, the model 257")
    write_folder(tmp_path)
    (tmp_path / "merges.txt").write_text("one two three four")
    assert_refused(tmp_path, "merges.txt is damaged")
    (tmp_path / "merges.txt").unlink()
    assert_refused(tmp_path, "has no tokenizer.json; transformers writes it: AutoTokenizer")


def test_weights_are_views_of_the_mapped_file(tmp_path):
    params = load(write_folder(tmp_path))[1].params
    c_attn = params["blocks"][0]["attn"]["c_attn"]
    # The file contains w.T [12, 36]. The array w [36, 12] is a view of it.
    assert c_attn["w"].shape == (36, 12) and c_attn["w"].T.flags.c_contiguous
    for array in arrays(params):
        assert not array.flags.owndata and not array.flags.writeable


@pytest.mark.parametrize("config", [CONFIG, {k: v for k, v in CONFIG.items() if k[:3] != "tie"}])
def test_a_head_that_differs_from_the_embedding_is_used_with_a_note(tmp_path, capsys, config):
    arrays = random_arrays(CONFIG | {"tie_word_embeddings": False})
    _, model = load(write_folder(tmp_path, config, arrays))
    assert capsys.readouterr().err == (
        "note: the file's head is used, although config.json ties it to the embedding\n"
    )
    assert_logits(model, LOGITS["untied"])
    arrays["lm_head.weight"] = arrays["wte.weight"]
    assert "lm_head" not in load(write_folder(tmp_path, config, arrays))[1].params
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "change, match",
    [
        ({"extra": None}, "config.json asks for no array extra"),
        ({"wte.weight": np.zeros((259, 12), int)}, "wte.weight is missing, or is none of F64, F32"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, change, match):
    arrays = random_arrays(CONFIG)
    arrays |= {k: np.ones(12, np.float32) if v is None else v for k, v in change.items()}
    assert_refused(write_folder(tmp_path, arrays=arrays), match)
