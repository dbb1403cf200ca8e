"""Parts that the user wrote, as "FILE.py:EXPRESSION": --filter, --model, --drafter, --loop.

The expression is Python. It can use the file's names and, except for --model, `tokenizer` and
`model`. For --filter, it can also use `n_prompt`, the number of prompt ids; for --drafter and
--loop, `sequence`. It is evaluated again for each text, but only once for --model.
"""

import contextlib
import inspect
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from loading.errors import UserError
from terminal.options import did_you_mean

KINDS = {  # option -> what the value of its expression must be
    "filter": "a function (logits, ids) -> logits",
    "loop": "a function (model, sequence) that yields tokens",
    "drafter": "an object with propose",
    "model": "a tuple (tokenizer, model)",
}
PARTS = WeakValueDictionary[str, "Part"]()  # the parts in use, to find the one that is wrong
FIRST = "numpy regex safetensors threadpoolctl"  # every command needs these libraries


class Part:
    """A user-written part. where: "FILE.py:EXPRESSION". Raises UserError if the file is missing."""

    def __init__(self, option: str, where: str):
        self.option, self.where = option, f"--{option} {where}"
        name, _, self.expression = where.partition(".py:")
        self.file = name + ".py"
        if not self.expression:
            raise UserError(f"{self.where}: the form is FILE.py:EXPRESSION")
        if not Path(self.file).is_file():
            raise UserError(f"{self.where}: no file {self.file}")
        PARTS[self.where] = self
        self.names = runpy.run_path(self.file)

    def make(self, **names: Any) -> Any:
        """Evaluate the expression, which may use `names`. Raises UserError if it is not correct."""
        names = self.names | names
        try:
            part = eval(self.expression, names)
        except Exception as error:
            if isinstance(error, UserError) or self.holds(error):
                raise
            meant = did_you_mean(str(error.name), [*names]) if isinstance(error, NameError) else ""
            raise UserError(f"{self.where}: {type(error).__name__}: {error}{meant}") from None
        if not fits(part, self.option):
            raise UserError(f"{self.where}: it is {part!r:.60}, not {KINDS[self.option]}")
        return part

    def holds(self, error: BaseException) -> bool:
        """Return whether this file is in the error's traceback, or contains the syntax error."""
        wrong_syntax = isinstance(error, SyntaxError) and error.filename == self.file
        return wrong_syntax or self.place(error) is not None

    def place(self, error: BaseException) -> Any:
        """Return the error's traceback from this file on, or None if the file is not in it."""
        place = error.__traceback__
        while place and place.tb_frame.f_code.co_filename != self.file:
            place = place.tb_next
        return place


def fits(part: Any, option: str) -> bool:
    """Return whether a part fits its option, as far as one can tell before it is used."""
    if option == "model":
        return isinstance(part, tuple) and len(part) == 2 and hasattr(part[1], "n_vocab")
    if option == "drafter":
        return hasattr(part, "propose") and not isinstance(part, type)
    with contextlib.suppress(TypeError, ValueError):
        return bool(inspect.signature(part).bind(None, None)) and not isinstance(part, type)
    return False


def report(error: BaseException, before: str = "generate.py: ") -> None:
    """Print an error in one line. If it arose in the user's own file, first print the traceback
    from that file on. If a part's wrong result may have caused it, name the parts in use. Without
    parts, print the whole traceback of an unforeseen error."""
    foreseen = isinstance(error, UserError)
    parts = [part for part in PARTS.values() if not foreseen and part.holds(error)]
    message = str(error) or type(error).__name__
    if parts:
        traceback.print_exception(type(error), error, parts[-1].place(error))
        message = f"this error is in {parts[-1].where}"
    elif isinstance(error, ModuleNotFoundError):
        libraries = FIRST if error.name in FIRST.split() else error.name
        uv = "with uv, `uv run python generate.py ...` installs everything"
        message = f"{error.name} is not installed: pip install {libraries}; {uv}"
    elif not foreseen and PARTS and not isinstance(error, OSError | MemoryError):
        name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        message = f"{name}{message} (with {', '.join(PARTS)})"
    elif not foreseen and not isinstance(error, ValueError | OSError | MemoryError):
        return traceback.print_exception(error)
    print(f"{before}{getattr(error, 'row', '')}{UserError(message)}", file=sys.stderr)
