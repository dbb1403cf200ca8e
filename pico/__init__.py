"""One page for each idea: begin with forward.py. Below is what the pages need at their ends."""

import os
import sys
from functools import partial

import utils
from loading.parameters import plain
from terminal.plugin import report


def load(name, function):  # -> a tokenizer, and the function with the parameters of this model
    tokenizer, full = utils.load(name)
    model = partial(function, **plain(full.params), n_head=full.n_head)
    model.n_ctx = full.n_ctx  # the context: no text may be longer
    return tokenizer, model


def given(default):  # -> the words of the command line, or else this text
    sys.excepthook = end
    sys.stdout.reconfigure(line_buffering=True)  # prints whole lines at once, even into a pipe
    return " ".join(sys.argv[1:] or [default]) or sys.exit("the text is empty: type some words")


def end(kind, error, trace):  # how a page ends after an error, or if the pipe is closed
    if kind is BrokenPipeError:
        return os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    report(error)
