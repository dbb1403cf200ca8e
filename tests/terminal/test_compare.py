"""--compare runs the same prompt with every method and prints one table."""

import re

import pytest

from families.seq2seq import EncoderDecoder
from generate import naive
from terminal import options
from terminal.compare import compare
from terminal.options import DRAFTING, METHODS
from terminal.session import Session
from tests.support.commands import HOUSE, N_CTX, write_letters


def table(out):
    """Return --compare's table as {method: {column: text}}."""
    columns = "speed ratio first per_pass accepted ids".split()
    lines = [re.sub("[█-▏]", " ", line) for line in out.splitlines()]
    rows = [line.split(maxsplit=6) for line in lines if line.split()[0] in METHODS]
    return {method: dict(zip(columns, values)) for method, *values in rows}


def test_compare_shows_every_method_and_that_the_ids_are_identical(console, draft):
    out = console.text("the cat", "--compare", "-n", 20, "--draft", draft, "--beams", 3)
    rows = table(out)
    assert list(rows) == list(METHODS)
    for method, row in rows.items():
        beam = method == "beam"
        assert row["ids"] == ("likeliest" if beam else "as naive")
        assert float(row["speed"]) > 0
        assert (row["accepted"] != "-") == (method in DRAFTING)
    assert rows["naive"]["ratio"] == rows["naive"]["per_pass"] == "1.00"
    [row] = console.json("the cat", "-n", 20, "--method", "lookup")
    assert rows["lookup"]["per_pass"] == f"{row['speculation']['tokens_per_call']:.2f}"
    assert rows["lookup"]["accepted"] == f"{row['speculation']['acceptance']:.0%}"
    assert "speculative" not in table(console.text("the cat", "--compare", "-n", 4))


def test_a_user_s_drafter_needs_no_draft_model(console, tmp_path):
    (tmp_path / "own.py").write_text("from decoding.drafters import PromptLookup\n")
    own = f"{tmp_path / 'own.py'}:PromptLookup(model.n_vocab)"
    words = "abcabc", "--compare", "-n", 9, "--drafter", own
    rows = table(console.text(*words))
    assert rows["speculative"]["accepted"] == rows["lookup"]["accepted"] != "-"


def test_the_heading_names_the_columns(console):
    heading, *lines = console.text("the cat", "--compare", "-n", 4).splitlines()
    columns = r"tokens/s|x naive|first \(s\)|per pass|accepted"
    ends = [found.end() for found in re.finditer(columns, heading)]
    assert len(ends) == 5 and heading.startswith("method ") and heading.endswith("  ids")
    assert max(map(len, [heading, *lines])) <= 80
    for line in lines[: len(METHODS) - 1]:
        assert all(line[end - 1] != " " == line[end] for end in ends)


def test_compare_shows_a_difference(console, monkeypatch):
    def wrong(model, sequence, cache):
        for token in naive(model, sequence):
            sequence.ids[-1] = 66 + token % 2
            yield sequence.ids[-1]

    monkeypatch.setattr("terminal.session.cached", wrong)
    rows = table(console.text("the cat", "--compare", "-n", 6))
    assert rows["cached"]["ids"] == "DIFFERENT"
    assert rows["ngram"]["ids"] == "as naive"


@pytest.fixture
def timed(monkeypatch):
    """Return a list of the methods in the order in which they ran, and a function that sets the
    speed of each method in each round."""
    ran, generate = [], Session.generate

    def recording(session, rows):
        method = session.settings["method"]
        rows[0].place = method, ran.count(method)
        ran.append(method)
        return generate(session, rows)

    def set_speeds(speeds):
        found = property(lambda row: speeds[row.place[0]][row.place[1]])
        monkeypatch.setattr("terminal.row.Row.tokens_per_second", found)

    monkeypatch.setattr(Session, "generate", recording)
    return ran, set_speeds


def test_methods_take_turns_and_the_table_has_medians_without_the_first_round(console, timed):
    ran, set_speeds = timed
    rounds = {
        "naive": [900.0, 20.0, 10.0, 40.0],
        "cached": [1.0, 50.0, 70.0, 60.0],
        "beam": [1.0, 2.0, 2.0, 2.0],
        "ngram": [1.0, 30.0, 10.0, 20.0],
        "lookup": [1.0, 25.0, 25.0, 99.0],
    }
    set_speeds(rounds)
    out = console.text("the cat", "--compare", "-n", 4)
    assert ran == [method for method in METHODS if method != "speculative"] * 4
    speeds = {method: (row["speed"], row["ratio"]) for method, row in table(out).items()}
    assert speeds == {
        "naive": ("20.0", "1.00"),
        "cached": ("60.0", "3.00"),
        "beam": ("2.0", "0.10"),
        "ngram": ("20.0", "1.00"),
        "lookup": ("25.0", "1.25"),
    }


def test_compare_starts_each_prompt_with_its_own_seed(console, monkeypatch):
    seeds = []

    def note(method, rows, naive, sampled):
        seeds.append([row.seed for row in rows])
        return ""

    monkeypatch.setattr("terminal.compare.compare_line", note)
    console.text("a", "b", "--compare", "-n", 1, "--temperature", 1, "--seed", 5)
    assert seeds == [[5] * 4] * 5 + [[6] * 4] * 5


def test_compare_with_sampling_with_stops_and_with_a_full_context(console):
    how = ["--temperature", 0.9, "--seed", 1]
    rows = table(console.text("the cat", "--compare", "-n", 8, *how))
    assert rows["cached"]["ids"] == "as naive"
    assert rows["ngram"]["ids"] == "sampled"
    stop = console.json("the cat", "-n", 9)[0]["text"][3:5]
    rows = table(console.text("the cat", "--compare", "--stop", stop, "--beams", 1))
    assert rows["lookup"]["ids"] == "as naive"
    out = console.text("a" * N_CTX, "--compare")
    assert out.count("no tokens: the context is full") == len(METHODS) - 1
    assert console.text("a" * (N_CTX - 1), "--compare").count("as naive") == 4


def test_the_encoder_runs_once_for_each_method_and_round(monkeypatch):
    folder, runs = "tests/fixtures/seq2seq/bart", []
    encode = EncoderDecoder.encode
    monkeypatch.setattr(EncoderDecoder, "encode", lambda *a: runs.append(1) or encode(*a))
    session = Session(options.parse(["a", "--model", str(HOUSE / folder), "-n", "3"]))
    compare(session, "the cat")
    assert len(runs) == 4 * (len(METHODS) - 1)  # without a draft model, speculative does not run


@pytest.mark.parametrize("wrong", [["the cat", "--draft", "no-such"], ["a" * (N_CTX + 1)]])
def test_a_mistake_is_refused_before_the_table(console, wrong):
    console.refused(1, *wrong, "--compare")


def test_a_checkpoint_that_samples_can_be_compared(console, tmp_path):
    config = {"do_sample": True, "temperature": 0.9, "seed": 4, "max_new_tokens": 5}
    folder = write_letters(tmp_path / "m", generation_config=config)
    status, out, err = console("a", "--compare", model=folder)
    assert (status, err) == (0, "(seed 4)\n") and "  sampled\n" in out
