"""--score, --explain, --compare: what they print is what the model computes."""

import json
import math
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from terminal.replay import timed

import utils
from beam import log_softmax
from samplers import usual
from terminal import show
from terminal.options import METHODS
from tests.commands import END, HOUSE, N_CTX, finished, write_letters

LONG = "the cat sat on the mat and the dog ate the hat of a man " * 4
ESCAPE = "\x1b["

# --- score ----------------------------------------------------------------------------------------


def direct(folder, text):
    """log P of each token of a text that fits the context: one pass, from <|endoftext|>."""
    encoder, model = utils.load(str(folder))
    ids = encoder.encode(text)
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
    encoder, model = utils.load(str(letters))
    [result] = console.json("--score", LONG)
    ids = encoder.encode(LONG)
    assert result["ids"] == ids and len(ids) > 3 * N_CTX
    text = [END, *ids]
    found = np.array(result["logprobs"])
    first = log_softmax(model(text[:N_CTX]))[range(N_CTX), text[1 : N_CTX + 1]]
    np.testing.assert_allclose(found[:N_CTX], first, atol=1e-4)
    for i in (N_CTX, N_CTX + 20, len(ids) - 1):  # log P(text[i + 1]) given what a window shows
        candidates = [
            log_softmax(model(text[begin : i + 1])[-1])[text[i + 1]]
            for begin in range(i + 1 - N_CTX, i + 2 - N_CTX // 2)
        ]
        assert np.abs(np.array(candidates) - found[i]).min() < 1e-4


def test_score_prints_a_line_a_token(console, letters):
    ids, logprobs = direct(letters, "the cat")
    lines = console.text("--score", "the cat").splitlines()
    encoder, _ = utils.load(str(letters))
    assert lines[:-1] == [
        f"{logprob:9.4f}  {encoder.decode([token])!r}" for token, logprob in zip(ids, logprobs)
    ]
    assert lines[-1].startswith(f"{logprobs.sum():9.4f}  log P of 5 tokens; ")
    assert "bits per byte, perplexity" in lines[-1]
    expected = "0.0000 log P of 0 tokens; 0.0000 bits per byte, perplexity 1.00"
    assert console.text("--score", "").split() == expected.split()
    assert "log P of 1 token; " in console.text("--score", "a")


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e6])
def test_a_model_without_numbers_has_no_score(console, tmp_path, scale):
    folder = write_letters(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    tensors["wte.weight"] *= np.float32(scale)
    save_file(tensors, folder / "model.safetensors")
    assert "no probability" in console.refused(1, "--score", "the cat", model=folder)


@pytest.mark.parametrize("wrong", [["--draft", "no-such"], ["a" * (N_CTX + 1)]])
def test_what_is_refused_is_refused_before_a_table_or_a_legend(console, wrong):
    words = [*wrong, *(["the cat"] if len(wrong) > 1 else [])]
    console.refused(1, *words, "--compare")
    console.refused(1, *words, "--explain", "--method", "speculative")


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

STEP = re.compile(r" *(\d+)  (.*?) ([01]\.\d{3}) -> ([01]\.\d{3}), (\d+\.\d\d); (.*)")


@pytest.mark.parametrize("method", ["naive", "cached"])
def test_explain_tells_each_step(console, letters, method):
    encoder, model = utils.load(str(letters))
    how = ["--temperature", 0.7, "--top-k", 4, "--seed", 3]
    ids = console.json("the cat", "-n", 6, *how)[0]["ids"]
    out = console.text("the cat", "-n", 6, *how, "--explain", "--method", method)
    heading, *lines = out.splitlines()
    assert heading.startswith("step") and len(lines) == 6
    text = encoder.encode("the cat")
    for i, (token, line) in enumerate(zip(ids, lines)):
        step, name, by_model, by_sampler, bits, others = STEP.fullmatch(line).groups()
        logits = model(text + ids[:i])[-1]
        p = np.exp(log_softmax(logits)).astype(np.float64)
        q = make_sampler(temperature=0.7, top_k=4)(logits, text + ids[:i])
        assert (int(step), name) == (i + 1, repr(encoder.decode([token])))
        assert float(by_model) == pytest.approx(p[token], abs=1e-3)
        assert float(by_sampler) == pytest.approx(q[token], abs=1e-3)
        assert float(bits) == pytest.approx(-(p * np.log2(p)).sum(), abs=0.01)
        best = np.argsort(-p)[:5]
        expected = "  ".join(f"{encoder.decode([t])!r} {p[t]:.3f} -> {q[t]:.3f}" for t in best)
        assert re.sub(r"\d\.\d+", "_", others) == re.sub(r"\d\.\d+", "_", expected)


def test_explain_shows_the_row_that_is_printed_without_it(console):
    how = ["-n", 5, "--temperature", 1.5, "--seed", 3, "the cat", "the cat"]
    rows = console.json(*how)
    blocks = console.text(*how, "--explain").split("'the cat':\n")[1:]
    for row, block in zip(rows, blocks, strict=True):
        names = [eval(STEP.fullmatch(line)[2]) for line in block.splitlines()[1:]]
        assert "".join(names) == row["text"]
    assert rows[0]["text"] != rows[1]["text"]


ROUND = re.compile(r"(\d+)/(\d+) (.*)")


@pytest.mark.parametrize("how", [[], ["--temperature", 1.0, "--seed", 5]])
@pytest.mark.parametrize("method", ["speculative", "ngram", "lookup"])
def test_explain_shows_accepted_rejected_and_corrected(console, draft, method, how):
    words = ["the cat", "-n", 24, "--method", method, *how]
    words += ["--draft", draft] if method == "speculative" else []
    [row] = console.json(*words)
    text, accepted, drafted = "", 0, 0
    legend, *lines = console.text(*words, "--explain").splitlines()
    assert legend.startswith("accepted/drafted")
    for line in lines:
        n_accepted, n_drafts, names = ROUND.fullmatch(line).groups()
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
    ends = [line for line in out.splitlines() if line.endswith("finished")]
    assert len(ends) == 3
    for beam in row["beams"]:
        assert any(f" {beam['log_probability']:.2f} finished" in line for line in ends)


@pytest.mark.parametrize("method", METHODS)
def test_explain_of_a_full_context_and_of_a_stop_at_once(console, letters, draft, method):
    words = ["--explain", "--method", method]
    words += ["--draft", draft] if method == "speculative" else []
    assert console.text("a" * N_CTX, *words).strip().count("\n") == 0  # the legend alone
    first = console.json("the cat", "-n", 1)[0]["text"]
    assert console.text("the cat", *words, "--stop", first)


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_colour_is_for_terminals_that_want_it(monkeypatch, terminal, no_color, coloured):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    for kind in "accepted", "rejected", "corrected":
        assert (ESCAPE in show.colour("text", kind)) == coloured
        assert "text" in show.colour("text", kind)


# --- compare --------------------------------------------------------------------------------------


def table(out):
    """--compare's table as {method: {column: text}}."""
    columns = "speed ratio first tokens per_pass accepted megabytes ids".split()
    rows = [line.split(maxsplit=8) for line in out.splitlines() if line.split()[0] in METHODS]
    return {method: dict(zip(columns, values)) for method, *values in rows}


def test_compare_shows_every_method_and_that_the_ids_are_identical(console, letters, draft):
    out = console.text("the cat", "--compare", "-n", 20, "--draft", draft, "--beams", 3)
    rows = table(out)
    assert list(rows) == list(METHODS)
    for method, row in rows.items():
        beam = method == "beam"
        assert row["ids"] == ("the likeliest text found" if beam else "identical to naive")
        assert row["tokens"] == "20" and float(row["speed"]) > 0
        assert (row["accepted"] != "-") == (method in ("speculative", "ngram", "lookup"))
    assert rows["naive"]["ratio"] == "1.00" and rows["naive"]["megabytes"] == "0.00"
    [row] = console.json("the cat", "-n", 20, "--method", "lookup")
    assert rows["lookup"]["per_pass"] == f"{row['speculation']['tokens_per_call']:.2f}"
    assert rows["lookup"]["accepted"] == f"{row['speculation']['acceptance']:.0%}"
    assert "speculative" not in table(console.text("the cat", "--compare", "-n", 4))


def test_compare_tells_a_difference(console, monkeypatch):
    import generate

    def wrong(model, prompts, samplers, rngs, done):
        for row, token in generate.naive(model, prompts, samplers, rngs, done):
            yield row, 66 + token % 2

    monkeypatch.setattr(generate, "cached", wrong)
    rows = table(console.text("the cat", "--compare", "-n", 6))
    assert rows["cached"]["ids"] == "DIFFERENT from naive"
    assert rows["ngram"]["ids"] == "identical to naive"


def test_compare_starts_each_prompt_with_its_own_seed(console, monkeypatch):
    seeds = []
    monkeypatch.setattr(show, "compare_line", lambda _, row, *more: seeds.append(row.seed) or "")
    console.text("a", "b", "--compare", "-n", 1, "--temperature", 1, "--seed", 5)
    assert seeds == [5] * 5 + [6] * 5


def test_compare_when_sampled_with_stops_and_without_room(console):
    how = ["--temperature", 0.9, "--seed", 1]
    rows = table(console.text("the cat", "--compare", "-n", 8, *how))
    assert rows["cached"]["ids"] == "identical to naive"
    assert rows["ngram"]["ids"] == "sampled: the same distribution"
    stop = console.json("the cat", "-n", 9)[0]["text"][3:5]
    rows = table(console.text("the cat", "--compare", "--stop", stop))
    assert int(rows["lookup"]["tokens"]) <= 5 and rows["lookup"]["ids"] == "identical to naive"
    out = console.text("a" * N_CTX, "--compare")
    assert out.count("no tokens: the context is full") == len(METHODS) - 1
    assert console.text("a" * (N_CTX - 1), "--compare").count("identical") == 4


def held(model, *shape, n):
    """The bytes of n slots in a new cache, by its own count."""
    cache = model.new_cache(*shape)
    model(np.zeros((*shape, n), int), cache)
    return cache.nbytes


def test_the_cache_column_is_what_the_caches_have_held(letters, draft, monkeypatch):
    from terminal import options
    from terminal.session import Session

    found = {}

    def line(session, row, naive, held):
        found[session.settings["method"]] = held
        return ""

    monkeypatch.setattr(show, "compare_line", line)
    words = ["a", "--model", str(letters), "-n", "5", "--draft", str(draft), "--gamma", "2"]
    session = Session(options.parser().parse_args(words))
    show.compare(session, "the cat")
    one, two = session.model, session.draft_model(str(draft))
    n = len(session.row("the cat").start)
    assert found["naive"] == 0
    assert found["cached"] == held(one, 1, n=n + 4)  # the last token never passes
    assert found["beam"] == held(one, 4, n=n + 4)
    assert found["cached"] <= found["lookup"] <= held(one, 1, n=n + 6)
    assert found["speculative"] >= held(one, 1, n=n + 4) + held(two, 1, n=n + 1)


def test_the_encoder_runs_once_for_each_method(monkeypatch):
    from seq2seq import EncoderDecoder
    from terminal import options
    from terminal.session import Session

    folder, runs = "tests/fixtures/seq2seq/bart", []
    encode = EncoderDecoder.encode
    monkeypatch.setattr(EncoderDecoder, "encode", lambda *a: runs.append(1) or encode(*a))
    session = Session(options.parser().parse_args(["a", "--model", str(HOUSE / folder), "-n", "3"]))
    show.compare(session, "the cat")
    assert len(runs) == len(METHODS) - 1  # all but speculative: there is no draft


def test_seconds_a_token_are_of_the_whole_run(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("terminal.replay.time.perf_counter", lambda: clock[0])

    def tokens():
        for token, cost in ((5, 8), (6, 0), (7, 0), (8, 4)):  # the first pass yields three
            clock[0] += cost
            yield token

    assert timed(tokens()) == ([5, 6, 7, 8], 3)


def test_replay_shows_theory_and_measurement(console, monkeypatch):
    small = {"n_vocab": 101, "n_ctx": 32, "n_embd": 8, "n_layer": 2, "n_head": 2}
    monkeypatch.setattr("terminal.replay.LARGE", small)
    monkeypatch.setattr("terminal.replay.N_TOKENS", 24)
    rates = ["--replay", 0, "--replay", 0.5, "--replay", 1]
    out = console.text("the cat", "--compare", "-n", 4, "--gamma", 3, *rates)
    rows = [list(map(float, line.split())) for line in out.splitlines()[-3:]]
    assert [row[0] for row in rows] == [0, 0.5, 1]
    for asked, measured, expected, per_pass, *_ in rows:
        assert expected == pytest.approx(sum(measured**i for i in range(4)), abs=0.03)
        assert 1 <= per_pass <= 4 and (asked in (measured, 0.5))
    assert rows[0][2:4] == [1, 1] and rows[2][2] == 4 and rows[2][3] > 3
    assert "gamma 3: a pass over 4 tokens, fewer at the end, costs" in out


def test_a_folder_that_suggests_beams_or_sampling_can_be_explained(console, tmp_path):
    suggested = {"do_sample": True, "temperature": 0.9, "seed": 4, "max_new_tokens": 5}
    folder = write_letters(tmp_path / "m", generation_config=suggested)
    assert console.text("a", "--explain", model=folder).count("\n") == 6
    assert "sampled: the same distribution" in console.text("a", "--compare", model=folder)
