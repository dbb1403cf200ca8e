"""Repositories of the Hugging Face hub: downloaded from a local one, or in a cache."""

import contextlib
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import utils
from loading.errors import UserError
from tests.checkpoints import (
    CONFIG,
    LOGITS,
    ROOT,
    VARIANTS,
    check_logits,
    check_refused,
    write_cached,
    write_folder,
    write_shards,
)
from tests.server import Server, answer, cut
from utils import load

FOLDERS = ROOT / "tests" / "fixtures" / "seq2seq"


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


@pytest.mark.parametrize("shard", ["config.json", "a\x1b]0;b\x07.safetensors"])
def test_a_shard_under_a_wrong_name_is_not_fetched(hub, tmp_path, shard, capsys):
    base = "/gpt2/resolve/main"
    del hub.files[f"{base}/model.safetensors"]
    index = json.dumps({"weight_map": {"wte.weight": shard}})
    hub.files[f"{base}/model.safetensors.index.json"] = index.encode()
    check_refused("gpt2", "not a file of this folder", tmp_path)
    assert "\x1b" not in capsys.readouterr().err
    assert hub.requests[-1][1] == f"{base}/model.safetensors.index.json"
    assert not (tmp_path / "gpt2" / "config.json").exists()


# --- encoder-decoders


def same_logits(model, folder):
    models = model, load(folder)[1]
    found, expected = (model.condition([[5, 6, 7]])([9, 8]) for model in models)
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def families(monkeypatch):
    """A local hub with the fixtures as repositories; some are named as the real ones are."""
    names = {"t5-small": "t5", "google/flan-t5-small": "t5-gated-untied",
             "facebook/bart-large-cnn": "bart-forced",
             "facebook/mbart-large-en-ro": "mbart"}  # fmt: skip
    files = {
        f"/{repo}/resolve/main/{path.name}": path.read_bytes()
        for repo, name in names.items()
        for path in (FOLDERS / name).iterdir()
    }
    with Server(files) as server:
        monkeypatch.setenv("TOKENWISE_HUB", server.url)
        monkeypatch.setattr("loading.download.DELAYS", (0, 0))
        monkeypatch.setattr("loading.download.CHUNK", 1000)
        yield server


@pytest.mark.parametrize(
    "repo, name",
    [("t5-small", "t5"), ("google/flan-t5-small", "t5-gated-untied"),
     ("facebook/bart-large-cnn", "bart-forced"), ("facebook/mbart-large-en-ro", "mbart")],
)  # fmt: skip
def test_a_repository_is_fetched_once_and_is_then_here(families, tmp_path, repo, name):
    _, model = utils.load(repo, tmp_path)
    same_logits(model, FOLDERS / name)
    n = len(families.requests)
    utils.load(repo, tmp_path)
    assert len(families.requests) == n
    assert not any(path.endswith(".bin") for _, path, _ in families.requests)
    left = {path.name for path in (tmp_path / repo).iterdir()} - {".lock"}
    assert not any(name.endswith((".part", ".new")) for name in left)


@pytest.mark.parametrize("name", ["gpt2", "distilgpt2"])
def test_gpt2_and_its_cousins_are_on_the_hub_too(families, tmp_path, name):
    gpt2 = next(path for path in sorted((FOLDERS.parent / "gpt2").iterdir()) if path.is_dir())
    for path in gpt2.iterdir():
        families.files[f"/{name}/resolve/main/{path.name}"] = path.read_bytes()
    _, model = utils.load(name, tmp_path)
    np.testing.assert_array_equal(model([1, 2]), utils.load(gpt2)[1]([1, 2]))


def test_what_another_process_has_fetched_is_not_fetched_again(families, tmp_path, monkeypatch):
    @contextlib.contextmanager
    def waited(folder):
        shutil.copytree(FOLDERS / "t5", folder)
        yield

    monkeypatch.setattr("utils.locked", waited)
    utils.load("t5-small", tmp_path)
    assert families.requests == []


def test_a_transfer_that_breaks_off_goes_on(families, tmp_path):
    weights = "/t5-small/resolve/main/model.safetensors"
    families.faults[weights] = [cut(5000)] * 9
    with pytest.raises(UserError, match="broke"):
        utils.load("t5-small", tmp_path)
    assert not (tmp_path / "t5-small" / "config.json").exists()  # not taken for a whole folder
    check_refused("t5", "no model 't5'", tmp_path)
    families.faults[weights] = []
    utils.load("t5-small", tmp_path)
    assert any(asked for asked in families.ranges_asked(weights))


def test_a_repository_in_shards(families, tmp_path):
    base = "/t5-small/resolve/main"
    tensors = load_file(FOLDERS / "t5" / "model.safetensors")
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[:9],
              "model-00002-of-00002.safetensors": names[9:]}  # fmt: skip
    for shard, part in shards.items():
        save_file({name: tensors[name] for name in part}, tmp_path / shard)
        families.files[f"{base}/{shard}"] = (tmp_path / shard).read_bytes()
    index = {"weight_map": {name: shard for shard, part in shards.items() for name in part}}
    families.files[f"{base}/model.safetensors.index.json"] = json.dumps(index).encode()
    del families.files[f"{base}/model.safetensors"]
    _, model = utils.load("t5-small", tmp_path / "models")
    same_logits(model, FOLDERS / "t5")


def test_shards_outside_of_the_folder_are_refused(families, tmp_path):
    base = "/t5-small/resolve/main"
    weights = families.files.pop(f"{base}/model.safetensors")
    for shard in ("../evil.safetensors", "/tmp/evil.safetensors", "a/b.safetensors"):
        index = json.dumps({"weight_map": {"shared.weight": shard}}).encode()
        families.files[f"{base}/model.safetensors.index.json"] = index
        check_refused("t5-small", "not a file of this folder", tmp_path)
    names = load_file(FOLDERS / "t5" / "model.safetensors")
    index = json.dumps({"weight_map": dict.fromkeys(names, "right.safetensors")}).encode()
    families.files[f"{base}/model.safetensors.index.json"] = index  # the next start fetches it
    families.files[f"{base}/right.safetensors"] = weights
    same_logits(utils.load("t5-small", tmp_path)[1], FOLDERS / "t5")


def test_a_repository_without_safetensors_is_refused_and_nothing_else_is_fetched(
    families, tmp_path
):
    base = "/facebook/mbart-large-en-ro/resolve/main"
    del families.files[f"{base}/model.safetensors"]
    families.files[f"{base}/pytorch_model.bin"] = b"pickled"
    check_refused("facebook/mbart-large-en-ro", "no model.safetensors", tmp_path)
    assert not any("pytorch" in path for _, path, _ in families.requests)


def test_what_the_hub_does_not_have_or_we_cannot_run_is_told_before_the_weights(families, tmp_path):
    check_refused("nobody/nothing", "gated or private.*HF_TOKEN", tmp_path)
    families.files["/some/bert/resolve/main/config.json"] = b'{"model_type": "bert"}'
    check_refused("some/bert", "model_type is bert", tmp_path)
    assert not any("safetensors" in path for _, path, _ in families.requests)


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "../up", "/no/where", "a b/c", "..", "a/.."])
def test_names_that_are_no_repository_s_never_reach_the_hub(families, tmp_path, name):
    check_refused(name, "no model|holds no model", tmp_path)
    assert families.requests == []
