"""Test the interactive prompt in a pseudo-terminal, and its commands without a terminal."""

import codecs
import contextlib
import os
import re
import select
import signal
import sys

import numpy as np
import pytest

import utils
from gpt2 import log_softmax
from terminal import options, shell
from terminal.session import Session
from tests.support.commands import END, HOUSE, N_CTX, finished, process, write_letters

pty = pytest.importorskip("pty", reason="only Unix has pseudo-terminals")
PROMPT = " › "
PATIENCE = 60  # a test waits at most this many seconds; the machine may be busy
WAITING = """
def for_signal(logits, ids):
    while len(ids) > 3:  # signal.pause() would miss an earlier signal
        pass
    return logits
"""


class Terminal:
    """Runs generate.py in a pseudo-terminal. A test types lines and reads the output."""

    def __init__(self, *words, **environment):
        self.ours, theirs = pty.openpty()
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        no_history = {"XDG_STATE_HOME": os.devnull}
        plain = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONUTF8": "1"}
        options = {"env": plain | no_history | environment, "start_new_session": True}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self.process = process(*words, **pipes, **options)
        os.close(theirs)

    def read(self):
        """Return the next piece of output, or "" if the program has ended."""
        ready, _, _ = select.select([self.ours], [], [], PATIENCE)
        assert ready, "the program is silent"
        with contextlib.suppress(OSError):  # on Linux, raised when the program has ended
            if read := os.read(self.ours, 4096):
                return self.decoder.decode(read) or self.read()
        return ""

    def until(self, expected):
        """Read until the output contains `expected`; return the output."""
        found = ""
        while expected not in found:
            piece = self.read()
            assert piece, f"ended before {expected!r}: {found!r}"
            found += piece
        return found.replace("\r\n", "\n")

    def ask(self, line):
        """Type a line; return the answer up to the next prompt."""
        os.write(self.ours, line.encode() + b"\n")
        return self.until(PROMPT).rpartition("\n")[0] + "\n"

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """Read until the program ends; return the output and the exit status."""
        found = "".join(iter(self.read, ""))
        return found, self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def test_a_session_runs_in_a_terminal(console, letters, tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    with Terminal("--interactive", "--model", letters, "-n", 9) as terminal:
        assert "/help" in terminal.until(PROMPT)
        text = console.text("the cat", "-n", 9)
        assert text in terminal.ask("the cat")
        assert "(9 tokens" in terminal.ask("the cat")
        terminal.ask(f"/filter {tmp_path}/waiting.py:for_signal")
        os.write(terminal.ours, b"a\n")
        terminal.until("\na")  # the typed line comes first, then the generated text
        terminal.interrupt()
        assert "(stopped)" in terminal.until(PROMPT)
        terminal.ask("/reset")
        assert text in terminal.ask("the cat")
        terminal.interrupt()  # at the prompt, Ctrl-C only starts a new line
        while not select.select([terminal.ours], [], [], 3)[0]:
            terminal.interrupt()  # the program was not yet at the prompt: interrupt it again
        terminal.until(PROMPT)
        assert text in terminal.ask("the cat")
        os.write(terminal.ours, b"\x04")  # Ctrl-D
        found, status = terminal.end()
        assert (status, "Traceback" in found) == (0, False)


def test_a_terminal_has_colours_and_quit(letters):
    interactive = "--interactive", "--model", letters, "--method", "lookup"
    with Terminal(*interactive, NO_COLOR="", TERM="xterm") as terminal:
        assert f"{letters.name} · lookup · greedy › " in terminal.until(PROMPT)
        os.write(terminal.ours, b"/explain abcabcabc\n")
        assert "\x1b[" in terminal.until(PROMPT)
        os.write(terminal.ours, b"/quit\n")
        assert terminal.end()[1] == 0
    words = "--explain", "abcabcabc", "--model", letters, "--method", "lookup", "-n", 9
    colours = {"NO_COLOR": "", "TERM": "xterm"}
    for environment, coloured in [
        (colours, True),
        (colours | {"NO_COLOR": "1"}, False),
        (colours | {"TERM": "dumb"}, False),
    ]:
        with Terminal(*words, **environment) as terminal:
            found, status = terminal.end()
        assert (status, "\x1b[" in found) == (0, coloured)


def test_an_interrupt_outside_the_prompt_ends_the_program(letters, tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    words = "a", "--model", letters, "--filter", f"{tmp_path}/waiting.py:for_signal"
    with Terminal(*words) as terminal:
        terminal.until("a")
        terminal.interrupt()
        found, status = terminal.end()
    assert status == 130 and found.endswith("interrupted\r\n") and "Traceback" not in found


# On a terminal, EVIL would set the title and a colour, clear the screen and reverse the letters.
EVIL = "\x1b]0;title\x07\x1b[31m\x9b2J\x7f\r\u202e\u2066\u200f\u061c."
SEEN = r"\x1b]0;title\x07\x1b[31m\x9b2J\x7f\r\u202e\u2066\u200f\u061c."
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
EVIL_FILTER = """
def f(logits, ids):
    logits[IDS[len(ids) % len(IDS) - 1]] = 999  # its probability rounds to 1
    return logits
"""


@pytest.mark.slow
def test_no_text_controls_the_terminal(letters, tmp_path):
    """The model generates EVIL, and a prompt contains control characters, too."""
    tokenizer, _ = utils.load(letters)
    (tmp_path / "evil.py").write_text(f"IDS = {tokenizer.encode(EVIL)}\n{EVIL_FILTER}")
    (tmp_path / "prompts").write_text("a\n\x1b[2J\u202eb\n", encoding="utf-8")
    prompts = "--prompts-file", tmp_path / "prompts", "--model", letters
    words = *prompts, "--filter", f"{tmp_path}/evil.py:f", "-n", 36
    beam, plain = ("--method", "beam"), {"NO_COLOR": "1"}
    texts = [words, (*words, *beam, "--return", 2)]
    views = [(*prompts, "--score"), (*words, "--compare")]
    views += [(*words, "--explain"), (*words, "--explain", *beam)]
    for command in texts + views:
        with Terminal(*command, **plain) as terminal:
            found, status = terminal.end()
        assert (status, CONTROL.findall(found.replace("\r\n", "\n"))) == (0, []), command
        assert "--score" in command or "--compare" in command or r"\x1b" in found
        if command in texts:
            assert "a" + SEEN in found and r"\x1b[2J\u202eb" in found
    with Terminal("--interactive", *words[2:], **plain) as terminal:
        terminal.until(PROMPT)
        for line in "a", "/explain a", "/method beam", "a":
            assert not CONTROL.findall(terminal.ask(line)), line
    status, out, err = finished(*words)
    assert "a" + EVIL in out.decode() and "\x1b[2J\u202eb" in out.decode()


# --- commands and options (in this process) -------------------------------------------------------


@pytest.fixture
def ask(console, letters):
    """Return ask(line, ...), which gives lines to a shell and returns stdout + stderr. ask.shell is
    the shell, and ask.start(option, ...) starts a new one."""

    def ask(*lines):
        for line in lines:
            ask.ended = ask.shell.answer(line)
        return "".join(console.capsys.readouterr())

    def start(*words):
        words = ["--interactive", "--model", str(letters), "-n", "9", *map(str, words)]
        ask.shell = shell.Shell(Session(options.parse(words)))

    ask.start = start
    start()
    return ask


def text_of(console, *words):
    return console.text(*words).rstrip("\n")


def test_a_text_is_continued_without_the_earlier_texts(console, ask):
    first = text_of(console, "the cat", "-n", 9)
    assert ask("the cat").startswith(first + "\n(9 tokens")
    assert ask("the cat").startswith(first)
    assert ask("  the cat").startswith("  the cat")


def test_an_empty_line_goes_on_with_the_last_text(console, ask):
    assert ask("", "   ") == ""  # there is no text yet
    twice = text_of(console, "the cat", "-n", 18)
    once = ask("the cat").partition("\n(")[0]
    assert once + ask("").partition("\n(")[0] == twice
    assert twice + ask("  ").partition("\n(")[0] == text_of(console, "the cat", "-n", 27)
    assert f"{text_of(console, 'the cat', '-n', 27)}\n(27 tokens" in ask("/explain")  # all of it
    ask.start("--model", HOUSE / "tests/fixtures/seq2seq/bart")
    assert ask("the cat") and ask("") == ""  # an encoder-decoder's answer is not continued


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_to_continue_a_text_is_to_continue_its_ids(console, ask, tmp_path, n):
    """The first part ends inside a character. The seed and n_prompt are those of one text."""
    (tmp_path / "own.py").write_text(
        "def f(tokenizer, n_prompt):\n    def g(logits, ids):\n"
        "        left = tokenizer.encode('é🙂')[len(ids) - n_prompt :]\n"
        "        logits[left[:1]] += 999\n        return logits\n    return g\n"
    )
    how = "--filter", f"{tmp_path}/own.py:f(tokenizer, n_prompt)", "--seed", 3, "--temperature", 2
    ask.start(*how, "-n", n)
    parts = ask("the cat").partition("\n(")[0], ask("/tokens 12", "").partition("\n(")[0]
    text = "".join(parts).replace("\ufffd", "").replace("tokens = 12\n", "")
    assert text == text_of(console, "the cat", *how, "-n", n + 12)
    assert "the caté🙂" in text


def test_a_text_that_has_ended_is_not_continued(ask, tmp_path, console):
    greedy = console.greedy("the cat", 9)
    folder = write_letters(tmp_path / "m", generation_config={"eos_token_id": [END, greedy[5]]})
    ask.start("--model", folder)
    assert "ended by end of text" in ask("the cat")
    assert ask("") == "(the text has ended: type a new one)\n"


def test_a_command_without_a_text_takes_the_last_one(console, ask, tmp_path):
    for command in "score", "explain", "compare", "html", "html a.html":
        assert ask(f"/{command}") == f"/{command.split()[0]}: there is no text yet\n"
    ask("/seed 3", "/temperature 0.9")
    text = ask("the cat").partition("\n(")[0]
    assert ask("/score") == console.text("--score", text)
    assert f"\n{text}\n(9 tokens" in ask("/explain")  # the same seed gives the same text
    assert "\ncached " in ask("/compare")


def test_score_rates_the_tokens_of_the_last_text(console, ask, tmp_path):
    """/score has to use the generated tokens: encoding the text again would give other tokens."""
    (tmp_path / "own.py").write_text(
        "def f(logits, ids):\n    logits[:] = 0\n    logits[[83, 71, 68][len(ids) % 3]] = 99\n"
        "    return logits\n"
    )
    ask(f"/filter {tmp_path}/own.py:f", "/tokens 3")
    text = ask("aaa").partition("\n(")[0]
    assert text == "aaathe"
    assert [line.split()[-1] for line in ask("/score").splitlines()[-4:-1]] == ["'t'", "'h'", "'e'"]
    assert "'the'" in ask(f"/score {text}")


def test_score_rates_the_last_answer(console, ask):
    folder = HOUSE / "tests/fixtures/seq2seq/bart"
    ask(f"/model {folder}")
    assert "there is no text" in ask("/score")
    ask("the cat")
    row = ask.shell.row
    logprobs = ask.shell.session.score_row(row)["logprobs"]
    assert len(logprobs) == len(row.sequence.new_ids)
    logits = row.sequence.model(np.array(row.sequence.ids[:-1]))
    new = row.sequence.new_ids
    expected = log_softmax(logits)[-len(new) :][range(len(new)), new]
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)


def test_each_text_has_a_new_seed_unless_one_is_set(ask):
    def seeds(*lines):
        return [re.search(r"seed (\d+);", ask(line))[1] for line in lines]

    assert ask("/seed") == ask("/seed off") == "seed = None\n"
    ask("/temperature 2")
    one, two = seeds("the cat", "the cat")
    assert one != two
    again = ask(f"/seed {one}", "the cat").partition("\n")[2].partition("\n(")[0]
    assert seeds("the cat", "a") == [one, one] and again in ask("the cat")
    ask("/seed off")
    assert seeds("the cat", "")[1] not in (one, two)


def test_help_exit_and_quit_need_no_slash(ask):
    assert ask("help") == ask("/help") == ask("/he")
    for word in "exit", "quit", "/quit", "/q", "  exit ":
        assert ask(word) == "" and ask.ended is True
    assert "no command /s" in ask("/s 3") and not ask.ended  # several commands begin with s
    assert ask("/te 0.5") == "temperature = 0.5\n"


def test_the_prompt_shows_the_model_the_method_and_the_temperature(ask, letters):
    def prompt(*lines):
        ask(*lines)
        return ask.shell.prompt()

    assert prompt() == f"{letters.name} · cached · greedy › "
    assert prompt("/temperature 0.8") == f"{letters.name} · cached · T 0.8 › "
    assert prompt("/temperature off", "/top-k 5") == f"{letters.name} · cached · T 1 › "
    assert prompt("/top-k off", "/method beam") == f"{letters.name} · beam › "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "value", "option", "bad"),
    [
        ("tokens", "3", 3, "0"),
        ("seed", "7", 7, "-1"),
        ("seed", "0", 0, "x"),
        ("top-k", "2", 2, "17.5"),
        ("method", "lookup", "lookup", "best"),
        ("method", "naive", "naive", "beam cached"),
        ("stop", "a b", ["a b"], ""),
        ("stop", '" a"', [" a"], '""'),
    ],
)
def test_a_command_shows_and_sets_an_option(ask, command, value, option, bad):
    """/NAME VALUE sets an option, /NAME shows it, and /NAME off restores its default."""
    name = command.replace("-", "_")
    before = ask(f"/{command}")
    assert before.startswith(f"{name} = ")
    assert ask(f"/{command} {value}") == ask(f"/{command}") == f"{name} = {option}\n"
    assert ask.shell.session.settings[name] == option
    if bad:
        answer = ask(f"/{command} {bad}")
        assert answer.count("\n") == 1 and command in answer and "generate.py" not in answer
        assert ask(f"/{command}") == f"{name} = {option}\n"
    default = options.DEFAULTS[name]
    assert ask(f"/{command} off") == f"{name} = {default}\n"
    ask(f"/{command} {value}", "/reset")
    assert ask(f"/{command}") == before


@pytest.mark.slow
def test_text_is_generated_with_the_current_options(console, ask, draft):
    ask("/tokens 12", "/seed 0", "/temperature 0.9", "/top-k 6")
    how = ["-n", 12, "--temperature", 0.9, "--top-k", 6]
    seeds = [text_of(console, "the cat", *how, "--seed", seed) for seed in (0, 3)]
    assert seeds[0] != seeds[1]
    assert ask("the cat").startswith(seeds[0] + "\n")
    assert ask("/seed 3", "the cat").removeprefix("seed = 3\n").startswith(seeds[1] + "\n")
    greedy = text_of(console, "the cat", "-n", 12)
    ask("/top-k off", "/temperature 0")
    assert ask("the cat").startswith(greedy + "\n")
    ask("/method speculative")
    assert "--draft" in ask("the cat")
    assert ask(f"/draft {draft}") == f"draft = {draft}\n"
    assert ask("the cat").startswith(greedy + "\n") and "drafts accepted" in ask("the cat")
    ask("/draft no-such-model")
    assert "no model 'no-such-model'" in ask("the cat")


def test_an_option_of_a_different_method_is_refused_as_on_the_command_line(ask):
    line = "--gamma is not for --method cached, but for speculative or ngram or lookup\n"
    assert ask("/gamma 2") == line
    assert ask("/method lookup", "/gamma 2") == "method = lookup\ngamma = 2\n"
    assert "--gamma is not for --method beam" in ask("/method beam")
    assert ask("/method") == "method = lookup\n"
    assert ask("/gamma off", "/method beam").endswith("method = beam\n")


def test_a_user_s_part_needs_no_quotes(ask, console, tmp_path):
    """The expression may contain quotes, commas and spaces."""
    (tmp_path / "own.py").write_text(
        "def only(text, tokenizer):\n    def f(logits, ids):\n        logits[:] = -1e9\n"
        "        logits[tokenizer.encode(text)] = 0\n        return logits\n    return f\n"
    )
    assert "own.py:only('z', tokenizer)" in ask(f"/filter {tmp_path}/own.py:only('z', tokenizer)")
    assert ask("/tokens 3", "a").startswith("tokens = 3\nazzz\n")
    assert ask("/filter off") == "filter = []\n"


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "raise GeneratorExit"])
def test_a_part_that_raises_systemexit_does_not_end_the_session(ask, tmp_path, body):
    (tmp_path / "own.py").write_text(f"def f(logits, ids):\n    {body}\n")
    assert "own.py:f" in ask(f"/filter {tmp_path}/own.py:f", "a")
    assert not ask.ended
    ask(f"/filter {tmp_path}/own.py:exit(0)", "a")
    assert not ask.ended


def test_stop_texts_are_shown_set_and_removed(console, ask):
    text = text_of(console, "the cat", "-n", 9)
    a = text[10:12]
    assert ask("/stop") == "stop = []\n"
    assert ask(f"/stop {a}") == f"stop = [{a!r}]\n"
    cut = "the cat" + text.removeprefix("the cat").split(a)[0]
    assert ask("the cat").startswith(cut + "\n(")
    assert ask("/stop off") == "stop = []\n"
    assert ask("the cat").startswith(text + "\n")


@pytest.mark.slow
def test_reset_restores_the_options_of_the_command_line(ask):
    ask.start("--temperature", 0.7, "--stop", "x", "--seed", 4)
    names = "/temperature", "/stop", "/seed", "/tokens"
    before = [*map(ask, names)]
    assert before == ["temperature = 0.7\n", "stop = ['x']\n", "seed = 4\n", "tokens = 9\n"]
    ask("/temperature off", "/top-k 1", "/stop off", "/seed 5", "/tokens 2", "/reset")
    assert [*map(ask, names)] == before and "there is no text" in ask("/score")


def test_a_different_model_is_loaded_or_the_old_one_stays(ask, letters, draft):
    assert ask("/model") == f"model = {letters}\n"
    first = ask.shell.session.model
    for wrong in "no-such-model", "two models", "--method":
        assert ask(f"/model {wrong}").count("\n") == 1
        assert ask.shell.session.model is first
    ask("/tokens 4")
    assert ask(f"/model {draft}") == f"model = {draft}\n"
    assert ask.shell.session.model is not first
    assert ask("/tokens") == "tokens = 4\n"
    ask("/reset")
    assert ask("/model") == f"model = {letters}\n"


def test_a_missing_library_does_not_end_the_session(ask, letters, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    bart = HOUSE / "tests/fixtures/seq2seq/bart"
    said = ask(f"/model {bart}")
    assert said.startswith("tokenizers is not installed: pip install tokenizers; with uv, `uv run ")
    assert ask("/model") == f"model = {letters}\n" and not ask.ended


def test_score_explain_and_compare_print_the_same_as_the_options(console, ask, letters):
    assert ask("/score the cat") == console.text("--score", "the cat")
    assert console.text("--explain", "the cat", "-n", 9) in ask("/explain the cat")
    out = ask("/compare the cat")
    assert out.count("as naive") == 4
    assert ask("/method") == "method = cached\n"


def test_score_rates_a_typed_answer_of_an_encoder_decoder(console, ask):
    folder = HOUSE / "tests/fixtures/seq2seq/bart"
    ask.start("--model", folder)
    scored = console.text("--score", "the cat", "--target", "a => b", model=folder)
    assert ask("/score the cat => a => b") == scored
    assert "needs --target" in ask("/score the cat")


def test_an_interrupted_comparison_does_not_change_the_method(ask, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    ask("/method lookup")
    monkeypatch.setattr("terminal.compare.compare_line", interrupt)
    assert "(stopped)" in ask("/compare the cat")
    assert ask("/method") == "method = lookup\n"


def test_explain_does_not_change_the_session(ask):
    ask("/method lookup")
    before = ask("the cat").partition("\n(")[0]
    assert "0/0 +" in ask("/explain the cat")
    assert ask("the cat").partition("\n(")[0] == before


def test_help_lists_the_commands_and_unknown_ones_are_refused(ask):
    helped = ask("/help")
    for command in "explain compare html score reset help quit".split():
        assert f"/{command}" in helped
    for name in shell.SETTABLE:
        assert name.replace("_", "-") in helped
    assert max(map(len, helped.splitlines())) <= 80 or str(shell.HISTORY) in helped
    for wrong in "/no-such", "/!ls", "/EOF":
        assert f"no command {wrong}; /help lists the commands\n" in ask(wrong) and not ask.ended
    assert "no command /helpp; did you mean /help?" in ask("/helpp")
    assert "no command /;" in ask("/")
    for wrong in "/version", "/interactive", "/prompts-file x", "/prompts x":
        assert "no command" in ask(wrong) and not ask.ended


def test_mistakes_do_not_end_the_session(ask, tmp_path, monkeypatch):
    assert {"49", "48"} <= set(re.findall(r"\d+", ask("a" * (N_CTX + 1))))
    assert "FILE.py:EXPRESSION" in ask("/filter nothing")
    with monkeypatch.context() as broken:
        broken.setattr("terminal.session.cached", lambda *_: 1 / 0)
        # Even a bug in the program does not end the session.
        assert "ZeroDivisionError" in ask("the cat") and not ask.ended
    assert ask("the cat").startswith("the cat")
    assert ask("/quit") == "" and ask.ended is True


@pytest.mark.parametrize("name", ["seed", "stop", "tokens", "gamma", "method", "draft", "model"])
def test_two_dashes_are_a_value_or_give_one_line(console, ask, name):
    assert ask(f"/{name} --").count("\n") == 1


def test_a_missing_filter_file_changes_nothing(ask):
    assert "no file" in ask("/filter /nope.py:f")
    assert ask("/filter") == "filter = []\n"


# --- pipes, completion, history, pasted text ------------------------------------------------------


def test_lines_may_come_from_a_pipe(letters, console):
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    with process("--interactive", "--model", letters, "-n", 5, env=strict) as running:
        lines = "\ufeff/tokens 3\nthe cat\n/nonsense\nZoë\n".encode()
        out, err = running.communicate(lines, timeout=PATIENCE)
    assert running.returncode == 0
    assert console.text("the cat", "-n", 3).encode() in out
    assert b"tokens = 3" in out and b"\nno command /nonsense" in err
    assert err.count(b"\n") == 3  # one error, and a line of statistics for each of two texts
    assert out.count(PROMPT.encode()) == 5
    status, out, err = finished("--interactive", "--model", letters, stdin=b"Zo\xeb\n")
    assert (status, err.count(b"\n")) == (1, 1) and b"cannot read standard input: 'utf-8'" in err


def test_a_terminal_has_tab_completion_and_a_history(console, letters, tmp_path):
    pytest.importorskip("readline", reason="the system has no readline")
    words = "--interactive", "--model", letters, "-n", 3
    history = tmp_path / "tokenwise" / "history"
    for _ in range(2):
        with Terminal(*words, XDG_STATE_HOME=str(tmp_path)) as terminal:
            terminal.until(PROMPT)
            assert "tokens = 4" in terminal.ask("/tok\t4")
            assert "no_repeat_ngram = 3" in terminal.ask("/no-\t3")
            assert "EOF" in terminal.ask("EOF")  # the typed word EOF is an ordinary prompt
            os.write(terminal.ours, b"/quit\n")
            assert terminal.end()[1] == 0
    assert history.read_text().split("\n").count("EOF") == 2
