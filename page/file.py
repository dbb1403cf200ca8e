"""Write a page to a file, about a text that grows meanwhile."""

import contextlib
import secrets
from pathlib import Path

from loading.errors import UserError
from page import html, live, record, watching
from page.code import MODULES, check, code_html
from page.trace import recording


@contextlib.contextmanager
def writing(file: str, tokenizer, sequence, source=(), steps=(), settings=None, model=None):
    """Write a page about a sequence, which a loop extends in this `with` block. model: what
    live.in_8_bits returned, to put the model into the page; the other arguments are those of
    page.record."""
    with replacing(file, "--html") as write:
        with watching(sequence) as run:
            yield
        data = record(tokenizer, sequence, run, source, steps, settings)
        write(html(data, live.parts(tokenizer, model) if model else None))


@contextlib.contextmanager
def writing_code(file: str, tokenizer, sequence, *models):
    """Write a page about the code that extends a sequence in this `with` block. models: that of the
    sequence, and draft models."""
    check(sequence.model, sequence.n_prompt)
    with replacing(file, "--code") as write:
        with recording(MODULES, *models) as run:
            yield
        write(code_html(run, tokenizer, sequence))


@contextlib.contextmanager
def replacing(file: str, option: str):
    """Yield a function that writes the file's new text. An error or Ctrl-C leaves the old file."""
    if not file.endswith((".html", ".htm")):
        raise UserError(f"{option} needs a file name that ends in .html, not {file!r}")
    target = Path(file).resolve()  # if it is a link, replace the file that it points to
    if target.is_dir():
        raise UserError(f"{file} is a folder: {option} needs the name of a file")
    unfinished = target.with_name(f"{secrets.token_hex(8)}.unfinished")  # a name that is free
    unfinished.touch(exist_ok=False)  # fail now, rather than after a long text
    try:
        yield lambda page: (unfinished.write_text(page, "utf-8"), unfinished.replace(target))
    finally:
        unfinished.unlink(missing_ok=True)
