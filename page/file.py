"""Write a page to a file, about a text that grows meanwhile."""

import contextlib
import secrets
from pathlib import Path

from loading.errors import UserError
from page import html, live, record, watching


@contextlib.contextmanager
def writing(file: str, tokenizer, sequence, source=(), steps=(), settings=None, model=None):
    """Write a page about a sequence, which a loop extends in this `with` block. An error or Ctrl-C
    leaves no unfinished file. model: what live.in_8_bits returned, to put the model into the page;
    the other arguments are those of page.record."""
    if not file.endswith((".html", ".htm")):
        raise UserError(f"--html needs a file name that ends in .html, not {file!r}")
    target = Path(file).resolve()  # if it is a link, replace the file that it points to
    if target.is_dir():
        raise UserError(f"{file} is a folder: --html needs the name of a file")
    unfinished = target.with_name(f"{secrets.token_hex(8)}.unfinished")  # a name that is free
    unfinished.touch(exist_ok=False)  # fail now, rather than after a long text
    try:
        with watching(sequence) as run:
            yield
        data = record(tokenizer, sequence, run, source, steps, settings)
        parts = live.parts(tokenizer, model) if model else None
        unfinished.write_text(html(data, parts), encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
