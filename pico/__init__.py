"""One page for each idea: begin with forward.py. Below: helpers for the last part of each page."""

import os
import sys
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more threads would slow down small models
import utils
from loading.parameters import plain


def load(name, function):  # -> a tokenizer, and model(ids): the function, its parameters bound
    tokenizer, full = utils.load(name)
    return tokenizer, partial(function, **plain(full.params), n_head=full.n_head)


def given(default):  # -> what the command line says after the page's name, or else the default
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
    sys.excepthook = end
    return " ".join(sys.argv[1:] or [default]) or sys.exit("the text is empty: type some words")


def end(kind, error, trace):  # after an error: a traceback, if it is an error of the code
    if kind is BrokenPipeError:  # `head` has closed the pipe
        os._exit(0)
    known = ModuleNotFoundError, utils.UserError
    sys.__excepthook__(kind, error, None if kind in known else trace)
