"""The user's own parts: --filter, --model, --drafter and --loop FILE.py:NAME, see interface.py."""

import ast
import bdb
import contextlib
import inspect
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from generate import Loop
from interface import Drafter, Filter, Model, Tokenizer
from loading.errors import UserError

PARTS = {
    "filter": "a function (logits, ids) -> logits",
    "loop": "a function (model, sequences) that yields (sequence, token)",
    "drafter": "an object with propose and learn",
    "model": "a tuple (tokenizer, model)",
}


class Plug:
    """`where` is FILE.py:NAME, or FILE.py:NAME(VALUES), see interface.py. UserError if the file has
    no such name, and for an error in the file. emptied: has a filter ever left no token?"""

    def __init__(self, option: str, where: str):
        self.option, self.where, self.emptied = option, f"--{option} {where}", False
        parts = re.fullmatch(r"(.*?\.py):(\w+)(\(.*\))?", where, re.DOTALL)
        if not parts:
            raise self.wrong("the form is FILE.py:NAME or FILE.py:NAME(VALUES)")
        self.file, self.name, values = parts.groups()
        self.called, (self.values, self.named) = bool(values), self.read_values(values or "()")
        if not Path(self.file).is_file():
            raise self.wrong(f"no file {self.file}")
        module = sys.modules[self.file] = ModuleType(self.file)  # where its classes look it up
        module.__file__ = self.file
        with errors(self):
            exec(compile(Path(self.file).read_bytes(), self.file, "exec"), vars(module))
        if self.name not in vars(module):
            raise self.wrong(f"{self.file} has no {self.name!r}")
        self.part = getattr(module, self.name)

    def wrong(self, message: str) -> UserError:
        return UserError(f"{self.where}: {message}")

    def read_values(self, values: str) -> tuple[list, dict[str, Any]]:
        """(1, 'a', n=3) -> the values, and those with a name. UserError unless all are literals."""
        with contextlib.suppress(ValueError, SyntaxError, AttributeError):
            call: Any = ast.parse(f"f{values}", mode="eval").body
            named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
            if isinstance(call.func, ast.Name) and None not in named:
                return [ast.literal_eval(value) for value in call.args], named
        raise self.wrong("VALUES are literals, as 3, '[0-9]+' and n=3")

    def make(self, **offered: Any) -> Any:
        """What NAME is; or what it returns for VALUES, and for the offered ones that it names.
        UserError if that is not a part as the option needs it."""
        part = self.part
        if self.called:
            with errors(self):
                signature = inspect.signature(part)
            names = offered.keys() & signature.parameters.keys()
            named = {name: offered[name] for name in names} | self.named
            try:
                signature.bind(*self.values, **named)
            except TypeError as error:
                filled = "; filled in after the values: " + ", ".join(offered) if offered else ""
                raise self.wrong(f"{error}, for {self.name}{signature}{filled}") from None
            with errors(self):
                part = part(*self.values, **named)
        if not self.fits(part, offered):
            verb = "returned" if self.called else "is"
            hint = f"; if it makes one, write {self.name}()" * (callable(part) and not self.called)
            raise self.wrong(f"{self.name} {verb} {kind(part)}, not {PARTS[self.option]}{hint}")
        return part

    def fits(self, part: Any, offered: dict) -> bool:
        """Is it a part as the option needs it, as far as can be seen before it is used?"""
        if self.option == "model":
            return isinstance(part, tuple) and len(part) == 2
        if isinstance(part, type):
            return False
        if self.option == "drafter":
            return hasattr(part, "propose") and hasattr(part, "learn")
        try:
            names = inspect.signature(part).bind(None, None).arguments.keys()
        except TypeError:
            return False
        return self.option == "loop" or not names & offered.keys()

    def make_model(self) -> tuple[Tokenizer, Model]:
        """The tokenizer and the model. UserError if the model or its cache lacks what it needs."""
        tokenizer, model = self.make()
        with errors(self):
            self.need("model", model, *Model.__annotations__, "__call__", "new_cache", "begin")
            conditioned, [start] = model.begin([[0]])
            cache = conditioned.new_cache(1)
            self.need("cache", cache, "lengths", "cut", "select", "join")
            shape = np.shape(conditioned(np.array([start]), cache, last=1))
        if shape != (1, 1, model.n_vocab):
            expected = f"logits [1, 1, {model.n_vocab}] with last=1"
            raise self.wrong(f"the model must return {expected}, not {list(shape)}")
        return tokenizer, model

    def need(self, what: str, owner: Any, *names: str) -> None:
        """UserError if the owner lacks one of these attributes."""
        if missing := [name for name in names if not hasattr(owner, name)]:
            raise self.wrong(f"the {what} has no {', no '.join(missing)}")

    def make_filter(self, **offered: Any) -> Filter:
        """The filter, whose results are checked."""
        function = self.make(**offered)

        def own(logits, ids):  # [n_vocab] -> [n_vocab]
            with errors(self):
                result = np.asarray(function(logits.copy(), list(ids)), np.float32)
            if result.shape != logits.shape:
                found = list(result.shape) or "a single number or None: is a return forgotten?"
                raise self.wrong(f"it must return logits {list(logits.shape)}, not {found}")
            if not (result < np.inf).all():
                raise self.wrong("it must return numbers or -inf, not +inf or NaN")
            self.emptied |= not (result > -np.inf).any()
            return result

        return own

    def make_drafter(self, **offered: Any) -> Drafter:
        """The drafter, whose proposals are checked."""
        drafter = self.make(**offered)

        def propose(ids, n):
            result = drafter.propose(ids, n)
            if not (isinstance(result, tuple) and len(result) == 2):
                raise self.wrong(f"it must propose (ids, distributions), not {kind(result)}")
            return result

        made: Any = SimpleNamespace(propose=propose, learn=drafter.learn)
        return made

    def make_loop(self, **offered: Any) -> Loop:
        """The loop, whose steps are checked."""
        loop = self.make(**offered)

        def own(model, sequences):
            n_tokens: Counter = Counter()
            for step in loop(model, sequences):
                if not (isinstance(step, tuple) and len(step) == 2 and step[0] in sequences):
                    raise self.wrong(f"it must yield (sequence, token), not {kind(step)}")
                sequence, _ = step
                n_tokens[sequence] += 1
                if n_tokens[sequence] > len(sequence.ids) - sequence.n_prompt:
                    raise self.wrong("it must append a token first: sequence.append(token)")
                yield step

        return own


@contextlib.contextmanager
def errors(*plugs: Plug) -> Iterator[None]:
    """An error becomes a UserError that names one of these plugs: the one in whose file it is, with
    the line; else the first. An interrupt passes, and so does the end of a debugger, or a
    ValueError of the rest of the program."""
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit, bdb.BdbQuit, UserError):
        raise
    except BaseException as error:  # SystemExit too
        plug_of = {plug.file: plug for plug in plugs[::-1]}
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename in plug_of]
        if not own and (not plugs or isinstance(error, (ValueError, OSError, MemoryError))):
            raise
        plug = plug_of[own[-1].filename] if own else plugs[0]
        place = f"{Path(plug.file).name}:{own[-1].lineno}: " if own else ""
        raise plug.wrong(f"{place}{type(error).__name__}: {error}") from error


def kind(x: Any) -> str:
    """What it is, in a message."""
    if isinstance(x, type):
        return "a class"
    if inspect.isfunction(x):
        return f"a function {inspect.signature(x)}"
    return f"{x!r:.50}" if isinstance(x, int | str | None) else f"a {type(x).__name__}"
