"""Parts of one's own: --filter, --model, --drafter and --loop "FILE.py:EXPRESSION".

The expression is Python. It knows the names of the file, `tokenizer` and `model`; of a filter also
`n_prompt`, how many ids are the prompt's; of a drafter and a loop `sequence`. But for a model's, it
is evaluated again for each text.
"""

import inspect
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from loading.errors import UserError
from terminal.options import OWN, did_you_mean

KINDS = {
    "filter": "a function (logits, ids) -> logits",
    "loop": "a function (model, sequence) that yields tokens",
    "drafter": "an object with propose and learn",
    "model": "a tuple (tokenizer, model)",
}
PARTS: list["Part"] = []  # all that have been named, to find whose mistake an error is


class Part:
    """A part of the user's own. UserError if its file is missing."""

    def __init__(self, option: str, where: str):
        self.option, self.where = option, f"--{option} {where}"
        name, _, self.expression = where.partition(".py:")
        self.file = name + ".py"
        if not self.expression:
            raise UserError(f"{self.where}: the form is {OWN}")
        if not Path(self.file).is_file():
            raise UserError(f"{self.where}: no file {self.file}")
        PARTS.append(self)
        self.names = runpy.run_path(self.file)

    def make(self, **names: Any) -> Any:
        """Evaluate the expression. UserError if it is wrong, or not what the option needs."""
        names = self.names | names
        try:
            part = eval(self.expression, names)
        except Exception as error:
            if isinstance(error, UserError) or self.traceback(error):
                raise
            meant = did_you_mean(error.name, [*names]) if isinstance(error, NameError) else ""
            raise UserError(f"{self.where}: {type(error).__name__}: {error}{meant}") from None
        if not fits(part, self.option):
            raise UserError(f"{self.where}: it is {part!r:.60}, not {KINDS[self.option]}")
        return part

    def traceback(self, error: BaseException) -> TracebackType | None:
        """Return the error's traceback from this file on, if it came by way of it."""
        place = error.__traceback__
        while place and place.tb_frame.f_code.co_filename != self.file:
            place = place.tb_next
        return place


def fits(part: Any, option: str) -> bool:
    """Is it what the option needs, as far as can be seen before it is used?"""
    if option == "model":
        return isinstance(part, tuple) and len(part) == 2 and hasattr(part[1], "n_vocab")
    if option == "drafter":
        return hasattr(part, "propose") and hasattr(part, "learn") and not isinstance(part, type)
    try:
        return bool(inspect.signature(part).bind(None, None)) and not isinstance(part, type)
    except (TypeError, ValueError):
        return False


def report(error: Exception) -> None:
    """Print an error as one line with the next step; but one that comes from a file of the user's
    as Python's traceback from there on, and one that is none of these in full."""
    mine = isinstance(error, UserError)
    parts = [part for part in PARTS if not mine and part.traceback(error)]
    if isinstance(error, SyntaxError):
        parts = [part for part in PARTS if part.file == error.filename]
    if parts:
        traceback.print_exception(type(error), error, parts[-1].traceback(error))
        print(f"generate.py: this error is in {parts[-1].where}", file=sys.stderr)
    elif isinstance(error, ModuleNotFoundError):
        print(
            f"generate.py: {error.name} is not installed: pip install {error.name}", file=sys.stderr
        )
    elif mine or isinstance(error, ValueError | OSError | MemoryError):
        print(f"generate.py: {UserError(str(error) or type(error).__name__)}", file=sys.stderr)
    else:
        traceback.print_exception(error)
