"""The data of a page are the numbers of the running code."""

import json
import re

import numpy as np
import pytest

import utils
from encoder import Added, Tokenizer
from gpt2 import softmax
from inside import page
from inside.recorder import recording
from loading.gpt2 import random_gpt2
from score import log_probabilities
from tests.pages import METHODS, by_method, data_of, recorded, unpacked
from tests.test_llama import load as load_llama


@pytest.fixture(scope="module")
def stories():
    return utils.load("stories")


@pytest.fixture(scope="module", params=METHODS)
def data(request):
    return by_method(request.param)


def test_the_page_is_one_file_that_asks_for_nothing(data):
    html = page.html(data)
    assert data_of(html) == json.loads(json.dumps(data))
    outside = html.replace("http://www.w3.org/2000/svg", "")  # a name, which is not fetched
    assert not re.search(r"https?:|//\w+\.|\bsrc=|\bhref=|@import|url\(", outside)
    assert "default-src 'none'" in html
    assert "<!-- " not in html  # every part is in its place


def test_the_surprise_is_that_of_score(stories):
    data = recorded(*stories, "The cat sat", 8)
    expected = log_probabilities(stories[1], data["ids"])
    np.testing.assert_allclose(data["logprobs"], expected, rtol=1e-4, atol=1e-5)


def test_the_pieces_are_the_text(data):
    tokenizer, _ = utils.load("en-de" if data["source"] else "stories")
    assert "".join(data["pieces"]) == tokenizer.decode(data["ids"])
    assert {*data["ids"], *data["source"]} <= data["labels"].keys()


def test_the_stored_logits_give_every_temperature_its_sum(stories):
    tokenizer, model = stories
    data = recorded(tokenizer, model, "The cat sat", 8, temperature=0.83)
    n, n_best = len(data["ids"]) - 1, data["n_best"]
    temperatures = data["temperatures"]
    assert 0.83 in temperatures and 2.0 in temperatures
    ids = unpacked(data["best"], "<u4", n, n_best)
    logits = unpacked(data["logits"], "<f4", n, n_best)
    rest = unpacked(data["rest"], "<f4", n, len(temperatures))
    for row, expected in enumerate(model(data["ids"][:-1])):
        np.testing.assert_allclose(logits[row], expected[ids[row]], atol=1e-4)
        for column, t in enumerate(temperatures):
            scaled = (expected.astype(float) - expected.max()) / t
            listed = np.exp(scaled[ids[row]]).sum()
            total = listed + np.exp(float(rest[row, column]))
            assert total == pytest.approx(np.exp(scaled).sum(), rel=1e-4)
        assert data["ids"][row + 1] in ids[row]


def test_a_token_below_the_best_is_stored_too():
    logits = np.arange(600, 0, -1, dtype=np.float32)[None]
    best, _ = page.candidates(logits, [500], [1.0], 1)
    assert best[0].tolist() == [*range(255), 500]
    best, _ = page.candidates(logits, [3], [1.0], 300)  # top-k needs so many
    assert best[0].tolist() == [*range(300)]


def test_other_filters_than_the_sliders_are_in_the_logits(stories):
    tokenizer, model = stories
    plain = recorded(tokenizer, model, "The cat", 6)
    free = recorded(tokenizer, model, "The cat", 6, top_k=5, temperature=1.5)
    penalised = recorded(tokenizer, model, "The cat", 6, repetition_penalty=2.0)
    assert plain["n_best"] == free["n_best"] == penalised["n_best"]
    n, n_best = len(plain["ids"]) - 1, plain["n_best"]
    new = plain["n_prompt"] - 1  # the first that predicts a new token

    def logits(data):
        return unpacked(data["logits"], "<f4", n, n_best)

    np.testing.assert_allclose(logits(free)[: new + 1], logits(plain)[: new + 1], atol=1e-5)
    assert not np.allclose(logits(penalised)[new], logits(plain)[new])
    np.testing.assert_allclose(logits(penalised)[:new], logits(plain)[:new], atol=1e-5)


def test_attention_weights_are_those_of_the_model(stories):
    tokenizer, model = stories
    data = recorded(tokenizer, model, "The cat sat", 5)
    with recording(model, keep=["softmax"]) as calls:
        model(data["ids"][:-1])
    expected = np.stack([c.value for c in calls[0].walk() if c.name == "softmax"])
    n, attention = len(data["ids"]) - 1, data["attention"]
    shape = attention["n_layer"], attention["n_head"]
    assert shape == expected.shape[:2] == (5, 7)
    rows, keys = np.tril_indices(n)
    found = (unpacked(attention["own"], "u1", *shape, n * (n + 1) // 2) / 255.0) ** 2
    np.testing.assert_allclose(found, expected[:, :, rows, keys], atol=0.005)


def test_a_long_text_has_the_weights_of_all_its_parts(stories):
    """Attention to more than 128 tokens runs in parts."""
    tokenizer, model = stories
    data = recorded(tokenizer, model, "The cat sat. " * 40, 3)
    n = len(data["ids"]) - 1
    assert n > 140
    found = unpacked(data["attention"]["own"], "u1", 5, 7, n * (n + 1) // 2) / 255.0
    for row in (0, 127, 128, n - 1):
        start = row * (row + 1) // 2
        sums = (found[:, :, start : start + row + 1] ** 2).sum(-1)
        np.testing.assert_allclose(sums, 1, atol=0.1)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "olmo2"])
def test_a_page_about_a_llama(name):
    model = load_llama(name)
    data = recorded(Words(), model, "", 6)
    n, attention = len(data["ids"]) - 1, data["attention"]
    shape = attention["n_layer"], attention["n_head"]
    assert shape == (len(model.params["blocks"]), model.n_head)
    found = (unpacked(attention["own"], "u1", *shape, n * (n + 1) // 2) / 255.0) ** 2
    np.testing.assert_allclose(found[:, :, -n:].sum(-1), 1, atol=0.05)
    last = [p for _, p in data["layers"][-1]]
    np.testing.assert_allclose(last, np.exp(data["logprobs"]), atol=1e-3)


def test_attention_to_a_source_is_stored_too():
    data = by_method("en-de")
    n, n_source = len(data["ids"]) - 1, len(data["source"])
    cross = (unpacked(data["attention"]["cross"], "u1", 3, 6, n, n_source) / 255.0) ** 2
    np.testing.assert_allclose(cross.sum(-1), 1, atol=0.05)


def test_a_long_text_has_no_weights(stories, monkeypatch):
    monkeypatch.setattr(page, "MOST_WEIGHTS", 100)
    assert recorded(*stories, "The cat sat", 5)["attention"] == {"n_layer": 5, "n_head": 7}


def test_the_last_layer_read_early_is_the_model(stories):
    tokenizer, model = stories
    data = recorded(tokenizer, model, "The cat sat", 5)
    assert len(data["layers"]) == 5
    probs = softmax(model(data["ids"][:-1]))
    for (tokens, p), row, came in zip(data["layers"][-1], probs, data["ids"][1:]):
        assert [token for token, _ in tokens] == np.argsort(-row)[:3].tolist()
        assert p == pytest.approx(row[came], abs=1e-4)
    assert data["layers"][0] != data["layers"][-1]
    assert len(model.params["blocks"]) == 5  # the model is as it was


def test_the_passes_of_a_run():
    run = by_method("cached")["run"]
    assert [np.shape(call["ids"]) for call in run] == [(1, 3)] + [(1, 1)] * 15
    assert [call["length"] for call in run] == [*range(3, 19)]
    naive = by_method("naive")["run"]
    assert [np.shape(call["ids"]) for call in naive] == [(1, n) for n in range(3, 19)]
    beams = by_method("beam")["run"]
    assert np.shape(beams[-1]["ids"]) == (3, 1)
    drafted = by_method("speculative")["run"]
    assert len(drafted) < 16 and max(len(call["ids"][0]) for call in drafted) > 2


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_three_counted_passes_give_the_multiply_adds_of_all(method):
    """As cache.js computes them: c + a n + b n^2."""
    data = by_method(method)
    one, two, three = data["multiply_adds"]
    b = (three - 2 * two + one) // 2
    a = two - one - 3 * b
    c = one - a - b
    for call in data["run"]:
        n_new, n_all = len(call["ids"][0]), call["length"]
        assert call["multiply_adds"] == c + a * n_new + b * n_new * n_all


def test_markup_in_a_text_is_text():
    text = "</script><script>alert(1)</script><!-- style -->"
    data = by_method("cached") | {"pieces": [text]}
    html = page.html(data)
    assert html.count("<script") == 2
    assert data_of(html)["pieces"] == [text]


def test_labels_of_parts_of_characters_and_of_special_tokens(stories):
    tokenizer, model = stories
    data = recorded(tokenizer, model, "Zoë 🙂", 3)
    shown = [data["labels"][id] for id in data["ids"]]
    assert any(re.search("<[0-9A-F]{2}>", label) for label in shown)
    assert data["pieces"].count("") >= 3  # the first bytes of the face
    assert page.label(tokenizer, tokenizer.encode(" cat")[0]) == " cat"
    tokenizer, model = utils.load("en-de")
    data = recorded(tokenizer, model, "The cat.", 5)
    assert data["labels"][data["source"][-1]] == "</s>"
    assert data["source_pieces"][-1] == ""


def test_the_label_of_a_mark_that_is_not_special():
    """A file may say so of <pad>, which has no text."""
    tokenizer = Tokenizer({"a": 0}, [], [Added("<pad>", 1, special=False)])
    assert page.label(tokenizer, 1) == "<pad>"


class Words:
    """A vocabulary of 50,257 words as long as GPT-2's."""

    n_vocab, special = 50257, {}

    def encode(self, text):
        return [1, 2, 3]

    def token_bytes(self, id):
        return f" w{id}".encode()

    def stream(self):
        return self

    def feed(self, id):
        return f" w{id}"


def test_a_hundred_tokens_of_gpt2s_shape_stay_under_2_mb():
    model = random_gpt2(50257, 128, 48, 12, 12, scale=0.5)
    html = page.html(recorded(Words(), model, "", 97, temperature=1.0))
    data = data_of(html)
    assert len(data["ids"]) == 100 and "own" in data["attention"]
    assert 1_000_000 < len(html.encode()) < 2_000_000


def test_show_is_a_frame_of_the_page(stories):
    pytest.importorskip("IPython")
    shown = page.show(*stories, "Once upon", n=3, temperature=0.5)
    assert shown.data.startswith('<div><iframe srcdoc="&lt;!doctype html')
    assert "<script" not in shown.data  # escaped, as a value


def test_the_run_may_be_greedy(stories):
    data = recorded(*stories, "Once upon", 3, temperature=0)
    assert data["settings"]["temperature"] == 0
    assert 0 not in data["temperatures"]
