"""Runs one command line: the function `run` is the whole program."""

import sys
from typing import Any

from loading.errors import UserError, utf8
from terminal import options, views
from terminal.session import Session
from terminal.shell import interact, standard_input
from terminal.show import print_figures

MISSING = 'a PROMPT is missing, such as "Once upon a time"'


def run(words: list[str], session: Any = None, rows: Any = ()) -> None:
    """Run a command line, such as ["Once upon a time", "--seed", "3"]. The interactive shell also
    calls this function, with its session and the rows of its prompts."""
    given = prepare(options.parse(words))  # parse
    session = session or Session(given)  # load the model
    if "interactive" in given:
        return interact(session, run)
    if "score" in given:
        return views.print_scores(session, read_prompts(given))
    rows = rows or [session.row(text, i) for i, text in enumerate(read_prompts(given))]  # encode
    if "compare" in given:
        return views.compare(session, rows)
    output, loop = views.choose(session, rows, given)
    with views.page_for(session, rows[0], given):
        for row in rows:
            with output.showing(row):
                for token in loop(row):
                    row.feed(token)  # decode
                    output.show(row)  # print
                    if row.ended:
                        break


def prepare(given: dict) -> dict:
    """Check the options. Without a prompt, read standard input."""
    if not given["prompts"] and not given.keys() & {"prompts_file", "interactive"}:
        if sys.stdin and sys.stdin.isatty():
            raise options.Usage(MISSING)
        given["prompts"] = ["-"]  # as in: echo TEXT | python generate.py
    options.check(given)
    reads = "-" in given["prompts"] or "interactive" in given
    if sys.stdout is None or (reads and sys.stdin is None):
        raise UserError("standard input or output is closed")
    return given


def read_prompts(given: dict) -> list[str]:
    """Return the prompts of the command line (- is standard input) and of --prompts-file."""
    prompts = [read_standard_input() if p == "-" else p for p in given["prompts"]]
    if "prompts_file" in given:
        with utf8(given["prompts_file"]), open(given["prompts_file"], encoding="utf-8-sig") as file:
            prompts += [line.rstrip("\n") for line in file if line.strip()]
    if not prompts:
        raise UserError(f"{given['prompts_file']} contains no prompt")
    if given.keys() == {"prompts"}:
        print_figures("(stories, a very small model; --model gpt2 downloads GPT-2 itself)")
    return prompts


def read_standard_input() -> str:
    """Return all text of standard input, without the newline that echo adds."""
    with standard_input() as stream:
        text = stream.read()
    if not text:
        raise UserError(f"{MISSING}: standard input is empty")
    return text.removesuffix("\n")
