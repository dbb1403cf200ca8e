"""Runs one command line: the function `run` is the whole program."""

import contextlib
import sys
from typing import Any

from loading.errors import UserError, utf8
from page.file import page_for
from terminal import options, views
from terminal.session import Session
from terminal.shell import interact
from terminal.show import Json, Text
from terminal.streams import about


def run(words: list[str], session: Any = None, rows: Any = ()) -> None:
    """Run a command line, such as ["Once upon a time", "--seed", "3"]. The interactive shell also
    calls this function, with its session and the row of its prompt."""
    given = options.parse(words)  # parse
    prompts = [] if rows or "interactive" in given else read_prompts(given)
    session = session or Session(given)  # load the model
    if "interactive" in given:
        return interact(session, run)
    if "score" in given:
        return views.print_scores(session, prompts)
    rows = rows or session.rows(prompts)  # encode
    if "compare" in given:
        return views.compare(session, rows)
    if session.settings["method"] == "speculative" and "drafter" not in session.own:
        session.draft_model()  # load it before the clock starts; its errors are about no prompt
    kind = views.Explained if "explain" in given else Json if session.settings["json"] else Text
    output = kind(session, rows)
    page: Any = contextlib.nullcontext()
    if given.keys() & {"html", "code"}:
        page = page_for(session, rows[0], given)
    with page, output.closing():
        session.run_batch(rows)
        for row in rows:
            with about(row.number, prompts):
                for _ in session.loop(row):
                    row.feed()  # decode
                    output.show(row)  # print
                    if row.ended:
                        break
                output.finish(row)


def read_prompts(given: dict) -> list[str]:
    """Return the prompts. - is standard input, and so is a missing prompt in a pipe."""
    prompts = given["prompts"] or ["-"] * (not sys.stdin.isatty())
    if "-" in prompts:
        with utf8("standard input"):
            text = sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")
        prompts = [text.removesuffix("\n") if prompt == "-" else prompt for prompt in prompts]
    if not (given["prompts"] or any(prompts)):
        raise UserError('a PROMPT is missing, such as "Once upon a time"')
    if given.keys() == {"prompts"}:
        print("(stories, a very small model; --model gpt2 downloads GPT-2 itself)", file=sys.stderr)
    return prompts
