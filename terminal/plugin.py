"""Parts that the user wrote, as "FILE.py:EXPRESSION": --filter, --model, --drafter, --loop.

The expression is Python. It can use the file's names and, except for --model, `tokenizer` and
`model`. For --filter, it can also use `n_prompt`, the number of prompt ids; for --drafter and
--loop, `sequence`. It is evaluated again for each text, but only once for --model.
"""

import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from loading.errors import UserError

PARTS: list["Part"] = []  # the parts in use, to find the one that is wrong
FIRST = "numpy regex safetensors threadpoolctl"  # every command needs these libraries


class Part:
    """A user-written part. where: "FILE.py:EXPRESSION"."""

    def __init__(self, option: str, where: str):
        self.where = f"--{option} {where}"
        name, _, self.expression = where.partition(".py:")
        if not self.expression:
            raise UserError(f"{self.where}: the form is FILE.py:EXPRESSION")
        self.file = name + ".py"
        if not Path(self.file).is_file():
            raise UserError(f"{self.where}: no file {self.file}")
        PARTS.append(self)
        self.names = runpy.run_path(self.file)

    def make(self, **names: Any) -> Any:
        """Evaluate the expression, which may use `names`."""
        return eval(self.expression, self.names | names)

    def caused(self, error: BaseException) -> bool:
        """Return whether this file is in the error's traceback, or contains the syntax error."""
        places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        return self.file in [*places, isinstance(error, SyntaxError) and error.filename]


def report(error: BaseException, before: str = "generate.py: ") -> None:
    """Print an error in one line. If it arose in the user's own file, or nobody foresaw it, print
    its traceback. If a part's wrong result may have caused it, name the parts in use."""
    message = str(error) or type(error).__name__
    own = [part.where for part in PARTS if part.caused(error)]
    foreseen = isinstance(error, UserError | ValueError | OSError | MemoryError)
    if isinstance(error, ModuleNotFoundError) and not own:
        libraries = FIRST if error.name in FIRST.split() else error.name
        uv = "with uv, `uv run python generate.py ...` installs everything"
        message = f"{error.name} is not installed: pip install {libraries}; {uv}"
    elif own and not isinstance(error, UserError):
        traceback.print_exception(error)
        message = f"this error is in {own[-1]}"
    elif not foreseen and not PARTS:
        return traceback.print_exception(error)
    elif not isinstance(error, UserError | OSError | MemoryError) and PARTS:
        name = f"{type(error).__name__}: " * (not foreseen)
        message = f"{name}{message} (with {', '.join(part.where for part in PARTS)})"
    print(f"{before}{getattr(error, 'row', '')}{UserError(message)}", file=sys.stderr)
