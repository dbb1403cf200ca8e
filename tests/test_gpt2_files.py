"""Folders with a GPT-2 in the layout of Hugging Face: good ones, variants, damaged ones."""

import json
import shutil
import struct

import numpy as np
import pytest

from loading import weights
from tests.checkpoints import (
    CONFIG,
    IDS,
    LOGITS,
    VARIANTS,
    check_logits,
    check_refused,
    random_arrays,
    write_folder,
    write_index,
    write_shards,
)
from utils import load


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_are_those_of_transformers(tmp_path, variant):
    _, model = load(write_folder(tmp_path, CONFIG | VARIANTS[variant]))
    check_logits(model, LOGITS[variant])


def test_the_reference_tells_the_variants_apart():
    for variant in ("relu", "gelu", "silu", "unscaled", "untied"):
        assert np.abs(np.subtract(LOGITS["plain"], LOGITS[variant])).max() > 3e-4


def test_prefix_masks_and_a_stored_tied_head_make_no_difference(tmp_path):
    arrays = {f"transformer.{name}": array for name, array in random_arrays(CONFIG).items()}
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"]
    for i in range(CONFIG["n_layer"]):
        arrays[f"transformer.h.{i}.attn.bias"] = np.tri(16, dtype=bool)[None, None]
        arrays[f"transformer.h.{i}.attn.masked_bias"] = np.array(-1e4, np.float32)
    check_logits(load(write_folder(tmp_path, arrays=arrays))[1], LOGITS["plain"])


def test_half_and_double_precision_become_float32(tmp_path):
    arrays = random_arrays(CONFIG)
    exact = {name: array.astype(np.float16) for name, array in arrays.items()}
    models = []
    for dtype in (np.float16, np.float32, np.float64):
        stored = {name: array.astype(dtype) for name, array in exact.items()}
        models.append(load(write_folder(tmp_path / np.dtype(dtype).name, arrays=stored))[1])
    for model in models:
        assert model.params["wte"].dtype == np.float32
        assert np.array_equal(model(IDS), models[1](IDS))


def test_a_large_file_of_16_bits_is_converted_once(tmp_path, monkeypatch, capsys):
    arrays = {name: array.astype(np.float16) for name, array in random_arrays(CONFIG).items()}
    write_folder(tmp_path, arrays=arrays)
    expected = load(tmp_path)[1](IDS)
    monkeypatch.setattr(weights, "SMALL", 0)
    for _ in range(2):
        np.testing.assert_array_equal(load(tmp_path)[1](IDS), expected)
    assert capsys.readouterr().err.count("only this once") == 1


def test_shards_are_one_model(tmp_path):
    write_shards(tmp_path)
    check_logits(load(tmp_path)[1], LOGITS["plain"])


def test_a_shard_outside_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    places = write_shards(folder)
    shard = next(iter(places.values()))
    shutil.copy(folder / shard, tmp_path / "outside.safetensors")
    bad = ["../outside.safetensors", str(tmp_path / "outside.safetensors"), ".safetensors"]
    bad += ["config.json", "a\x1b]0;b\x07.safetensors", "a b.safetensors", "a.safetensors\n"]
    for file in [*bad, "", ".", "..", "nul\0"]:
        write_index(folder, {key: place.replace(shard, file) for key, place in places.items()})
        check_refused(folder, "is not a file of this folder")


def test_damaged_shards_are_refused(tmp_path):
    places = write_shards(tmp_path)
    name, shard = next(iter(places.items()))
    write_index(tmp_path, {key: place for key, place in places.items() if key != name})
    check_refused(tmp_path, f"1 arrays are unknown: {name}")
    write_index(tmp_path, places | {"more": shard})
    check_refused(tmp_path, "1 arrays are missing: more")
    for index in ({"weight_map": [1]}, {"weight_map": {"a": 1}}, {}, []):
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        check_refused(tmp_path, "weight_map|JSON object")
    write_index(tmp_path, places)
    (tmp_path / shard).unlink()
    check_refused(tmp_path, "No such file")


def test_a_pickle_is_never_opened(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    check_refused(tmp_path, "has no model.safetensors; other formats are not opened.*from_pretrain")


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    write_folder(tmp_path)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 497774208\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    check_refused(tmp_path, "model.safetensors is a Git LFS pointer: `git lfs pull`")


@pytest.mark.parametrize(
    "change, match",
    [
        ({"model_type": "phi3"}, "model_type is phi3, only gpt2"),
        ({"model_type": ["gpt2"]}, "model_type is"),
        ({"activation_function": "swish7"}, "swish7, known are gelu_new"),
        ({"activation_function": ["gelu"]}, "known are gelu_new"),
        ({"n_embd": 16}, r"wte.weight has the shape \[259, 12\], expected \[259, 16\]|multiple"),
        ({"n_embd": "12"}, "n_embd = '12'"),
        ({"n_embd": 0}, "n_embd = 0"),
        ({"n_embd": 10**30}, "n_embd = 1000"),
        ({"n_head": 5}, "n_embd = 12 is not a multiple of n_head = 5"),
        ({"n_head": True}, "n_head = True"),
        ({"n_layer": 3}, r"12 arrays are missing: h\.2\.attn"),
        ({"n_layer": 1}, r"12 arrays are unknown: h\.1\.attn"),
        ({"n_layer": 10**9}, "n_layer = 1000000000"),
        ({"n_inner": 7}, r"c_fc.weight has the shape \[12, 48\], expected \[12, 7\]"),
        ({"n_positions": 17}, r"wpe.weight has the shape \[16, 12\], expected \[17, 12\]"),
        ({"vocab_size": 200}, r"expected \[200, 12\]"),
        ({"vocab_size": None}, "vocab_size = None"),
        ({"tie_word_embeddings": False}, "1 arrays are missing: lm_head.weight"),
        ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon = 'small'"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(tmp_path, change, match):
    check_refused(write_folder(tmp_path, CONFIG | change, random_arrays(CONFIG)), match)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"a": 1, "a": 2}', "[" * 100_000, "\xff\xfe", "1e999"]
)
@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "model.safetensors"])
def test_json_that_is_none_is_refused(tmp_path, file, text):
    write_folder(tmp_path)
    data = text.encode("latin-1")
    if file == "model.safetensors":
        data = struct.pack("<Q", len(data)) + data
    (tmp_path / file).write_bytes(data)
    check_refused(tmp_path, "fetch")


@pytest.mark.parametrize("change", [{"wte.weight": np.zeros((259, 12), int)}, {"extra": IDS}])
def test_arrays_of_the_wrong_kind_are_refused(tmp_path, change):
    arrays = random_arrays(CONFIG) | {name: np.array(value) for name, value in change.items()}
    check_refused(write_folder(tmp_path, arrays=arrays), "wte.weight holds int64|unknown: extra")


def test_stop_ids_and_defaults(tmp_path):
    def stop_ids(config, **files):
        folder = write_folder(tmp_path, config, **files)
        return load(folder)[1].stop_ids

    assert stop_ids(CONFIG) == (258,)
    assert stop_ids(CONFIG | {"eos_token_id": [258, 3]}) == (258, 3)
    assert stop_ids(CONFIG | {"eos_token_id": None}) == ()
    assert stop_ids(CONFIG | {"eos_token_id": 50256}) == ()  # no token of this vocabulary
    assert stop_ids({k: v for k, v in CONFIG.items() if k != "eos_token_id"}) == (258,)
    assert load(tmp_path)[1].generation_config == {}
    generation_config = {"eos_token_id": 7, "temperature": 0.8}
    assert stop_ids(CONFIG, generation_config=generation_config) == (7,)
    assert load(tmp_path)[1].generation_config == generation_config


def test_a_tokenizer_that_is_damaged_or_too_large_is_refused(tmp_path):
    arrays = random_arrays(CONFIG | {"vocab_size": 257})
    write_folder(tmp_path, CONFIG | {"vocab_size": 257}, arrays)
    check_refused(tmp_path, "the tokenizer has 259 tokens, the model 257")
    write_folder(tmp_path)
    (tmp_path / "merges.txt").write_text("one two three four")
    check_refused(tmp_path, "merges.txt is damaged")
    (tmp_path / "merges.txt").unlink()
    check_refused(tmp_path, "tokenizer")


def test_weights_are_laid_out_for_the_product_and_mapped_where_they_are_so(tmp_path):
    params = load(write_folder(tmp_path))[1].params
    c_attn = params["blocks"][0]["attn"]["c_attn"]
    assert c_attn["w"].shape == (36, 12) and c_attn["w"].flags.c_contiguous
    assert not params["wte"].flags.owndata and not params["wte"].flags.writeable
