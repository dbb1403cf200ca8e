"""Errors that the user can fix. Their messages name the cause and a next step in one line."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

ODD = (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
AGAIN = "fetch or save it again; if it is a Git LFS pointer, `git lfs pull` fetches it"
MALFORMED = (ValueError, OSError, *ODD)  # what a damaged file may raise


def again(path: Path) -> str:
    """Return what to do about a damaged file or folder. The hub's cache keeps what it has."""
    hub = re.fullmatch(r"(.*models--[^/]+)/snapshots/[^/]+(/[^/]+)?", path.as_posix())
    return f"delete {path.resolve() if hub[2] else hub[1]} and run this again" if hub else AGAIN


class UserError(Exception):
    """An error that the user can fix. Its message is a single line that is safe to print."""

    def __init__(self, message: str):
        # Never print line breaks or escape codes from a file, or a password in a URL.
        printable = "".join(c if c.isprintable() else " " for c in message)
        super().__init__(re.sub(r"(?<=//)[^\s/]*@", "", printable))


@contextlib.contextmanager
def explained(what: str, remedy: str, kinds: tuple = (ValueError, OSError)) -> Iterator[None]:
    """Turn errors of these kinds into a UserError that says what failed, why, and what to do."""
    try:
        yield
    except KeyboardInterrupt:  # not even if `kinds` has BaseException, for panics of `tokenizers`
        raise
    except kinds as error:
        name = f"{type(error).__name__} " if isinstance(error, ODD) or not str(error) else ""
        raise UserError(f"{what}: {name}{error!s:.500}; {remedy}") from None


def utf8(name: str | Path) -> contextlib.AbstractContextManager:
    """Turn the error for bytes that are not UTF-8 into a UserError that names their file."""
    return explained(f"cannot read {name}", "save it as UTF-8", (UnicodeDecodeError,))
