"""Errors that the user can fix: one line that names the cause and a next step."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path


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
        raise UserError(f"{what}: {str(error)[:500]}; {remedy}") from None


def clear_errors(path: Path) -> contextlib.AbstractContextManager:
    """Turn the file system's errors (full disk, no permission) into a UserError."""
    remedy = "make room or choose another folder (--models-dir), then run this again"
    return explained(f"cannot write {path}", remedy, (OSError,))
