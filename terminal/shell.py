"""The interactive shell. A line is a prompt for the model; /NAME VALUE sets the option --NAME."""

import bdb
import contextlib
import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from decoding.drafters import common_prefix
from loading.errors import UserError, utf8
from terminal import options, plugin
from terminal.plugin import report
from terminal.session import Session
from terminal.show import visible
from terminal.views import print_scores

HELP = """\
/explain, /compare [PROMPT]: like --explain, ...; without PROMPT, for the last prompt
/score TEXT: like --score; for encoder-decoders and in a chat: /score SOURCE => TARGET
/html FILE.html: generate the last text again, and write a page about it
/reset: restore the options of the start, and begin a new conversation; /help, /quit
/NAME VALUE: set the option --NAME; /NAME shows it, /NAME off unsets it. The names:
{}
An empty line continues the last text."""
SETTABLE = [name for group in options.GROUPS[:-1] for name in group if name != "prompts_file"]
TABLE = [option for group in options.OPTIONS.values() for option in group]
FLAGS = {name for name, how, _ in TABLE if how is options.FLAG}  # they have no value
VIEWS = ["explain", "compare", "score", "html"]
NAMES = [*VIEWS, "reset", "help", "quit"] + [name.replace("_", "-") for name in SETTABLE]
LOADING = {"model", "source_lang", "target_lang", "chat", "system"}  # need a new Session


class Shell:
    """Answers the lines that a user types. run: command.run; row: the Row of the last text."""

    def __init__(self, session: Session, run: Callable):
        self.session, self.first, self.run = session, session.given, run
        self.row: Any = None

    def answer(self, line: str) -> bool:
        """Answer one line. Return whether to quit. An error is printed, and the shell continues."""
        line = {"exit": "/quit", "quit": "/quit", "help": "/help"}.get(line.strip(), line)
        try:
            if line.startswith("/"):
                name, _, value = line[1:].partition(" ")
                self.command(name.strip(), value.strip())
            else:
                self.generate(line)
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (BrokenPipeError, bdb.BdbQuit):
            raise
        except BaseException as error:  # even SystemExit: a user's own part may raise it
            report(error, before="")
            plugin.PARTS[:] = self.session.in_use  # without a part that could not be made
        return line.split()[:1] == ["/quit"]

    def generate(self, line: str) -> None:
        """Continue a prompt. An empty line continues the last text."""
        session, last = self.session, self.row
        if line.strip():
            session.new_seed()
            row = session.row(line)
        elif last is None or last.source or session.chat:
            return
        elif last.sequence.stop_reason == "eos":
            return print("(the text has ended: type a new one)")
        else:
            row = session.row(last)
            row.resume(last)
            session.start(row)
        if session.chat and last and last.cache:  # the cache holds the turns so far: reuse it
            row.cache = last.cache
            row.cache.cut(common_prefix(last.sequence.ids, row.prompt_ids))
        try:
            self.run(["--", row.prompt], session, [row])
        finally:
            if row.sequence:
                self.row = row
                if session.chat and row.sequence.new_ids:  # there is an answer, or a part of one
                    session.chat.add("user", row.prompt)
                    session.chat.add("assistant", row.text)

    def command(self, name: str, value: str) -> None:
        """Run /NAME VALUE."""
        session = self.session
        if name in VIEWS and not {"score": value, "html": self.row}.get(name, value or self.row):
            raise UserError(f"/{name}: there is no text yet")
        if name == "score":
            print_scores(session, [value])
        elif name in VIEWS:
            file, prompt = ([value], "") if name == "html" else ([], value)
            row = session.row(prompt or self.row)
            self.run([f"--{name}", *file, "--", row.prompt], session, [row])
        elif name == "reset":
            self.session, self.row = Session(self.first), None
        elif name == "help":
            print(HELP.format(textwrap.fill(", ".join(NAMES), 79, break_on_hyphens=False)))
        elif name not in NAMES:
            raise UserError(f"no command /{name}; /help lists the commands")
        elif name != "quit":
            self.option(name.replace("-", "_"), value)

    def option(self, name: str, value: str) -> None:
        """Show, set or unset an option."""
        given = {**self.session.given}
        if value == "off":
            given.pop(name, None)
        elif value or name in FLAGS:
            value = value[1:-1] if value[:1] == value[-1:] == '"' else value
            given |= options.parse([options.flag(name) + f"={value}" * bool(value)])
        if given != self.session.given:
            if name in LOADING:
                self.session, self.row = Session(given), None
            else:
                self.session.use(given)
        print(visible(f"{name} = {self.session.settings.get(name)}"))


def interact(session: Session, run: Callable) -> None:
    """Answer the user's lines until /quit or the end of the input."""
    shell = Shell(session, run)
    what = "a message" if session.chat else "the beginning of a text"
    print(f"Type {what}, or /help. Ctrl-C stops a text, Ctrl-D quits.")
    with contextlib.suppress(ImportError):  # not every system has it
        import readline  # noqa: F401  # with it, keys such as Up edit the line
    with standard_input():
        while True:
            try:
                if shell.answer(input(f"{visible(Path(shell.session.name).name)} › ")):
                    return
            except EOFError:
                return print()
            except KeyboardInterrupt:  # at the prompt, Ctrl-C starts a new line
                print()


@contextlib.contextmanager
def standard_input() -> Iterator[Any]:
    """Read standard input as UTF-8 in this `with` block, if it is not a terminal."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        is_typed = sys.stdin.isatty()
        how: Any = (
            dict(errors="replace") if is_typed else dict(encoding="utf-8-sig", errors="strict")
        )
        sys.stdin.reconfigure(**how)
    with utf8("standard input"):
        yield sys.stdin
