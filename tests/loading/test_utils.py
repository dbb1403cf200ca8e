"""utils.py finds a model by its name, suggests names for mistyped ones, and lists all names."""

import os
import shutil
import subprocess
import sys

import pytest

import utils
from tests.support.checkpoints import (
    CONFIG,
    LOGITS,
    ROOT,
    assert_logits,
    assert_refused,
    write_folder,
)
from utils import load


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Replace models/ with a folder that has one model, `little`; return this folder."""
    monkeypatch.setattr(utils, "MODELS", tmp_path / "models")
    write_folder(tmp_path / "models" / "little")
    return tmp_path / "models"


def test_a_name_or_a_path_finds_a_model(models, monkeypatch):
    for name in ("little", models / "little", str(models / "little")):
        assert_logits(load(name)[1], LOGITS["plain"])
    monkeypatch.chdir(models.parent)
    assert utils.find("models/little").resolve() == (models / "little").resolve()
    write_folder(models.parent / "little", CONFIG | {"n_layer": 1})
    assert utils.find("little") == models / "little"  # models/ comes before the current folder


def test_an_unknown_name_is_refused_with_the_known_names(models, monkeypatch):
    assert_refused("big", "no model 'big': use .*stories, .*124M, .*little, or a folder")
    assert_refused("x" * 5000, "File name too long|no model 'x{99}: use")
    assert_refused("nul\0", "no model|embedded null")
    monkeypatch.chdir(models.parent)
    assert_refused("models/storys", "no model 'models/storys'")  # a path, not OWNER/NAME
    (models.parent / "empty").mkdir()
    assert_refused("empty", "empty has no config.json")
    (models / "stories").mkdir()
    assert_refused("stories", "stories has no config.json")


@pytest.mark.parametrize(
    "name, meant",
    [
        ("storys", "stories"),
        ("Stories", "stories"),
        ("124m", "124M"),
        ("GPT2", "gpt2"),
        ("distil-gpt2", "distilgpt2"),
        ("LITTLE", "little"),
    ],
)
def test_a_mistyped_name_suggests_the_right_one(models, name, meant):
    assert_refused(name, f"no model '{name}': did you mean {meant}[?] Or use stories")


def test_a_file_of_a_model_suggests_its_folder(models):
    assert_refused(models / "little" / "config.json", "is a file: name its folder, .*little$")


@pytest.mark.parametrize(
    "config, match",
    [
        ("[]", "config.json is damaged: not a JSON object; fetch or save"),
        ("{}", "'model_type'"),
        ('{"model_type": "phi3"}', "model_type is phi3, not one of gpt2, t5, bart, mbart, llama"),
    ],
)
def test_a_config_without_a_known_family_is_refused(models, config, match):
    (models / "little" / "config.json").write_text(config)
    assert_refused("little", match)


def test_each_name_has_a_description_a_size_and_a_place(models):
    rows = {name: row for name, *row in utils.names()}
    assert rows["little"] == ["a folder in models/", "", "here"]
    assert rows["124M"][1:] == ["0.5 GB", "to download"]
    assert all(what and size for name, (what, size, _) in rows.items() if name != "little")
    write_folder(models / "124M")
    assert dict((row[0], row[3]) for row in utils.names())["124M"] == "here"


def test_the_table_of_names_has_the_right_sizes():
    rows = {name: row for name, *row in utils.names()}
    for name in ("stories", "stories-llama", "stories-draft", "en-de"):
        n_bytes = sum(path.stat().st_size for path in (ROOT / "models" / name).iterdir())
        what, size, where = rows[name]
        assert where == "here" and abs(n_bytes / 1e6 / float(size.removesuffix(" MB")) - 1) < 0.1
    assert {*utils.openai.SIZES} < rows.keys()


def test_git_ignores_downloaded_models():
    def ignored(path):
        return subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT).returncode

    if shutil.which("git") is None or ignored("models/x") == 128:
        pytest.skip("there is no git or no repository: .gitignore is untested")
    assert [ignored(f"models/{path}") for path in ("124M/config.json", ".fetched-x/made")] == [0, 0]
    ours = "stories/x", "stories-draft/x", "stories-llama/x", "en-de/x", "README.md"
    assert [ignored(f"models/{path}") for path in ours] == [1] * 5


LOAD = """
import sys

OTHERS = "tokenizers huggingface_hub requests tqdm jinja2 threadpoolctl tensorflow torch"
for name in [*OTHERS.split(), "sentencepiece"]:
    sys.modules[name] = None
import utils

print(*utils.load(sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["stories", "stories-draft", "stories-llama"])
def test_the_models_of_the_repository_need_numpy_regex_and_safetensors_only(name):
    environment = os.environ | {"HF_HUB_CACHE": "nowhere"}
    command = [sys.executable, "-c", LOAD, name]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
