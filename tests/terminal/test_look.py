"""Tests of the option --html of the command line."""

import pytest

from terminal.options import METHODS
from tests.support.commands import HOUSE, words_for
from tests.support.pages import data_of


@pytest.mark.parametrize("method", METHODS)
def test_the_page_shows_the_printed_text(console, draft, tmp_path, method):
    file = tmp_path / "page.html"
    [row] = console.json("the cat", "-n", 9, *words_for(method, draft), "--html", file)
    data = data_of(file.read_text(encoding="utf-8"))
    assert data["ids"] == row["prompt_ids"] + row["ids"]
    assert data["settings"]["method"] == method
    assert data["settings"]["temperature"] == (1 if method == "beam" else 0)
    assert bool(data["beams"]) == (method == "beam")
    out = console.text("the cat", "-n", 9, *words_for(method, draft), "--html", file)
    assert out == "the cat" + row["text"] + "\n"


def test_the_sliders_start_with_the_sampling_options(console, tmp_path):
    file = tmp_path / "page.html"
    words = "--temperature", 0.7, "--top-k", 9, "--min-p", 0.01, "--seed", 5, "--html", file
    console.text("the cat", "-n", 5, *words)
    settings = data_of(file.read_text(encoding="utf-8"))["settings"]
    sliders = {"temperature": 0.7, "top_k": 9, "top_p": 1.0, "min_p": 0.01, "seed": 5}
    assert settings == settings | sliders


def test_a_page_for_an_encoder_decoder_has_its_source(console, tmp_path):
    file = tmp_path / "page.html"
    console.text("The weather is nice.", "--html", file, model="models/en-de")
    data = data_of(file.read_text(encoding="utf-8"))
    assert data["source"] and data["settings"]["method"] == "beam"
    assert data["source_pieces"]


@pytest.mark.parametrize("words", [["a", "b"], [], ["a", "--score"]])
def test_a_page_needs_exactly_one_text(console, tmp_path, words, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    console.refused(2, *words, "--html", tmp_path / "page.html")


def test_a_page_overwrites_only_html_files(console, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    assert "ends in .html" in console.refused(1, "a", "--html", tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_page_goes_to_the_file_behind_a_link_but_not_to_a_folder(console, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "page.html.unfinished").symlink_to(tmp_path / "mine")  # not a name that is used
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    console("a", "-n", 1, "--html", tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "page.html").is_file()
    assert (tmp_path / "page.html").stat().st_mode == (tmp_path / "mine").stat().st_mode
    assert (tmp_path / "page.html.unfinished").read_text() == "mine"
    (tmp_path / "d.html").mkdir()
    assert "is a folder" in console.refused(1, "a", "--html", tmp_path / "d.html")


def test_a_file_that_cannot_be_written_gives_one_line(console, tmp_path):
    assert "No such file or directory" in console.refused(1, "a", "--html", tmp_path / "no/x.html")
    (tmp_path / "own.py").write_text("def silent(model, sequence):\n    return iter(())\n")
    words = "a", "--loop", f"{tmp_path}/own.py:silent", "--html", tmp_path / "x.html"
    assert "one token is not enough" in console(*words)[2] and not [*tmp_path.glob("*html*")]


FAILS = """
def f(logits, ids):
    if len(ids) > 3:
        raise ERROR
    return logits
"""


@pytest.mark.parametrize("before", [None, "an older page"])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "ValueError"])
def test_an_error_or_an_interrupt_leaves_no_incomplete_page(console, tmp_path, before, error):
    file = tmp_path / "page.html"
    (tmp_path / "own.py").write_text(FAILS.replace("ERROR", error))
    if before:
        file.write_text(before)
    status, *_ = console("a", "-n", 9, "--html", file, "--filter", f"{tmp_path}/own.py:f")
    assert status == (130 if error == "KeyboardInterrupt" else 1)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"own.py"} | ({"page.html"} if before else set())
    assert not before or file.read_text() == before


@pytest.mark.parametrize("view", [["--html", "page.html"]])
def test_a_user_s_model_may_have_nothing_to_record(console, view):
    model = f"{HOUSE}/examples/shortest.py:bigram('The cat saw the dog.')"
    assert "has none" in console.refused(1, "The", *view, model=model)
