"""Loads the user's own filter: --filter FILE.py:FUNCTION."""

import bdb
import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from interface import Filter
from loading.errors import UserError


def load_filter(where: str) -> Filter:
    """FILE.py:FUNCTION -> the filter f(logits [n_vocab], ids) -> logits. Its errors become a
    UserError of one line. UserError if there is no such function."""
    file, _, name = where.rpartition(":")
    if ":" not in where:
        raise UserError(f"--filter {where}: no function is named; the form is FILE.py:FUNCTION")
    if not Path(file).is_file() or not file.endswith(".py"):
        raise UserError(f"--filter {where}: no Python file {file!r}; the form is FILE.py:FUNCTION")
    names: dict[str, Any] = {"__name__": "own_filter", "__file__": file}
    with one_line_errors(where, file):
        exec(compile(Path(file).read_bytes(), file, "exec"), names)
    function = names.get(name)
    if not callable(function):
        raise UserError(f"--filter {where}: {file} has no function {name!r}")

    def own(logits, ids):  # [n_vocab] -> [n_vocab]
        with one_line_errors(where, file):
            result = np.asarray(function(logits.copy(), list(ids)), np.float32)
        if result.shape != logits.shape:
            shapes = f"{list(logits.shape)}, not {list(result.shape)}"
            raise UserError(f"--filter {where} must return logits {shapes}")
        if not (result < np.inf).all():
            raise UserError(f"--filter {where} must return numbers or -inf, not +inf or NaN")
        return result

    return own


@contextlib.contextmanager
def one_line_errors(where: str, file: str) -> Iterator[None]:
    """An error in the user's own file becomes a UserError with its place in the file. An interrupt
    passes, and so does the end of a debugger."""
    try:
        yield
    except (KeyboardInterrupt, bdb.BdbQuit):
        raise
    except BaseException as error:  # SystemExit too
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        place = f"{Path(file).name}:{lines[-1]}: " if lines else ""  # a syntax error has none
        raise UserError(f"--filter {where}: {place}{type(error).__name__}: {error}") from error
