"""Parts that the user wrote, as "FILE.py:EXPRESSION": --filter, --model, --drafter, --loop.

The expression is Python. It can use the file's names and, except for --model, `tokenizer` and
`model`. For --filter, it can also use `n_prompt`, the number of prompt ids; for --drafter and
--loop, `sequence`. It is evaluated again for each text, but only once for --model. The file can
import other files of its folder, as with `python FILE.py`.
"""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loading.errors import UserError

PART = "own_part"  # a user's file as a module


def part(option: str, where: str, **offered: Any) -> Callable[..., Any]:
    """Return a user's part, which `where` names as "FILE.py:EXPRESSION": a function that evaluates
    the expression with the file's names, those `offered`, and its arguments."""
    file, _, expression = where.partition(".py:")
    if not expression:
        raise UserError(f"--{option} {where}: the form is FILE.py:EXPRESSION")
    if (folder := str(Path(file).resolve().parent)) not in sys.path:
        sys.path.insert(1, folder)  # the project's own folder comes first
    code = compile(expression, f"--{option} {where}", "eval")  # a traceback shows this as the file
    try:
        names = runpy.run_path(file + ".py", run_name=PART) | offered
    except SystemExit:
        raise UserError(f"--{option} {where}: the file ends the program") from None
    return lambda **more: eval(code, names | more)
