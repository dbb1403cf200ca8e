"""Parts that the user wrote, as "FILE.py:EXPRESSION": --filter, --model, --drafter, --loop.

The expression is Python. It can use the file's names and, except for --model, `tokenizer` and
`model`. For --filter, it can also use `n_prompt`, the number of prompt ids; for --drafter and
--loop, `sequence`. It is evaluated again for each text, but only once for --model.
"""

import runpy
from collections.abc import Callable
from typing import Any

from loading.errors import UserError


def part(option: str, where: str) -> Callable[..., Any]:
    """Return a function that evaluates the expression. Its arguments are names to use in it."""
    file, _, expression = where.partition(".py:")
    if not expression:
        raise UserError(f"--{option} {where}: the form is FILE.py:EXPRESSION")
    code = compile(expression, f"--{option} {where}", "eval")  # a traceback shows this as the file
    names = runpy.run_path(file + ".py", run_name="own_part")
    return lambda **more: eval(code, names | more)
