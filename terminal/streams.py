"""The standard streams, which may be closed or odd, and the errors that appear there.

At first, cli.py and the workshop need this file and only the standard library.
"""

import bdb
import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator

from loading.errors import UserError
from terminal.plugin import PART

FIRST = "numpy regex safetensors threadpoolctl"  # every command needs these libraries


def open_streams() -> None:
    """Make the standard streams usable. Files and pipes are UTF-8, on every system."""
    sys.stdin = sys.stdin or open(os.devnull)  # a stream is None if the caller has closed it
    sys.stderr = sys.stderr or open(os.devnull, "w")
    if sys.stdout is None:
        sys.exit("standard output is closed")
    for stream in sys.stdin, sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):  # '?' for what a terminal cannot display
            encoding = None if stream.isatty() else "utf-8"
            errors = "surrogateescape" if encoding and stream is sys.stdin else "replace"
            with contextlib.suppress(io.UnsupportedOperation):  # the debugger has read from it
                stream.reconfigure(encoding=encoding, errors=errors, line_buffering=True)


def quit_if_closed(error: BaseException) -> None:
    """End the program without a message if the next one in a pipe, such as `head`, has closed it.
    Windows then says EINVAL, as it does for the name of a file."""
    is_invalid = isinstance(error, OSError) and error.errno == errno.EINVAL and not error.filename
    if is_invalid or isinstance(error, BrokenPipeError):
        with contextlib.suppress(io.UnsupportedOperation):  # not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


@contextlib.contextmanager
def about(number: int, prompts: list[str]) -> Iterator[None]:
    """If one of several prompts fails in this block, note in the error which one it is."""
    try:
        yield
    except Exception as error:
        if len(prompts) > 1:
            where = f"prompt {number + 1} of {len(prompts)}, {prompts[number][:30]!r}: "
            vars(error).setdefault("__notes__", []).append(where)  # add_note of Python 3.11
        raise


def report(error: BaseException, before: str = "") -> None:
    """Print an error in one line. Print Python's traceback if the error is unexpected, or if a part
    that the user wrote raised it. End the program if its output is closed."""
    if isinstance(error, bdb.BdbQuit):  # the user has left the debugger; `python -m pdb` catches it
        raise error
    frames = traceback.walk_tb(error.__traceback__)
    is_own = any(frame.f_globals.get("__name__") == PART for frame, _ in frames)
    if not is_own or isinstance(error, BrokenPipeError):
        quit_if_closed(error)
    foreseen = isinstance(error, ValueError | OSError | MemoryError) and not is_own
    message = str(error) or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and not is_own:
        libraries = FIRST if error.name in FIRST.split() else error.name
        uv = "with uv, `uv run python generate.py ...` installs everything"
        message = f"{error.name} is not installed: pip install {libraries}; {uv}"
    elif not (foreseen or isinstance(error, UserError)):
        return traceback.print_exception(error)
    notes = "".join(getattr(error, "__notes__", [])[-1:])
    print(f"{before}{UserError(notes + message)}", file=sys.stderr)
