"""Run command lines on a small random model, in this process or in a new one."""

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import utils
from terminal import cli
from tests.support.checkpoints import CONFIG, random_arrays, write_folder
from tests.support.checkpoints import ROOT as HOUSE

N_CTX = 48
JSON_KEYS = {"prompt", "text", "prompt_ids", "ids", "stop_reason", "model", "method", "seed"}
TIMES = {"seconds_to_first_token", "tokens_per_second"}
JSON_KEYS |= TIMES
SEQ2SEQ = HOUSE / "tests" / "fixtures" / "seq2seq"
LETTERS, SPACE, THE, END = slice(64, 90), 220, 257, 258  # token ids; END is <|endoftext|>


def write_letters(folder, activation="gelu_new", n_vocab=259, n_ctx=N_CTX, **files):
    """Write a model that generates only the tokens a to z, space and "the".

    So its texts never contain <|endoftext|> or an incomplete character. files: more JSON files, as
    in write_folder.
    """
    config = CONFIG | {"vocab_size": n_vocab, "n_positions": n_ctx, "n_ctx": n_ctx}
    config |= {"n_embd": 16, "n_head": 2, "activation_function": activation}
    arrays = random_arrays(config, seed=1)
    wte, ln_f = arrays["wte.weight"], arrays["ln_f.bias"]
    # All rows of wte get the same norm. Otherwise, the largest row's token would always win.
    wte *= 3 / np.linalg.norm(wte, axis=1, keepdims=True)
    wte[:, 0] = -1  # feature 0 is 1 for LETTERS, SPACE and THE, and -1 for all other tokens
    wte[[*range(259)[LETTERS], SPACE, THE], 0] = 1
    ln_f[:], arrays["ln_f.weight"][0] = 0, 0
    ln_f[0] = 8
    return write_folder(folder, config, arrays, **files)


class Console:
    """Run commands in this process: console("PROMPT", "--json") -> (exit status, stdout, stderr).

    A command without --model uses the model in `folder`.
    """

    def __init__(self, capsys, folder):
        self.capsys, self.folder = capsys, folder

    def __call__(self, *words, model=None):
        words = [str(word) for word in words]
        if "--model" not in words and "-h" not in words:
            words = ["--model", str(model or self.folder), *words]
        try:
            status = cli.main(words)
        except SystemExit as error:
            status = error.code
        return status, *self.capsys.readouterr()

    def json(self, *words, model=None):
        """Return the objects that a command prints with --json."""
        status, out, err = self("--json", *words, model=model)
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    def text(self, *words, model=None):
        """Return a command's output. Fail if the command fails."""
        status, out, err = self(*words, model=model)
        assert status == 0, err
        return out

    def refused(self, status, *words, model=None):
        """Return a command's error line. Fail if the command prints anything else, or exits with a
        status other than `status`."""
        found, out, err = self(*words, model=model)
        assert (found, out) == (status, ""), err
        assert err.count("\n") == 1 and err.startswith("generate.py: "), err
        return err

    def session(self, *lines, words=(), model=None):
        """Type lines into the interactive prompt. Return the answer to each: what it prints to
        stdout and stderr, in this order. After /quit, the other lines have no answer."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
            patch.setattr(sys, "stderr", sys.stdout)
            status, out, _ = self("--interactive", "-n", 9, *words, model=model)
        assert status == 0, out
        return re.split("[^›\n]* › ", out)[1 : len(lines) + 1]

    def greedy(self, prompt, n, model=None):
        """Return n greedy ids after a prompt, computed without a cache or generate()."""
        tokenizer, gpt2 = utils.load(str(model or self.folder))
        ids = tokenizer.encode(prompt) or [tokenizer.end_of_text]
        for _ in range(n):
            ids.append(int(gpt2(np.array(ids))[-1].argmax()))
        return ids[-n:]


def make_terminal(monkeypatch):
    """Make stdout look like a terminal."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)


def python(*words, status=0, **options):
    """Run Python in the repository, or in the folder `cwd`. Return the completed process, which
    must have this exit status."""
    options = {"cwd": HOUSE, "capture_output": True, "encoding": "utf-8"} | options
    done = subprocess.run([sys.executable, *map(str, words)], **options)
    assert done.returncode == status, done.stderr
    return done


def process(*words, **options):
    """Start `python generate.py ...` with pipes. Return the process, a Popen."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **options.pop("env", {})}
    command = [sys.executable, "generate.py", *map(str, words)]
    return subprocess.Popen(command, cwd=HOUSE, env=environment, **{**pipes, **options})


def finished(*words, stdin=b"", **options):
    """Run `python generate.py ...` to its end. Return exit status, stdout and stderr (bytes)."""
    with process(*words, **options) as running:
        out, err = running.communicate(stdin, timeout=60)
    return running.returncode, out, err


def words_for(method, draft):
    """Return the options that select a method and make it generate the greedy ids."""
    return {
        "beam": ["--method", "beam", "--beams", 1],
        "speculative": ["--method", "speculative", "--draft", draft, "--gamma", 3],
        "ngram": ["--method", "ngram", "--gamma", 5],
    }.get(method, ["--method", method])
