"""Runs one command line: continues its prompts, prints a view of each, or starts the shell."""

import contextlib
import io
import sys

import numpy as np

from loading.errors import UserError, utf8
from terminal import look, options, shell, show
from terminal.session import Session

QUOTED = '({} prompts; put several words in quotes to make one: "Once upon a time")'
MISSING = 'a PROMPT is missing, such as "Once upon a time"'


def run(words: list[str]) -> None:
    """Run a command line. words: its arguments, such as ["Once upon a time", "--seed", "3"]."""
    given = options.parse(words)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Print '?' for characters that the terminal cannot display. A closed stream is None.
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
            if stream is sys.stdin and not stream.isatty():
                stream.reconfigure(encoding="utf-8-sig")  # type: ignore[union-attr]
    if not given["prompts"] and not given.keys() & {"prompts_file", "interactive"}:
        if sys.stdin is None or sys.stdin.isatty():
            raise options.Usage(MISSING)
        given["prompts"] = ["-"]  # as in: echo TEXT | python generate.py
    options.check(given)
    reads = "-" in given["prompts"] or "interactive" in given
    if sys.stdout is None or (reads and sys.stdin is None):
        raise UserError("standard input or output is closed")
    with np.errstate(all="ignore"):  # no warnings: a draw detects NaNs
        session = Session(given)
        if "interactive" in given:
            with utf8("standard input"):
                shell.interact(session)
        elif views := [view for view in ("score", "explain", "compare") if view in given]:
            for number, prompt in enumerate(prompts := read_prompts(given)):
                if len(prompts) > 1 and "json" not in given:
                    print(show.visible(f"{prompt!r}:"))
                look.view(session, views[0], prompt, number)
        else:
            complete(session, given)


def complete(session: Session, given: dict) -> None:
    """Generate and print the texts; with --html, also write a page."""
    prompts = [p for p in read_prompts(given) for _ in range(session.settings["samples"])]
    rows = [session.row(prompt, number) for number, prompt in enumerate(prompts)]
    n_words = len(given["prompts"])
    if n_words > 1 and "json" not in given and " " not in "".join(given["prompts"]):
        show.print_figures(QUOTED.format(n_words))
    if given.keys() == {"prompts"}:
        show.print_figures("(stories, a very small model; --model gpt2 downloads GPT-2 itself)")
    if "html" in given:
        return look.write_page(session, rows[0], given["html"])
    show.stream(session, rows)


def read_prompts(given: dict) -> list[str]:
    """Return the prompts of the command line (- is standard input) and of --prompts-file."""
    prompts = [read_standard_input() if p == "-" else p for p in given["prompts"]]
    if "prompts_file" in given:
        with utf8(given["prompts_file"]), open(given["prompts_file"], encoding="utf-8-sig") as file:
            prompts += [line.rstrip("\n") for line in file if line.strip()]
    if not prompts:
        raise UserError(f"{given['prompts_file']} contains no prompt")
    return prompts


def read_standard_input() -> str:
    """Return all text of standard input."""
    with utf8("standard input"):
        text = sys.stdin.read()
    if not text:
        raise UserError(f"{MISSING}: standard input is empty")
    return text.removesuffix("\n")  # the newline that echo adds
