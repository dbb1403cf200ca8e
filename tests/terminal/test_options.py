"""Options, what a checkpoint's generation_config.json sets, and mistakes on the command line."""

import json
import math
import re

import pytest

from tests.support.commands import HOUSE, TIMES, write_letters

HOT = {"do_sample": True, "seed": 4}


@pytest.mark.parametrize(
    ("config", "same", "other"),
    [
        ({"max_new_tokens": 7.0}, "-n 7", "-n 9"),
        ({"max_length": 12}, "-n 7", "-n 9"),  # it counts the prompt
        ({"min_new_tokens": 20}, "--min-length 20", "--min-length 3"),
        ({"min_length": 25}, "--min-length 20", "--min-length 3"),
        ({"temperature": 0.9, "top_k": 3}, "", "--temperature 0.5 --seed 1"),  # no do_sample
        (HOT, "--temperature 1 --seed 4", "--temperature 0"),
        (HOT | {"top_k": 3}, "--top-k 3 --seed 4", "--top-k 2 --seed 4"),
        (HOT | {"top_p": 0.6}, "--top-p 0.6 --seed 4", "--top-p 0.2 --seed 4"),
        (HOT | {"min_p": 0.3}, "--min-p 0.3 --seed 4", "--min-p 0.1 --seed 4"),
        ({"repetition_penalty": 1.5}, "--repetition-penalty 1.5", "--repetition-penalty 1"),
        ({"no_repeat_ngram_size": 1}, "--no-repeat-ngram 1", "--no-repeat-ngram 2"),
        ({"num_beams": 3}, "--method beam --beams 3", "--temperature 0.5 --seed 1"),
        ({"num_beams": 3, "length_penalty": -9.0}, "--beams 3 --length-penalty -9 --method beam",
         "--beams 3 --length-penalty 9 --method beam"),
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_sets_an_option_and_words_override_it(console, tmp_path, config, same, other):
    stop = console.greedy("the cat", 16)[-1]  # not an earlier one

    def run(words, **more):
        folder = write_letters(tmp_path / "m", generation_config=more | {"eos_token_id": stop})
        [row] = console.json("the cat", *words.split(), model=folder)
        return {key: row[key] for key in row.keys() - TIMES}

    assert run("", **config) == run(same)
    assert run(other, **config) == run(other) != run(same)


def test_a_checkpoint_says_when_beam_search_stops(console, tmp_path):  # no option does
    config = {"num_beams": 2, "length_penalty": 2.0, "eos_token_id": 72}
    for early, n in (False, 39), (True, 23), ("never", 43):
        folder = write_letters(tmp_path / "m", generation_config=config | {"early_stopping": early})
        assert len(console.json("the cat", model=folder)[0]["ids"]) == n


WRONG = {"top_k": "x", "length_penalty": math.nan, "num_beams": 4.5, "max_new_tokens": True}


@pytest.mark.parametrize("key", WRONG)
def test_a_checkpoint_with_wrong_settings_is_refused(console, tmp_path, key):
    folder = write_letters(tmp_path / "m", generation_config={key: WRONG[key]})
    line = console.refused(1, "the cat", model=folder)
    assert f"generation_config.json: {key} is {WRONG[key]!r}, not a " in line


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_settings_that_are_not_supported_are_named(console, tmp_path, file):
    folder = write_letters(tmp_path / "m")
    off = dict(typical_p=1.0, num_beam_groups=1, bad_words_ids=None, stop_strings=[])
    asked = dict(suppress_tokens=[70], guidance_scale=1.5, renormalize_logits=True)
    asked |= dict(encoder_no_repeat_ngram_size=1, max_time=1.0)
    settings = off | asked | dict(max_new_tokens=3)
    old = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(old | settings))
    status, out, err = console("the cat", "--json", model=folder)
    assert (status, len(json.loads(out)["ids"])) == (0, 3) and err.count("\n") == 1
    assert {*re.findall(r"[a-z]+_[a-z_]+", err)} == {*asked}
    assert console("the cat", "--score", model=folder)[2] == ""


def test_a_checkpoint_may_choose_the_method(console, tmp_path):
    config = {"num_beams": 2, "do_sample": True}
    folder = write_letters(tmp_path / "m", generation_config=config)
    assert "do_sample with num_beams: not supported" in console("the cat", model=folder)[2]
    assert "--gamma: not for --method beam" in console.refused(1, "a", "--gamma", 2, model=folder)
    line = console.refused(1, "a", "--top-k", 2, "--beams", 2, model=folder)
    assert "--beams: not for --method cached" in line


NONSENSE = """
-n 1.5 | --tokens -1 | --seed -1 | --samples 0 | --stop | --stop= | --seed=--
--temperature -1 | --temperature nan | --top-k -1 | --no-repeat-ngram -1
--top-p 1.1 | --min-p -0.1 | --min-p 1.5 | --repetition-penalty 0 | --min-length -1
--method best | --no-such-flag | --top 3 | --method beam --beams 0 | --gamma 0
--method beam --length-penalty=1000 | --method naive --gamma 2 | --method speculative
--beams 2 | --draft stories-draft | --length-penalty 2 | --method beam --top-k 3
--method lookup --drafter mine.py:x | --method naive --loop mine.py:x
--method speculative --draft x --drafter mine.py:x | --json --compare | --live
--score --explain | --score -n 3 | --score --gamma 2 | --compare --interactive
--interactive | --json --explain | b --html x.html
"""


@pytest.mark.parametrize("words", [w.strip() for w in re.split(r"\||\n", NONSENSE) if w.strip()])
def test_wrong_options_give_one_line(console, words):
    line = console.refused(1, "a", *words.split())
    assert any(option in line for option in re.findall("--?[a-z-]+", words))


def test_mistakes_give_one_line(console):
    assert "--help lists the options" in console.refused(1, "a", "--xyzzy")
    assert "words after -- are prompts" in console.refused(1, "-nice day")
    assert "\x1b" not in console.refused(1, "a", "--xyzzy=\x1b]0;title\x07\n")


def test_options_may_stand_anywhere_and_a_prompt_may_begin_with_a_dash(console):
    first = console.json("-n", 3, "one", "--seed", 1, "--top-k", 2, "two")
    assert [row["prompt"] for row in first] == ["one", "two"]
    dashed = "- milk - eggs", "--- Chapter one ---", "--help me = x", "-5 degrees"
    rows = console.json(dashed[0], "-n", 3, "--stop=--", *dashed[1:], "--", "--json")
    assert [row["prompt"] for row in rows] == [*dashed, "--json"]


def test_the_version_is_that_of_the_project(console):
    version = re.search('version = "(.+)"', (HOUSE / "pyproject.toml").read_text("utf-8"))[1]
    assert console.text("--version") == f"tokenwise {version}\n"
