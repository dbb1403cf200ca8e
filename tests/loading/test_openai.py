"""OpenAI's release of GPT-2 is downloaded and converted to a folder in Hugging Face's layout."""

import gzip
import hashlib
import json
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from huggingface_hub.utils import WeakFileLock
from safetensors import SafetensorError

import utils
from loading import openai
from tests.support.checkpoints import (
    CONFIG,
    assert_refused,
    logits,
    random_arrays,
    write_folder,
    write_tokenizer,
)
from tests.support.server import Server, answer, cut, garbage

pytestmark = pytest.mark.slow

HPARAMS, INDEX, DATA = openai.CHECKPOINT
TOKENIZER = ("encoder.json", "vocab.json", "VOCAB"), ("vocab.bpe", "merges.txt", "MERGES")
SIZES = {"n_vocab": 259, "n_ctx": 16, "n_embd": 12, "n_head": 3, "n_layer": 2}


@pytest.fixture
def release(monkeypatch, tmp_path):
    """Replace models/ with an empty folder, OpenAI's site with a local server, and TensorFlow with
    a stand-in. tests/centre/test_golden.py downloads the real 124M and reads it with TensorFlow."""
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__spec__="here", train=None))
    monkeypatch.setattr(utils, "MODELS", tmp_path / "models")
    write_tokenizer(tmp_path)
    (tmp_path / "models").mkdir()
    files = {HPARAMS: json.dumps(SIZES).encode(), INDEX: bytes(100), DATA: bytes(20_000)}
    for theirs, ours, sha in TOKENIZER:
        files[theirs] = (tmp_path / ours).read_bytes()
        monkeypatch.setattr(openai, sha, hashlib.sha256(files[theirs]).hexdigest())
    with Server({f"/124M/{name}": data for name, data in files.items()}) as server:
        monkeypatch.setattr(openai, "RELEASE", server.url)
        yield server


def test_without_tensorflow_the_next_step_is_said_before_a_download(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    same = "--model gpt2, which has the same weights"
    assert_refused("124M", rf"once: pip install tensorflow \(uv run --group openai .* use {same}")
    monkeypatch.setattr(sys, "version_info", (3, 14))
    assert_refused("124M", f"once: use {same}")
    assert release.requests == []


@pytest.mark.parametrize(
    "name, fault, words",
    [
        (INDEX, answer(404), "404.*model.ckpt.index; run this again"),
        (HPARAMS, lambda h, _: h.serve(b"<html>"), "hparams.json is no JSON, .*; run this again"),
        (DATA, cut(10_000), "; run this again"),
        ("encoder.json", lambda h, _: h.serve(b"{}"), "encoder.json was changed, or cut off"),
        (DATA, garbage, "model.ckpt.data.* was changed, or cut off, on the way"),
    ],
)
def test_a_failed_download_gives_one_line_and_leaves_nothing(release, name, fault, words):
    release.faults[f"/124M/{name}"] = [fault]
    assert_refused("124M", f"cannot fetch 124M into .*{words}")
    assert release.requests[-1][1].endswith(name)
    assert list(utils.MODELS.iterdir()) == []


def test_a_full_disk_is_called_that(release, monkeypatch):
    full = SafetensorError("No space left on device (os error 28)")  # from save_file
    monkeypatch.setattr(openai, "rewrite", Mock(side_effect=full))
    assert_refused("124M", "cannot fetch 124M into [^:]*: No space left on device .*; run this")


def test_what_a_killed_process_has_left_is_removed(release):
    left, used = [utils.MODELS / f".fetched-{name}" for name in "ab"]
    (left / "made").mkdir(parents=True)
    release.faults[f"/124M/{HPARAMS}"] = [answer(404)]
    with WeakFileLock(used / "lock"):
        assert_refused("124M", "404")
    assert list(utils.MODELS.iterdir()) == [used]


def test_a_compressed_reply_is_not_cut_off(release, tmp_path):
    release.files["/a"] = gzip.compress(b"text" * 100)
    packed = {"Content-Encoding": "gzip", "Content-MD5": ""}
    release.faults["/a"] = [lambda handler, body: handler.serve(body, headers=packed)]
    openai.download(f"{release.url}/a", tmp_path / "a", None)
    assert (tmp_path / "a").read_bytes() == b"text" * 100


def is_matrix(name):
    return "c_" in name and name.endswith("weight")


def their_name(name):  # h.0.mlp.c_fc.weight -> model/h0/mlp/c_fc/w
    if name in ("wte.weight", "wpe.weight"):
        return f"model/{name[:3]}"
    layer, _, end = name.replace("h.", "h", 1).replace(".", "/").rpartition("/")
    return f"model/{layer}/{'b' if end == 'bias' else 'w' if is_matrix(name) else 'g'}"


def hold(monkeypatch, arrays):
    """Let the checkpoint hold these arrays. In TensorFlow's files, a matrix is [1, n_in, n_out]."""
    stored = {their_name(n): a[None] if is_matrix(n) else a for n, a in arrays.items()}
    reader = SimpleNamespace(
        get_variable_to_shape_map=lambda: stored.keys(), get_tensor=stored.__getitem__
    )
    train = SimpleNamespace(load_checkpoint=lambda path: reader)
    monkeypatch.setattr(sys.modules["tensorflow"], "train", train)


def test_a_released_model_becomes_a_folder_in_hugging_face_s_layout(release, monkeypatch, tmp_path):
    hold(monkeypatch, random_arrays())
    tokenizer, model = utils.load("124M")
    [made] = utils.MODELS.iterdir()
    names = {"config.json", "model.safetensors", "vocab.json", "merges.txt"}
    assert {path.name for path in made.iterdir()} == names and made.name == "124M"
    np.testing.assert_array_equal(logits(made), logits(write_folder(tmp_path / "hub")))
    assert model.stop_ids == (tokenizer.end_of_text,) == (258,)
    config = json.loads((made / "config.json").read_text())
    same = "model_type", "vocab_size", "n_positions", "n_embd", "n_head", "n_layer", "eos_token_id"
    assert {key: config[key] for key in same} == {key: CONFIG[key] for key in same}


def test_a_checkpoint_that_is_damaged_leaves_nothing(release, monkeypatch):
    arrays = random_arrays()
    del arrays["wpe.weight"]
    hold(monkeypatch, arrays)
    assert_refused("124M", "cannot fetch 124M into .*: the array wpe.weight is missing.*; run this")
    assert list(utils.MODELS.iterdir()) == []
