"""The user's own parts: --filter, --model, --drafter and --loop FILE.py:NAME, see interface.py."""

import ast
import bdb
import contextlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from interface import Filter, Model, Tokenizer
from loading.errors import UserError


class Plug:
    """`where` is FILE.py:NAME, or FILE.py:NAME(VALUES), see interface.py. UserError if the file has
    no such name, and for an error in the file."""

    def __init__(self, option: str, where: str):
        self.where = f"--{option} {where}"
        parts = re.fullmatch(r"(.*?\.py):(\w+)(?:\((.*)\))?", where, re.DOTALL)
        if not parts:
            raise UserError(f"{self.where}: the form is FILE.py:NAME or FILE.py:NAME(VALUES)")
        self.file, name, values = parts.groups()
        try:
            self.values = None if values is None else ast.literal_eval(f"[{values}]")
        except (ValueError, SyntaxError):
            raise UserError(f"{self.where}: VALUES are literals, as 3 and '[0-9]+'") from None
        if not Path(self.file).is_file():
            raise UserError(f"{self.where}: no file {self.file}")
        names: dict[str, Any] = {"__name__": "plug", "__file__": self.file}
        with self.errors():
            exec(compile(Path(self.file).read_bytes(), self.file, "exec"), names)
        if name not in names:
            raise UserError(f"{self.where}: {self.file} has no {name!r}")
        self.part = names[name]

    def make(self, **offered: Any) -> Any:
        """What NAME is; or what it returns for VALUES, and for the offered ones that it names."""
        if self.values is None:
            return self.part
        with self.errors():
            named = offered.keys() & inspect.signature(self.part).parameters.keys()
            return self.part(*self.values, **{name: offered[name] for name in named})

    def make_model(self) -> tuple[Tokenizer, Model]:
        """The tokenizer and the model. UserError if they are not there, or lack what they need."""
        with self.errors():
            tokenizer, model = self.make()
        if missing := [name for name in Model.__annotations__ if not hasattr(model, name)]:
            raise UserError(f"{self.where}: the model has no {', no '.join(missing)}")
        return tokenizer, model

    def make_filter(self, **offered: Any) -> Filter:
        """The filter, whose results are checked."""
        function: Callable = self.make(**offered)

        def own(logits, ids):  # [n_vocab] -> [n_vocab]
            with self.errors():
                result = np.asarray(function(logits.copy(), list(ids)), np.float32)
            if result.shape != logits.shape:
                shapes = f"{list(logits.shape)}, not {list(result.shape)}"
                raise UserError(f"{self.where} must return logits {shapes}")
            if not (result < np.inf).all():
                raise UserError(f"{self.where} must return numbers or -inf, not +inf or NaN")
            return result

        return own

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """An error becomes a UserError, with its place in the user's file. An interrupt passes, and
        so does the end of a debugger, or a ValueError of the rest of the program."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit, bdb.BdbQuit, UserError):
            raise
        except BaseException as error:  # SystemExit too
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == self.file]
            if not lines and isinstance(error, (ValueError, OSError, MemoryError)):
                raise
            place = f"{Path(self.file).name}:{lines[-1]}: " if lines else ""
            kind = f"{place}{type(error).__name__}"
            raise UserError(f"{self.where}: {kind}: {error}") from error
