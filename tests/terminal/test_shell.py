"""The interactive prompt: texts that go on, commands, options, mistakes, pipes and a terminal."""

import re

import numpy as np
import pytest

import utils
from gpt2 import log_softmax
from tests.support.commands import HOUSE, N_CTX, finished, make_terminal, write_letters

BART = HOUSE / "tests" / "fixtures" / "seq2seq" / "bart"


def texts(answers):
    """Return the texts of some answers, without the lines of statistics."""
    return [answer.partition("\n(")[0] for answer in answers]


def test_an_empty_line_goes_on_with_the_last_text(console):
    lines = "", "   ", "the cat", "", "  ", "/explain", "the cat", "  the cat"
    none, nothing, first, second, third, explained, again, spaced = console.session(*lines)
    assert none == nothing == ""  # there is no text yet
    parts = texts([first, second, third])
    for i in 1, 2, 3:
        assert "".join(parts[:i]) + "\n" == console.text("the cat", "-n", 9 * i)
    assert "(9 tokens" in second and f"{''.join(parts)}\n(27 tokens" in explained
    assert texts([again, spaced])[0] == parts[0] and spaced.startswith("  the cat")
    _, more = console.session("/explain the cat", "")
    assert texts([more]) == parts[1:2]  # the explained text has become the last one
    answer, nothing = console.session("the cat", "", model=BART)
    assert answer and nothing == ""  # an encoder-decoder's answer is not continued


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_to_continue_a_text_is_to_continue_its_ids(console, tmp_path, n):
    """The first part ends inside a character. The seed and n_prompt are those of one text."""
    (tmp_path / "own.py").write_text(
        "def f(tokenizer, n_prompt):\n    def g(logits, ids):\n"
        "        left = tokenizer.encode('é🙂')[len(ids) - n_prompt :]\n"
        "        logits[left[:1]] += 999\n        return logits\n    return g\n"
    )
    how = "--filter", f"{tmp_path}/own.py:f(tokenizer, n_prompt)", "--seed", 3, "--temperature", 2
    first, _, second = texts(console.session("the cat", "/tokens 12", "", words=(*how, "-n", n)))
    text = (first + second).replace("\ufffd", "")
    assert text + "\n" == console.text("the cat", *how, "-n", n + 12)
    assert text.startswith("the caté🙂")


def test_a_text_that_has_ended_is_not_continued(console, tmp_path):
    greedy = console.greedy("the cat", 16)
    folder = write_letters(tmp_path / "m", generation_config={"eos_token_id": greedy[15]})
    *_, last, ended = console.session("the cat", "", "", model=folder)
    assert "ended by end of text" in last and ended == "(the text has ended: type a new one)\n"
    _, ended, _, more = console.session("the cat", "", "/stop off", "", words=["--stop", "tm"])
    assert ended.startswith("(a stop text has ended the text") and more.startswith("tm")
    *_, more = console.session("the cat", "", words=["--stop", "the", "-n", 1])  # in the prompt
    assert "1 token" in more


def test_a_view_without_a_text_takes_the_last_one(console, tmp_path):
    views = "/score", "/explain", "/compare", f"/html {tmp_path}/a.html"
    for view, answer in zip(views, console.session(*views)):
        assert answer == f"{view.split()[0]}: there is no text yet\n"
    how = "--seed", 3, "--temperature", 0.9, "--method", "lookup"
    lines = "the cat", *views, "/explain the cat", "/score the cat", "/method"
    typed, _, explained, table, page, same, rated, method = console.session(*lines, words=how)
    [text] = texts([typed])
    assert rated == console.text("--score", "the cat")
    assert f"\n{text}\n(9 tokens" in explained  # the same seed gives the same text
    assert console.text("--explain", "the cat", "-n", 9, *how) in same
    assert table.count("\ncached ") == 1 and method == "method = lookup\n"
    assert text in page and (tmp_path / "a.html").is_file()
    _, explained = console.session("/json", "/explain the cat")
    assert explained.startswith("model: P of the token")


def test_score_rates_the_answer_of_an_encoder_decoder(console):
    [row] = console.json("the cat", "-n", 9, model=BART)
    decoder = utils.load(BART)[1].read(row["prompt_ids"])
    ids, n = [*decoder.start_ids, *row["ids"]], len(row["ids"])
    bits = -log_softmax(decoder(ids[:-1]))[range(len(ids) - 1), ids[1:]] / np.log(2)
    lines = f"/score the cat => {row['text']}", "/score the cat => a => b", "/score the cat"
    scored, typed, missing = console.session(*lines, model=BART)
    found = [float(line.split()[0]) for line in scored.splitlines()[1:-1]]
    assert found[:n] == pytest.approx(bits[-n:].tolist(), abs=0.01)
    assert typed == console.text("--score", "the cat => a => b", model=BART)
    assert "SOURCE => TARGET" in missing


def test_each_text_has_a_new_seed_unless_one_is_set(console):
    def seeds(*answers):
        return [re.search(r"seed (\d+);", answer)[1] for answer in answers]

    lines = "/seed", "/seed off", "/temperature 2", "the cat", "the cat", ""
    none, off, _, first, second, more = console.session(*lines)
    assert none == off == "seed = None\n"
    one, two, same = seeds(first, second, more)
    assert one != two == same  # a text goes on with its own random numbers
    _, again, other = console.session("/temperature 2", "the cat", "a", words=["--seed", one])
    assert texts([again]) == texts([first]) and seeds(again, other) == [one, one]


def test_a_command_shows_sets_and_unsets_an_option(console):
    lines = "/top-k", "/top-k 2", "/top-k 17.5", "/top-k", "/top-k off", "/top-k 2", "/reset"
    none, two, wrong, still, off, _, _, again = console.session(*lines, "/top-k")
    assert (none, two) == ("top_k = None\n", "top_k = 2\n") and off == again == none
    assert still == two and wrong.count("\n") == 1 and "generate.py" not in wrong
    assert console.session("/stop a b", '/stop " a"', "/stop", "/seed 0") == [
        "stop = ['a b']\n", "stop = [' a']\n", "stop = [' a']\n", "seed = 0\n"
    ]  # fmt: skip


def test_a_different_model_is_loaded_or_the_old_one_stays(console, letters, draft):
    wrong = ["/model no-such-model", "/model two models", "/model --method", "/model --"]
    shown, *errors, same = console.session("/model", *wrong, "/model")
    assert shown == same == f"model = {letters}\n"
    assert [error.count("\n") for error in errors] == [1] * 4
    lines = "/tokens 4", f"/model {draft}", "/tokens", "the cat", "/score", "/reset", "/model"
    _, other, tokens, text, _, _, first = console.session(*lines, "/score")[:7]
    assert (other, tokens, first) == (f"model = {draft}\n", "tokens = 4\n", shown)
    assert texts([text])[0] + "\n" == console.text("the cat", "-n", 4, model=draft)


def test_help_exit_and_quit_need_no_slash(console):
    help1, help2 = console.session("help", "/help")
    assert help1 == help2
    for word in "quit", "/quit now", "  exit ":
        assert console.session(word, "the cat") == [""]


def test_mistakes_do_not_end_the_session(console, tmp_path, letters):
    (tmp_path / "own.py").write_text(
        "def f(error):\n    def g(logits, ids):\n        raise error\n    return g\n"
    )
    lines = ["/helpp", "/", "/interactive x", "a" * (N_CTX + 1), "/filter nothing", "/model"]
    *unknown, long, form, model = console.session(*lines)
    for line, answer in zip(lines, unknown):
        assert answer.startswith(f"no command {line.split()[0]}") and answer.count("\n") == 1
    assert {"49", "48"} <= set(re.findall(r"\d+", long)) and "FILE.py:EXPRESSION" in form
    assert model == f"model = {letters}\n"
    for error in "SystemExit(3)", "KeyboardInterrupt()", "KeyError(1)":
        lines = f"/filter {tmp_path}/own.py:f({error})", "a", "/filter off", "the cat"
        *_, last = console.session(*lines)
        assert texts([last])[0] + "\n" == console.text("the cat", "-n", 9)
    lines = "/method lookup", f"/filter {tmp_path}/own.py:f(KeyboardInterrupt())", "/compare a"
    assert console.session(*lines, "/method")[2:] == ["\n(stopped)\n", "method = lookup\n"]


def test_lines_may_come_from_a_pipe(letters):
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    words, lines = ("--interactive", "--model", letters), "/tokens 3\nthe cat\n/nonsense\nZoë\n"
    given = lines.encode("utf-8-sig") + b"caf\xe9\n/tokens 4\n"
    status, out, err = finished(*words, stdin=given, env=strict)
    first, *answers = out.decode().split(f"{letters.name} › ")
    assert first == "Type the beginning of a text, or /help. Ctrl-C stops a text, Ctrl-D quits.\n"
    assert answers == ["tokens = 3\n", "the cattmt\n", "", "Zoëgcc\n", ""] and status == 1
    assert err.startswith(b"(3 tokens") and b"\nno command /nonsense" in err
    assert err.count(b"\n") == 4  # two errors, and a line of statistics for each of two texts
    assert b"cannot read standard input: 'utf-8' codec can't decode byte 0xe9" in err


# On a terminal, EVIL would set the title and a colour, clear the screen and reverse the letters.
EVIL = "\x1b]0;title\x07\x1b[31m\x9b2J\x7f\r\u202e\u2066\u200f\u061c."
EVIL_FILTER = """
def f(logits, ids):
    logits[IDS[len(ids) % len(IDS) - 1]] = 999  # its probability rounds to 1
    return logits
"""


@pytest.mark.slow
def test_no_text_controls_the_terminal(console, letters, tmp_path, monkeypatch):
    """The model generates EVIL, and a prompt and a command contain it, too."""
    (tmp_path / "evil.py").write_text(f"IDS = {utils.load(letters)[0].encode(EVIL)}\n{EVIL_FILTER}")
    how = "--filter", f"{tmp_path}/evil.py:f", "-n", 36
    assert "a" + EVIL in console.text("a", *how)  # to a file, texts go unchanged
    make_terminal(monkeypatch)
    assert "a" + ascii(EVIL)[1:-1] in console.text("a", *how)
    outs = [console.text("a", EVIL, *how, *view) for view in (["--explain"], ["--method", "beam"])]
    outs += [console.text("a" + EVIL, "--score")]
    outs += console.session("a", f"/stop {EVIL}", f"/{EVIL}", words=how)
    assert not {*EVIL[:-1]} & {*"".join(outs)} - {*"]0;title[31m2J"}
