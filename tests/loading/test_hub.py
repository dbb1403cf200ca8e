"""loading/hub.py downloads a model once and then loads it from the cache.

A local server replaces the hub. Each load runs in a new process, because huggingface_hub reads the
environment variables only once per process.
"""

import json
import os
import re
import shutil
import signal
import sys
import threading

import pytest

import utils
from tests.support.checkpoints import copied, write_folder
from tests.support.commands import process, python
from tests.support.server import COMMIT, answer, hub

SCRIPT = """
import json, sys, utils
try:
    tokenizer, model = utils.load(sys.argv[1])
    done = [model.n_vocab, tokenizer.encode("the cat"), model.generation_config.get("temperature")]
except utils.UserError as error:
    done = str(error)
print(json.dumps(done))
"""
INFO, FILES = "/api/models/o/n/revision/main", f"/o/n/resolve/{COMMIT}/"
NOWHERE = "http://127.0.0.1:9"
GENERATION = {"temperature": 0.5}


@pytest.fixture
def start(tmp_path):
    """Return a function start(url, VARIABLE=...) that loads the model o/n in a new process. It
    returns facts about the model or the error message."""

    def run(url, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        environment |= {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": url, **more}
        done = python("-c", SCRIPT, "o/n", env=environment, timeout=120)
        run.err = done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert isinstance(found, list) or "\n" not in found
        return found

    return run


@pytest.fixture
def made(tmp_path):
    """Return a model's folder. It also contains files that loading does not need."""
    folder = write_folder(tmp_path / "made", generation_config=GENERATION)
    for name in ("README.md", "pytorch_model.bin"):
        (folder / name).write_bytes(b"not wanted")
    return folder


def expected(made):
    return [259, utils.load(made)[0].encode("the cat"), GENERATION["temperature"]]


def got(server):
    """Return the names of the files that were downloaded, in order."""
    paths = [path.split("/resolve/") for method, path, _ in server.requests if method == "GET"]
    return [place[0].partition("/")[2] for _, *place in paths if place]


def test_a_model_is_downloaded_once_into_hugging_face_s_cache(start, made, tmp_path):
    with hub("o/n", made) as server:
        assert start(server.url, HF_TOKEN="hf_mine") == expected(made)
        wanted = {"model.safetensors", "vocab.json", "merges.txt", "generation_config.json"}
        assert {*got(server)} == wanted | {"config.json"}
        assert {token for _, path, token in server.requests if FILES in path} == {"Bearer hf_mine"}
        server.requests.clear()
        assert start(server.url) == expected(made) and server.requests == []
    snapshot = tmp_path / "home" / "hub" / "models--o--n" / "snapshots" / COMMIT
    assert {path.name for path in snapshot.iterdir()} == wanted | {"config.json"}


@pytest.mark.slow
def test_a_cache_that_another_tool_filled_is_completed_or_called_incomplete(start, made, tmp_path):
    """The hub has no tokenizer_config.json, which only a request can tell. Then it is known."""
    with hub("o/n", made) as server:
        start(server.url)
        shutil.rmtree(tmp_path / "home/hub/models--o--n/.no_exist")
        [settings] = (tmp_path / "home").glob("hub/*/snapshots/*/generation_config.json")
        settings.unlink()
        assert start(NOWHERE) == [*expected(made)[:2], None]
        note = "note: o/n is used without generation_config.json, tokenizer_config.json"
        assert note in start.err
        assert start(server.url) == expected(made)
        assert start(server.url, HF_HUB_OFFLINE="1") == expected(made)
        assert start.err == ""


@pytest.mark.slow
def test_a_failed_update_leaves_the_model_that_worked(start, made, tmp_path, monkeypatch):
    with hub("o/n", made) as server:
        start(server.url)
    place, newer = tmp_path / "home/hub/models--o--n", "b" * 40
    shutil.copytree(made, place / "snapshots" / newer, ignore=lambda *_: ["model.safetensors"])
    for commit in (newer, ""):  # the disk was full
        (place / "refs/main").write_text(commit)
        assert start(NOWHERE) == expected(made)
        assert "o/n is used without its newest commit: [Errno" in start.err
    monkeypatch.setattr("tests.support.server.COMMIT", newer)
    weights = f"/o/n/resolve/{newer}/model.safetensors"
    with hub("o/n", made) as server:
        server.files[weights] += b"\0"
        server.faults[weights] = [answer(403, X_Error_Message="Pay first")]
        assert start(server.url) == expected(made)
        assert "without its newest commit: Pay first\n" in start.err


@pytest.mark.slow
def test_a_damaged_file_in_the_cache_is_fetched_again_when_it_is_deleted(start, made):
    with hub("o/n", made) as server:
        start(server.url)
        [path] = made.parent.glob("home/hub/*/snapshots/*/merges.txt")
        path.write_text("{")
        [place] = re.findall("is damaged: .* delete (.*) and run this again", start(server.url))
        shutil.rmtree(place)
        assert start(server.url) == expected(made)


@pytest.mark.slow
def test_the_shards_are_those_that_the_index_names_and_a_lost_one_is_named(start, tmp_path):
    with hub("o/n", copied("plain", tmp_path)) as server:
        assert start(server.url)[0] == 259
        [path] = (tmp_path / "home").glob("hub/*/snapshots/*/model-00002-of-00002.safetensors")
        path.resolve().unlink()
        path.unlink()
        line = f"cannot download {path.name}, which .* lacks: .*[Oo]ffline"
        assert re.search(line, start(server.url, HF_HUB_OFFLINE="1"))
        server.requests.clear()
        assert start(server.url)[0] == 259
        assert got(server) == [path.name]


@pytest.mark.parametrize(
    "status, headers, line",
    [
        (403, {"X_Error_Code": "GatedRepo", "X_Error_Message": "a"}, r"accept .* HF_TOKEN \(a\)"),
        (400, {"X_Error_Message": "Expired"}, "cannot download o/n: Expired; when that is mended"),
    ],
)
def test_the_hub_s_reason_is_given_in_one_line(start, made, status, headers, line):
    with hub("o/n", made) as server:
        server.faults[INFO] = [answer(status, **headers)] * 9
        assert re.search(line, start(server.url))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="NOT RUN: Windows sends no SIGINT")
def test_one_interrupt_ends_a_download(made, tmp_path):
    more = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    sent, end = threading.Event(), threading.Event()
    with hub("o/n", made) as server:
        server.faults[f"{FILES}model.safetensors"] = [lambda *_: (sent.set(), end.wait(60))]
        with process("a", "--model", "o/n", env=more | {"HF_ENDPOINT": server.url}) as running:
            assert sent.wait(60)
            running.send_signal(signal.SIGINT)
            assert (running.wait(30), end.set()) == (130, None)


def test_nothing_is_downloaded_with_fetch_false(monkeypatch):
    monkeypatch.setattr("loading.hub.fetch", lambda name: pytest.fail("this is a download"))
    monkeypatch.setattr("loading.openai.fetch", lambda *names: pytest.fail("this is a download"))
    for name in ("o/n", "distilgpt2", "1558M"):
        with pytest.raises(utils.UserError, match=f"{name} is not here: .* --model {name}"):
            utils.load(name, fetch=False)
