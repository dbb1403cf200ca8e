"""Tests of the command line: batches, samplers, beams, options, mistakes, pipes and signals."""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from unittest.mock import ANY

import numpy as np
import pytest

import utils
from families.seq2seq import EncoderDecoder
from generate import generate
from gpt2 import GPT2
from samplers import FILTERS, make_sampler
from terminal import options
from terminal.options import DEFAULTS, METHODS, OPTIONS
from terminal.session import Session
from tests.support.commands import (
    HOUSE,
    JSON_KEYS,
    N_CTX,
    finished,
    process,
    words_for,
    write_letters,
)

SEQ2SEQ = HOUSE / "tests" / "fixtures" / "seq2seq"
TIMES = "seconds_to_first_token", "tokens_per_second"

# --- batches, samples and files of prompts --------------------------------------------------------

PROMPTS = ["the cat", "x", "", "a longer one, of the cat", "x"]


@pytest.mark.parametrize("how", [[], ["--temperature", 0.9, "--top-p", 0.95, "--seed", 7]])
@pytest.mark.parametrize("method", ["naive", "cached", "speculative", "ngram"])
def test_a_row_of_a_batch_is_the_same_as_alone(console, draft, method, how):
    words = [*words_for(method, draft), "-n", 12, "--stop", "tg", "--stop", "q"]
    rows = console.json(*words, *how, "--", *PROMPTS)
    assert [row["prompt"] for row in rows] == PROMPTS
    assert len({row["stop_reason"] for row in rows}) == 2  # some texts end earlier than others
    for i, (prompt, row) in enumerate(zip(PROMPTS, rows)):
        [single] = console.json(*words, *how, *(["--seed", 7 + i] if how else []), "--", prompt)
        same = JSON_KEYS - {*TIMES}
        assert {key: row[key] for key in same} == {key: single[key] for key in same}
    out = console.text(*words, *how, "--", *PROMPTS)
    texts = (row["prompt"] + row["text"] + "\n" for row in rows)
    assert out == "".join(f"[{i}/5]\n{text}" for i, text in enumerate(texts, 1))


@pytest.fixture
def shapes(monkeypatch):
    """Return a list that gets (n_rows, n_new) for each pass of the model."""
    seen, call = [], GPT2.__call__

    def recording(model, ids, *more, **how):
        seen.append((1, *np.shape(ids))[-2:])
        return call(model, ids, *more, **how)

    monkeypatch.setattr(GPT2, "__call__", recording)
    return seen


@pytest.mark.parametrize("r", [1, 2, 20, 100])
def test_at_most_max_rows_run_at_once(console, shapes, tmp_path, monkeypatch, r):
    """The texts are the same as without a batch, and they are in the order of the file."""
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join("the cat"[: 1 + i % 7] + str(i) for i in range(50)))
    words = ["--prompts-file", file, "-n", 9, "--temperature", 1, "--seed", 3]

    def run(*more):
        shapes.clear()
        rows = console.json(*words, *more)
        return [{key: row[key] for key in ("prompt", "ids", "text", "seed")} for row in rows]

    alone = run("--method", "naive")
    assert {n_rows for n_rows, _ in shapes} == {1}
    assert [row["prompt"] for row in alone] == file.read_text().splitlines()
    assert [row["seed"] for row in alone] == [*range(3, 53)]
    monkeypatch.setattr("terminal.session.MAX_ROWS", r)
    assert run() == alone
    most = min(r, 8)  # one row joins before each step, and each row runs for 8 steps
    assert max(n_rows for n_rows, _ in shapes) == most


def test_the_next_prompt_takes_a_free_row(console, shapes, monkeypatch):
    """Each prompt is one token. After its pass comes one step of all running rows."""
    monkeypatch.setattr("terminal.session.MAX_ROWS", 2)
    rows = console.json("a", "b", "c", "d", "-n", 6)
    assert [len(row["ids"]) for row in rows] == [6] * 4
    assert {n_new for _, n_new in shapes} == {1}
    first_two, last_two = [1, 1, 1, 2, 2, 2, 2], [1, 2, 1, 2, 2, 2, 2, 1]
    assert [n_rows for n_rows, _ in shapes] == first_two + last_two


def test_samples_are_the_texts_of_their_seeds_and_share_the_prompt_s_pass(console, shapes):
    how = "-n", 9, "--temperature", 1
    rows = console.json("the cat", "x", "--samples", 3, "--seed", 5, *how)
    assert [row["prompt"] for row in rows] == ["the cat"] * 3 + ["x"] * 3
    assert [row["seed"] for row in rows] == [5, 6, 7, 8, 9, 10]
    n_prompt = len(rows[0]["prompt_ids"])
    assert n_prompt > 2 and [shape for shape in shapes if shape[1] > 1] == [(1, n_prompt)]
    for row in rows:
        [alone] = console.json(row["prompt"], "--seed", row["seed"], *how)
        assert (row["ids"], row["text"]) == (alone["ids"], alone["text"])
    assert len({row["text"] for row in rows}) == 6
    line = console.refused(2, "a", "--method", "beam", "--samples", 2)
    assert "--samples is not for --method beam" in line


@pytest.mark.parametrize("method", ["naive", "lookup", "ngram"])
def test_any_method_can_draw_samples(console, method):
    how = "-n", 5, "--temperature", 1, "--seed", 5, "--samples", 4, "--method", method
    rows = console.json("the cat", *how)
    assert [row["seed"] for row in rows] == [5, 6, 7, 8]
    if method == "naive":
        expected = console.json("the cat", *how[:-1], "cached")
        assert [row["ids"] for row in rows] == [row["ids"] for row in expected]


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_samples_of_a_source_are_the_texts_of_their_seeds(console, monkeypatch, name):
    """The encoder reads each source once."""
    sources, encode = [], EncoderDecoder.encode

    def recording(model, ids):
        sources.append(np.shape(ids))
        return encode(model, ids)

    monkeypatch.setattr(EncoderDecoder, "encode", recording)
    folder = HOUSE / "tests" / "fixtures" / "seq2seq" / name
    how = "-n", 5, "--temperature", 1, "--method", "cached"
    rows = console.json("a b", "c", "--samples", 3, "--seed", 5, *how, model=folder)
    assert len(sources) == 2
    for row in rows:
        [alone] = console.json(row["prompt"], "--seed", row["seed"], *how, model=folder)
        assert row["ids"] == alone["ids"]


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_complete_texts_are_printed_even_if_a_later_one_fails(console, tmp_path, method):
    code = "def f(logits, ids):\n    assert ids[0] != 65\n    return logits\n"
    (tmp_path / "own.py").write_text(code)
    how = "-n", 3, "--filter", f"{tmp_path}/own.py:f", "--json", "--method", method
    status, out, err = console("a", "cc", "b", "d" * N_CTX, *how)
    done = ["a", "cc"]
    assert [json.loads(line)["prompt"] for line in out.splitlines()] == done
    assert status == 1 and "AssertionError" in err and "\ngenerate.py: [3/4] this error" in err


@pytest.mark.parametrize("method", ["naive", "cached", "lookup", "beam"])
def test_the_clock_of_a_row_starts_when_the_row_starts(console, monkeypatch, method):
    class Clock:
        now = 0

        def perf_counter(self):
            Clock.now += 1
            return Clock.now

    for module in "terminal.session.time", "terminal.row.time":
        monkeypatch.setattr(module, Clock())
    monkeypatch.setattr("terminal.session.MAX_ROWS", 1)
    rows = console.json("a", "b", "c", "-n", 4, "--method", method)
    assert {row["seconds_to_first_token"] for row in rows} == {1}


def test_a_prompt_that_fills_the_context_has_the_same_keys_in_a_batch(console):
    full = "a" * N_CTX
    for method in ("beam", "lookup"):
        [alone] = console.json(full, "-n", 2, "--method", method)
        rows = console.json("a", full, "b", "-n", 2, "--method", method)
        assert rows[1].keys() == alone.keys()


def test_prompts_of_a_file_follow_the_prompts_of_the_command_line(console, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_bytes("one\n\n  \nŽluťoučký\r\nlast".encode())
    rows = console.json("zero", "--prompts-file", path, "-n", 3)
    assert [row["prompt"] for row in rows] == ["zero", "one", "Žluťoučký", "last"]
    assert rows[3]["ids"] == console.json("last", "-n", 3)[0]["ids"]
    assert "no such file" in console.refused(1, "--prompts-file", tmp_path / "none").lower()
    assert "directory" in console.refused(1, "--prompts-file", tmp_path).lower()
    path.write_bytes(b"\xef\xbb\xbfone\n")  # some editors begin a file with a byte-order mark
    assert console.json("--prompts-file", path, "-n", 1)[0]["prompt"] == "one"
    path.write_text("\n \n")
    assert "no prompt" in console.refused(1, "--prompts-file", path)
    path.write_bytes(b"caf\xe9\n")
    line = console.refused(1, "--prompts-file", path)
    assert f"cannot read {path}: 'utf-8'" in line and "save it as UTF-8" in line


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7},
        {"top_k": 3},
        {"top_p": 0.6},
        {"min_p": 0.2},
        {"temperature": 1.5, "top_k": 9, "top_p": 0.9, "min_p": 0.01},
        {"repetition_penalty": 1.5, "temperature": 0},
        {"no_repeat_ngram": 2, "temperature": 0},
        {"repetition_penalty": 1.3, "no_repeat_ngram": 3, "top_k": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 5])
def test_sampling_options_make_the_sampler(console, letters, settings, seed):
    tokenizer, model = utils.load(str(letters))
    sampler = make_sampler(**settings)
    expected = list(generate(model, tokenizer.encode("the cat"), 20, sampler, seed))
    words = [w for name in settings for w in ("--" + name.replace("_", "-"), settings[name])]
    [row] = console.json("the cat", "-n", 20, "--seed", seed, *words)
    assert row["ids"] == expected
    assert row["seed"] == (None if settings.get("temperature") == 0 else seed)
    assert settings.keys() <= FILTERS.keys()


def test_a_run_without_a_seed_draws_one_and_prints_it(console):
    rows = [console.json("the cat", "--temperature", 2, "-n", 20)[0] for _ in range(2)]
    assert rows[0]["seed"] != rows[1]["seed"]
    again = console.json("the cat", "--temperature", 2, "-n", 20, "--seed", rows[0]["seed"])[0]
    assert again["ids"] == rows[0]["ids"] != rows[1]["ids"]


# --- beams and speculation ------------------------------------------------------------------------


def test_beams_are_sorted_by_their_scores(console):
    words = ["the cat", "--method", "beam", "--beams", 3, "-n", 10]
    [row] = console.json(*words, "--return", 3, "--length-penalty", 0.5, "--no-repeat-ngram", 2)
    scores = [beam["score"] for beam in row["beams"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    for beam in row["beams"]:
        assert beam["score"] == pytest.approx(beam["log_probability"] / 10**0.5)
    assert (row["ids"], row["text"]) == (row["beams"][0]["ids"], row["beams"][0]["text"])
    assert row["seed"] is None
    out = console.text(*words, "--return", 2)
    assert [len(line) for line in out.splitlines()] == [len(out.splitlines()[0])] * 2
    assert console.json("the cat", "--method", "beam", "-n", 10)[0]["text"]


def test_a_stop_text_ends_every_beam(console):
    words = "the cat", "--method", "beam", "--beams", 4, "--return", 4, "-n", 20
    [free] = console.json(*words)
    stop = free["beams"][1]["text"][3]
    [row] = console.json(*words, "--stop", stop)
    texts = [beam["text"] + stop for beam in row["beams"] if len(beam["ids"]) < 20]
    assert len(texts) > 1 and {text.index(stop) for text in texts} == {len(t) - 1 for t in texts}


def test_the_statistics_of_speculation_add_up(console, draft):
    words = ["the cat", "-n", 20, *words_for("speculative", draft)]
    [row] = console.json(*words)
    found = row["speculation"]
    passes = sum(found["accepted_lengths"].values())
    assert found["accepted"] == sum(int(k) * n for k, n in found["accepted_lengths"].items())
    assert found["tokens_per_call"] == pytest.approx(20 / passes)
    assert found["acceptance"] == found["accepted"] / found["tested"]
    assert found["accepted"] < found["tested"] <= found["drafted"]
    assert 0 < found["accepted"] < found["drafted"] <= 3 * passes
    assert re.search(r"\d+% of drafts accepted, \d\.\d\d tokens per pass", console(*words)[2])


@pytest.mark.parametrize("how", [["--json"], ["--compare"]], ids=str)
def test_a_drafting_encoder_decoder_may_take_a_shorter_source(console, tmp_path, how):
    draft = shutil.copytree(SEQ2SEQ / "t5", tmp_path / "draft")
    config = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps(config | {"n_positions": 6}))
    words = "the cat sat on the mat", "-n", 12, "--temperature", 0, "--draft", draft, *how
    method = ["--method", "speculative"] * (how == ["--json"])
    out = console.text(*words, *method, model=SEQ2SEQ / "t5")
    if method:
        [plain] = console.json(words[0], "-n", 12, "--method", "cached", model=SEQ2SEQ / "t5")
        assert json.loads(out)["ids"] == plain["ids"] and len(plain["prompt_ids"]) > 6
    else:
        assert re.search("speculative .* as naive", out)


def session(*words):
    return Session(options.parse([*map(str, words)]))


def test_a_draft_model_has_its_own_random_numbers(letters, draft):
    one = session("--model", letters, "--method", "speculative", "--draft", draft, "--seed", 5)
    row = one.row("the cat")
    assert one.start(row).rng.random() != one.new_drafter(row).rng.random()


@pytest.mark.parametrize("method", ["ngram", "lookup"])
def test_drafts_are_copied_from_a_source_but_not_from_a_prompt(letters, method):
    for folder in SEQ2SEQ / "t5", letters:
        one = session("--model", folder, "--method", method)
        row = one.row("abcdefg")
        drafts, _ = one.new_drafter(row).propose(row.prompt_ids[1:3], 2)
        assert drafts == (row.prompt_ids[3:5] if folder != letters else [])


def test_a_draft_model_must_share_the_vocabulary(console, tmp_path):
    from tests.support.checkpoints import CONFIG, write_folder

    other = write_folder(tmp_path / "other", CONFIG | {"vocab_size": 258})
    line = console.refused(1, "a", "--method", "speculative", "--draft", other)
    assert "one vocabulary" in line
    vocab = json.loads((other / "vocab.json").read_text())
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    write_folder(other, vocab=vocab)  # as many tokens, but others
    line = console.refused(1, "a", "--method", "speculative", "--draft", other)
    assert "one vocabulary" in line
    assert "--draft" in console.refused(1, "a", "--method", "speculative")
    console.refused(1, "a", "--method", "speculative", "--draft", tmp_path / "none")
    line = console.refused(1, "a", "--method", "speculative", "--draft", SEQ2SEQ / "t5")
    assert "one vocabulary" in line


def test_a_checkpoint_s_draft_model_is_not_downloaded(console, tmp_path, draft, monkeypatch):
    folder, calls, load = write_letters(tmp_path / "m"), [], utils.load
    (folder / "generation_config.json").write_text('{"draft": "gpt2-xl"}')

    def load_draft(name, fetch=True):
        calls.append((name, fetch))
        return load(str(draft if name == "gpt2-xl" else name))

    monkeypatch.setattr(utils, "load", load_draft)
    for words in ["--method", "speculative"], ["--compare"]:
        console.text("a", "-n", 3, *words, model=folder)
        assert calls[-1] == ("gpt2-xl", False)
    console.text("a", "-n", 3, "--method", "speculative", "--draft", "gpt2-xl", model=folder)
    assert calls[-1] == ("gpt2-xl", True)


# --- encoder-decoders and empty prompts -----------------------------------------------------------


def test_languages_are_chosen_by_their_codes(console):
    def run(*words):
        [row] = console.json("a b", "-n", 4, "--method", "cached", *words, model=SEQ2SEQ / "mbart")
        return row

    tokenizer, model = utils.load(SEQ2SEQ / "mbart")
    codes, plain = tokenizer.special, run()
    assert plain["prompt_ids"][-1] == codes["en_XX"] and model.start_ids == [codes["ro_RO"]]
    assert run("--source-lang", "en_XX") == plain | {k: ANY for k in TIMES}
    assert run("--source-lang", "de_DE")["prompt_ids"][-1] == codes["de_DE"]
    german = run("--target-lang", "de_DE")
    assert german["prompt_ids"] == plain["prompt_ids"] and german["ids"] != plain["ids"]
    line = console.refused(1, "a", "--target-lang", "xx_XX", model=SEQ2SEQ / "mbart")
    assert "lacks the language" in line and "xx_XX" in line
    assert "lacks the language en_XX" in console.refused(1, "a", "--source-lang", "en_XX")


def test_forced_tokens_win_over_a_user_s_filter(console, tmp_path):
    code = "def f(logits, ids):\n    logits[[0, 2]] = -float('inf')\n    return logits\n"
    (tmp_path / "own.py").write_text(code)
    words = "the cat", "-n", 5, "--method", "naive", "--filter", f"{tmp_path}/own.py:f"
    [row] = console.json(*words, model=SEQ2SEQ / "bart-forced")
    assert row["ids"][0] == 0 and len(row["ids"]) == 4 and row["stop_reason"] == "eos"


def test_an_empty_prompt_needs_an_end_of_text_token(console, tmp_path):
    folder = write_letters(tmp_path / "m")
    text = (folder / "vocab.json").read_text().replace("<|endoftext|>", "<s>")
    (folder / "vocab.json").write_text(text)
    assert console.text("a", "-n", 2, model=folder)
    assert "a prompt of 0 tokens" in console.refused(1, "", model=folder)


# --- options and a checkpoint's settings ----------------------------------------------------------

HOW = {name: how for group in OPTIONS.values() for name, how, _ in group}
SETTINGS = [name for name in HOW if name in DEFAULTS]
every_option = pytest.mark.parametrize("name", SETTINGS)


def values_of(name):
    """Return two non-default values of an option, as strings. For a flag, return [""]."""
    if HOW[name] is options.FLAG:
        return [""]
    if HOW[name].get("metavar") in ("TEXT", "NAME", "MODEL", "FILE.py:EXPRESSION"):
        return ["x", "y"]
    if name == "method":
        return ["lookup", "ngram"]
    values = []
    for word in ("1", "2", "5", "0.5"):
        with contextlib.suppress(argparse.ArgumentTypeError):
            values.append(HOW[name]["type"](word))
    return [str(value) for value in values if value != DEFAULTS[name]][:2]


def words_of(name, value):
    return [options.flag(name) + f"={value}" * bool(value)]


def read(name, value):
    """Return the setting that this value on the command line gives."""
    kind = HOW[name].get("type", str)
    value = True if HOW[name] is options.FLAG else kind(value)
    return [value] if "append" in HOW[name].values() else value


def resolved(*words, **generation_config):
    return options.resolve(options.parse([*words]), generation_config)


@every_option
def test_an_option_has_the_default_that_the_help_states(name):
    [about] = [about for group in OPTIONS.values() for key, _, about in group if key == name]
    assert resolved()[name] == (0 if name == "temperature" else DEFAULTS[name])
    stated = re.search(r"default (\d+)", about)
    assert not stated or int(stated[1]) == DEFAULTS[name]


@pytest.mark.parametrize("name", [*options.CONFIG])
def test_a_checkpoint_sets_an_option_and_the_command_line_overrides_it(name):
    for word in values_of(name):
        value = read(name, word)
        config = {options.CONFIG[name]: value}
        assert resolved(**config, do_sample=True)[name] == value
        counts = name not in options.SAMPLING  # a checkpoint's sampling options need do_sample
        assert (resolved(**config)[name] == value) == counts
        for other in values_of(name):
            words = words_of(name, other)
            assert resolved(*words, **config, do_sample=True)[name] == read(name, other)


@every_option
def test_a_method_refuses_options_of_other_methods(console, name):
    for method in METHODS if name != "method" else ():
        given = options.parse(["a", "--method", method, *words_of(name, values_of(name)[0])])
        its = options.ONLY_FOR.get(name, METHODS)
        if method in its and name not in ("system", "model"):
            options.check(given)
        elif method not in its:
            with pytest.raises(options.Usage, match=f"^{options.flag(name)} is not for --method"):
                options.check(given)


@pytest.mark.parametrize("name", options.GENERATING)
def test_score_takes_no_option_of_generation(console, name):
    line = console.refused(2, "a", "--score", *words_of(name, values_of(name)[0]))
    assert line == f"generate.py: --score takes no {options.flag(name)}\n"


def test_options_override_the_generation_config_of_a_checkpoint(console, tmp_path):
    suggested = {"do_sample": True, "temperature": 0.8, "max_new_tokens": 12, "seed": 0}
    folder = write_letters(tmp_path / "m", generation_config=suggested)

    def run(*words, model=folder):
        [row] = console.json("the cat", *words, model=model)
        return row

    row = run()
    assert (len(row["ids"]), row["seed"]) == (12, 0)
    same = run("--temperature", 0.8, "--seed", 0, "-n", 12, model=console.folder)
    assert row["ids"] == same["ids"]
    assert run("--seed", 1)["ids"] != row["ids"]
    assert run("-n", 3)["ids"] == row["ids"][:3]
    greedy = run("--temperature", 0)
    assert (greedy["ids"], greedy["seed"]) == (console.greedy("the cat", 12), None)
    suggested["do_sample"] = False
    folder = write_letters(tmp_path / "m", generation_config=suggested)
    assert run()["ids"] == greedy["ids"]
    assert run("--temperature", 0.8)["ids"] == row["ids"]


@pytest.mark.parametrize(
    "suggested",
    [
        {"top_k": "x"},
        {"num_beams": 0},
        {"max_new_tokens": 0},
        {"temperature": -1},
        {"top_p": 5},
        {"seed": -4},
        {"length_penalty": float("nan")},
        {"min_new_tokens": [3]},
        {"max_length": "x"},
        {"min_length": [3]},
    ],
)
def test_a_checkpoint_with_wrong_settings_is_refused(console, tmp_path, suggested):
    folder = write_letters(tmp_path / "m", generation_config=suggested | {"do_sample": True})
    status, out, err = console("the cat", model=folder)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "generation_config.json" in err and str(*suggested.values()) in err


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_settings_that_are_not_supported_are_named(console, tmp_path, file):
    folder = write_letters(tmp_path / "m")
    off = dict(typical_p=1.0, num_beam_groups=1, bad_words_ids=None, stop_strings=[])
    asked = dict(suppress_tokens=[70], guidance_scale=1.5, renormalize_logits=True)
    settings = off | asked | dict(max_new_tokens=3, forced_eos_token_id=0)
    old = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(old | settings))
    status, out, err = console("the cat", "--json", model=folder)
    assert (status, len(json.loads(out)["ids"])) == (0, 3) and err.count("\n") == 1
    assert {*re.findall(r"[a-z]+_[a-z_]+", err)} == {*asked, "forced_eos_token_id"}
    assert console("the cat", "--score", model=folder)[2] == ""


def test_a_checkpoint_may_choose_the_method(console, tmp_path):
    folder = write_letters(tmp_path / "m", generation_config={"num_beams": 6})
    [row] = console.json("the cat", "--beams", 3, "--return", 3, "-n", 5, model=folder)
    [same] = console.json("the cat", "--method", "beam", "--beams", 3, "--return", 3, "-n", 5)
    assert row["method"] == "beam" and row["beams"] == same["beams"]
    [row] = console.json("the cat", "--return", 6, "-n", 5, model=folder)
    assert len(row["beams"]) == 6
    assert "not for --method beam" in console.refused(2, "a", "--gamma", 2, model=folder)
    line = console.refused(2, "a", "--top-k", 2, "--beams", 2, model=folder)
    assert "--beams is not for --method cached, but for beam" in line
    assert "n_return=7" in console.refused(1, "a", "--return", 7, model=folder)


def test_a_checkpoint_samples_only_with_do_sample(console, tmp_path):
    hot = write_letters(tmp_path / "hot", generation_config={"do_sample": True})
    [row] = console.json("the cat", "--seed", 3, "-n", 20, model=hot)
    [same] = console.json("the cat", "--seed", 3, "-n", 20, "--temperature", 1)
    assert row["ids"] == same["ids"] != console.greedy("the cat", 20)
    cold = write_letters(tmp_path / "cold", generation_config={"temperature": 0.9})
    [row] = console.json("the cat", model=cold)
    assert row["seed"] is None


# --- missing libraries and an older Python --------------------------------------------------------

ONLY = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if path is None and name in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, "")
sys.hexversion = {version}
from terminal.cli import main
sys.exit(main({words}))
"""
FIRST = {"numpy", "regex", "safetensors", "threadpoolctl"}
OTHERS = {"tokenizers", "huggingface_hub", "jinja2", "requests", "urllib3", "tqdm", "tensorflow"}


def without(missing, *words, version=sys.hexversion):
    """Run a command as if Python had this version and the libraries in `missing` were missing."""
    code = ONLY.format(missing=missing, words=[*map(str, words), "-n", "3"], version=version)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=HOUSE)


def test_the_first_command_needs_four_libraries_alone():
    done = without(OTHERS, "Once upon a time")
    assert done.returncode == 0 and done.stdout.startswith("Once upon a time")


@pytest.mark.parametrize(
    "missing, words, says",
    [
        *(
            (name, ["Hi"], f"{name} is not installed: pip install numpy regex safetensors")
            for name in sorted(FIRST)
        ),
        ("tokenizers", ["Hi", "--model", "en-de"], "tokenizers is not installed: pip install"),
    ],
)
def test_a_missing_library_gives_one_line(missing, words, says):
    done = without({missing}, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"generate.py: {says}") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("; with uv, `uv run python generate.py ...` installs everything\n")


# --- mistakes, extreme values, notes and help -----------------------------------------------------

NONSENSE = """
--beams 65 | --method beam --beams 5000 | --method beam --return 65
--repetition-penalty 1e-40 | -n 0 | -n -3 | -n 1.5 | -n many | --tokens | --seed -1 | --seed x
--stop | --min-length -1 | --min-length 9 -n 8
--temperature -1 | --temperature nan | --temperature inf | --temperature hot | --top-k -1
--top-k 2.5 | --top-p 0 | --top-p 1.1 | --top-p -1 | --top-p nan | --min-p -0.1 | --min-p 1.5
--repetition-penalty 0 | --repetition-penalty -2 | --repetition-penalty inf | --no-repeat-ngram -1
--method best | --method | --no-such-flag | --top 3
--method beam --beams 0 | --method beam --length-penalty nan | --method beam --length-penalty 21
--method beam --return 0
--method speculative --gamma 0 | --method lookup --gamma 17
--beams 2 | --gamma 2 | --draft stories-draft | --return 1
--length-penalty 2 | --method naive --gamma 2
--method ngram --draft x | --method beam --temperature 1
--method beam --seed 3 | --method beam --top-k 3 | --method speculative --beams 2
--samples 0 | --samples x
--score --explain | --score --compare | --explain --compare | --compare --interactive
--score --temperature 1 | --score -n 3 | --score --stop x | --score --method naive | --target x
--method beam --samples 2 | --system x | --interactive
--json --explain | --json --compare
"""


@pytest.mark.parametrize("words", [w.strip() for w in re.split(r"\||\n", NONSENSE) if w.strip()])
def test_wrong_options_are_usage_errors(console, words):
    assert "-inf" not in console.refused(2, "a", *words.split())


def test_a_similar_option_is_suggested(console):
    assert "did you mean --temperature?" in console.refused(2, "a", "--temprature", 0.5)
    assert "did you mean --top-k?" in console.refused(2, "a", "--topk=5")
    assert "--help lists the options" in console.refused(2, "a", "--xyzzy")
    assert "\x1b" not in console.refused(2, "a", "--xyzzy=\x1b]0;title\x07\n")


def test_other_mistakes_give_one_line(console, tmp_path, monkeypatch):
    with monkeypatch.context() as at_a_terminal:
        at_a_terminal.setattr("sys.stdin.isatty", lambda: True, raising=False)
        for words in [], ["-n", 3], ["--stop", "text"], ["--json"]:
            assert "a PROMPT is missing" in console.refused(2, *words)
    assert "empty" in console.refused(2, "a", "--stop", "")
    console.refused(2, "--interactive", "--json")
    console.refused(2, "--interactive", "--score")
    for view in (["--explain"], ["--html", tmp_path / "page.html"]):
        line = console.refused(2, "a", *view, "--samples", 2)
        assert f"{view[0]}: one text per prompt, not 2" in line
        assert "one text per prompt, not 3" in console.refused(
            2, "a", *"--method beam --return 3".split(), *view
        )
    console.refused(1, "--prompts-file", "")
    assert "no model" in console.refused(1, "a", model=tmp_path / "none")
    assert "n_return=3" in console.refused(1, "a", *"--method beam --beams 2 --return 3".split())


@pytest.mark.parametrize("name", ["no-such-model", "..", "/no/such/folder", "a\x00b"])
def test_an_unknown_model_is_refused(console, name):
    console.refused(1, "a", "--model", name)


def test_target_is_for_encoder_decoders_and_they_need_it(console):
    assert "--target" in console.refused(1, "a", "--score", "--target", "b")
    assert "--target" in console.refused(1, "a", "--score", model=SEQ2SEQ / "bart")


EXTREMES = f"""
--temperature 1e-300 | --temperature 1e5 | --top-p 1e-4
--repetition-penalty 1e3 | --repetition-penalty 1e-3 | --top-k {10**12}
--seed {2**63} | --no-repeat-ngram {10**9} | --min-p 1 | --min-length {10**9}
--temperature 1 --min-p 1e-300 | --method beam --beams 64
--method beam --length-penalty -20 | --method beam --length-penalty 20
-n {10**12} | --no-repeat-ngram 1
"""


@pytest.mark.parametrize("words", [w.strip() for w in re.split(r"\||\n", EXTREMES) if w.strip()])
@pytest.mark.filterwarnings("error")
def test_extreme_values_give_text_or_one_line(console, words):
    length = [] if words.startswith("-n ") else ["-n", 4]
    status, out, err = console("the cat", *length, *words.split())
    assert (status, bool(out)) in [(0, True), (1, False), (2, False)], err
    assert err.count("\n") == 1, err


def test_options_may_stand_anywhere_and_a_prompt_may_begin_with_a_dash(console):
    first = console.json("-n", 3, "one", "--seed", 1, "--top-k", 2, "two")
    assert [row["prompt"] for row in first] == ["one", "two"]
    dashed = "- milk - eggs", "--- Chapter one ---", "-no way", "--help me = x", "-5 degrees"
    rows = console.json(dashed[0], "-n", 3, "--stop", "- q", *dashed[1:], "--", "--json")
    assert [row["prompt"] for row in rows] == [*dashed, "--json"]


def test_unquoted_words_get_a_note(console):
    note = '(3 prompts; put several words in quotes to make one: "Once upon a time")\n'
    assert note in console("once", "upon", "a", "-n", 1)[2]
    for words in ["once"], ["once upon", "a"], ["once", "upon", "--json"]:
        assert "quotes" not in console(*words, "-n", 1)[2]


def test_the_version_is_printed(console):
    version = re.search('version = "(.+)"', (HOUSE / "pyproject.toml").read_text("utf-8"))[1]
    assert console.text("--version") == f"tokenwise {version}\n"


# --- in a new process: pipes, encodings, the debugger, signals, imports ---------------------------


def test_a_prompt_may_come_from_standard_input(console, letters):
    text = "the cat\nŽluť"
    # The program removes the byte-order mark and one newline.
    given = b"\xef\xbb\xbf" + text.encode() + b"\n\n"
    status, out, err = finished("-", "-n", 4, "--model", letters, stdin=given)
    assert (status, out.decode()) == (0, console.text(text + "\n", "-n", 4))
    status, out, err = finished("--json", "x", "-", "-n", 2, "--model", letters, stdin=b"y\n")
    assert [json.loads(line)["prompt"] for line in out.splitlines()] == ["x", "y"]


def test_a_prompt_may_be_piped(console, letters):
    status, out, err = finished("-n", 4, "--model", letters, stdin=b"the cat\n")
    assert (status, out.decode()) == (0, console.text("the cat", "-n", 4))
    status, out, err = finished("a", "-n", 4, "--model", letters, stdin=b"the cat\n")
    assert out.decode() == console.text("a", "-n", 4)  # with a prompt, the pipe is not read
    status, out, err = finished("-n", 4, "--model", letters, stdin=b"")
    assert (status, out) == (1, b"") and b"a PROMPT is missing" in err


def test_unreadable_standard_input_gives_one_line(letters, tmp_path):
    status, out, err = finished("-", "--model", letters, stdin=b"caf\xe9", env={"PYTHONUTF8": "1"})
    assert (status, out, err.count(b"\n")) == (1, b"", 1)
    assert b"cannot read standard input: 'utf-8'" in err
    status, out, err = finished("-", "--model", letters, preexec_fn=lambda: os.close(0))
    assert (status, out, err.count(b"\n")) == (1, b"", 1) and b"standard input" in err
    with open(tmp_path / "file", "wb") as unreadable:
        with process("-", "--model", letters, stdin=unreadable) as running:
            _, err = running.communicate(timeout=60)
    assert err.count(b"\n") == 1 and b"Bad file descriptor" in err
    closed = finished("--interactive", "--model", letters, preexec_fn=lambda: os.close(0))
    assert closed == (1, b"", b"generate.py: standard input or output is closed\n")


@pytest.mark.parametrize("words, expected", [("-n 0", 2), ("--model none", 1), ("", 0)])
def test_exit_statuses_and_no_traceback(letters, words, expected):
    status, _, err = finished("a", *words.split() or ["--model", letters])
    assert (status, err.count(b"\n")) == (expected, 1), err


def test_bytes_that_are_not_utf8_become_replacement_characters(letters, tmp_path):
    folder = shutil.copytree(letters, os.fsdecode(os.fsencode(tmp_path) + b"/m\xff"))
    command = [sys.executable, "generate.py", b"Zo\xeb", "--json", "-n", "2", "--model", folder]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, check=True)
    result = json.loads(done.stdout)
    assert (result["prompt"], result["model"]) == ("Zo\ufffd", f"{tmp_path}/m\ufffd")


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["the cat", "-"])
def test_the_debugger_may_read_from_a_pipe(prompt):
    # This command has no options, because the pdb of Python 3.13.0 does not pass them on.
    command = [sys.executable, "-m", "pdb", "generate.py", prompt]
    given = "c\n" + "the cat" * (prompt == "-")
    done = subprocess.run(command, cwd=HOUSE, input=given, capture_output=True, text=True)
    assert "the cat" in done.stdout and "; ended by " in done.stderr
    assert "Exit status: 0" in done.stdout and "Traceback" not in done.stdout + done.stderr
    if prompt == "-":
        return  # with "-", the program would read the debugger's commands as its prompt
    given = "b gpt2.attention\nc\np q.shape\nq\n"
    done = subprocess.run(command, cwd=HOUSE, input=given, capture_output=True, text=True)
    assert re.search(r"\(Pdb\) \(\d+, \d+, \d+\)", done.stdout)
    assert "Exit status" not in done.stdout  # q ends the debugger and the program


WAITING = """
import sys

def for_input(logits, ids):
    if ids[0] == 65:  # the prompt "b"
        sys.stdin.read()
    return logits

def for_signal(logits, ids):
    while len(ids) > 3:  # signal.pause() would miss a signal that comes just before it
        pass
    return logits
"""


def test_the_reader_of_a_pipe_may_leave_early(letters, tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    words = ["a", "b", "--method", "naive", "--filter", f"{tmp_path}/waiting.py:for_input"]
    with process(*words, "--model", letters, "--json") as running:
        assert json.loads(running.stdout.readline())["prompt"] == "a"
        running.stdout.close()  # as `head -1` does
        running.stdin.close()  # for_input returns, and the program continues
        err = running.stderr.read()
    assert (running.returncode, err) == (0, b"")


def test_an_interrupt_ends_with_one_line(letters, tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    words = ["a", "--filter", f"{tmp_path}/waiting.py:for_signal"]
    # If the tests run in the background, they ignore SIGINT. Their children would do the same.
    listening = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with process(*words, "--model", letters, **listening) as running:
        assert running.stdout.read(2)[:1] == b"a"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, b"\ninterrupted\n")


def test_tensorflow_and_other_heavy_libraries_are_not_imported(letters):
    script = (
        "import sys; from terminal import cli; cli.main(sys.argv[1:]);"
        "print(*{'tensorflow', 'torch', 'tokenizers', 'huggingface_hub', 'requests', 'jinja2'}"
        " & set(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "a", "--json", "--model", str(letters)]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, check=True)
    assert done.stderr == b"\n" and json.loads(done.stdout)["ids"]
