"""OpenAI's release of GPT-2: fetched, converted, mapped."""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from gpt2 import gpt2_shapes
from loading import openai
from loading.params import flatten
from tests.checkpoints import (
    IDS,
    LOGITS,
    ROOT,
    check_logits,
    check_refused,
    write_converted,
    write_folder,
)
from tests.server import Server
from utils import load


def test_a_models_folder_that_cannot_be_written_is_said_plainly(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    (tmp_path / "file").write_text("no folder")
    with Server({}) as server:
        monkeypatch.setenv("TOKENWISE_MIRROR", server.url)
        check_refused("124M", "cannot write .*Not a directory.*--models-dir", tmp_path / "file")
        check_refused("124M", "hparams.json does not exist .404.", tmp_path)
    assert os.listdir(tmp_path) == ["file"]  # nothing came of it, nothing is left of it


def test_a_converted_model_is_mapped_whole(tmp_path):
    tokenizer, model = load(write_converted(tmp_path / "model"))
    check_logits(model, LOGITS["plain"])
    assert model.stop_ids == (tokenizer.end_of_text,) == (258,)
    arrays = [model.params["wte"], model.params["blocks"][1]["mlp"]["c_proj"]["w"]]
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)


def test_a_converted_file_that_does_not_fit_is_refused(tmp_path):
    def transposed(arrays):
        return {n: a.T if n.endswith("c_fc.w") else a for n, a in arrays.items()}

    def less(arrays):
        return {name: array for name, array in arrays.items() if name != "wpe"}

    folder = tmp_path / "model"
    check_refused(write_converted(folder, change=transposed), r"c_fc.w has the shape \[12, 48\]")
    check_refused(write_converted(folder, change=less), "missing: wpe; delete it")
    check_refused(write_converted(folder, change=lambda a: a | {"x": a["wpe"]}), "unknown: x")
    path = write_converted(folder) / openai.CONVERTED
    path.write_bytes(path.read_bytes()[:-1])
    check_refused(folder, "is damaged.*delete it, and it is made again")


def test_damaged_hparams_are_refused(tmp_path):
    folder = write_converted(tmp_path / "model")
    for text, fault in (
        ("", "hparams.json is damaged"), ("[]", "hparams.json is damaged"),
        ('{"n_vocab": 259}', "n_head = None"), ('{"n_head": 1e9}', "n_head = 1000000000.0"),
    ):  # fmt: skip
        (folder / "hparams.json").write_text(text)
        check_refused(folder, fault)


def test_without_tensorflow_the_way_out_is_said_before_a_download(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with Server({}) as server:
        monkeypatch.setenv("TOKENWISE_MIRROR", server.url)
        check_refused("124M", "pip install tensorflow.*hub.s, called gpt2", tmp_path)
        assert server.requests == []
    folder = write_converted(tmp_path / "model")
    load(folder)  # converted: no TensorFlow is needed
    (folder / openai.CONVERTED).unlink()
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
        check_refused("124M", "expected 1042301: not a mirror", tmp_path)
        known = (len(data), hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(openai.RELEASED, "encoder.json", known)
        check_logits(load("124M", tmp_path)[1], LOGITS["plain"])
    assert [asked for _, asked, _ in server.requests] == ["/124M/encoder.json"] * 3


needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None,
    reason="TensorFlow is not installed (no wheel for this Python?): its checkpoints are untested",
)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folders that tests/tensorflow_checkpoints.py makes, and what loading them says."""
    folder = tmp_path_factory.mktemp("openai")
    script = [sys.executable, "-m", "tests.tensorflow_checkpoints", str(folder)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "messages.json").read_text())


@needs_tensorflow
def test_a_tensorflow_checkpoint_gives_the_same_logits(checkpoints):
    folder, messages = checkpoints
    assert messages["good"] is None
    _, model = load(folder / "good")  # maps the converted file
    check_logits(model, LOGITS["plain"])
    _, same = load(write_folder(folder / "huggingface"))
    assert np.array_equal(model(IDS), same(IDS))
    script = "import sys, utils; utils.load(sys.argv[1]); assert 'tensorflow' not in sys.modules"
    command = [sys.executable, "-c", script, str(folder / "good")]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


@needs_tensorflow
def test_a_released_model_is_fetched_and_converted_by_two_processes_at_once(checkpoints):
    folder, messages = checkpoints
    assert messages["official"] == [0, 0]
    found = set(os.listdir(folder / "official" / "124M"))
    assert found == {"hparams.json", *openai.RELEASED, *openai.CHECKPOINT, openai.CONVERTED}
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
def test_a_checkpoint_that_cannot_be_read(checkpoints, case, match):
    folder, messages = checkpoints
    found = {path.name for path in (folder / case).iterdir()}
    if match is None:
        assert messages[case] is None and openai.CONVERTED in found
        return
    assert re.search(match, messages[case])
    assert "\n" not in messages[case]
    assert not any(name.startswith(openai.CONVERTED) for name in found)


def test_the_sizes_of_the_release():
    embd_layers = {"124M": (768, 12), "355M": (1024, 24), "774M": (1280, 36), "1558M": (1600, 48)}
    for size, (n_embd, n_layer) in embd_layers.items():
        shapes = flatten(gpt2_shapes(50257, 1024, n_embd, n_layer, 4 * n_embd))
        assert sum(math.prod(shape) for shape in shapes.values()) == openai.SIZES[size]
