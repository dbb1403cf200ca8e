"""--trace and --html: what the model does inside, written out, and as a page."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from inside import page
from inside.recorder import passes, recording
from inside.trace import as_json, format_trace
from loading.errors import UserError, explained
from terminal import show
from terminal.row import Row
from terminal.session import Session


def trace(session: Session, row: Row) -> None:
    """Print the first two passes for a row, and of an encoder-decoder the source's before them."""
    check(session)
    with recording(session.model) as calls:
        for _ in session.generate([row]):
            if len(passes(calls, session.model)) > 1:
                break
    found = passes(calls, session.model)[:2]
    if not found:
        raise UserError("no token was computed: there is no pass to show")
    begin = next(call for call in calls if call.name == "begin")
    if session.args.json:
        source = as_json(begin) if session.model.has_source else None
        print(json.dumps({"source": source, "passes": [as_json(call) for call in found]}))
    else:
        print(format_trace(found, begin))


def check(session: Session) -> None:
    """UserError for a model that has none of the functions that are recorded."""
    if "params" not in vars(session.model):
        raise UserError("--trace and --html look into models with layers: this one has none")


def write_page(session: Session, row: Row, file: str) -> None:
    """Print a row as always, and write its page to a file."""
    check(session)
    session.trace = []
    settings = session.settings | {"model": session.args.model or session.settings["model"],
                                   "loop": session.args.loop}  # fmt: skip
    if settings["method"] == "beam":  # nothing is drawn: the sliders begin at the model's own
        settings |= dict.fromkeys(page.SLIDERS)
    with kept(file):
        with page.watching(row.sequence) as run:
            show.stream(session, [row])
        source = row.prompt_ids if hasattr(session.model, "read") else ()
        recorded = page.record(
            session.tokenizer, row.sequence, run, source, session.trace, settings
        )
        Path(file).write_text(page.html(recorded), encoding="utf-8")
    if not session.args.json:
        show.print_figures(f"({file} is written: open it in a browser)")


@contextlib.contextmanager
def kept(file: str) -> Iterator[None]:
    """UserError at once for a file that cannot be written; after an error no new one is left."""
    is_new = not Path(file).exists()
    with explained(f"cannot write {file}", "name another file", (OSError,)):
        open(file, "a").close()
    try:
        yield
    except BaseException:
        if is_new:
            Path(file).unlink()
        raise
