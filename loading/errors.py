"""Errors that the user can fix: one line that names the cause and a next step."""

import contextlib
import re
from collections.abc import Iterator

# What reading a file that someone else has written may raise; a damaged one may raise any of them.
MALFORMED = (
    ValueError, OSError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


class UserError(Exception):
    """Something the user can fix; the message is one line with a next step."""

    def __init__(self, message: str):
        super().__init__(clean(message))


def clean(message: str) -> str:
    """One line to print: no line breaks or escapes from a file, no password from an address."""
    printable = "".join(c if c.isprintable() else " " for c in message)
    return re.sub(r"(?<=//)[^\s/]*@|[^\s/'\"]+:[^\s/'\"]*@", "", printable)


@contextlib.contextmanager
def explained(
    what: str, remedy: str, kinds: tuple[type[Exception], ...] = (ValueError, OSError)
) -> Iterator[None]:
    """Turn errors about a file into a UserError that also says what to do."""
    try:
        yield
    except kinds as error:
        name = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__} "
        raise UserError(f"{what}: {name}{str(error)[:500]}; {remedy}") from None
