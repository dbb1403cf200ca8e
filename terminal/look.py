"""--trace and --html: what the model does inside, written out, and as a page."""

import json
import os
from pathlib import Path

from loading.errors import UserError
from terminal import show
from terminal.row import Row
from terminal.session import Session


def trace(session: Session, row: Row) -> None:
    """Print the first two passes for a row, and of an encoder-decoder the source's before them."""
    from inside.recorder import passes, recording
    from inside.trace import as_json, format_trace

    check(session)
    with recording(session.model) as calls:
        for _ in session.generate([row]):
            if len(passes(calls, session.model)) > 1:
                break
    found = passes(calls, session.model)[:2]
    if not found:
        raise UserError("no token was computed: there is no pass to show")
    begin = next(call for call in calls if call.name == "begin")
    if session.settings["json"]:
        source = as_json(begin) if session.reads else None
        print(json.dumps({"source": source, "passes": [as_json(call) for call in found]}))
    else:
        print(format_trace(found, begin))


def check(session: Session) -> None:
    """UserError for a model that has none of the functions that are recorded."""
    if not hasattr(session.model, "params"):
        raise UserError("--trace and --html look into models with layers: this one has none")


def write_page(session: Session, row: Row, file: str) -> None:
    """Print a row as always, and write its page. After an error or Ctrl-C no half page is left."""
    from inside import page
    from inside.recorder import recording

    check(session)
    if not file.endswith((".html", ".htm")):
        raise UserError(f"--html writes a page, to a name that ends in .html: not {file!r}")
    settings = session.settings | {"seed": row.seed if session.sampled else None}
    if settings["method"] == "beam":  # nothing is drawn: the sliders begin at the model's own
        settings |= dict.fromkeys(page.SLIDERS)
    unfinished = Path(f"{file}.unfinished")
    try:
        unfinished.touch()  # an error comes now, not after a long text
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}; name another file") from None
    try:
        with recording(session.model, page.KEEP) as calls:
            show.stream(session, [row])
        more = row.prompt_ids, row.steps, settings
        data = page.record(session.tokenizer, session.model, row.sequence, calls, *more)
        unfinished.write_text(page.html(data), encoding="utf-8")
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
    if not session.settings["json"]:
        show.print_figures(f"({file} is written: open it in a browser)")
