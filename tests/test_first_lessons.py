"""What lessons 1 to 4 promise: one new key per layer and step, a film that is also a still, stops
that are those of the README, and a greeting for an exercise that nobody has touched."""

import base64
import copy
import importlib
import io
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

import utils
from generate import Sequence, cached, naive
from inside.recorder import passes, recording

FOLDER = Path(__file__).parent.parent / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402

LESSONS = "01_forward_pass", "02_tokens", "03_factorization", "04_loop_and_cache"
TOKENIZER, MODEL = utils.load("stories")
PROMPT = TOKENIZER.encode("Once upon a time")


def cells(lesson, *ids):
    """The names that these cells of a notebook define, after the cell of its imports."""
    notebook = nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    names: dict = {}
    for id in ("imports", *ids):
        exec(source[id], names)
    return names


def solution(lesson, names):
    text = (FOLDER / "solutions" / f"{lesson}.py").read_text(encoding="utf-8")
    exec(text, names)
    return text


def check(capsys, lesson, number, *answers):
    lessons.check(lesson, number, *answers)
    return capsys.readouterr().out


# --- lesson 4 -------------------------------------------------------------------------------------


def new_rows(calls):
    """For each pass: of how many tokens each layer has computed keys."""
    return [[c.inputs["x"][-2] for c in one.walk() if c.name == "self_attention"]
            for one in passes(calls, MODEL)]


def test_the_cached_loop_stores_one_new_key_per_layer_and_step():
    n_layer = len(MODEL.params["blocks"])
    for loop, expected in ((cached, [len(PROMPT), 1, 1, 1]), (naive, [4, 5, 6, 7])):
        with recording(MODEL) as calls:
            list(loop(MODEL, Sequence(MODEL, PROMPT, 4)))
        assert new_rows(calls) == [[n] * n_layer for n in expected]


def test_the_lessons_own_step_stores_one_key_per_layer_too():
    names = cells("04_loop_and_cache", "step")
    shape = MODEL.n_head, 0, MODEL.n_embd // MODEL.n_head
    keys, values = ([np.zeros(shape, np.float32)] * len(MODEL.params["blocks"]) for _ in range(2))
    for n, token in enumerate(PROMPT, 1):
        logits = names["step"](token, keys, values)
        assert [matrix.shape[1] for matrix in keys + values] == [n] * 2 * len(keys)
    np.testing.assert_allclose(logits, MODEL(np.array(PROMPT))[-1], atol=1e-4)
    cache = MODEL.new_cache()
    MODEL(np.array(PROMPT), cache)
    expected = cache.kv[..., : cache.length, :]
    np.testing.assert_allclose(np.stack([keys, values]), expected, atol=1e-5)


def test_the_film_moves_and_is_a_still_where_nothing_moves():
    notebook = nbformat.read(FOLDER / "04_loop_and_cache.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if cell.id == "animation"]
    film = Image.open(io.BytesIO(base64.b64decode(cell.outputs[0].data["image/png"])))
    assert film.is_animated and film.n_frames >= 8
    first = np.asarray(film.convert("RGB"))
    film.seek(film.n_frames - 1)
    assert np.array_equal(first, np.asarray(film.convert("RGB")))  # the still is the last pass
    film.seek(1)
    assert not np.array_equal(first, np.asarray(film.convert("RGB")))


def test_a_text_of_the_readers_own_is_drawn_for_other_models_too(monkeypatch):
    _, llama = utils.load("stories-llama")
    llama = copy.copy(llama)
    llama.params = {**llama.params, "blocks": llama.params["blocks"] * 4}  # as deep as a large one
    llama.frequencies, llama.windows = llama.frequencies * 4, llama.windows * 4
    shown = []
    monkeypatch.setattr(lessons, "display", shown.append)
    for name in LESSONS:
        drawing = importlib.import_module(f"drawing.lesson_{name}")
        drawing.your_text(TOKENIZER, llama, "A dragon\nsang for 12 Zoës 🍓.")
    assert len(shown) == len(LESSONS) and not lessons.plt.get_fignums()
    heights = [int.from_bytes(picture.data[20:24], "big") for picture in shown]
    assert max(heights) < 1500  # 20 layers, and it still fits a page


# --- lessons 1 to 3 -------------------------------------------------------------------------------


def test_the_debugger_stops_where_the_readme_says_and_shows_what_it_says():
    row = r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \| `(.+?)` \|"
    stops = re.findall(row, (FOLDER.parent / "README.md").read_text(encoding="utf-8"), re.M)
    notebook = nbformat.read(FOLDER / "01_forward_pass.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if cell.id == "stops"]
    for place, look, first, second in stops:
        said = f"b {place}, {look}\n    first pass:  {first}\n    second pass: {second}\n"
        assert said in cell.outputs[0].text
    assert stops


@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_untouched_exercise_is_greeted_with_what_to_write(capsys, lesson, number):
    nothing = [lambda *given, **named: None] * (2 if (lesson[:2], number) in PAIRS else 1)
    assert check(capsys, lesson, number, *nothing).startswith("not solved yet: write ")


PAIRS = {("01", 3), ("03", 3), ("04", 2)}  # exercises of two functions


def test_the_lessons_own_training_and_encoder_agree_with_encoder_py():
    names = cells("02_tokens", "words-letters", "by-hand", "train", "encode")
    merges = names["train"]("hug hug hugs pug pun", 3)
    assert merges == [("u", "g"), ("h", "ug"), ("Ġ", "hug")]
    assert names["merge"](("a", "a", "a", "b"), ("a", "a")) == ("aa", "a", "b")
    symbols = names["encode_word"](" crocodile", names["ranks"])
    ids = [TOKENIZER.vocab[symbol] for symbol in symbols]
    assert ids == TOKENIZER.encode(" crocodile")
