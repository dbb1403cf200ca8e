"""The interactive shell. A line is a prompt for the model; /NAME VALUE sets the option --NAME."""

import contextlib
import dataclasses
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from decoding.drafters import common_prefix
from loading.errors import UserError, utf8
from terminal import options
from terminal.session import Session
from terminal.show import visible
from terminal.streams import report
from terminal.views import print_scores

HELP = """\
/explain, /compare [PROMPT]: like --explain, ...; without PROMPT, for the last prompt
/score TEXT: like --score; for encoder-decoders and in a chat: /score SOURCE => TARGET
/html FILE.html: generate the last text again, and write a page about it
/reset: restore the options of the start, and begin a new conversation; /help, /quit
/NAME VALUE: set the option --NAME; /NAME shows it, /NAME off unsets it. The names:
{}
An empty line continues the last text."""
VIEWS = ["explain", "compare", "score", "html"]
SETTABLE = [options.flag(name)[2:] for name in options.GENERAL + options.GENERATING]
NAMES = [*VIEWS, "reset", "help", "quit", *SETTABLE]
LOADING = {"model", "source_lang", "target_lang", "chat", "system"}  # need a new Session


class Shell:
    """Answers the lines that a user types. run: command.run; row: the Row of the last text."""

    def __init__(self, session: Session, run: Callable):
        self.session, self.first, self.run = session, session.given, run
        self.row: Any = None

    def generate(self, line: str) -> None:
        """Continue a prompt. An empty line continues the last text."""
        session, last = self.session, self.row
        if line.strip():
            [self.row] = session.rows([line])
            if session.chat and last and last.sequence and last.cache:  # it has the earlier turns
                self.row.cache = last.cache
                self.row.cache.cut(common_prefix(last.sequence.ids, self.row.prompt_ids))
        elif last is None or last.source or session.chat:
            return
        elif last.sequence and last.sequence.stop_reason == "eos":
            return print("(the text has ended: type a new one)")
        elif any(stop in last.written for stop in session.settings["stop"]):
            return print("(a stop text has ended the text: type a new one, or /stop off)")
        else:
            session.start(last)
        try:
            self.run(["--", self.row.prompt], session, [self.row])
        finally:
            if session.chat and self.row.sequence and self.row.sequence.new_ids:
                session.chat.add("user", self.row.prompt)
                session.chat.add("assistant", self.row.text)

    def command(self, name: str, value: str) -> None:
        """Run /NAME VALUE."""
        if name not in NAMES:
            raise UserError(f"no command /{name}; /help lists the commands")
        if name in VIEWS and not {"score": value, "html": self.row}.get(name, value or self.row):
            raise UserError(f"/{name}: there is no text yet")
        if name == "score":
            print_scores(self.session, [value])
        elif name in VIEWS:
            file, prompt = ([value], "") if name == "html" else ([], value)
            [self.row] = self.session.rows([prompt]) if prompt else [dataclasses.replace(self.row)]
            self.run([f"--{name}", *file, "--", self.row.prompt], self.session, [self.row])
        elif name == "reset":
            self.session, self.row = Session(self.first), None
        elif name == "help":
            print(HELP.format(textwrap.fill(", ".join(NAMES), 79, break_on_hyphens=False)))
        else:
            self.option(name.replace("-", "_"), value)

    def option(self, name: str, value: str) -> None:
        """Show, set or unset an option."""
        given = {**self.session.given}
        if value == "off":
            given.pop(name, None)
        elif value or name in ("chat", "json"):  # these have no value
            value = value[1:-1] if value[:1] == value[-1:] == '"' else value
            given |= options.parse([options.flag(name) + f"={value}" * bool(value)])
        if given != self.session.given and name in LOADING:
            self.session, self.row = Session(given), None
        elif given != self.session.given:
            self.session.use(given)
        print(visible(f"{name} = {self.session.settings.get(name)}"))


def interact(session: Session, run: Callable) -> None:
    """Answer the user's lines until /quit or the end of the input. Errors are printed."""
    shell = Shell(session, run)
    what = "a message" if session.chat else "the beginning of a text"
    print(f"Type {what}, or /help. Ctrl-C stops a text, Ctrl-D quits.")
    with contextlib.suppress(ImportError):  # not every system has it
        import readline  # noqa: F401  # with it, keys such as Up edit the line
    while True:
        line = None
        try:
            typed = input(f"{visible(Path(shell.session.name).name)} › ")
            with utf8("standard input"):
                line = typed.encode(errors="surrogateescape").decode("utf-8-sig")
            line = {"exit": "/quit", "quit": "/quit", "help": "/help"}.get(line.strip(), line)
            name, _, value = line.partition(" ")
            if name == "/quit":
                return
            if name.startswith("/"):
                shell.command(name[1:], value.strip())
            else:
                shell.generate(line)
        except EOFError:
            return print()
        except KeyboardInterrupt:
            print("\n(stopped)")
        except BaseException as error:  # even SystemExit: a user's own part may raise it
            if line is None:  # an error of reading would come back for ever
                raise
            report(error)
