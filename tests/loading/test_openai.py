"""OpenAI's release of GPT-2 is downloaded and converted to a folder in Hugging Face's layout."""

import gzip
import json
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

import utils
from loading import openai
from tests.support.checkpoints import (
    CONFIG,
    LOGITS,
    ROOT,
    assert_logits,
    assert_refused,
    write_folder,
)
from tests.support.server import Server, answer
from utils import load

needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None,
    reason="TensorFlow is not installed (no wheel for this Python?): its checkpoints are untested",
)


@pytest.fixture
def release(monkeypatch, tmp_path):
    """Replace models/ with an empty folder, and OpenAI's site with a local server that has no files
    yet. Pretend that TensorFlow is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr(utils, "MODELS", tmp_path)
    with Server({}) as server:
        monkeypatch.setattr(openai, "RELEASE", server.url)
        yield server


def test_without_tensorflow_the_next_step_is_said_before_a_download(release, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_refused("124M", r"once: pip install tensorflow \(uv run --group openai .* gpt2, ")
    assert release.requests == []


def test_a_failed_download_gives_one_line_and_leaves_nothing(release, tmp_path):
    assert_refused("124M", "cannot fetch 124M into .*404.*; run this again")
    release.files["/124M/hparams.json"] = b"{}"
    assert_refused("124M", "cannot fetch 124M into .*404.*model.ckpt.index; run this again")
    release.faults["/124M/hparams.json"] = [answer(500)]
    assert_refused("124M", "cannot fetch 124M into .*500.*; run this again")
    release.http.server_close()
    assert list(tmp_path.iterdir()) == []


def test_a_compressed_reply_is_not_cut_off(release, tmp_path):
    release.files["/a"] = gzip.compress(b"text" * 100)
    packed = {"Content-Encoding": "gzip", "Content-MD5": ""}
    release.faults["/a"] = [lambda handler, body: handler.serve(body, headers=packed)]
    openai.download(f"{release.url}/a", tmp_path / "a", None)
    assert (tmp_path / "a").read_bytes() == b"text" * 100


def test_without_a_network_there_is_one_line(release, monkeypatch, tmp_path):
    monkeypatch.setattr(openai, "RELEASE", "http://127.0.0.1:9")
    assert_refused("355M", "cannot fetch 355M into .*Connection refused.*; run this again")
    assert list(tmp_path.iterdir()) == []


def test_a_models_folder_that_cannot_be_written_gives_one_line(release, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(utils, "MODELS", tmp_path / "file")
    assert_refused("124M", "cannot fetch 124M into .*(Not a directory|File exists)")


def test_a_downloaded_model_needs_no_network_and_no_tensorflow(release, monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    write_folder(tmp_path / "124M")
    assert_logits(load("124M")[1], LOGITS["plain"])
    assert release.requests == []


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("model/h0/attn/c_attn/w", "h.0.attn.c_attn.weight"),
        ("model/h11/mlp/c_fc/b", "h.11.mlp.c_fc.bias"),
        ("model/h1/ln_1/g", "h.1.ln_1.weight"),
        ("model/ln_f/b", "ln_f.bias"),
        ("model/wte", "wte.weight"),
        ("model/wpe", "wpe.weight"),
    ],
)
def test_names_become_hugging_face_s(theirs, ours):
    assert openai.hub_name(theirs) == ours


# --- checkpoints that TensorFlow writes and reads -------------------------------------------------


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Run tests/support/tensorflow_checkpoints.py. Return its output folder and {case: [error
    message or None, names of the files that this case left behind]}."""
    folder = tmp_path_factory.mktemp("openai")
    script = [sys.executable, "-m", "tests.support.tensorflow_checkpoints", str(folder)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "messages.json").read_text())


@needs_tensorflow
def test_a_released_model_becomes_a_folder_in_hugging_face_s_layout(checkpoints):
    folder, messages = checkpoints
    assert messages["good"] == [None, ["124M"]]
    made = folder / "good" / "124M"
    names = {"config.json", "model.safetensors", "vocab.json", "merges.txt"}
    assert {path.name for path in made.iterdir()} == names
    tokenizer, model = load(made)
    assert_logits(model, LOGITS["plain"])
    assert model.stop_ids == (tokenizer.end_of_text,) == (258,)
    config = json.loads((made / "config.json").read_text())
    same = "model_type", "vocab_size", "n_positions", "n_embd", "n_head", "n_layer", "eos_token_id"
    assert {key: config[key] for key in same} == {key: CONFIG[key] for key in same}


@needs_tensorflow
@pytest.mark.parametrize(
    "case, match",
    [
        ("no index", "cannot fetch 124M into .*404"),
        ("cut data", "cannot fetch 124M into .*; run this again"),
        ("data changed on the way", "model.ckpt.data.* was changed, or cut off, on the way"),
        ("different vocabulary", "encoder.json was changed, or cut off, on the way"),
        ("short data", "the checkpoint is damaged: .*; run this again"),
        ("altered data", "the checkpoint is damaged: .*; run this again"),
        ("altered index", "the checkpoint is damaged: .*; run this again"),
        ("damaged hparams", "hparams.json is damaged: not a JSON object"),
        ("missing", "the checkpoint is damaged: the array wpe.weight is missing"),
        ("extra", "the checkpoint is damaged: config.json asks for no array more"),
        ("transposed", "the checkpoint is damaged: the array h.1.mlp.c_fc.weight has shape"),
        ("integers", "the checkpoint is damaged: the array wte.weight is missing"),
    ],
)
def test_a_release_that_cannot_be_used_leaves_nothing(checkpoints, case, match):
    message, left = checkpoints[1][case]
    assert re.search(match, message) and "\n" not in message
    assert left == []
