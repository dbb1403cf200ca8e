"""The command line: prompts in, text out as it is made, one line of statistics on stderr."""

import bdb
import contextlib
import io
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

import utils
from loading.errors import UserError
from terminal import look, options, shell, show
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.session import Session


class Parser(options.Parser):
    """Breaks its messages at words, on a terminal."""

    def exit(self, status=0, message=None):
        super().exit(status, message and show.wrapped(message, sys.stderr))


def main(argv: list[str] | None = None) -> int:
    """-> exit status: 0, 1 a failure, 2 wrong usage (by SystemExit), 130 interrupted."""
    sys.stderr = sys.stderr or open(os.devnull, "w")  # if closed, print would write to stdout
    p, words = options.parser(kind=Parser), sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    args = p.parse_intermixed_args(words[:end])
    args.prompts = [*args.prompts, *words[end + 1 :]]  # after -- nothing is an option
    piped = sys.stdin is not None and not sys.stdin.isatty()
    if piped and not (args.prompts or args.prompts_file is not None or args.interactive):
        args.prompts = ["-"]  # echo TEXT | python generate.py
    options.check(p, args)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Characters that the terminal cannot show become '?'. A stream may be closed, or read.
        with contextlib.suppress(AttributeError, io.UnsupportedOperation):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        # NaNs are detected when a token is drawn.
        with np.errstate(all="ignore"):
            run(p, args)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as error:
        print(f"generate.py: {error.name} is not installed: pip install {error.name}",
              file=sys.stderr)  # fmt: skip
        return 1
    except (UserError, ValueError, OSError, MemoryError) as error:
        message = f"generate.py: {show.one_line(error)}"
        print(show.wrapped(message, sys.stderr), file=sys.stderr)
        return 1
    except bdb.BdbQuit:  # the end of a debugger; `python -m pdb` waits for it
        sys.excepthook = lambda *_: None
        raise
    return 0


def run(p: ArgumentParser, args: Namespace) -> None:
    """Load, and do what the options ask for."""
    if args.list_models:
        rows = [*utils.names(), ("OWNER/NAME", "any of the Hugging Face hub", "", "")]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
        return None
    reads = args.interactive or "-" in args.prompts
    for name, stream in [("output", sys.stdout)] + [("input", sys.stdin)] * bool(reads):
        if stream is None:
            raise UserError(f"standard {name} is closed")
    session = Session(args)
    options.check_resolved(p, args, session.settings)
    if args.interactive:
        return shell.interact(session)
    with session.errors():
        if args.score or args.explain or args.compare or args.trace:
            inspect(session, args)
        else:
            complete(session, args)


def complete(session: Session, args: Namespace) -> None:
    """Generate, and print the texts; with --html write a page, too."""
    prompts = [prompt for prompt in read_prompts(args) for _ in range(session.settings["samples"])]
    rows = [session.row(prompt, number) for number, prompt in enumerate(prompts)]
    if len(args.prompts) > 1 and not args.json and not any(" " in p for p in args.prompts):
        n = len(args.prompts)
        show.print_figures(f'({n} prompts; one of several words is quoted: "Once upon a time")')
    if args.model is None and not args.json:
        show.print_figures("(stories, a very small model; --model gpt2 downloads GPT-2 itself)")
    if args.html is not None:
        return look.write_page(session, rows[0], args.html)
    show.stream(session, rows)


def inspect(session: Session, args: Namespace) -> None:
    """--score, --explain, --compare, --trace."""
    prompts = read_prompts(args)
    for number, prompt in enumerate(prompts):
        if len(prompts) > 1 and not args.json:
            print(f"{prompt!r}:")
        if args.explain:
            explain(session, session.row(prompt, number))
        elif args.compare:
            compare(session, prompt, number)
        elif args.trace:
            look.trace(session, session.row(prompt, number))
        elif args.json:
            print(json.dumps(session.score(prompt, args.target)))
        else:
            print_score(session.tokenizer, session.score(prompt, args.target))


def read_prompts(args: Namespace) -> list[str]:
    """The prompts of the command line, of standard input (-) and of --prompts-file."""
    try:
        prompts = [read_standard_input() if p == "-" else options.decoded(p) for p in args.prompts]
        if args.prompts_file is not None:
            text = Path(args.prompts_file).read_text(encoding="utf-8-sig")
            prompts += [line for line in text.split("\n") if line.strip()]
    except UnicodeError as error:
        raise UserError(f"the prompts are not UTF-8 text: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {error.filename or '-'}: {error.strerror}") from None
    if not prompts:
        raise UserError(f"{args.prompts_file} has no prompt in it")
    return prompts


def read_standard_input() -> str:
    """All of stdin, as UTF-8."""
    with contextlib.suppress(io.UnsupportedOperation):  # already read, for instance by a debugger
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")  # type: ignore[union-attr]
    if not (text := sys.stdin.read()):
        raise UserError('a PROMPT is missing, such as "Once upon a time": standard input is empty')
    return text.removesuffix("\n")  # the newline that echo adds
