"""Write a page to a file, about a text that grows meanwhile."""

import contextlib
import secrets
import time
from pathlib import Path

from loading.errors import UserError


@contextlib.contextmanager
def writing(file: str, recorder, make):
    """Write the page make(record), where the context manager `recorder` yields the record of this
    `with` block. An error or Ctrl-C leaves no unfinished file."""
    if not file.endswith((".html", ".htm")):
        raise UserError(f"a page needs a file name that ends in .html, not {file!r}")
    target = Path(file).resolve()  # if it is a link, replace the file that it points to
    if target.is_dir():
        raise UserError(f"{file} is a folder: a page needs the name of a file")
    unfinished = target.with_name(f"{secrets.token_hex(8)}.unfinished")  # a name that is free
    unfinished.touch(exist_ok=False)  # fail now, rather than after a long text
    unfinished.unlink()
    for left in target.parent.glob("[0-9a-f]" * 16 + ".unfinished"):
        if left.stat().st_mtime < time.time() - 60:  # a killed process has left it
            left.unlink(missing_ok=True)
    try:
        with recorder as record:
            yield
        unfinished.write_text(make(record), encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
