"""Finding a model by its name."""

import os
import shutil
import subprocess
import sys

import pytest

import utils
from tests.checkpoints import LOGITS, ROOT, check_logits, check_refused, write_folder
from utils import load


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
    ours = "stories", "stories-draft", "stories-llama", "en-de"
    assert [ignored(f"models/{name}/new.json") for name in ours] == [1, 1, 1, 1]


def test_loading_imports_no_heavy_library(tmp_path):
    check = (
        "import sys, utils; utils.load(sys.argv[1]); heavy = set(sys.modules) &"
        " {'torch', 'tensorflow', 'requests', 'tqdm', 'safetensors', 'transformers'};"
        " assert not heavy, heavy"
    )
    command = [sys.executable, "-c", check, write_folder(tmp_path)]
    assert subprocess.run(command, cwd=ROOT).returncode == 0
