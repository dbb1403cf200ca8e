"""The views of one prompt: --score, --explain, --compare, and the page for --html."""

import json
import secrets
from pathlib import Path
from typing import Any

from loading.errors import UserError
from terminal import show
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.row import Row
from terminal.session import Session


def view(session: Session, name: str, prompt: Any, number: int = 0) -> None:
    """Print one view of a prompt. number: the prompt's index, which is added to the seed."""
    if name == "compare":
        return compare(session, prompt, number)
    if name == "explain":
        return explain(session, session.row(prompt, number))
    scored = session.score(prompt, session.given.get("target"))
    if session.settings["json"]:
        return print(json.dumps(scored))
    print_score(session.tokenizer, scored)


def write_page(session: Session, row: Row, file: str) -> None:
    """Print a row as usual, and write its page. An error or Ctrl-C leaves no unfinished file."""
    import page
    from page.live import in_8_bits, parts

    if "live" in session.given:
        session.model = in_8_bits(session.tokenizer, session.model)
    if not file.endswith((".html", ".htm")):
        raise UserError(f"--html needs a file name that ends in .html, not {file!r}")
    settings = session.settings | {"seed": row.seed}
    if settings["method"] == "beam":  # beam search does not sample: the sliders start at neutral
        settings |= dict.fromkeys(page.SLIDERS)
    target = Path(file).resolve()  # if it is a link, replace the file that it points to
    if target.is_dir():
        raise UserError(f"{file} is a folder: --html needs the name of a file")
    unfinished = target.with_name(f"{secrets.token_hex(8)}.unfinished")  # a name that is free
    unfinished.touch(exist_ok=False)  # fail now, rather than after a long text
    try:
        with page.watching(session.start(row, rng=page.die)) as run:
            show.stream(session, [row])
        more = row.prompt_ids if session.reads else (), row.steps, settings
        data = page.record(session.tokenizer, row.sequence, run, *more)
        live = parts(session.tokenizer, session.model) if "live" in session.given else None
        unfinished.write_text(page.html(data, live), encoding="utf-8")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    if not session.settings["json"]:
        show.print_figures(f"({file} is written: open it in a browser)")
