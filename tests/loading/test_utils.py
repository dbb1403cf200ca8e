"""utils.py finds a model by its name, suggests names for mistyped ones, and lists all names."""

import re

import pytest

import utils
from tests.support.checkpoints import CONFIG, ROOT, assert_refused, write_folder


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Replace models/ with a folder that has one model, `little`; return this folder."""
    monkeypatch.setattr(utils, "MODELS", tmp_path / "models")
    write_folder(tmp_path / "models" / "little")
    return tmp_path / "models"


def test_a_name_or_a_path_finds_a_model(models, monkeypatch):
    for name in ("little", models / "little", str(models / "little")):
        assert utils.load(name)[1].n_vocab == 259
    monkeypatch.chdir(models.parent)
    assert utils.find("models/little").resolve() == (models / "little").resolve()
    write_folder(models.parent / "little", CONFIG | {"n_layer": 1})
    assert utils.find("little") == models / "little"  # models/ comes before the current folder


def test_an_unknown_name_is_refused_with_the_known_names(models, monkeypatch):
    assert_refused("big", "no model 'big': use .*stories, .*124M, .*little, or a folder")
    assert_refused("nul\0", "no model|embedded null")
    assert_refused(models / "little" / "config.json", "is a file: name its folder, .*little$")
    monkeypatch.chdir(models.parent)
    assert_refused("models/storys", "no model 'models/storys'")  # a path, not OWNER/NAME
    (models / "stories").mkdir()
    assert_refused("stories", "stories has no config.json")


def test_the_table_of_models_has_all_names():
    table = (ROOT / "models/README.md").read_text("utf-8")
    assert re.findall(r"^\| ([\w-]+) \|", table, re.M) == ["name", *utils.KNOWN]
