"""A page contains the numbers that the code computes."""

import copy
import json
import re

import numpy as np
import pytest

import page
import utils
from decoding.score import log_probabilities
from generate import Sequence, begin
from gpt2 import softmax
from loading.tokenizer import read_tokenizer
from page.candidates import candidates, filter_names
from page.recorder import recording
from page.run import Die
from samplers import draw, greedy, make_sampler
from tests.support.pages import RUNS, array, banning, data_of, drafted, recorded, run
from tests.support.tiny import FIXTURES, tiny_gpt2


@pytest.fixture(scope="module", params=RUNS)
def data(request):
    return run(request.param)


@pytest.fixture(scope="module")
def cat(stories):
    return recorded(*stories, "The cat sat", 8, temperature=0.83)


def test_the_page_is_one_file_that_requests_nothing(data):
    html = page.html(data)
    assert data_of(html) == json.loads(json.dumps(data))
    outside = html.replace("http://www.w3.org/2000/svg", "")  # this only names the SVG format
    assert not re.search(r"https?:|//\w+\.|\bsrc=|\bhref=|@import|url\(", outside)
    assert "default-src 'none'" in html
    assert "<!-- " not in html  # every placeholder has been replaced
    with pytest.raises(ValueError, match="JSON"):
        page.html({"n": np.nan, "pieces": []})


def test_the_surprise_equals_score_s(cat, stories):
    expected = log_probabilities(stories[1], cat["ids"])
    np.testing.assert_allclose(cat["logprobs"], expected, rtol=1e-4, atol=1e-5)


def test_the_pieces_are_the_text(data):
    tokenizer, _ = utils.load("en-de" if data["source"] else "stories")
    assert "".join(data["pieces"]) == tokenizer.decode(data["ids"])
    assert {*data["ids"], *data["source"]} <= data["labels"].keys()


def test_a_last_character_of_single_bytes_is_shown(tmp_path):
    file = json.loads((FIXTURES / "tokenizers" / "llama2.json").read_text("utf-8"))["tokenizer"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    tokenizer = read_tokenizer(tmp_path, "llama")
    found = recorded(tokenizer, tiny_gpt2(tokenizer.n_vocab), "the", 8)
    assert tokenizer.tokens[found["ids"][-1]].startswith("<0x")
    assert "".join(found["pieces"]) == tokenizer.decode(found["ids"])


def stored(data, name):
    return array(data, name, len(data["ids"]) - 1, -1)


def test_the_stored_logits_give_the_sum_at_every_temperature(cat, stories):
    assert 0.83 in cat["temperatures"] and 2.0 in cat["temperatures"]
    ids, logits, rest = (stored(cat, name) for name in ("best", "logits", "rest"))
    for row, expected in enumerate(stories[1](cat["ids"][:-1])):
        np.testing.assert_allclose(logits[row], expected[ids[row]], atol=1e-4)
        for column, t in enumerate(cat["temperatures"]):
            scaled = (expected.astype(float) - expected.max()) / t
            total = np.exp(scaled[ids[row]]).sum() + np.exp(float(rest[row, column]))
            assert total == pytest.approx(np.exp(scaled).sum(), rel=1e-4)
        assert cat["ids"][row + 1] in ids[row]


def of_one_row(logits, came, n, sampler=greedy, n_prompt=5):
    """Return the candidates for one row of logits [n_vocab]. `came` is the token that comes
    next in the text."""
    sequence = Sequence(tiny_gpt2(len(logits), 8, 4, 1), [0, came], 0, sampler)
    sequence.n_prompt = n_prompt
    return candidates(logits[None], sequence, [1.0], n)


def test_the_text_s_token_is_stored_even_if_it_is_not_among_the_best():
    logits = np.arange(600, 0, -1, dtype=np.float32)
    best = of_one_row(logits, 500, 256)["best"][0].tolist()
    assert best == [*range(255), 500]
    assert of_one_row(logits, 3, 300)["best"][0].tolist() == [*range(300)]
    assert sorted(of_one_row(logits, 3, 999)["best"][0]) == [*range(600)]  # only 600 tokens exist


def test_the_filters_changes_are_recorded_apart_from_the_logits():
    """One filter runs before the sliders' filters and removes token 0, the best. Another runs after
    them and removes token 2. Both write into the logits that they are given."""
    logits = np.array([5, 4, 3, 2, 1], np.float32)
    sampler = make_sampler([banning(0)], [banning(2)], temperature=0.5, top_k=3)
    found = {name: column[0] for name, column in of_one_row(logits, 1, 5, sampler, 1).items()}
    order = np.argsort(found["best"])
    assert found["logits"][order].tolist() == [5, 4, 3, 2, 1]
    assert found["first"][order].tolist() == [-np.inf, 0, 0, 0, 0]
    assert found["last"][order].tolist() == [0, 0, -np.inf, 0, 0]
    assert found["by"][order].tolist() == [1, 0, 4, 0, 0]
    assert filter_names(sampler) == ["banning", "temperature", "top_k", "banning"]
    in_prompt = of_one_row(logits, 1, 5, sampler, 5)  # no filter acts on the prompt
    assert not in_prompt["first"].any() and not in_prompt["by"].any()


def test_the_last_filters_leave_the_tokens_that_the_sliders_removed():
    """The reader may move the top-k slider back to 0. So the tokens that top-k removed must not
    count as removed by the last filters."""
    logits, odd = np.arange(0.6, 0, -0.001, dtype=np.float32), banning(*range(0, 600, 2))
    cold, cut = make_sampler(last=[odd], temperature=0.9), make_sampler(last=[odd], top_k=3)
    assert of_one_row(logits, 1, 64, cold, 1)["left"] == pytest.approx([0.5], abs=0.01)
    assert of_one_row(logits, 1, 64, cut, 1)["left"] == [1]


def test_beam_search_filters_log_probabilities():
    """Beam search applies filters to log-probabilities. The page of a beam search does the same, so
    that a penalty has the same effect."""
    data = run("beam")
    assert stored(data, "logits").max() <= 0 < stored(run("cached"), "logits").max()


def test_a_throw_falls_into_the_token_s_share_which_is_the_sampler_s_probability(stories):
    settings = {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.3}
    data = recorded(*stories, "The cat sat", 12, seed=7, **settings)
    sampler, rng = make_sampler(**settings), np.random.default_rng(7)
    for i, (how, u, low, high) in enumerate(data["draws"], data["n_prompt"]):
        assert how == "drawn" and u == rng.random()
        assert low - 1e-6 <= u <= high + 1e-6
        p = sampler(stories[1](data["ids"][:i])[-1], data["ids"][:i])
        assert high - low == pytest.approx(p[data["ids"][i]], abs=1e-4)
    copied = copy.deepcopy(Die(np.random.PCG64()))  # a loop may copy its generator
    assert isinstance(copied, np.random.Generator)


def test_a_token_without_a_throw_says_how_it_was_chosen(stories):
    for name, how in (("beam", "beams"), ("en-de", "beams"), ("greedy", "best")):
        assert {draw[0] for draw in run(name)["draws"]} == {how}

    def own(model, sequence):  # draws token 6, but appends token 5
        while sequence.running:
            sequence.rng.random(3)
            draw(np.eye(model.n_vocab, dtype=np.float32)[6], sequence.rng)
            yield sequence.append(np.int64(5))

    data = recorded(*stories, "Once", 4, own, temperature=0.8)
    assert data["draws"] == [["unknown"]] * 4
    assert json.loads(json.dumps(data))["ids"][1:] == [5] * 4


@pytest.mark.parametrize("n_taken", range(1, 8))
def test_a_text_may_end_among_accepted_drafts(stories, n_taken):
    """As with --stop. A draft behind the end was not rejected."""

    def until(model, sequence):
        for token in drafted(model, sequence):
            yield token
            if len(sequence.new_ids) == n_taken:
                sequence.finish("stop")

    data = recorded(*stories, "Once upon a time", 20, until, temperature=0.9)
    for one in data["passes"]:
        tested = [bet for bet in one["bets"] if bet[3] is not None]
        assert len(tested) == one["accepted"] + bool(one["residual"])
        for _, q, p, u in tested[: one["accepted"]]:
            assert u * q < p


def test_the_passes_of_a_run_are_recorded():
    passes = run("cached")["passes"]
    assert [one["new"] for one in passes] == [3] + [1] * 15
    assert [one["begin"] for one in passes] == [0, *range(3, 18)]
    assert [one["known"] for one in passes] == [*range(3, 19)]
    naive = run("naive")["passes"]
    assert [(one["begin"], one["new"]) for one in naive] == [(0, n) for n in range(3, 19)]
    assert all(one["seconds"] > 0 for one in naive)
    assert run("beam")["passes"][-1]["rows"] == 3
    assert run("cached")["kv_bytes"] == 2 * 5 * 224 * 4  # of a token: k|v, n_layer, n_embd, float32


def test_the_bets_of_speculation_follow_its_rule():
    data = run("drafts")
    assert len(data["passes"]) < 40
    for one in data["passes"]:
        tested = [bet for bet in one["bets"] if bet[3] is not None]
        won = [u * q < p for _, q, p, u in tested]
        assert won == [True] * one["accepted"] + [False] * (len(tested) - one["accepted"])
        text = data["ids"][one["known"] :]
        assert [bet[0] for bet in one["bets"][: one["accepted"]]] == text[: one["accepted"]]
        if one["residual"]:
            assert len(tested) == one["accepted"] + 1
            rows = np.array(one["residual"])  # columns: token, p, q, norm(max(0, p - q))
            excess, left = np.maximum(rows[:, 1] - rows[:, 2], 0), rows[:, 3]
            np.testing.assert_allclose(left / left.max(), excess / excess.max(), atol=1e-6)
            assert 0 < left.sum() <= 1.00001
            assert left[rows[:, 0] == tested[-1][0]] == 0  # p < q for the rejected draft
    for _, u, low, high in (found for found in data["draws"] if len(found) > 1):
        assert low - 1e-6 <= u <= high + 1e-6
    hows = {draw[0] for draw in data["draws"]}
    assert {"accepted", "residual"} <= hows <= {"accepted", "residual", "drawn"}
    assert 0 < data["drafting"] < data["work"]  # numbers of multiply-adds


def test_a_greedy_bet_throws_no_die(stories):
    data = recorded(*stories, "Once upon a", 12, drafted, temperature=0)
    assert {draw[0] for draw in data["draws"]} <= {"accepted", "best"}
    assert data["settings"]["temperature"] == 0 not in data["temperatures"]


def test_attention_weights_equal_the_model_s(cat, stories):
    with recording(stories[1], keep=["softmax"]) as calls:
        stories[1](np.array(cat["ids"][:-1]))
    expected = np.stack([call.value for call in calls[0].named("softmax")])
    n, shape = len(cat["ids"]) - 1, (cat["n_layer"], cat["n_head"])
    assert shape == expected.shape[:2] == (5, 7)
    found = (array(cat, "own", *shape, n, n) / page.LEVELS) ** 2
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize("name", ["stories-llama", "en-de", "seq2seq/bart"])
def test_attention_weights_sum_to_1_in_every_family(name):
    model, start = begin(utils.load(FIXTURES / name if "/" in name else name)[1], [5, 6, 7, 8])
    ids = np.array([*start, 3, 4, 5])
    with recording(model, {"softmax": page.rounded}) as calls:
        model(ids)
    weights = page.attention_weights(calls[-1], len(ids), hasattr(model, "source"))
    assert ("cross" in weights) == hasattr(model, "source")
    for kind in weights.keys() - {"skipped"}:
        sums = ((weights[kind] / page.LEVELS) ** 2).sum(-1)
        np.testing.assert_allclose(sums, 1, atol=0.05)


def test_a_long_text_stores_only_its_last_rows(stories, monkeypatch):
    monkeypatch.setattr(page, "MOST_WEIGHTS", 35 * 9 * 4)
    data = recorded(*stories, "The cat sat", 6)
    n = len(data["ids"]) - 1
    skipped = int(array(data, "skipped", -1)[0])
    assert skipped == n - 35 * 9 * 4 // (35 * n) > 0
    assert array(data, "own", -1).size == 35 * (n - skipped) * n


def test_the_lens_after_the_last_layer_shows_the_model_s_tokens(cat, stories):
    probs = softmax(stories[1](cat["ids"][:-1]))
    assert len(cat["layers"]) == 5 and cat["layers"][0] != cat["layers"][-1]
    for (tokens, p), row, came in zip(cat["layers"][-1], probs, cat["ids"][1:]):
        assert [token for token, _ in tokens] == np.argsort(-row)[:3].tolist()
        assert p == pytest.approx(row[came], abs=1e-4)


def test_no_path_of_a_folder_is_in_a_page(stories):
    data = recorded(*stories, "Once", 2, named={"model": "/tmp/secret/mine", "prompt": "x"})
    assert data["settings"]["model"] == "mine" and "prompt" not in data["settings"]
    assert "secret" not in page.html(data)
    for given, shown in {
        "/home/me/plug.py:mine()": "plug.py:mine()",
        "C:\\me\\plug.py:mine('a/b')": "plug.py:mine('a/b')",
        "openai-community/gpt2": "openai-community/gpt2",
    }.items():
        assert page.without_folder(given) == shown


def test_incomplete_characters_and_special_tokens_have_labels(stories):
    tokenizer, model = stories
    data = recorded(tokenizer, model, "Zoë 🙂", 3)
    labels = [data["labels"][id] for id in data["ids"]]
    assert any(re.search("<[0-9A-F]{2}>", label) for label in labels)
    assert data["pieces"].count("") >= 3  # for the emoji's first three bytes
    assert page.label(tokenizer, tokenizer.encode(" cat")[0]) == " cat"
    data = run("en-de")
    assert data["labels"][data["source"][-1]] == "</s>" and data["source_pieces"][-1] == ""
