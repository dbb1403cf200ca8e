"""The arrays of safetensors files: each is read, has its shape and its place, and is mapped into
memory. They may have other names, be padded, split into shards or stored in other types."""

import json
import re
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from loading.weights import read_safetensors, read_weights
from page.live import arrays_in
from tests.support.checkpoints import (
    FOLDERS,
    assert_refused,
    change,
    logits,
    write_folder,
)
from utils import load

INDEX = "model.safetensors.index.json"

# --- files ----------------------------------------------------------------------------------------


def write_raw(path, entries, data):
    """Write a safetensors file with these entries, {name: [dtype, shape, offsets]}."""
    keys = "dtype", "shape", "data_offsets"
    header = json.dumps({name: dict(zip(keys, entries[name])) for name in entries}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def test_floats_of_any_width_become_float32_and_other_types_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    floats = {
        "f32": rng.normal(size=(3, 5)).astype(np.float32),
        "scalar": np.array(2.5),
        "f64": np.array([1.0, 1e300]),  # it becomes inf, without a warning
        "f16": rng.normal(size=7).astype(np.float16),
        "empty": np.zeros((0, 4), np.float32),
    }
    others = {"i64": np.arange(6).reshape(1, 2, 3), "bool": np.array([True, False])}
    save_file(floats | others, tmp_path / "file", metadata={"format": "pt", "dtype": "F32"})
    found = read_safetensors(tmp_path / "file")
    assert found.keys() == floats.keys()
    for name, array in floats.items():
        assert found[name].dtype == np.float32 and type(found[name]) is np.ndarray
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found[name], array.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    values = np.array([[1.5, -2.0, 0.0, -0.0], [3e38, 1e-40, np.inf, 2**-7]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    path = write_raw(tmp_path / "file", {"x": ["BF16", [2, 4], [0, 16]]}, bits.tobytes())
    found = read_safetensors(path)["x"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (bits.astype(np.uint32) << 16).view(np.float32))


def test_an_unaligned_array_is_copied(tmp_path):
    raw = np.arange(3, dtype=np.float32).tobytes()
    entries = {"a": ["U8", [1], [0, 1]], "b": ["F32", [3], [1, 13]]}
    found = read_safetensors(write_raw(tmp_path / "file", entries, b"\0" + raw))
    assert found["b"].flags.aligned and list(found["b"]) == [0, 1, 2]


@pytest.mark.parametrize("name", ["plain", "llama-tied", "t5-gated-untied", "bart", "mbart"])
def test_float32_is_a_read_only_view_of_the_mapped_file(folder, name):
    for array in arrays_in(load(folder(name))[1].params):
        assert not array.flags.owndata and not array.flags.writeable and array.dtype == np.float32
        while isinstance(array.base, np.ndarray):
            array = array.base
        assert isinstance(array, np.memmap)


# --- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_each_array_is_read_and_has_its_shape(folder, name):
    """A file without one of its arrays, or with a part of it, is refused by the array's name."""
    copy = folder(name)
    whole = read_weights(copy, "", ())
    for path in copy.glob("model*"):
        path.unlink()
    ours = [array for array in whole if not re.search(r"\b(h|layers|block)\.[1-9]", array)]
    for array in {*ours} - {"final_logits_bias", "lm_head.weight"}:  # these may be missing
        for part in ({}, {array: whole[array][:1]}):
            rest = {other: whole[other] for other in whole if other != array}
            save_file(rest | part, copy / "model.safetensors")
            assert_refused(copy, array.removeprefix("model.").removeprefix("transformer."))


def test_a_pickle_is_never_opened_and_a_pointer_of_git_lfs_is_named(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert_refused(tmp_path, "has no model.safetensors; other formats can run .*save_pretrained")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 497774208\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    assert_refused(tmp_path, "safetensors is damaged: .*; if it is a Git LFS pointer, .*pull")


def test_the_index_says_where_an_array_lies(folder):
    copy = folder("plain")
    expected, whole = logits(copy), read_weights(copy, "", ())
    places = json.loads((copy / INDEX).read_text())["weight_map"]
    assert len({*places.values()}) == 2
    for file in {*places.values()}:  # both files have all names, but zeros for the other's arrays
        save_file({n: whole[n] * np.float32(file == places[n]) for n in places}, copy / file)
    np.testing.assert_array_equal(logits(copy), expected)
    index = (copy / INDEX).read_text()
    for outside in ("../" + file, str(copy.parent / file)):
        (copy / file).replace(copy.parent / file)
        (copy / INDEX).write_text(index.replace(file, outside))
        assert_refused(copy, "is not a file of this folder")
        (copy.parent / file).replace(copy / file)


# --- other names, and a tied head -----------------------------------------------------------------

UNUSED = {  # arrays that some files have, and no model needs
    "one_head": {"h.0.attn.bias": np.tri(16)[None, None], "h.0.attn.masked_bias": np.array(-1e4)},
    "llama-tied": {"layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)},
    "t5": {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": np.zeros(1)},
    "bart": {f"{side}.version": np.ones(1) for side in ("encoder", "decoder")},
}
EMBEDDING = "wte.weight", "embed_tokens.weight", "shared.weight"
COPIES = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"


@pytest.mark.parametrize("name", UNUSED)
def test_arrays_may_have_other_names_and_the_head_may_be_stored(folder, name):
    copy = folder(name)
    path, expected = copy / "model.safetensors", logits(copy)
    whole = {n: np.array(a) for n, a in read_safetensors(path).items()}
    prefix = "transformer." if name == "one_head" else "model."
    bare = {n.removeprefix(prefix): array for n, array in whole.items()} | UNUSED[name]
    [key] = bare.keys() & {*EMBEDDING}
    embedding = bare.pop(key)
    keys = [(key, "lm_head.weight"), ("lm_head.weight",)]  # save_model keeps one name
    if key == "shared.weight":
        keys += [COPIES, (*COPIES, "lm_head.weight")]
    for names in keys:
        save_file(bare | dict.fromkeys(names, embedding), path)
        np.testing.assert_array_equal(logits(copy), expected)


@pytest.mark.parametrize(
    "name, prefix", [("one_head", "transformer."), ("llama-tied", "model."), ("bart", "model.")]
)
def test_of_two_names_the_first_counts_and_a_wrapper_s_prefix_is_named(folder, name, prefix):
    """As in transformers, h.0.ln_1 comes before transformer.h.0.ln_1, but wte after it."""
    copy = folder(name)
    path, expected = copy / "model.safetensors", logits(copy)
    whole = {n.removeprefix(prefix): array for n, array in load_file(path).items()}
    pairs = {n: sorted([n, prefix + n]) for n in whole}
    first = {pairs[n][0]: array for n, array in whole.items()}
    save_file(first | {pairs[n][1]: 1 - array for n, array in whole.items()}, path)
    np.testing.assert_array_equal(logits(copy), expected)
    for wrapper in ("_orig_mod.", "module.transformer.", "base_model.model.model."):
        save_file({wrapper + n: array for n, array in whole.items()}, path)
        assert_refused(copy, f"^the arrays' names have .* prefix, {wrapper}: .* without it$")


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_separate_embedding_of_encoder_or_decoder_is_refused(folder, side):
    copy = folder("bart")
    tensors = load_file(copy / "model.safetensors")
    own = {f"model.{side}.embed_tokens.weight": tensors["model.shared.weight"] + np.float32(1)}
    save_file(tensors | own, copy / "model.safetensors")
    assert_refused(copy, f"{side}.embed_tokens.weight.* differ: only one shared embedding")


def test_the_bias_of_the_logits_may_be_missing(folder):
    copy = folder("bart")
    tensors, expected = load_file(copy / "model.safetensors"), logits(copy)
    bias = tensors.pop("final_logits_bias")
    save_file(tensors, copy / "model.safetensors")
    np.testing.assert_allclose(logits(copy), expected - bias[:, :265], atol=1e-5)


def test_a_head_that_differs_from_the_embedding_is_used_with_a_note(folder, capsys):
    copy = folder("untied")
    expected = logits(copy)
    change(copy, "tie_word_embeddings")  # the default is true
    np.testing.assert_array_equal(logits(copy), expected)
    assert "note: the file's head is used" in capsys.readouterr().err


# --- rows without a token, and tokens without a row -----------------------------------------------


def change_rows(folder, change_array):
    """Replace each array [n_vocab, ...] with change_array(array), and adjust vocab_size."""
    path, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    tensors = load_file(path)
    for name, array in tensors.items():
        if name == "final_logits_bias":
            tensors[name] = np.ascontiguousarray(change_array(array.T).T)
        elif len(array) == config["vocab_size"]:
            tensors[name] = np.ascontiguousarray(change_array(array))
            n_vocab = len(tensors[name])
    save_file(tensors, path)
    change(folder, vocab_size=n_vocab)


@pytest.mark.parametrize("name", ["untied", "t5-gated-untied", "bart-forced", "llama-tied"])
def test_rows_without_a_token_are_cut_off_and_not_copied(folder, name):
    """After any text, some of these rows would have large logits."""
    copy = folder(name)
    expected, n_tokens = logits(copy), load(copy)[0].n_vocab

    def pad(array):
        scales = np.linspace(-9, 9, 40, dtype=np.float32)[:, None]
        return np.concatenate([array[:n_tokens], array[-1:] * scales])

    change_rows(copy, pad)
    np.testing.assert_array_equal(logits(copy), expected)
    _, model = load(copy)
    assert model.n_vocab == n_tokens
    for key in {"wte", "lm_head"} & model.params.keys():
        assert len(model.params[key]) == n_tokens and not model.params[key].flags.owndata


@pytest.mark.parametrize("name, n", [("untied", 200), ("bart", 264), ("bart", 262), ("t5", 39)])
def test_only_special_tokens_may_lack_a_row(folder, name, n):
    copy = folder(name)
    change_rows(copy, lambda array: array[:n])
    if (name, n) == ("bart", 264):  # only <mask> is left without a row
        change(copy, file="generation_config.json", decoder_start_token_id=264)
        assert load(copy)[1].n_vocab == 264 and load(copy)[1].start_ids == [2]
    else:
        assert_refused(copy, "belongs to another model|cannot be used")


def test_an_end_of_text_without_a_row_cannot_begin_a_text(folder):
    copy = folder("untied")
    assert load(copy)[0].end_of_text == 258
    change_rows(copy, lambda array: array[:258])
    assert load(copy)[0].end_of_text is None
