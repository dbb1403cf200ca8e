"""What lessons 1 to 4 promise: one new key per layer and step, a film that is also a still, and
checks of exercises that fail an answer that misses the point."""

import base64
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
from gpt2 import log_softmax
from inside.recorder import passes, recording
from families.llama import Llama, rotary_frequencies
from tests.shapes import llama_shapes, tree_map

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
    """For each pass: how many keys each layer's `append` has got."""
    return [[c.inputs["k"][-2] for c in one.walk() if c.name == "append"]
            for one in passes(calls, MODEL)]  # fmt: skip


def test_the_cached_loop_stores_one_new_key_per_layer_and_step():
    n_layer = len(MODEL.params["blocks"])
    for loop, expected in ((cached, [len(PROMPT), 1, 1, 1]), (naive, [4, 5, 6, 7])):
        with recording(MODEL) as calls:
            list(loop(MODEL, [Sequence(MODEL, PROMPT, 4)]))
        assert new_rows(calls) == [[n] * n_layer for n in expected]


def test_the_lessons_own_step_stores_one_key_per_layer_too():
    names = cells("04_loop_and_cache", "step")
    shape = MODEL.n_head, 0, MODEL.n_embd // MODEL.n_head
    keys, values = ([np.zeros(shape, np.float32)] * len(MODEL.params["blocks"]) for _ in range(2))
    for n, token in enumerate(PROMPT, 1):
        logits = names["step"](token, keys, values)
        assert [matrix.shape[1] for matrix in keys + values] == [n] * 2 * len(keys)
    np.testing.assert_allclose(logits, MODEL(PROMPT)[-1], atol=1e-4)
    cache = MODEL.new_cache()
    MODEL(PROMPT, cache)
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


def test_a_prefill_that_sees_later_tokens_or_forgets_earlier_ones_is_not_solved(capsys):
    names = cells("04_loop_and_cache", "step")
    text = solution("04_loop_and_cache", names)
    assert check(capsys, "04_loop_and_cache", 1, names["prefill"]) == "solved\n"
    for right, wrong, said in [
        ("causal_mask(positions, n_old + len(ids))", "None", "tokens that come after"),
        ("np.arange(n_old, n_old + len(ids))", "np.arange(len(ids))", "after tokens that are kept"),
    ]:
        broken = names | {}
        exec(text.replace(right, wrong), broken)
        assert said in check(capsys, "04_loop_and_cache", 1, broken["prefill"])


def test_endings_that_read_the_beginning_again_are_not_solved(capsys):
    def again(model, beginning, endings):
        rows = [log_softmax(model([*beginning, *e]))[len(beginning) - 1 : -1] for e in endings]
        return [row[range(len(e)), e].sum() for row, e in zip(rows, endings)]

    assert "are enough" in check(capsys, "04_loop_and_cache", 3, again)


def test_a_text_of_the_readers_own_is_drawn_for_other_models_too(monkeypatch):
    shapes = llama_shapes(TOKENIZER.n_vocab, 16, 20, 32, 4, 2, 4)
    rng = np.random.default_rng(0)
    params = tree_map(lambda name, shape: rng.normal(0, 0.1, shape).astype(np.float32), shapes)
    llama = Llama(params, 4, 64, [rotary_frequencies(4, 10000)] * 20)
    shown = []
    monkeypatch.setattr(lessons, "display", shown.append)
    for name in LESSONS:
        drawing = importlib.import_module(f"drawing.lesson_{name}")
        drawing.your_text(TOKENIZER, llama, "A dragon\nsang for 12 Zoës 🍓.")
    assert len(shown) == len(LESSONS) and not lessons.plt.get_fignums()
    heights = [int.from_bytes(picture.data[20:24], "big") for picture in shown]
    assert max(heights) < 1500  # 20 layers, and it still fits a page


# --- lessons 1 to 3 -------------------------------------------------------------------------------


def test_the_debugger_stops_at_the_breakpoints_of_the_readme_with_these_shapes():
    row = r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \| `(.+?)` \|"
    stops = re.findall(row, (FOLDER.parent / "README.md").read_text(encoding="utf-8"), re.M)
    notebook = nbformat.read(FOLDER / "01_forward_pass.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if cell.id == "stops"]
    expected = [f"b {place}, {look}\n    first pass:  {first}\n    second pass: {second}\n"
                for place, look, first, second in stops]  # fmt: skip
    assert len(stops) == 6 and cell.outputs[0].text == "".join(expected)


def test_a_share_of_the_whole_is_not_what_a_head_writes(capsys):
    def even(mixed, w, b):
        whole = mixed.swapaxes(0, 1).reshape(mixed.shape[1], -1) @ w.T
        return np.array([whole / len(mixed)] * len(mixed))

    assert "of others" in check(capsys, "01_forward_pass", 2, even)


def test_a_text_decoded_token_by_token_is_not_solved(capsys):
    def one_by_one(ids, spelled):
        return "".join(TOKENIZER.token_bytes(id).decode("utf-8", "replace") for id in ids)

    assert "join them first" in check(capsys, "02_tokens", 1, one_by_one)


def test_digits_that_keep_their_space_are_not_solved(capsys):
    import regex

    def spaced(text, first):
        return regex.findall(r" ?\d|'s| ?\p{L}+| ?[^\s\p{L}\d]+|\s+(?!\S)|\s+", text)

    assert "without its space" in check(capsys, "02_tokens", 2, spaced)


def test_nats_and_characters_are_not_bits_per_byte(capsys):
    lesson = "03_factorization"
    nats = check(capsys, lesson, 1, lambda p, n, text: n * np.log(p) / len(text.encode()))
    letters = check(capsys, lesson, 1, lambda p, n, text: n * np.log2(p) / len(text))
    assert "nats" in nats and "per character" in letters


def test_the_whole_texts_sharpening_is_not_that_of_tokens(capsys):
    def whole(joint, t):
        return joint ** (1 / t) / (joint ** (1 / t)).sum()

    assert "tokens: which sum" in check(capsys, "03_factorization", 3, whole, whole)


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
