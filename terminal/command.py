"""What one command line asks for: prompts in; text, a view of it, or a conversation out."""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np

import utils
from loading.errors import UserError
from terminal import look, options, shell, show
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.session import Session

QUOTED = '({} prompts; one of several words is quoted: "Once upon a time")'
MISSING = 'a PROMPT is missing, such as "Once upon a time"'


def run(words: list[str]) -> None:
    """Do what the words of a command line ask for."""
    given = options.parse(words)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Characters that the terminal cannot show become '?'. A stream may be closed, or read.
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    if "list_models" in given:
        return list_models()
    if not given["prompts"] and not given.keys() & {"prompts_file", "interactive"}:
        if sys.stdin is None or sys.stdin.isatty():
            raise options.Usage(MISSING)
        given["prompts"] = ["-"]  # echo TEXT | python generate.py
    options.check(given)
    for name, stream in ("output", sys.stdout), ("input", sys.stdin or "-" not in given["prompts"]):
        if stream is None or stream is False:
            raise UserError(f"standard {name} is closed")
    with np.errstate(all="ignore"):  # NaNs are detected when a token is drawn
        session = Session(given)
        message = options.misplaced(given, session.settings["method"])
        if message and "compare" not in given:
            raise options.Usage(message)
        if "interactive" in given:
            shell.interact(session)
        elif given.keys() & {"score", "explain", "compare", "trace"}:
            inspect(session, given)
        else:
            complete(session, given)


def complete(session: Session, given: dict) -> None:
    """Generate, and print the texts; with --html write a page, too."""
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


def inspect(session: Session, given: dict) -> None:
    """--score, --explain, --compare, --trace."""
    prompts = read_prompts(given)
    for number, prompt in enumerate(prompts):
        if len(prompts) > 1 and "json" not in given:
            print(show.visible(f"{prompt!r}:"))
        if "explain" in given:
            explain(session, session.row(prompt, number))
        elif "compare" in given:
            compare(session, prompt, number)
        elif "trace" in given:
            look.trace(session, session.row(prompt, number))
        elif "json" in given:
            print(json.dumps(session.score(prompt, given.get("target"))))
        else:
            print_score(session.tokenizer, session.score(prompt, given.get("target")))


def list_models() -> None:
    """Print what --model knows: the name, what it is, how large, whether it is here."""
    rows = [*utils.names(), ("OWNER/NAME", "a model of the Hugging Face hub, see README", "", "")]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths))
        print(show.visible("  ".join(cells).rstrip()))


def read_prompts(given: dict) -> list[str]:
    """Return the prompts of the command line, of standard input (-) and of --prompts-file."""
    file = given.get("prompts_file")
    try:
        prompts = [read_standard_input() if p == "-" else p for p in given["prompts"]]
        if file is not None:
            text = Path(file).read_text(encoding="utf-8-sig")
            prompts += [line for line in text.split("\n") if line.strip()]
    except UnicodeError as error:
        raise UserError(f"the prompts are not UTF-8 text: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {error.filename or '-'}: {error.strerror}") from None
    if not prompts:
        raise UserError(f"{file} has no prompt in it")
    return prompts


def read_standard_input() -> str:
    """Return all of stdin, as UTF-8."""
    with contextlib.suppress(io.UnsupportedOperation):  # already read, for instance by a debugger
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")  # type: ignore[union-attr]
    if not (text := sys.stdin.read()):
        raise UserError(f"{MISSING}: standard input is empty")
    return text.removesuffix("\n")  # the newline that echo adds
