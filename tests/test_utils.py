"""Finding, checking, converting and loading checkpoints."""

import errno
import hashlib
import json
import math
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from loading import layouts, tensors
from tests.checkpoints import CONFIG, IDS, VARIANTS, random_arrays, write_folder, write_tokenizer
from tests.server import Server, answer
from utils import UserError, load

ROOT = Path(__file__).parents[1]
LOGITS = json.loads((ROOT / "tests" / "gpt2_variants.json").read_text())


def check_logits(model, expected):
    logits = model(IDS)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[:, :12], expected, rtol=1e-5, atol=3e-5)


def check_refused(folder, match, models_dir=None):
    with pytest.raises(UserError, match=match) as error:
        load(folder, models_dir)
    assert "\n" not in str(error.value)


# --- folders in the layout of Hugging Face


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


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    values = np.array([[1.5, -2.0, 0.0, -0.0], [3e38, 1e-40, np.inf, 2**-7]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_raw(tmp_path / "file", {"x": ["BF16", [2, 4], [0, 16]]}, bits.tobytes())
    stored, _ = tensors.read_safetensors(tmp_path / "file")
    widened = tensors.float32("x", stored["x"], (2, 4))
    assert widened.dtype == np.float32
    assert np.array_equal(widened, (bits.astype(np.uint32) << 16).view(np.float32))
    assert list(widened[0]) == [1.5, -2.0, 0.0, 0.0] and widened[1, 2] == np.inf


def write_shards(folder, config=CONFIG):
    """The folder's model in two files, with an index."""
    from safetensors.numpy import save_file

    arrays = random_arrays(config)
    write_folder(folder, config, arrays)
    (folder / "model.safetensors").unlink()
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    places = {name: files[i % 2] for i, name in enumerate(sorted(arrays))}
    for file in files:
        save_file({name: arrays[name] for name in arrays if places[name] == file}, folder / file)
    write_index(folder, places)
    return places


def write_index(folder, places):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


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


def write_cached(place, files, commit="c0ffee"):
    """A repository as Hugging Face's libraries keep it: the files are links to blobs."""
    blobs, snapshot = place / "blobs", place / "snapshots" / commit
    for folder in (blobs, snapshot, place / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in files.iterdir():
        shutil.copy(path, blobs / f"{commit}-{path.name}")
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", f"{commit}-{path.name}"))
    return place


@pytest.mark.parametrize("write", [write_folder, write_shards])
def test_a_repository_in_hugging_faces_cache_is_a_folder(tmp_path, write):
    write(tmp_path / "files")
    place = write_cached(tmp_path / "models--some--gpt2", tmp_path / "files")
    check_logits(load(place)[1], LOGITS["plain"])
    check_logits(load(place / "snapshots" / "c0ffee")[1], LOGITS["plain"])
    other = write_folder(tmp_path / "other", CONFIG | VARIANTS["relu"])
    for commit in ("0ld", "zzz"):
        write_cached(place, other, commit)
    (place / "refs" / "main").write_text("c0ffee")
    check_logits(load(place)[1], LOGITS["plain"])
    (place / "refs" / "main").write_text("zzz")
    check_logits(load(place)[1], LOGITS["relu"])
    (place / "refs" / "main").write_bytes(b"\xff\0")
    load(place)


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
        ({"model_type": "llama"}, "model_type is llama, only gpt2"),
        ({"model_type": ["gpt2"]}, "model_type is"),
        ({"activation_function": "swish7"}, "swish7, known are gelu_new"),
        ({"activation_function": ["gelu"]}, "known are gelu_new"),
        ({"n_embd": 16}, r"wte.weight has the shape \[259, 12\], expected \[259, 16\]|multiple"),
        ({"n_embd": "12"}, "n_embd = '12'"),
        ({"n_embd": 0}, "n_embd = 0"),
        ({"n_embd": 10**30}, "n_embd = 1000"),
        ({"n_head": 5}, "n_embd = 12 is no multiple of n_head = 5"),
        ({"n_head": True}, "n_head = True"),
        ({"n_layer": 3}, "config.json has 3 layers, the weights have 2"),
        ({"n_layer": 1}, "config.json has 1 layers, the weights have 2"),
        ({"n_layer": 10**9}, "n_layer = 1000000000"),
        ({"n_inner": 7}, r"c_fc.weight has the shape \[12, 48\], expected \[12, 7\]"),
        ({"n_positions": 17}, r"wpe.weight has the shape \[16, 12\], expected \[17, 12\]"),
        ({"vocab_size": 200}, r"expected \[200, 12\]"),
        ({"vocab_size": None}, "n_vocab = None"),
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


# --- finding


def test_a_name_or_a_path_finds_a_model(tmp_path, monkeypatch):
    write_folder(tmp_path / "models" / "little")
    for name, models_dir in (
        ("little", tmp_path / "models"), ("little", str(tmp_path / "models")),
        (tmp_path / "models" / "little", None), (str(tmp_path / "models" / "little"), None),
    ):  # fmt: skip
        check_logits(load(name, models_dir)[1], LOGITS["plain"])
    monkeypatch.setenv("TOKENWISE_MODELS", str(tmp_path / "models"))
    check_logits(load("little")[1], LOGITS["plain"])
    monkeypatch.setattr(utils, "HERE", tmp_path)
    check_logits(load("little", tmp_path / "elsewhere")[1], LOGITS["plain"])
    (tmp_path / "models" / "released").mkdir()
    (tmp_path / "models" / "released" / "hparams.json").write_text("{}")
    assert utils.find("released") == tmp_path / "models" / "released"


def test_a_folder_that_may_not_be_looked_into_hides_no_other(tmp_path, monkeypatch):
    write_folder(tmp_path / "little")
    (tmp_path / "private").mkdir()
    stat = os.stat

    def refuse(path, **more):
        if "private" in str(path) and str(path).endswith("json"):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", refuse)
    assert utils.find("little", tmp_path) == tmp_path / "little"


def test_what_is_not_there_is_refused_with_what_is(tmp_path, monkeypatch):
    write_folder(tmp_path / "little")
    check_refused("big", "no model 'big': use .*little, .*124M, .*1558M, or a folder", tmp_path)
    refusal = "File name too long|no model 'x{99}: use"  # by the system, from Python 3.14 on by us
    check_refused("x" * 5000, refusal, tmp_path)
    check_refused("x" * 200, "no model 'x{99}: use", tmp_path)
    check_refused("nul\0", "no model", tmp_path)
    for path in ("models/storys", f"{tmp_path.name}/big"):  # paths, and no OWNER/NAME
        monkeypatch.chdir(utils.HERE if path == "models/storys" else tmp_path.parent)
        check_refused(path, f"no model '{path}'", tmp_path)
    (tmp_path / "empty").mkdir()
    check_refused(tmp_path / "empty", "neither config.json nor hparams.json")


@pytest.mark.parametrize(
    "name, meant", [("storys", "stories"), ("Stories", "stories"), ("124m", "124M"),
                    ("GPT2", "gpt2"), ("distil-gpt2", "distilgpt2"), ("LITTLE", "little")],
)  # fmt: skip
def test_a_mistyped_name_brings_the_right_one(tmp_path, name, meant):
    write_folder(tmp_path / "little")
    check_refused(name, f"no model '{name}': did you mean {meant}[?] Or use en-de", tmp_path)


def test_a_file_of_a_model_brings_its_folder(tmp_path):
    path = write_folder(tmp_path / "little") / "model.safetensors"
    check_refused(path, "is a file: name its folder, .*little$")


def test_git_ignores_the_models_that_are_fetched():
    def ignored(path):
        return subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT).returncode

    if shutil.which("git") is None or ignored("models/x") == 128:
        pytest.skip("git, or the repository, is not here: .gitignore is untested")
    fetched = "124M/hparams.json", "gpt2/config.json", "google/flan-t5-small/spiece.model"
    assert [ignored(f"models/{path}") for path in fetched] == [0, 0, 0]
    ours = "stories", "stories-draft", "en-de"
    assert [ignored(f"models/{name}/new.json") for name in ours] == [1, 1, 1]


def test_loading_imports_no_heavy_library(tmp_path):
    check = (
        "import sys, utils; utils.load(sys.argv[1]); heavy = set(sys.modules) &"
        " {'torch', 'tensorflow', 'requests', 'tqdm', 'safetensors', 'transformers'};"
        " assert not heavy, heavy"
    )
    command = [sys.executable, "-c", check, write_folder(tmp_path)]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


def test_a_models_folder_that_cannot_be_written_is_said_plainly(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    (tmp_path / "file").write_text("no folder")
    with Server({}) as server:
        monkeypatch.setenv("TOKENWISE_MIRROR", server.url)
        check_refused("124M", "cannot write .*Not a directory.*--models-dir", tmp_path / "file")
        check_refused("124M", "hparams.json does not exist .404.", tmp_path)
    assert os.listdir(tmp_path) == ["file"]  # nothing came of it, nothing is left of it


# --- the hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local hub with one model, gpt2."""
    folder = write_folder(tmp_path / "hub")
    files = {f"/gpt2/resolve/main/{path.name}": path.read_bytes() for path in folder.iterdir()}
    with Server(files) as server:
        monkeypatch.setenv("TOKENWISE_HUB", server.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("loading.download.DELAYS", ())
        yield server


def test_a_folder_without_a_model_hides_none_of_the_hub(hub, tmp_path, monkeypatch):
    (tmp_path / "here" / "gpt2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    check_logits(load("gpt2", tmp_path / "models")[1], LOGITS["plain"])


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_repository_that_the_hub_does_not_give_is_said_plainly(hub, tmp_path, status):
    hub.head_faults["/some/gpt2/resolve/main/config.json"] = [answer(status)]
    match = (
        f"no some/gpt2, or it is gated or private.*{status}.*check the name.*set a valid HF_TOKEN"
    )
    check_refused("some/gpt2", match, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_only_looked_up_nothing_is_fetched(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENWISE_MIRROR", hub.url)
    for name in ("gpt2", "124M", "some/gpt2"):
        with pytest.raises(UserError, match=f"{name} is not here.*generate.py TEXT --model {name}"):
            load(name, tmp_path / "models", fetch=False)
    assert hub.requests == [] and not (tmp_path / "models").exists()
    load("gpt2", tmp_path / "models")
    n = len(hub.requests)
    for name in ("gpt2", "stories-draft"):
        load(name, tmp_path / "models", fetch=False)
    assert len(hub.requests) == n


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "HOME"])
def test_a_complete_repository_in_the_cache_is_not_fetched(hub, tmp_path, monkeypatch, variable):
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "cache"))
    below = {"HF_HUB_CACHE": "", "HF_HOME": "hub", "HOME": ".cache/huggingface/hub"}[variable]
    cache = tmp_path / "cache" / below
    write_shards(tmp_path / "files")
    place = write_cached(cache / "models--some--gpt2", tmp_path / "files")
    check_logits(load("some/gpt2", tmp_path, fetch=False)[1], LOGITS["plain"])
    assert hub.requests == []
    for file in ("merges.txt", "model-00002-of-00002.safetensors", "config.json"):
        missing = place / "blobs" / f"c0ffee-{file}"
        whole = missing.read_bytes()
        missing.unlink()
        check_refused("some/gpt2", "gated or private", tmp_path)  # it is asked for
        missing.write_bytes(whole)
    (place / "blobs" / "c0ffee-config.json").write_text("[")
    check_refused("some/gpt2", "gated or private", tmp_path)


def test_a_configuration_left_by_a_killed_process_is_not_believed(hub, tmp_path):
    (tmp_path / "gpt2").mkdir()
    stale = json.dumps(CONFIG | {"activation_function": "relu"})
    (tmp_path / "gpt2" / "config.json.new").write_text(stale)
    check_logits(load("gpt2", tmp_path)[1], LOGITS["plain"])


@pytest.mark.parametrize("file", ["config.json", "vocab.json", "generation_config.json"])
def test_a_small_file_has_a_limit(hub, tmp_path, file):
    hub.files[f"/gpt2/resolve/main/{file}"] = bytes(51_000_000)
    check_refused("gpt2", f"{file} has more than 50000000 bytes", tmp_path)
    assert not list(tmp_path.rglob("*.part"))


def test_weights_have_no_limit(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("loading.download.download.__defaults__", (None, None, 5000, None))
    check_logits(load("gpt2", tmp_path)[1], LOGITS["plain"])


@pytest.mark.parametrize("shard", ["config.json", "a\x1b]0;b\x07.safetensors", "link.safetensors"])
def test_a_shard_under_a_wrong_name_is_not_fetched(hub, tmp_path, shard, capsys):
    base = "/gpt2/resolve/main"
    del hub.files[f"{base}/model.safetensors"]
    index = json.dumps({"weight_map": {"wte.weight": shard}})
    hub.files[f"{base}/model.safetensors.index.json"] = index.encode()
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "link.safetensors").symlink_to(tmp_path / "elsewhere")
    check_refused("gpt2", "not a file of this folder|is a link", tmp_path)
    assert "\x1b" not in capsys.readouterr().err
    assert hub.requests[-1][1] == f"{base}/model.safetensors.index.json"
    assert not (tmp_path / "gpt2" / "config.json").exists()


# --- safetensors


def write_raw(path, entries, data, metadata=None, length=None):
    """A safetensors file as it is told: {name: [dtype, shape, offsets]}."""
    header = {} if metadata is None else {"__metadata__": metadata}
    for name, entry in entries.items():
        header[name] = dict(zip(("dtype", "shape", "data_offsets"), entry))
    header = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


GOOD = {"a": ["F32", [2, 1], [0, 8]], "b": ["I64", [], [8, 16]], "c": ["F16", [0, 3], [16, 16]]}


def test_what_the_reference_writes_is_read_and_what_we_write_it_reads(tmp_path):
    from safetensors.numpy import load_file, save_file

    rng = np.random.default_rng(0)
    arrays = {
        "f32": rng.normal(size=(3, 5)).astype(np.float32), "scalar": np.array(2.5),
        "f16": rng.normal(size=7).astype(np.float16), "i64": np.arange(6).reshape(1, 2, 3),
        "bool": np.array([True, False]), "empty": np.zeros((0, 4), np.float32),
    }  # fmt: skip
    save_file(arrays, tmp_path / "theirs", metadata={"format": "pt"})
    found, metadata = tensors.read_safetensors(tmp_path / "theirs")
    assert metadata == {"format": "pt"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)

    shapes = {name: array.shape for name, array in arrays.items()}
    tensors.write_safetensors(tmp_path / "ours", shapes, arrays.get, {"by": "us"})
    theirs = load_file(tmp_path / "ours")
    for name, array in arrays.items():
        assert theirs[name].dtype == np.float32
        assert np.array_equal(theirs[name], array.astype(np.float32))


def test_arrays_are_views_of_the_mapped_file(tmp_path):
    tensors.write_safetensors(
        tmp_path / "file", {"a": (3, 4)}, lambda name: np.ones((3, 4), np.float32), {}
    )
    array = tensors.read_safetensors(tmp_path / "file")[0]["a"]
    assert type(array) is np.ndarray and not array.flags.writeable and array.flags.aligned
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    assert array.ctypes.data % 64 == 0


def test_an_unaligned_array_is_copied_into_line(tmp_path):
    raw = np.arange(3, dtype=np.float32).tobytes()
    entries = {"a": ["U8", [1], [0, 1]], "b": ["F32", [3], [1, 13]]}
    found, _ = tensors.read_safetensors(write_raw(tmp_path / "file", entries, b"\0" + raw))
    assert found["b"].flags.aligned and list(found["b"]) == [0, 1, 2]


def test_the_good_example_is_good(tmp_path):
    found, _ = tensors.read_safetensors(write_raw(tmp_path / "file", GOOD, bytes(16)))
    assert {name: array.shape for name, array in found.items()} == {
        "a": (2, 1), "b": (), "c": (0, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    "entries, n_bytes",
    [
        (GOOD, 15),  # cut
        (GOOD, 17),  # too much
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [2], [4, 12]]}, 12),  # overlap
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [1], [12, 16]]}, 16),  # gap
        ({"a": ["F32", [2], [4, 12]]}, 12),  # gap at the beginning
        ({"a": ["F32", [2], [8, 0]]}, 8),
        ({"a": ["F32", [2], [-8, 0]]}, 8),
        ({"a": ["F32", [3], [0, 8]]}, 8),
        ({"a": ["F32", [-1, -2], [0, 8]]}, 8),
        ({"a": ["F32", [2.0], [0, 8]]}, 8),
        ({"a": ["F32", [True, 2], [0, 8]]}, 8),
        ({"a": ["F32", "2", [0, 8]]}, 8),
        ({"a": ["F32", None, [0, 8]]}, 8),
        ({"a": ["F32", [2], [0, 8, 8]]}, 8),
        ({"a": ["F32", [2], [0]]}, 8),
        ({"a": ["F32", [2], [0, 2**63]]}, 8),
        ({"a": ["F32", [2**40], [0, 2**42]]}, 8),  # a terabyte and more
        ({"a": ["F32", [2**60, 2**60], [0, 8]]}, 8),
        ({"a": ["F32", [0, 2**62], [0, 0]]}, 0),
        ({"a": ["F32", [1] * 70 + [2], [0, 8]]}, 8),
        ({"a": ["F33", [2], [0, 8]]}, 8),
        ({"a": [["F32"], [2], [0, 8]]}, 8),
        ({"a": []}, 0),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, entries, n_bytes):
    write_raw(tmp_path / "file", entries, bytes(n_bytes))
    with pytest.raises(ValueError):
        tensors.read_safetensors(tmp_path / "file")


@pytest.mark.parametrize("length", [2**40, 2**64 - 1, 10**8 + 1, 200, 1, 0])
def test_a_header_length_that_lies_allocates_nothing(tmp_path, length, monkeypatch):
    write_raw(tmp_path / "file", GOOD, bytes(16), length=length)
    with pytest.raises(ValueError):
        tensors.read_safetensors(tmp_path / "file")


def test_a_header_past_the_formats_limit_is_not_read(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.write(struct.pack("<Q", 2**32))
        file.truncate(2**33)  # a sparse file: no disk is used
    with pytest.raises(ValueError, match="no safetensors file"):
        tensors.read_safetensors(tmp_path / "file")


@pytest.mark.parametrize("header", [[], {"a": 1}, {"__metadata__": 1}, {"__metadata__": None}])
def test_a_header_of_another_kind_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError):
        tensors.read_safetensors(tmp_path / "file")


def test_every_truncation_is_refused(tmp_path):
    whole = write_raw(tmp_path / "file", GOOD, bytes(16)).read_bytes()
    for n in range(len(whole)):
        (tmp_path / "file").write_bytes(whole[:n])
        with pytest.raises(ValueError):
            tensors.read_safetensors(tmp_path / "file")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_altered_files_are_refused_or_still_whole(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "altered"
    whole = bytearray(write_raw(path, GOOD, bytes(range(16))).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        found, _ = tensors.read_safetensors(path)
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) == 16


def test_writing_leaves_the_whole_file_or_none(tmp_path, monkeypatch):
    path, shapes = tmp_path / "file", {"a": (2,), "b": (2,)}

    def fail_at_b(name):
        if name == "b":
            raise OSError(errno.ENOSPC, "No space left on device")
        return np.zeros(2, np.float32)

    with pytest.raises(OSError):
        tensors.write_safetensors(path, shapes, fail_at_b, {})
    assert os.listdir(tmp_path) == []
    tensors.write_safetensors(path, shapes, lambda name: np.zeros(2, np.float32), {})
    with pytest.raises(OSError):
        tensors.write_safetensors(path, shapes, fail_at_b, {})
    assert os.listdir(tmp_path) == ["file"]
    assert list(tensors.read_safetensors(path)[0]) == ["a", "b"]


KILLED = """
import os, sys, numpy as np
from loading import tensors
from pathlib import Path
def die_at_b(name):
    return os._exit(9) if name == "b" else np.zeros(2, np.float32)
tensors.write_safetensors(Path(sys.argv[1]), {"a": (2,), "b": (2,)}, die_at_b, {})
"""


def test_a_process_killed_while_writing_leaves_nothing_that_hinders(tmp_path):
    path = tmp_path / "file"
    process = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT)
    assert process.returncode == 9 and not path.exists()
    shapes = {"a": (2,), "b": (2,)}
    tensors.write_safetensors(path, shapes, lambda name: np.zeros(2, np.float32), {})
    assert os.listdir(tmp_path) == ["file"]


# --- OpenAI's release, converted before


def write_converted(folder, config=CONFIG, metadata=utils.MARK, change=lambda shapes: shapes):
    """What a conversion leaves, made by hand out of the arrays that load() has read."""
    source = write_folder(folder.parent / "source", config)
    params = load(source)[1].params
    arrays = {}
    _, sizes = layouts.read_sizes(config)
    shapes = layouts.gpt2_shapes(**sizes, n_inner=4 * config["n_embd"])
    for name in tensors.flat(shapes):
        array = params
        for part in name.split("."):
            array = array[int(part)] if part.isdigit() else array[part]
        arrays[name] = array
    arrays = change(arrays)
    folder.mkdir(exist_ok=True)
    write_tokenizer(folder, ("encoder.json", "vocab.bpe"))
    hparams = {"n_vocab": 259} | {k: config[k] for k in ("n_ctx", "n_embd", "n_head", "n_layer")}
    (folder / "hparams.json").write_text(json.dumps(hparams))
    shapes = {name: array.shape for name, array in arrays.items()}
    tensors.write_safetensors(folder / utils.CONVERTED, shapes, arrays.get, metadata)
    return folder


def test_a_converted_model_is_mapped_whole(tmp_path):
    encoder, model = load(write_converted(tmp_path / "model"))
    check_logits(model, LOGITS["plain"])
    assert model.stop_ids == (encoder.end_of_text,) == (258,)
    arrays = [model.params["wte"], model.params["blocks"][1]["mlp"]["c_proj"]["w"]]
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)


@pytest.mark.parametrize("metadata", [{}, {"format": "pt"}, utils.MARK | {"layout": "in_out"}])
def test_a_converted_file_without_its_mark_is_refused(tmp_path, metadata):
    check_refused(write_converted(tmp_path / "model", metadata=metadata), "header does not say")


def test_a_converted_file_that_does_not_fit_is_refused(tmp_path):
    def transposed(arrays):
        return {n: a.T if n.endswith("c_fc.w") else a for n, a in arrays.items()}

    def less(arrays):
        return {name: array for name, array in arrays.items() if name != "wpe"}

    folder = tmp_path / "model"
    check_refused(write_converted(folder, change=transposed), r"c_fc.w has the shape \[12, 48\]")
    check_refused(write_converted(folder, change=less), "missing: wpe; delete it")
    check_refused(write_converted(folder, change=lambda a: a | {"x": a["wpe"]}), "unknown: x")
    path = write_converted(folder) / utils.CONVERTED
    path.write_bytes(path.read_bytes()[:-1])
    check_refused(folder, "is damaged.*delete it, and it is made anew")


def test_damaged_hparams_are_refused(tmp_path):
    folder = write_converted(tmp_path / "model")
    for text in ("", "[]", '{"n_vocab": 259}', '{"n_vocab": 1e9}'):
        (folder / "hparams.json").write_text(text)
        check_refused(folder, "hparams.json is damaged")


def test_without_tensorflow_the_way_out_is_said_before_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with Server({}) as server:
        monkeypatch.setenv("TOKENWISE_MIRROR", server.url)
        check_refused("124M", "pip install tensorflow.*hub.s, called gpt2", tmp_path)
        assert server.requests == []
    folder = write_converted(tmp_path / "model")
    load(folder)  # converted: no TensorFlow is needed
    (folder / utils.CONVERTED).unlink()
    check_refused(folder, "pip install tensorflow")


def test_a_converted_official_model_needs_no_checkpoint_and_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENWISE_MIRROR", "http://127.0.0.1:9")
    write_converted(tmp_path / "124M")
    check_logits(load("124M", tmp_path)[1], LOGITS["plain"])


def test_missing_small_files_come_from_the_mirror(tmp_path, monkeypatch):
    folder = write_converted(tmp_path / "124M")
    data = (folder / "encoder.json").read_bytes()
    (folder / "encoder.json").unlink()
    with Server({"/124M/encoder.json": data}) as server:
        monkeypatch.setenv("TOKENWISE_MIRROR", server.url + "/")
        check_refused("124M", "1042301 are right: not a mirror", tmp_path)
        known = (len(data), hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(utils.RELEASED, "encoder.json", known)
        check_logits(load("124M", tmp_path)[1], LOGITS["plain"])
    assert [asked for _, asked, _ in server.requests] == ["/124M/encoder.json"] * 3


# --- OpenAI's release, through TensorFlow: in a process of its own, since importing takes seconds


needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None,
    reason="TensorFlow is not installed (no wheel for this Python?): its checkpoints are untested",
)


@pytest.fixture(scope="module")
def openai(tmp_path_factory):
    """The folders that tests/tensorflow_checkpoints.py makes, and what loading them says."""
    folder = tmp_path_factory.mktemp("openai")
    script = [sys.executable, "-m", "tests.tensorflow_checkpoints", str(folder)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "messages.json").read_text())


@needs_tensorflow
def test_a_tensorflow_checkpoint_gives_the_same_logits(openai):
    folder, messages = openai
    assert messages["good"] is None
    _, model = load(folder / "good")  # maps the converted file
    check_logits(model, LOGITS["plain"])
    _, same = load(write_folder(folder / "huggingface"))
    assert np.array_equal(model(IDS), same(IDS))
    script = "import sys, utils; utils.load(sys.argv[1]); assert 'tensorflow' not in sys.modules"
    command = [sys.executable, "-c", script, str(folder / "good")]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


@needs_tensorflow
def test_a_released_model_is_fetched_and_converted_by_two_processes_at_once(openai):
    folder, messages = openai
    assert messages["official"] == [0, 0]
    found = set(os.listdir(folder / "official" / "124M"))
    assert found == {"hparams.json", *utils.RELEASED, *utils.CHECKPOINT, utils.CONVERTED}
    check_logits(load(folder / "official" / "124M")[1], LOGITS["plain"])


@needs_tensorflow
@pytest.mark.parametrize(
    "case, match",
    [
        ("no index", "checkpoint in .*no index is damaged"),
        ("no data", "checkpoint in .*no data is damaged"),
        ("cut data", "checkpoint in .*cut data is damaged"),
        ("altered data", "checkpoint in .*altered data is damaged"),
        ("altered index", "checkpoint in .*altered index is damaged"),
        ("missing", "1 arrays are missing: model/wpe;"),
        ("extra", "1 arrays are unknown: model/more;"),
        ("transposed", r"c_fc/w has the shape \[1, 48, 12\], expected \[1, 12, 48\]"),
        ("integers", "model/wte holds int32"),
        ("full disk", "cannot write .*No space left on device"),
        ("dead process", None),
    ],
)
def test_a_checkpoint_that_cannot_be_read(openai, case, match):
    folder, messages = openai
    found = {path.name for path in (folder / case).iterdir()}
    if match is None:
        assert messages[case] is None and utils.CONVERTED in found
        return
    assert re.search(match, messages[case])
    assert "\n" not in messages[case]
    assert not any(name.startswith(utils.CONVERTED) for name in found)


def test_the_sizes_of_the_release():
    embd_layers = {"124M": (768, 12), "355M": (1024, 24), "774M": (1280, 36), "1558M": (1600, 48)}
    for size, (n_embd, n_layer) in embd_layers.items():
        shapes = tensors.flat(layouts.gpt2_shapes(50257, 1024, n_embd, n_layer, 4 * n_embd))
        assert sum(math.prod(shape) for shape in shapes.values()) == utils.SIZES[size]
