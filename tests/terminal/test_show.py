"""The command line prints each text or its JSON, adds statistics, and ends texts correctly."""

import io
import itertools
import re
import sys

import pytest

import utils
from terminal import cli, options
from terminal.options import METHODS
from terminal.row import until_stop
from terminal.session import Session
from tests.support.commands import END, JSON_KEYS, N_CTX, THE, words_for, write_letters

# --- text and JSON --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prompt", ["the cat", ""])
def test_every_method_gives_the_greedy_ids(console, draft, method, prompt):
    [result] = console.json(prompt, "-n", 30, *words_for(method, draft))
    assert JSON_KEYS <= result.keys()
    assert result["ids"] == console.greedy(prompt, 30)
    assert result["method"] == method
    assert (result["prompt"], result["stop_reason"], result["seed"]) == (prompt, "length", None)


def test_json_has_the_text_the_ids_and_the_times(console, letters):
    [result] = console.json("the cat", "-n", 5)
    tokenizer, _ = utils.load(str(letters))
    assert result["prompt_ids"] == tokenizer.encode("the cat") == [THE, 220, 66, 64, 83]
    assert result["text"] == tokenizer.decode(result["ids"])
    assert result["model"] == str(letters)
    assert 0 < result["seconds_to_first_token"] < 60
    assert result["tokens_per_second"] > 0
    assert (console.json("")[0]["prompt_ids"], console.json("a")[0]["method"]) == ([END], "cached")
    assert console.json("a", "-n", 1)[0]["tokens_per_second"] > 0


@pytest.mark.parametrize("prompt", ["the cat", "", "Zoë: “naïve” 🙂\n\x00 x", "a\udcff"])
def test_text_is_the_prompt_and_the_new_text(console, prompt):
    status, out, err = console(prompt, "-n", 8)
    [row] = console.json(prompt, "-n", 8)
    assert row["prompt"] == prompt.replace("\udcff", "\ufffd")  # our JSON has no lone surrogates
    assert (status, out) == (0, row["prompt"] + row["text"] + "\n")
    shape = r"\(8 tokens, \d+\.\d{3} s to the first, \d+ tokens/s; ended by the length asked for\)"
    assert re.fullmatch(shape + "\n", err)


def test_a_batch_has_numbers_and_one_line_about_its_speed(console):
    words = "the cat", "a", "-n", 4, "--temperature", 2, "--seed", 7
    rows = console.json(*words)
    status, out, err = console(*words)
    texts = [row["prompt"] + row["text"] for row in rows]
    assert out == f"[1/2]\n{texts[0]}\n[2/2]\n{texts[1]}\n"
    *each, total = err.splitlines()
    ends = "; ended by the length asked for)"
    assert each == [f"(4 tokens, seed 7{ends}", f"(4 tokens, seed 8{ends}"]
    assert re.fullmatch(r"\(2 texts, 8 tokens in \d+\.\d{3} s: \d+ tokens/s\)", total)
    assert "texts" not in console("a" * N_CTX, "a" * N_CTX)[2]  # no speed without new tokens


def test_a_drawn_text_shows_its_seed(console):
    status, out, err = console("the cat", "--temperature", 2, "-n", 9)
    [seed] = re.findall(r", seed (\d+);", err)
    assert console.text("the cat", "--temperature", 2, "-n", 9, "--seed", seed) == out
    assert "seed" not in console("the cat", "-n", 9)[2]


def test_a_row_knows_its_seconds_and_tokens_per_second(letters):
    row = Session(options.parse(["--model", str(letters)])).row("the cat")
    assert (row.seconds_to_first_token, row.tokens_per_second) == (None, None)
    row.started, row.times = 1.0, [3.0, 4.0, 4.5]
    assert row.seconds_to_first_token == 2
    assert row.tokens_per_second == pytest.approx(3 / 3.5)
    row.times = [3.0, 3.0, 3.0]  # one pass generated all three tokens
    assert row.tokens_per_second == pytest.approx(3 / 2)


def test_each_token_is_flushed_at_once(console, letters, monkeypatch):
    calls = []

    class Terminal(io.StringIO):
        def write(self, text):
            if text:
                calls.append(text)

        def flush(self):
            if calls[-1:] != ["flush"]:
                calls.append("flush")

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert cli.main(["the cat", "-n", "4", "--model", str(letters)]) == 0
    tokenizer, _ = utils.load(str(letters))
    pieces = [tokenizer.decode([token]) for token in console.greedy("the cat", 4)]
    written = [call for call in calls if call != "flush"]
    assert written == ["the cat", *pieces, "\n"]
    assert calls == ["the cat", *(call for text in written[1:] for call in (text, "flush"))]


def test_a_hint_names_gpt2_if_the_user_chooses_no_model(monkeypatch, letters, capsys):
    tokenizer_and_model, names = utils.load(str(letters)), []
    monkeypatch.setattr(utils, "load", lambda *name: names.append(name) or tokenizer_and_model)
    assert cli.main(["a"]) == 0
    assert names == [("stories",)]
    assert "--model gpt2 downloads GPT-2 itself" in capsys.readouterr().err
    for words in ["a", "-n", "2"], ["a", "--json"], ["a", "--model", "stories"]:
        assert cli.main(words) == 0
        assert "gpt2" not in capsys.readouterr().err


# --- the end of a text ----------------------------------------------------------------------------


def test_the_stop_id_ends_a_text_and_is_left_out(console, tmp_path):
    greedy = console.greedy("the cat", 30)
    stop = greedy[12]
    folder = write_letters(tmp_path / "m", generation_config={"eos_token_id": [END, stop]})
    expected = greedy[: greedy.index(stop)]
    for method in METHODS:
        if method != "speculative":
            [row] = console.json("the cat", "-n", 30, *words_for(method, None), model=folder)
            assert (row["ids"], row["stop_reason"]) == (expected, "eos"), method
            assert row["text"] == utils.load(folder)[0].decode(expected)
    assert "ended by end of text)" in console("the cat", model=folder)[2]
    [row] = console.json("the cat", "-n", 30, "--min-length", 20, model=folder)
    assert len(row["ids"]) >= 20 and stop not in row["ids"][:20]
    words = "--min-length", 20, "--stop", row["text"][5]
    assert len(console.json("the cat", *words, model=folder)[0]["ids"]) <= 6


@pytest.mark.parametrize("method", METHODS)
def test_a_text_ends_exactly_at_n_ctx(console, draft, method):
    for prompt, n_new in ("a" * N_CTX, 0), ("a" * (N_CTX - 1), 1), ("a" * (N_CTX - 9), 9):
        [row] = console.json(prompt, *words_for(method, draft))
        assert (len(row["ids"]), row["stop_reason"]) == (n_new, "context")
        assert row["ids"] == (console.greedy(prompt, n_new) if n_new else [])
    assert (row["seconds_to_first_token"] is None) == (n_new == 0)
    status, out, err = console("a" * N_CTX, *words_for(method, draft))
    assert (status, out) == (0, "a" * N_CTX + "\n")
    assert err.startswith("(0 tokens") and "context" in err and "48" in err


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(console):
    line = console.refused(1, "a" * (N_CTX + 1))
    assert {"49", "48"} <= set(re.findall(r"\d+", line))
    line = console.refused(1, "fits", "a" * (N_CTX + 1), "--json")  # no text is printed
    assert "aaaa" in line
    console.refused(1, "a" * (N_CTX + 1), "--explain")


def test_text_ends_before_the_earliest_stop(console):
    [free] = console.json("the cat", "-n", 30)
    text = free["text"]
    late, early = text[20:24], text[7:9]
    first = min(text.index(late), text.index(early))
    for stops in ([early, late], [late, early], ["no such", early]):
        words = [word for stop in stops for word in ("--stop", stop)]
        [row] = console.json("the cat", "-n", 30, *words)
        assert (row["text"], row["stop_reason"]) == (text[: text.index(early)], "stop")
        assert row["ids"] == free["ids"][: len(row["ids"])]
    assert first == text.index(early)
    [row] = console.json("-n", 30, "--stop", early, "the cat")  # --stop takes one word
    assert row["text"] == text[: text.index(early)]
    assert console("the cat", "-n", 1)[2].startswith("(1 token, ")
    status, out, err = console("the cat", "-n", 30, "--stop", text[0])
    assert (out, "ended by a stop text" in err) == ("the cat\n", True)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_a_stop_text_across_tokens(console, draft, method):
    text = console.json("the cat", "-n", 30)[0]["text"]
    stop = text[11:15]
    [row] = console.json("the cat", "-n", 30, *words_for(method, draft), "--stop", stop)
    assert (row["text"], row["stop_reason"]) == (text[: text.index(stop)], "stop")


LOOPS = """
from generate import cached
def returns(model, sequence):
    for token in cached(model, sequence):
        yield token
        if len(sequence.new_ids) == 9:
            return
def half(model, sequence):
    yield sequence.append(127)
def stopped(logits, ids):
    if len(ids) == 14:
        raise KeyboardInterrupt
    return logits
"""


@pytest.mark.parametrize("end", ["--tokens=9", "--loop={}:returns", "--filter={}:stopped"])
def test_text_that_was_held_back_is_printed_at_the_end(console, tmp_path, end):
    (tmp_path / "own.py").write_text(LOOPS)
    end = end.format(tmp_path / "own.py"), "--temperature", 0
    text = console.json("the cat", "-n", 9)[0]["text"]
    status, out, err = console("the cat", "--stop", text[-2:] + "#", *end)
    assert out.rstrip("\n") == "the cat" + text and (status == 130) == ("interrupted" in err)
    half = "--loop", f"{tmp_path}/own.py:half"
    assert console.json("the cat", *half)[0]["text"] == "\ufffd"


@pytest.mark.parametrize(
    ("pieces", "stops", "shown", "last"),
    [
        (["ab", "c", "d"], ["cd"], ["ab", "ab", "ab"], None),
        (["ab", "c", "e"], ["cd"], ["ab", "ab", "abce"], "abce"),
        (["a", "a", "a", "b"], ["aab"], ["", "", "a", "a"], None),
        (["x", "abcd"], ["cd", "bc"], ["x", "xa"], None),
        (["x", "yz"], ["yz", "xyz"], ["", ""], None),
        (["ab", "ab", "a"], ["abac"], ["", "ab", "ab"], "ababa"),
        (["one", " two"], [], ["one", "one two"], "one two"),
    ],
)
def test_text_that_may_become_a_stop_is_held_back(pieces, stops, shown, last):
    texts = list(itertools.accumulate(pieces))
    found = [until_stop(text, stops, more=True) for text in texts]
    assert [text for text, _ in found] == shown
    assert found[-1][1] == (last is None)
    assert last is None or until_stop(texts[-1], stops, more=False) == (last, False)


def test_nothing_printed_is_taken_back(console, letters, monkeypatch):
    text = console.json("the cat", "-n", 30)[0]["text"]
    stop = text[14:18]
    writes = io.StringIO()
    monkeypatch.setattr(sys, "stdout", writes)
    assert cli.main(["the cat", "-n", "30", "--model", str(letters), "--stop", stop]) == 0
    assert writes.getvalue() == "the cat" + text[: text.index(stop)] + "\n"
