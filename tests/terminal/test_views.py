"""--score, --explain, --compare and --html show what the model computes and how a text was made."""

import math
import os
import re

import numpy as np
import pytest

import utils
from generate import generate
from gpt2 import log_softmax
from page.live import in_8_bits
from samplers import make_sampler
from terminal.loops import DRAFTERS as DRAFTING
from terminal.loops import LOOPS as METHODS
from terminal.views import bar
from tests.support.commands import END, N_CTX, words_for, write_letters
from tests.support.pages import data_of


def test_score_prints_the_surprise_of_each_token(console):
    text = "the cat sat on a mat, Zoë"
    [result] = console.json("--score", text)
    tokenizer, model = utils.load(console.folder)
    ids = tokenizer.encode(text)
    logprobs = log_softmax(model(np.array([END, *ids]))[:-1])[range(len(ids)), ids]
    np.testing.assert_allclose(result["logprobs"], logprobs, atol=1e-4)
    bits = -np.array(result["logprobs"]) / math.log(2)
    names = [tokenizer.decode([token]) for token in ids]
    names[-2:] = "<C3>", "<AB>"  # the bytes of ë
    assert result["ids"] == ids and result["bits_per_byte"] == pytest.approx(bits.sum() / 26)
    heading, *lines, total = console.text("--score", text).splitlines()
    assert lines == [f"{b:8.2f}  {bar(b):<10}  {name!r}" for b, name in zip(bits, names)]
    bars = [bar(bits) for bits in (0, 0.06, 0.07, 0.5, 2.12, 2.24, 99)]
    assert bars == ["", "", "▏", "▌", "██▏", "██▎", "█" * 10]
    assert result["perplexity"] == pytest.approx(2 ** bits.mean())
    figures = f"{result['bits_per_byte']:.4f} per byte; perplexity {result['perplexity']:.2f}"
    assert total == f"{bits.sum():8.2f}  in {len(ids)} tokens; {figures}"
    assert " in 1 token; " in console.text("--score", "a")


STEP = re.compile(r" *([\d.]+)% +(?:([\d.]+)%)? +([\d.]+) [█-▏]* +('.*?'|\".*?\")(?: +(.*))?")


@pytest.mark.parametrize("method", ["cached", "speculative", "lookup"])
def test_explain_shows_each_step(console, letters, draft, method):
    tokenizer, model = utils.load(str(letters))
    how = ["the cat", "a", "-n", 6, "--temperature", 0.7, "--top-k", 4, "--seed", 3]
    how += words_for(method, draft)
    ids = console.json(*how)[1]["ids"]
    out = console.text(*how, "--explain").partition("'a':\n")[2]
    *legend, heading = out.splitlines()[:3]
    *lines, printed = out.splitlines()[3:]
    assert "drawn: P after temperature and filters" in legend[0]
    assert heading.startswith("  model  drawn") and len(lines) == 6
    text = tokenizer.encode("a")
    assert printed == tokenizer.decode(text + ids)
    assert max(map(len, out.splitlines())) <= 80
    for i, (token, line) in enumerate(zip(ids, lines)):
        by_model, by_sampler, bits, name, others = STEP.fullmatch(line).groups()
        logits = model(np.array(text + ids[:i]))[-1]
        p = np.exp(log_softmax(logits)).astype(np.float64)
        q = make_sampler(temperature=0.7, top_k=4)(logits, text + ids[:i])
        assert name == repr(tokenizer.decode([token]))
        assert float(by_model) == pytest.approx(100 * p[token], abs=0.1)
        assert float(by_sampler or by_model) == pytest.approx(100 * q[token], abs=0.1)
        assert float(bits) == pytest.approx(-(p * np.log2(p)).sum(), abs=0.01)
        best = [t for t in np.argsort(-p) if t != token][:2]
        assert others.startswith(" ".join(f"{tokenizer.decode([t])!r} {p[t]:.0%}" for t in best))


BEAMS = """\
the beams after each step; log P: the sum over the tokens, in nats
 step   log P            tokens
    1   -0.69  kept      't'
    1   -2.24  finished  'm'
    1   -2.25  kept      'g'
    2   -1.89  finished  'tm'
    2   -2.04  kept      'tg'
    2   -2.23  kept      'tt'
    3   -2.80  finished  'tgt'
    3   -3.16  finished  'ttt'
the cattgt
"""


def test_explain_shows_the_beams_of_each_step(console, tmp_path):
    folder = write_letters(tmp_path / "m", generation_config={"eos_token_id": [END, 76]})
    words = ["the cat", "-n", 3, "--method", "beam", "--explain"]
    assert console.text(*words, "--beams", 2, model=folder) == BEAMS
    folder = write_letters(tmp_path / "long", n_ctx=160)
    out = console.text("the cat", "-n", 150, *words[3:], "--beams", 1, model=folder)
    assert max(map(len, out.splitlines()[:-1])) == 80  # the end of each text is shown
    # Special tokens have names. The texts also show the space of the token " Wetter".
    out = console.text("The weather is nice.", "--explain", model="en-de")
    assert "</s>'" in out and "' Wetter" not in out and "Wetter" in out


def table(out):
    """Return --compare's table as {method: {column: text}}."""
    columns = "speed ratio flops bytes per_pass accepted ids".split()
    line = r"(\w+)" + " +([\\d.,-]+)" * 5 + r" +(-|\d+ of \d+)  (.+)"
    rows = re.findall(f"^{line}$", out, re.M)
    return {method: dict(zip(columns, values)) for method, *values in rows}


def test_compare_shows_every_method_and_that_the_ids_are_identical(console, draft):
    out = console.text("the cat", "--compare", "-n", 20, "--draft", draft, "--beams", 3)
    rows = table(out)
    assert list(rows) == list(METHODS) and max(map(len, out.splitlines())) <= 80
    for method, row in rows.items():
        assert row["ids"] == ("likeliest" if method == "beam" else "as naive")
        assert float(row["speed"]) > 0
        assert (row["accepted"] != "-") == (method in DRAFTING)
    assert rows["naive"]["ratio"] == rows["naive"]["per_pass"] == "1.00"
    _, _, line = console("the cat", "-n", 20, "--method", "lookup")
    found = re.search(r"(\d+ of \d+) drafts accepted, ([\d.]+) tokens per pass", line).groups()
    assert (rows["lookup"]["accepted"], rows["lookup"]["per_pass"]) == found


def test_no_drafts_and_no_encoder_are_counted(console):
    assert "no drafts, 1.00 tokens" in console("a", "--method", "lookup", "-n", 1)[2]
    _, out, err = console("I am tired.", "--compare", "-n", 1, model="en-de")
    assert table(out)["ngram"]["accepted"] == "-" and "without the encoder" in err


def test_compare_with_sampling_and_with_a_full_context(console):
    how = ["--temperature", 0.9, "--seed", 5]
    status, out, err = console("the cat", "a", "--compare", "-n", 8, *how)
    assert (status, err) == (0, "(seed 5)\n(seed 6)\n") and out.count("as naive") == 4
    assert table(out)["cached"]["ids"] == "as naive" and table(out)["ngram"]["ids"] == "sampled"
    out = console.text("a" * N_CTX, "--compare")
    assert out.count("no tokens: the context is full") == len(METHODS) - 1


@pytest.mark.parametrize("method", METHODS)
def test_the_page_shows_the_printed_text(console, draft, tmp_path, method):
    file = tmp_path / "page.html"
    sliders = [] if method == "beam" else ["--temperature", 0.7, "--top-k", 9, "--seed", 5]
    words = "the cat", "-n", 9, *words_for(method, draft), *sliders, "--html", file
    [row] = console.json(*words)
    data = data_of(file.read_text(encoding="utf-8"))
    assert data["ids"] == row["prompt_ids"] + row["ids"]
    assert data["settings"]["method"] == method  # the sliders start with the sampler's settings
    names = ["temperature", "top_k"] + ["seed"] * (method != "beam")
    assert [data["settings"][name] for name in names] == (sliders[1::2] or [1, 0])
    status, out, err = console(*words)
    assert out == "the cat" + row["text"] + "\n" and f"({file} is written: open it" in err


def test_a_live_page_continues_with_the_model_in_8_bits(console, tmp_path):
    tokenizer, model = utils.load(console.folder)
    expected = list(generate(in_8_bits(tokenizer, model), tokenizer.encode("the"), 40))
    words = "the", "-n", 40, "--html", tmp_path / "page.html"
    assert console.json(*words, "--live")[0]["ids"] == expected != console.json(*words)[0]["ids"]


def test_a_page_replaces_an_html_file_and_nothing_else(console, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    assert "ends in .html" in console.refused(1, "a", "--html", tmp_path / "README.md")
    (tmp_path / "page.html.unfinished").symlink_to(tmp_path / "README.md")
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    console("a", "-n", 1, "--html", tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "page.html").is_file()
    assert (tmp_path / "page.html").stat().st_mode == (tmp_path / "README.md").stat().st_mode
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "d.html").mkdir()
    assert "is a folder" in console.refused(1, "a", "--html", tmp_path / "d.html")
    assert "no/a.html cannot be" in console.refused(1, "a", "--html", tmp_path / "no/a.html")


FAILS = """
import pathlib
def f(logits, ids):
    assert not [*pathlib.Path(__file__).parent.glob("*.unfinished")]  # SIGKILL would leave it
    raise KeyboardInterrupt
"""


def test_an_interrupt_leaves_the_older_page(console, tmp_path):
    (tmp_path / "own.py").write_text(FAILS)
    (tmp_path / "page.html").write_text("an older page")
    (left := tmp_path / f"{'0' * 16}.unfinished").touch()
    os.utime(left, (1, 1))  # a killed process has left it
    for name in "page.html", "new.html":
        words = "--html", tmp_path / name, "--filter", f"{tmp_path}/own.py:f"
        assert console("a", *words)[0] == 130
    assert {path.name for path in tmp_path.iterdir()} == {"own.py", "page.html"}
    assert (tmp_path / "page.html").read_text() == "an older page"
