"""Write a page to a file, about a text that grows meanwhile."""

import contextlib
import secrets
import sys
import time
from pathlib import Path

import page
from loading.errors import UserError
from page import live


@contextlib.contextmanager
def page_for(session, row, given):
    """Write the page of --html or --code about a row of the terminal, which grows in this `with`
    block. given: the options."""
    if "live" in given:
        session.model = live.in_8_bits(session.tokenizer, session.model)
    tokenizer, model, is_code = session.tokenizer, session.model, "code" in given
    settings = session.settings | {"seed": row.seed}
    if settings["method"] == "beam":  # beam search does not sample: the sliders start at neutral
        settings |= dict.fromkeys(page.SLIDERS)

    def make(run):
        if is_code:
            return page.code_html(run, tokenizer, row.sequence.ids, row.sequence.n_prompt)
        data = page.record(tokenizer, row.sequence, run, row.source, row.steps, settings)
        return page.html(data, live.parts(tokenizer, model) if "live" in given else None)

    if is_code:
        recorder = page.stepping(model, len(row.prompt_ids))
    else:
        recorder = page.watching(session.start(row, page.die))
    with writing(file := given["code" if is_code else "html"], recorder, make) as run:
        if is_code:
            session.start(row)  # here, because an encoder-decoder reads its source
        yield
    if not session.settings["json"]:
        print(f"({file} is written: open it in a browser)", file=sys.stderr)
    if is_code and run.raised:
        raise run.raised


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
    try:
        unfinished.touch(exist_ok=False)  # fail now, rather than after a long text
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}; check its folder") from None
    unfinished.unlink()
    for left in target.parent.glob("[0-9a-f]" * 16 + ".unfinished"):
        if left.stat().st_mtime < time.time() - 60:  # a killed process has left it
            left.unlink(missing_ok=True)
    try:
        with recorder as record:
            yield record
        unfinished.write_text(make(record), encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
