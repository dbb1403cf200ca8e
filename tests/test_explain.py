"""--score, --explain: they print the numbers that the model computes."""

import json
import math
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import utils
from gpt2 import log_softmax
from samplers import make_sampler
from terminal.explain import Live, bar
from terminal.options import METHODS
from terminal.show import colour
from tests.commands import END, N_CTX, finished, screen, write_letters

LONG = "the cat sat on the mat and the dog ate the hat of a man " * 4
ESCAPE = "\x1b["

# --- score ----------------------------------------------------------------------------------------


def direct(folder, text):
    """log P of each token of a text that fits the context: one pass, from <|endoftext|>."""
    tokenizer, model = utils.load(str(folder))
    ids = tokenizer.encode(text)
    return ids, log_softmax(model([END, *ids])[:-1])[range(len(ids)), ids]


@pytest.mark.parametrize("text", ["the cat sat", "a", "Zoë 🙂", "x" * (N_CTX - 1)])
def test_score_is_the_sum_of_log_probabilities(console, letters, text):
    [result] = console.json("--score", text)
    ids, logprobs = direct(letters, text)
    assert result.keys() >= {"ids", "logprobs", "total", "bits_per_byte", "perplexity"}
    assert result["ids"] == ids
    np.testing.assert_allclose(result["logprobs"], logprobs, atol=1e-4)
    total = float(logprobs.sum())
    assert result["total"] == pytest.approx(total, rel=1e-5)
    assert result["bits_per_byte"] == pytest.approx(-total / math.log(2) / len(text.encode()))
    assert result["perplexity"] == pytest.approx(math.exp(-total / len(ids)), rel=1e-4)


def test_a_text_longer_than_the_context_is_scored_in_strides(console, letters):
    tokenizer, model = utils.load(str(letters))
    [result] = console.json("--score", LONG)
    ids = tokenizer.encode(LONG)
    assert result["ids"] == ids and len(ids) > 3 * N_CTX
    text = [END, *ids]
    found = np.array(result["logprobs"])
    first = log_softmax(model(text[:N_CTX]))[range(N_CTX), text[1 : N_CTX + 1]]
    np.testing.assert_allclose(found[:N_CTX], first, atol=1e-4)
    for i in (N_CTX, N_CTX + 20, len(ids) - 1):  # log P(text[i + 1]) given the tokens of a window
        candidates = [
            log_softmax(model(text[begin : i + 1])[-1])[text[i + 1]]
            for begin in range(i + 1 - N_CTX, i + 2 - N_CTX // 2)
        ]
        assert np.abs(np.array(candidates) - found[i]).min() < 1e-4


def test_score_prints_a_line_per_token(console, letters):
    ids, logprobs = direct(letters, "the cat")
    lines = console.text("--score", "the cat").splitlines()
    tokenizer, _ = utils.load(str(letters))
    for line, token, logprob in zip(lines, ids, logprobs, strict=False):
        assert line[:9] == f"{logprob:9.4f}"
        assert line[23:] == repr(tokenizer.decode([token]))
        assert line[11:21].rstrip() == bar(-logprob / math.log(2) / 10, 10)
    assert len(lines) == len(ids) + 1
    assert lines[-1].startswith(f"{logprobs.sum():9.4f}  log P of 5 tokens; ")
    assert "bits per byte, perplexity" in lines[-1]
    expected = "0.0000 log P of 0 tokens; 0.0000 bits per byte, perplexity 1.00"
    assert console.text("--score", "").split() == expected.split()
    assert "log P of 1 token; " in console.text("--score", "a")
    assert "'<C3>'\n" in console.text("--score", "Zoë")  # a byte of a half character


def test_a_drafter_of_your_own_is_explained(console, tmp_path):
    own = "from drafters import PromptLookup\ndef own(model): return PromptLookup(model.n_vocab)\n"
    (tmp_path / "own.py").write_text(own)
    words = "--method", "speculative", "--drafter", f"{tmp_path / 'own.py'}:own()"
    looked_up = console.text("--explain", "abcabc", "-n", 9, "--method", "lookup")
    assert console.text("--explain", "abcabc", "-n", 9, *words) == looked_up


OWN_LOOP = """
def loop(model, sequences):
    [sequence] = sequences
    for drawn in False, True, False:
        logits = model(sequence.ids, last=1)[-1]
        token = int(sequence.sampler(logits, sequence.ids).argmax()) if drawn else 70
        sequence.append(token)
        yield sequence, token
"""


def test_a_token_that_a_loop_chose_without_the_sampler_has_no_figures(console, tmp_path):
    (tmp_path / "own.py").write_text(OWN_LOOP)
    out = console.text("--explain", "a", "-n", 3, "--loop", f"{tmp_path / 'own.py'}:loop")
    first, second, third = out.splitlines()[1:4]
    assert first == third == " " * 33 + "'g'"
    assert "%" in second


def test_a_bar_is_as_long_as_its_share():
    assert [bar(share, 4) for share in (0, 1 / 32, 0.25, 0.5 + 3 / 32, 1, 7)] == [
        "", "▏", "█", "██▍", "████", "████",
    ]  # fmt: skip


def test_on_a_terminal_the_scored_text_is_coloured_below(console, monkeypatch):
    monkeypatch.setattr("terminal.show.is_coloured", lambda *_: True)
    *_, text, last = console.text("--score", "the cat").splitlines()
    assert re.sub("\x1b\\[.*?m", "", text) == "the cat" != text
    assert "log P" in last


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e6])
def test_a_model_without_numbers_has_no_score(console, tmp_path, scale):
    folder = write_letters(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    tensors["wte.weight"] *= np.float32(scale)
    save_file(tensors, folder / "model.safetensors")
    assert "no probability" in console.refused(1, "--score", "the cat", model=folder)


def test_bits_per_byte_are_of_the_bytes_that_are_scored(console, tmp_path):
    [result] = console.json("--score", "a\udcff\udce2b")  # two bytes that are read as U+FFFD
    bits = -result["total"] / math.log(2)
    assert result["bits_per_byte"] == pytest.approx(bits / 8)
    assert result == console.json("--score", "a\ufffd\ufffdb")[0]
    folder = write_letters(tmp_path / "m")
    vocab = json.loads((folder / "vocab.json").read_text())
    vocab["unused"] = vocab.pop("<|endoftext|>")  # no token to start from
    (folder / "vocab.json").write_text(json.dumps(vocab))
    [result] = console.json("--score", "the cat", model=folder)
    assert len(result["ids"]) == 4  # without "the", 3 bytes
    assert result["bits_per_byte"] == pytest.approx(-result["total"] / math.log(2) / 4)
    [result] = console.json("--score", "the", model=folder)
    assert (result["total"], result["bits_per_byte"], result["perplexity"]) == (0, 0, 1)


def test_score_of_several_texts_and_of_standard_input(console, letters, tmp_path):
    (tmp_path / "texts").write_text("the cat\na\n")
    words = ["--score", "x", "--prompts-file", str(tmp_path / "texts"), "--json"]
    rows = console.json(*words[:-1])
    assert [len(row["ids"]) for row in rows] == [1, 5, 1]
    status, out, err = finished("--score", "-", "--json", "--model", letters, stdin=LONG.encode())
    assert (status, err) == (0, b"")
    assert json.loads(out) == console.json("--score", LONG)[0]
    for given, scored in (b"a\n\n", "a\n"), (b"a\n", "a"), (b"\n", ""):  # one newline goes
        status, out, err = finished("--score", "-", "--json", "--model", letters, stdin=given)
        assert json.loads(out) == console.json("--score", scored)[0]


# --- explain --------------------------------------------------------------------------------------

STEP = re.compile(r" *([\d.]+)% +(?:([\d.]+)%)? +([\d.]+) [█-▏]* +('.*?'|\".*?\")(?: +(.*))?")


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_explain_shows_each_step(console, letters, method):
    tokenizer, model = utils.load(str(letters))
    how = ["--temperature", 0.7, "--top-k", 4, "--seed", 3]
    ids = console.json("the cat", "-n", 6, *how)[0]["ids"]
    out = console.text("the cat", "-n", 6, *how, "--explain", "--method", method)
    heading, *lines, printed = out.splitlines()
    assert heading.startswith("  model  drawn") and len(lines) == 6
    assert printed == tokenizer.decode(tokenizer.encode("the cat") + ids)
    assert max(map(len, [heading, *lines])) <= 80
    text = tokenizer.encode("the cat")
    for i, (token, line) in enumerate(zip(ids, lines)):
        by_model, by_sampler, bits, name, others = STEP.fullmatch(line).groups()
        logits = model(text + ids[:i])[-1]
        p = np.exp(log_softmax(logits)).astype(np.float64)
        q = make_sampler(temperature=0.7, top_k=4)(logits, text + ids[:i])
        assert name == repr(tokenizer.decode([token]))
        assert float(by_model) == pytest.approx(100 * p[token], abs=0.1)
        assert float(by_sampler or by_model) == pytest.approx(100 * q[token], abs=0.1)
        assert float(bits) == pytest.approx(-(p * np.log2(p)).sum(), abs=0.01)
        best = [t for t in np.argsort(-p) if t != token][:2]
        assert others.startswith(" ".join(f"{tokenizer.decode([t])!r} {p[t]:.0%}" for t in best))


def test_explain_shows_the_row_that_is_printed_without_it(console):
    how = ["-n", 5, "--temperature", 1.5, "--seed", 3, "the cat", "the cat"]
    rows = console.json(*how)
    blocks = console.text(*how, "--explain").split("'the cat':\n")[1:]
    for row, block in zip(rows, blocks, strict=True):
        _, *lines, printed = block.splitlines()
        assert "".join(eval(STEP.fullmatch(line)[4]) for line in lines) == row["text"]
        assert printed == "the cat" + row["text"]
    assert rows[0]["text"] != rows[1]["text"]


PASS = re.compile(r"(\d+)/(\d+) (.*)")


@pytest.mark.parametrize("how", [[], ["--temperature", 1.0, "--seed", 5]])
@pytest.mark.parametrize("method", ["speculative", "ngram", "lookup"])
def test_explain_shows_accepted_rejected_and_corrected(console, draft, method, how):
    words = ["the cat", "-n", 24, "--method", method, *how]
    words += ["--draft", draft] if method == "speculative" else []
    [row] = console.json(*words)
    text, accepted, drafted = "", 0, 0
    legend, *lines, printed = console.text(*words, "--explain").splitlines()
    assert legend.startswith("accepted/drafted") and printed == "the cat" + row["text"]
    for line in lines:
        n_accepted, n_drafts, names = PASS.fullmatch(line).groups()
        kept = re.findall(r"(?:^| )[+]?('[^']*')", names)
        text += "".join(map(eval, kept))
        accepted, drafted = accepted + int(n_accepted), drafted + int(n_drafts)
        assert len(kept) in (int(n_accepted), int(n_accepted) + 1)
        if len(kept) > int(n_accepted):  # else the row has ended among the accepted
            assert ("-'" in names) == (int(n_accepted) < int(n_drafts))
    assert text == row["text"]
    assert (accepted, drafted) == (row["speculation"]["accepted"], row["speculation"]["drafted"])


def test_explain_of_beams_is_a_tree(console):
    words = ["the cat", "-n", 6, "--method", "beam", "--beams", 3]
    out = console.text(*words, "--explain")
    [row] = console.json(*words, "--return", 3)
    ends = [line for line in out.splitlines() if " finished" in line]
    assert len(ends) == 3
    for beam in row["beams"]:
        assert any(f" {beam['log_probability']:.2f} finished" in line for line in ends)
    best = f" {row['beams'][0]['log_probability']:.2f} finished, the best"
    assert out.count(best) == out.count("the best") == 1
    assert out.endswith(f"\nthe cat{row['text']}\n")


@pytest.mark.parametrize("method", ["cached", "lookup", "beam"])
def test_on_a_terminal_the_text_and_the_tree_grow_and_nothing_of_them_stays(
    console, monkeypatch, method
):
    words = "the cat", "-n", 9, "--method", method, "--explain"
    for name in "COLUMNS", "LINES":
        monkeypatch.setenv(name, "80")
    plain = console.text(*words)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("terminal.show.COLOURS", {})
    monkeypatch.delenv("NO_COLOR", raising=False)
    printed = console.text(*words)
    assert screen(printed, 80) == plain.split("\n")
    seen = [screen(printed[: found.start()], 80)
            for found in re.finditer(r"(\x1b\[\d+A)?\r\x1b\[J", printed)]  # fmt: skip
    if method == "cached":
        text = plain.splitlines()[-1]
        assert {text[: len("the cat") + n] for n in range(1, 10)} <= {lines[-1] for lines in seen}
    if method == "beam":
        trees = ["\n".join(lines[1:]) for lines in seen if len(lines) > 3]
        assert len({*trees}) >= 9 and not any("finished" in tree for tree in trees[:5])


def test_only_the_last_lines_of_a_long_text_are_live(monkeypatch, capsys):
    monkeypatch.setattr("terminal.show.is_coloured", lambda *_: True)
    live = Live()
    live.show(lambda: "a\nb\nc\nd", 3)
    assert screen(capsys.readouterr().out, 9) == ["b", "c", "d"]
    monkeypatch.setattr("terminal.show.is_coloured", lambda *_: False)
    live.show(lambda: "a", 3)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("method", METHODS)
def test_explain_of_a_full_context_and_of_a_stop_at_once(console, letters, draft, method):
    words = ["--explain", "--method", method]
    words += ["--draft", draft] if method == "speculative" else []
    assert console.text("a" * N_CTX, *words).splitlines()[1:] == ["a" * N_CTX]
    first = console.json("the cat", "-n", 1)[0]["text"]
    assert console.text("the cat", *words, "--stop", first)


@pytest.mark.parametrize("wrong", [["the cat", "--draft", "no-such"], ["a" * (N_CTX + 1)]])
def test_a_mistake_is_refused_before_the_legend(console, wrong):
    console.refused(1, *wrong, "--explain", "--method", "speculative")


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_colour_is_for_terminals_without_no_color(monkeypatch, terminal, no_color, coloured):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    for kind in "accepted", "rejected", "corrected":
        assert (ESCAPE in colour("text", kind)) == coloured
        assert "text" in colour("text", kind)


def test_a_checkpoint_that_samples_can_be_explained(console, tmp_path):
    config = {"do_sample": True, "temperature": 0.9, "seed": 4, "max_new_tokens": 5}
    folder = write_letters(tmp_path / "m", generation_config=config)
    status, out, err = console("a", "--explain", model=folder)
    assert (status, out.count("\n")) == (0, 7) and "seed 4;" in err
