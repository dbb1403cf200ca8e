"""Prompts in, texts out: alone and in batches, from files and pipes, up to the texts' ends."""

import io
import itertools
import json
import os
import re
import sys
import time

import pytest

from terminal.loops import LOOPS as METHODS
from tests.support.commands import (
    JSON_KEYS,
    N_CTX,
    SEQ2SEQ,
    TIMES,
    finished,
    python,
    words_for,
    write_letters,
)


@pytest.mark.parametrize("prompt", ["the cat", "", "Zoë: “naïve” 🙂\n\x00 x", "a\udcff"])
def test_text_is_the_prompt_and_the_new_text(console, prompt):
    status, out, err = console(prompt, "-n", 8)
    [row] = console.json(prompt, "-n", 8)
    assert row["prompt"] == prompt.replace("\udcff", "\ufffd")  # JSON has no lone surrogates
    assert (row["ids"], row["seed"]) == (console.greedy(prompt, 8), None)
    # The speed is that of the whole text, with its prompt's pass.
    assert 0 < row["tokens_per_second"] < 8 / row["seconds_to_first_token"]
    assert (status, out) == (0, row["prompt"] + row["text"] + "\n")
    shape = r"\(8 tokens, \d+\.\d{3} s to the first, \d+ tokens/s; ended by the length asked for\)"
    assert re.fullmatch(shape + "\n", err)


OWN = """
def spelled(text, tokenizer):
    def loop(model, sequence):
        for token in tokenizer.encode(text):
            yield sequence.append(token)
            if not sequence.running:
                return
    return loop
def half(model, sequence):  # of a character
    yield sequence.append(127)
def stopped(logits, ids):
    if len(ids) == 14:
        raise KeyboardInterrupt
    return logits
"""


@pytest.mark.parametrize(
    ("text", "stops", "shown"),
    [
        ("bathe", [], ["b", "a", "the"]),
        ("abce", ["cd"], ["a", "b", "ce"]),
        ("aaab", ["aab"], ["a"]),
        ("xthe", ["he", "th"], ["x"]),
        ("ababa", ["abac"], ["ab", "aba"]),
    ],
)
def test_text_is_shown_at_once_unless_it_may_become_a_stop(
    console, tmp_path, monkeypatch, text, stops, shown
):
    """Each piece is flushed, and no piece is taken back. What was held back is shown at the end."""
    (tmp_path / "own.py").write_text(OWN)
    loop, states = f"{tmp_path}/own.py:spelled({text!r}, tokenizer)", []
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout.flush", lambda: states.append(sys.stdout.getvalue()))
        out = console.text("Z", "--loop", loop, *(f"--stop={stop}" for stop in stops))
    assert out == f"Z{''.join(shown)}\n"
    seen = dict.fromkeys(state.removeprefix("Z").rstrip("\n") for state in states)
    assert [text for text in seen if text] == [*itertools.accumulate(shown)]


@pytest.mark.parametrize("method", METHODS)
def test_a_text_ends_exactly_at_n_ctx(console, draft, method):
    for n_new in 0, 1, 9:
        prompt = "a" * (N_CTX - n_new)
        [row] = console.json(prompt, *words_for(method, draft))
        assert (row["method"], row["stop_reason"]) == (method, "context")
        assert row["ids"] == (console.greedy(prompt, n_new) if n_new else [])
        assert (row["seconds_to_first_token"] is None) == (n_new == 0)
    status, out, err = console("a" * N_CTX, *words_for(method, draft))
    assert (status, out) == (0, "a" * N_CTX + "\n") and err.startswith("(0 tokens")
    assert "ended by the end of the context, 48 tokens)" in err


@pytest.mark.parametrize("method", METHODS)
def test_a_text_ends_before_the_earliest_stop_text(console, draft, method):
    """The stop texts lie across tokens."""
    [free] = console.json("the cat", "-n", 30)
    text, words = free["text"], ["the cat", "-n", 30, *words_for(method, draft)]
    late, early = text[20:24], text[7:11]
    for stops in ([early, late], [late, early], ["no such", early]):
        [row] = console.json(*words, *(f"--stop={stop}" for stop in stops))
        assert (row["text"], row["stop_reason"]) == (text[: text.index(early)], "stop")
        assert row["ids"] == free["ids"][: len(row["ids"])]
    _, out, err = console(*words, "--stop", text[0])
    assert (out, "(1 token, " in err, "ended by a stop text" in err) == ("the cat\n", True, True)


def test_a_stop_text_ends_a_beam_among_others_that_go_on(console):
    words = ["--model", "stories", "--method", "beam", "--beams", 4, "-n", 20, "--stop", "."]
    assert console.json(*words, "A")[0]["text"].endswith(" with her mum")


def test_text_that_was_held_back_is_printed_at_the_end(console, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    text = console.json("the cat", "-n", 9)[0]["text"]
    how = "--temperature", 0, "--filter", f"{tmp_path}/own.py:stopped"
    status, out, err = console("the cat", "--stop", text[-2:] + "#", *how)
    assert out.rstrip("\n") == "the cat" + text and status == 130 and "interrupted" in err
    half = "--loop", f"{tmp_path}/own.py:half"
    assert console.json("the cat", *half)[0]["text"] == "\ufffd"


PROMPTS = ["the cat", "x", "", "a longer one, of the cat", "x"]


@pytest.mark.parametrize("how", [[], ["--temperature", 0.9, "--top-p", 0.95, "--seed", 7]])
@pytest.mark.parametrize("method", ["cached", "speculative"])
def test_a_row_of_a_batch_is_the_same_as_alone(console, draft, monkeypatch, method, how):
    words = [*words_for(method, draft), "-n", 12, "--stop", "tg", "--stop", "q"]
    rows = console.json(*words, *how, "--", *PROMPTS)
    assert [row["prompt"] for row in rows] == PROMPTS
    assert len({row["stop_reason"] for row in rows}) == 2  # some texts end earlier than others
    for i, (prompt, row) in enumerate(zip(PROMPTS, rows)):
        [single] = console.json(*words, *how, *(["--seed", 7 + i] if how else []), "--", prompt)
        same = JSON_KEYS - TIMES
        assert {key: row[key] for key in same} == {key: single[key] for key in same}
    clock = itertools.count(9)  # it ticks when a row starts, and at each token
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    status, out, err = console(*words, *how, "--", *PROMPTS)
    texts = (row["prompt"] + row["text"] + "\n" for row in rows)
    assert out == "".join(f"[{i}/5]\n{text}" for i, text in enumerate(texts, 1))
    assert not how or [int(seed) for seed in re.findall(r", seed (\d+);", err)] == [*range(7, 12)]
    [n] = re.findall(r"\n\(5 texts, (\d+) tokens in", err)
    assert err.endswith(f" in {int(n) + 4}.000 s: {int(n) / (int(n) + 4):.0f} tokens/s)\n")


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_complete_texts_are_printed_even_if_a_later_one_fails(console, tmp_path, method):
    code = "def f(logits, ids):\n    assert ids[0] != 65\n    return logits\n"
    (tmp_path / "own.py").write_text(code)
    how = "-n", 3, "--filter", f"{tmp_path}/own.py:f", "--json", "--method", method
    status, out, err = console("a", "cc", "b", "d" * N_CTX, *how)
    assert [json.loads(line)["prompt"] for line in out.splitlines()][:2] == ["a", "cc"]
    assert status == 1 and "AssertionError" in err and "prompt 3 of 4, 'b': " in err
    long = f"prompt 2 of 2, '{'a' * 30}': a prompt of 49 tokens: 1 to 48 are possible"
    assert long in console("fits", "a" * (N_CTX + 1), "-n", 3, "--compare")[2].splitlines()[-1]
    line = console("a => b", "a", "--score", model=SEQ2SEQ / "bart")[2]
    assert "prompt 2 of 2, 'a': an encoder-decoder or --chat scores" in line


def test_after_an_error_all_that_there_is_of_a_batch_is_printed(console, tmp_path):
    """The second text is complete before the first one fails."""
    code = "def f(logits, ids):\n    assert len(ids) != 4\n    return logits\n"
    (tmp_path / "own.py").write_text(code)
    how = "--temperature", 0, "--filter", f"{tmp_path}/own.py:f"
    status, out, err = console("b", "a" * (N_CTX - 1), *how)
    assert re.fullmatch("\\[1/2]\nb...\n\\[2/2]\na{47}.\n", out) and "(1 token;" in err
    assert status == 1 and "Traceback" in err


def test_a_draft_model_must_share_the_vocabulary(console, tmp_path):
    other, words = write_letters(tmp_path / "other"), ("a", "--method", "speculative")
    vocab = json.loads((other / "vocab.json").read_text())
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]  # as many tokens, but others
    (other / "vocab.json").write_text(json.dumps(vocab))
    assert "one vocabulary" in console.refused(1, *words, "--draft", other)
    assert "--draft" in console.refused(1, *words)
    line = console.refused(1, "b", *words, "--draft", tmp_path / "none")
    assert line.startswith("generate.py: no model")  # an error of no prompt


def test_a_checkpoint_s_draft_model_is_not_downloaded(console, tmp_path):
    folder = write_letters(tmp_path / "m", generation_config={"draft": "gpt2-xl"})
    for words in ["--method", "speculative"], ["--compare"]:
        assert "gpt2-xl is not here" in console.refused(1, "a", *words, model=folder)


def test_languages_are_chosen_by_their_codes(console):
    def run(*words):
        [row] = console.json("a b", "-n", 4, "--method", "cached", *words, model=SEQ2SEQ / "mbart")
        return {key: row[key] for key in row.keys() - TIMES}

    plain, german = run(), run("--target-lang", "de_DE")
    assert run("--source-lang", "en_XX") == plain != run("--source-lang", "de_DE")
    assert german["prompt_ids"] == plain["prompt_ids"] and german["ids"] != plain["ids"]
    line = console.refused(1, "a", "--target-lang", "xx_XX", model=SEQ2SEQ / "mbart")
    assert "lacks the language en_XX or xx_XX" in line


def test_forced_tokens_win_over_a_user_s_filter(console, tmp_path):
    code = "def f(logits, ids):\n    logits[[0, 2]] = -float('inf')\n    return logits\n"
    (tmp_path / "own.py").write_text(code)
    words = "the cat", "-n", 5, "--method", "naive", "--filter", f"{tmp_path}/own.py:f"
    [row] = console.json(*words, model=SEQ2SEQ / "bart-forced")
    assert row["ids"][0] == 0 and len(row["ids"]) == 4 and row["stop_reason"] == "eos"


def piped(data):
    """Return a standard input that contains these bytes, as Python opens it: not for UTF-8."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", errors="surrogateescape")


@pytest.mark.parametrize(
    ("words", "data", "prompts"),
    [
        ([], b"the cat\r\n", ["the cat"]),
        (["-"], b"\xef\xbb\xbfthe cat\n\xc5\xbd\n\n", ["the cat\nŽ\n"]),  # a byte-order mark
        (["x", "-"], b"y\n", ["x", "y"]),
        (["x"], b"y\n", ["x"]),  # with a prompt, the pipe is not read
    ],
)
def test_prompts_may_be_piped(console, monkeypatch, words, data, prompts):
    monkeypatch.setattr(sys, "stdin", piped(data))
    assert [row["prompt"] for row in console.json(*words, "-n", 2)] == prompts


def test_piped_text_that_cannot_be_read_gives_one_line(console, monkeypatch):
    monkeypatch.setattr(sys, "stdin", piped(b"caf\xe9"))
    assert "cannot read standard input: 'utf-8'" in console.refused(1, "-")
    monkeypatch.setattr(sys, "stdin", None)  # closed
    assert "a PROMPT is missing" in console.refused(1, "-n", 4)
    assert console.text("a", "-n", 4).startswith("a")
    monkeypatch.setattr(sys, "stdin", piped(b""))
    assert "a PROMPT is missing" in console.refused(1, "-n", 4)


def test_the_reader_of_a_pipe_may_leave_early(letters):
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does
    status, _, err = finished("a", "--model", letters, stdout=writer)
    os.close(writer)
    assert (status, err) == (0, b"")


STACK = """
import inspect
def names(logits, ids):
    raise SystemExit(" < ".join(frame.function for frame in inspect.stack()))
"""


@pytest.mark.parametrize("method", ["cached", "speculative"])
def test_two_functions_lie_between_the_file_and_the_loop(method, tmp_path):
    (tmp_path / "f.py").write_text(STACK)
    words = "Once", "--filter", tmp_path / "f.py:names", *words_for(method, "stories")
    _, _, err = finished(*words, "--stop", "x", "--seed", 1, "--top-k", 5)
    assert err.decode().strip().endswith(f" < {method} < run < main < <module>")


ODD = """
import io, runpy, sys
class Closed(io.StringIO):
    def write(self, text):
        raise OSError(22, "Invalid argument")  # a closed pipe on Windows
{setup}
sys.argv = {words}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("setup", "program"),
    [
        ("sys.stderr = None", "generate.py"),  # closed
        ("sys.stdout.reconfigure(encoding='cp1252')", "generate.py"),  # a file on Windows
        ("sys.stdout = Closed()", "generate.py"),
        ("sys.stdout = Closed()", "workshop"),
    ],
)
def test_odd_streams(tmp_path, letters, setup, program):
    words = ["Zoë Привет", "-n1", f"--model={letters}"]
    words = ["new", str(tmp_path / "mine.py")] if program == "workshop" else words
    done = python("-c", ODD.format(setup=setup, words=[program, *words]))
    assert "rror" not in done.stderr
    assert "Closed" in setup or re.fullmatch("Zoë Привет.\n", done.stdout)


OTHERS = {"tokenizers", "huggingface_hub", "jinja2", "requests", "urllib3", "tqdm", "tensorflow"}


def without(missing, *words, status=0):
    """Run a command as if the libraries in `missing` were not installed."""
    setup = f"sys.modules.update(dict.fromkeys({missing}))"
    return python("-c", ODD.format(setup=setup, words=["generate.py", *words]), status=status)


def test_the_first_command_needs_four_libraries_alone_and_names_gpt2():
    done = without(OTHERS, "Once upon a time")
    assert done.stdout.startswith("Once upon a time")
    assert "--model gpt2 downloads GPT-2 itself" in done.stderr.splitlines()[0]
    for name in "stories-draft", "stories-llama":
        assert without(OTHERS, "a", "-n", "2", "--model", name).stderr.startswith("(2 tokens")


@pytest.mark.parametrize("missing", ["numpy", "regex", "tokenizers"])
def test_a_missing_library_gives_one_line(missing):
    done = without({missing}, "Hi", "--model", "en-de", status=1)
    others = "" if missing == "tokenizers" else "numpy regex safetensors threadpoolctl"
    says = f"{missing} is not installed: pip install {others or missing}; with uv, `uv run "
    assert done.stderr.startswith(f"generate.py: {says}") and done.stderr.count("\n") == 1
    assert done.stdout == ""
