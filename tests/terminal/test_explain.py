"""--score and --explain print the numbers that the model computes."""

import json
import math
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import utils
from gpt2 import log_softmax
from samplers import make_sampler
from terminal.explain import bar
from terminal.options import METHODS
from terminal.show import colour, tint
from tests.support.commands import END, N_CTX, finished, write_letters

LONG = "the cat sat on the mat and the dog ate the hat of a man " * 4
ESCAPE = "\x1b["

# --- the option --score ---------------------------------------------------------------------------


def direct(folder, text):
    """Return a text's ids and the log P of each, from one pass over <|endoftext|> and the text."""
    tokenizer, model = utils.load(str(folder))
    ids = tokenizer.encode(text)
    return ids, log_softmax(model(np.array([END, *ids]))[:-1])[range(len(ids)), ids]


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
    first = log_softmax(model(np.array(text[:N_CTX])))[range(N_CTX), text[1 : N_CTX + 1]]
    np.testing.assert_allclose(found[:N_CTX], first, atol=1e-4)
    for i in (N_CTX, N_CTX + 20, len(ids) - 1):
        # Some window of N_CTX // 2 to N_CTX tokens must give the same log P(text[i + 1]).
        candidates = [
            log_softmax(model(np.array(text[begin : i + 1]))[-1])[text[i + 1]]
            for begin in range(i + 1 - N_CTX, i + 2 - N_CTX // 2)
        ]
        assert np.abs(np.array(candidates) - found[i]).min() < 1e-4


def test_score_prints_the_text_and_a_line_per_token(console, letters):
    """The numbers are in bits, as the printed heading says."""
    ids, logprobs = direct(letters, "the cat")
    text, empty, heading, *lines = console.text("--score", "the cat").splitlines()
    assert (text, empty) == ("the cat", "") and "in bits" in heading
    tokenizer, _ = utils.load(str(letters))
    for line, token, bits in zip(lines, ids, -logprobs / math.log(2), strict=False):
        assert line[:8] == f"{bits:8.2f}"
        assert line[22:] == repr(tokenizer.decode([token]))
        assert line[10:20].rstrip() == bar(bits / 10, 10)
    assert len(lines) == len(ids) + 1
    total = -logprobs.sum() / math.log(2)
    assert lines[-1].startswith(f"{total:8.2f}  in 5 tokens; {total / 7:.4f} per byte; perplexity ")
    assert console.text("--score", "").split()[-5:] == "0.0000 per byte; perplexity 1.00".split()
    assert " in 1 token; " in console.text("--score", "a")
    assert "'<C3>'\n" in console.text("--score", "Zoë")  # the first byte of ë


def test_a_bar_is_as_long_as_its_share():
    bars = [bar(share, 4) for share in (0, 1 / 32, 0.25, 0.5 + 3 / 32, 1, 7)]
    assert bars == ["", "▏", "█", "██▍", "████", "████"]


def make_terminal(monkeypatch):
    """Make stdout look like a terminal that shows colours."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_tints_tokens_by_their_surprise(console, letters, monkeypatch):
    make_terminal(monkeypatch)
    text, *_ = console.text("--score", "the cat").splitlines()
    ids, logprobs = direct(letters, "the cat")
    names = ["the", " ", "c", "a", "t"]
    surprises = -logprobs / math.log(2)
    assert text == "".join(tint(name, bits) for name, bits in zip(names, surprises))
    assert ESCAPE in text
    plain, *tints = (tint(" a", bits) for bits in (2.4, 2.5, 5, 7.5, 10))
    assert plain == " a" and len({*tints}) == 4 and tint(" a", 99) == tints[-1]
    assert all(text.startswith(" \x1b[30;48;5;") for text in tints)
    *_, step, _ = console.text("the cat", "--explain", "-n", 1).splitlines()
    p = float(re.match(r" *([\d.]+)%", step)[1]) / 100
    assert (ESCAPE in step) == (p < 2**-2.5)


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e6])
def test_a_model_whose_logits_are_nan_has_no_score(console, tmp_path, scale):
    folder = write_letters(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    tensors["wte.weight"] *= np.float32(scale)
    save_file(tensors, folder / "model.safetensors")
    assert "no probability" in console.refused(1, "--score", "the cat", model=folder)


def test_bits_per_byte_count_only_the_scored_bytes(console, tmp_path):
    [result] = console.json("--score", "a\udcff\udce2b")  # 4 bytes, of which 2 are not UTF-8
    bits = -result["total"] / math.log(2)
    assert result["bits_per_byte"] == pytest.approx(bits / 4)
    folder = write_letters(tmp_path / "m")
    vocab = json.loads((folder / "vocab.json").read_text())
    # Without <|endoftext|>, nothing precedes the first token, so it has no log P.
    vocab["unused"] = vocab.pop("<|endoftext|>")
    (folder / "vocab.json").write_text(json.dumps(vocab))
    [result] = console.json("--score", "the cat", model=folder)
    assert len(result["ids"]) == 4  # only the 4 tokens of " cat" have a score; each is 1 byte
    assert result["bits_per_byte"] == pytest.approx(-result["total"] / math.log(2) / 4)
    [result] = console.json("--score", "the", model=folder)
    assert (result["total"], result["bits_per_byte"], result["perplexity"]) == (0, 0, 1)


def test_score_takes_several_texts_or_standard_input(console, letters, tmp_path):
    (tmp_path / "texts").write_text("the cat\na\n")
    words = ["--score", "x", "--prompts-file", str(tmp_path / "texts"), "--json"]
    rows = console.json(*words[:-1])
    assert [len(row["ids"]) for row in rows] == [1, 5, 1]
    status, out, err = finished("--score", "-", "--json", "--model", letters, stdin=LONG.encode())
    assert (status, err) == (0, b"")
    assert json.loads(out) == console.json("--score", LONG)[0]
    # The program removes one newline from the end of its input.
    for given, scored in (b"a\n\n", "a\n"), (b"a\n", "a"), (b"\n", ""):
        status, out, err = finished("--score", "-", "--json", "--model", letters, stdin=given)
        assert json.loads(out) == console.json("--score", scored)[0]


# --- the option --explain -------------------------------------------------------------------------

STEP = re.compile(r" *([\d.]+)% +(?:([\d.]+)%)? +([\d.]+) [█-▏]* +('.*?'|\".*?\")(?: +(.*))?")


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_explain_shows_each_step(console, letters, method):
    tokenizer, model = utils.load(str(letters))
    how = ["--temperature", 0.7, "--top-k", 4, "--seed", 3]
    ids = console.json("the cat", "-n", 6, *how)[0]["ids"]
    out = console.text("the cat", "-n", 6, *how, "--explain", "--method", method)
    *legend, heading = out.splitlines()[:3]
    *lines, printed = out.splitlines()[3:]
    assert "drawn: P after temperature and filters" in legend[0]
    assert heading.startswith("  model  drawn") and len(lines) == 6
    assert printed == tokenizer.decode(tokenizer.encode("the cat") + ids)
    assert max(map(len, [*legend, heading, *lines])) <= 80
    text = tokenizer.encode("the cat")
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


def test_explain_shows_the_same_rows_as_a_plain_run(console):
    how = ["-n", 5, "--temperature", 1.5, "--seed", 3, "the cat", "the cat"]
    rows = console.json(*how)
    blocks = console.text(*how, "--explain").split("'the cat':\n")[1:]
    for row, block in zip(rows, blocks, strict=True):
        lines, printed = block.splitlines()[3:-1], block.splitlines()[-1]
        assert "".join(eval(STEP.fullmatch(line)[4]) for line in lines) == row["text"]
        assert printed == "the cat" + row["text"]
    assert rows[0]["text"] != rows[1]["text"]


PASS = re.compile(r"(\d+)/(\d+) (.*)")


@pytest.mark.parametrize("how", [[], ["--temperature", 1.0, "--seed", 5]])
@pytest.mark.parametrize("method", ["speculative", "ngram", "lookup"])
def test_explain_shows_accepted_rejected_and_corrected_drafts(console, draft, method, how):
    words = ["the cat", "-n", 24, "--method", method, *how]
    words += ["--draft", draft] if method == "speculative" else []
    [row] = console.json(*words)
    text, accepted, drafted = "", 0, 0
    legend, *lines, printed = console.text(*words, "--explain").splitlines()
    assert legend.startswith("accepted/drafted") and printed == "the cat" + row["text"]
    for line in lines:
        n_accepted, n_drafts, names = PASS.fullmatch(line).groups()
        tokens = re.findall(r"(?:^| )[+]?('[^']*')", names)
        text += "".join(map(eval, tokens))
        accepted, drafted = accepted + int(n_accepted), drafted + int(n_drafts)
        assert len(tokens) in (int(n_accepted), int(n_accepted) + 1)
        if len(tokens) > int(n_accepted):  # otherwise an accepted draft ended the text
            assert ("-'" in names) == (int(n_accepted) < int(n_drafts))
    assert text == row["text"]
    assert (accepted, drafted) == (row["speculation"]["accepted"], row["speculation"]["drafted"])


def test_a_user_s_drafter_is_explained(console, tmp_path):
    (tmp_path / "own.py").write_text("from decoding.drafters import PromptLookup\n")
    own = f"{tmp_path / 'own.py'}:PromptLookup(model.n_vocab)"
    looked_up = console.text("--explain", "abcabc", "-n", 9, "--method", "lookup")
    words = "--explain", "abcabc", "-n", 9, "--method", "speculative", "--drafter", own
    assert console.text(*words) == looked_up


OWN_LOOP = """
import numpy as np
def loop(model, sequence):
    for drawn in False, True, False:
        logits = model(np.array(sequence.ids), last=1)[-1]
        token = int(sequence.sampler(logits, sequence.ids).argmax()) if drawn else 70
        yield sequence.append(token)
"""


def test_a_token_chosen_without_the_sampler_has_no_figures(console, tmp_path):
    (tmp_path / "own.py").write_text(OWN_LOOP)
    out = console.text("--explain", "a", "-n", 3, "--loop", f"{tmp_path / 'own.py'}:loop")
    first, second, third = out.splitlines()[3:6]
    assert first == third == " " * 33 + "'g'"
    assert "%" in second


def test_explain_shows_beams_as_a_tree(console):
    words = ["the cat", "-n", 6, "--method", "beam", "--beams", 3]
    legend, root, *tree, printed = console.text(*words, "--explain").splitlines()
    [row] = console.json(*words, "--return", 3)
    assert "nats" in legend and root == "the cat" and printed == "the cat" + row["text"]
    ends = [line for line in tree if "finished" in line or "<- the best" in line]
    best, *others = row["beams"]
    assert len(ends) == 3 and sum("<- the best" in line for line in tree) == 1
    assert any(f" {best['log_probability']:.2f}  <- the best" in line for line in ends)
    for beam in others:
        assert any(f" {beam['log_probability']:.2f}  finished" in line for line in ends)


def test_the_tree_names_special_tokens(console):
    """The tree also shows the space that belongs to the token " Wetter"."""
    out = console.text("The weather is nice.", "--explain", model="en-de")
    assert "</s>'" in out and "' Wetter" in out and "''" not in out


@pytest.mark.parametrize("method", METHODS)
def test_explain_with_a_full_context_and_with_a_stop_at_the_first_token(
    console, letters, draft, method
):
    words = ["--explain", "--method", method]
    words += ["--draft", draft] if method == "speculative" else []
    assert console.text("a" * N_CTX, *words).splitlines()[-1] == "a" * N_CTX
    first = console.json("the cat", "-n", 1)[0]["text"]
    assert console.text("the cat", *words, "--stop", first)


@pytest.mark.parametrize("wrong", [["the cat", "--draft", "no-such"], ["a" * (N_CTX + 1)]])
def test_a_mistake_is_refused_before_the_legend(console, wrong):
    console.refused(1, *wrong, "--explain", "--method", "speculative")


@pytest.mark.parametrize(
    ("is_terminal", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_only_terminals_that_want_colour_get_it(monkeypatch, is_terminal, environment, coloured):
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    for kind in "accepted", "rejected", "corrected":
        assert (ESCAPE in colour("text", kind)) == coloured
        assert "text" in colour("text", kind)


def test_a_checkpoint_that_samples_can_be_explained(console, tmp_path):
    config = {"do_sample": True, "temperature": 0.9, "seed": 4, "max_new_tokens": 5}
    folder = write_letters(tmp_path / "m", generation_config=config)
    status, out, err = console("a", "--explain", model=folder)
    assert (status, out.count("\n")) == (0, 9) and "seed 4;" in err
