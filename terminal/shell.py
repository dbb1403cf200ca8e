"""The interactive shell. A line is a prompt for the model; /NAME VALUE sets the option --NAME."""

import atexit
import bdb
import contextlib
import gc
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

from decoding.drafters import common_prefix
from loading.errors import UserError
from terminal import look, options, show
from terminal.explain import print_score
from terminal.plugin import report
from terminal.session import Session

HELP = """\
/explain, /compare [PROMPT]: like --explain, ...; without PROMPT, for the last prompt
/score [TEXT]: like --score; without TEXT, for the last text. Encoder-decoders: SOURCE => TARGET
/html FILE.html: generate the last text again, and write a page about it
/reset: restore the options of the start, and begin a new conversation; /help, /quit
/NAME VALUE: set the option --NAME; /NAME shows it, /NAME off unsets it. The names:
{}
An empty line continues the last text. What you type is saved in {}"""
COMMANDS = ["explain", "compare", "html", "score", "reset", "help", "quit"]
GROUPS = [*options.OPTIONS.values()][:-1]  # all groups except the last, the views
SETTABLE = {name: how for group in GROUPS for name, how, _ in group if name != "prompts_file"}
NAMES = COMMANDS + [options.flag(name)[2:] for name in SETTABLE]
LOADING = {"model", "source_lang", "target_lang", "chat", "system"}  # need a new Session
STATE = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
HISTORY = Path(STATE, "tokenwise", "history")


class Shell:
    """Answers the lines that a user types. row: the Row of the last text, or None."""

    def __init__(self, session: Session):
        self.session, self.first = session, session.given
        self.row: Any = None

    def answer(self, line: str) -> bool:
        """Answer one line. Return whether to quit. An error is printed, and the shell continues."""
        line = {"exit": "/quit", "quit": "/quit", "help": "/help"}.get(line.strip(), line)
        try:
            if line.startswith("/"):
                name, _, value = line[1:].partition(" ")
                return self.command(name, value.strip())
            self.generate(line)
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (BrokenPipeError, bdb.BdbQuit):
            raise
        except BaseException as error:  # even SystemExit: a user's own part may raise it
            report(error, before="")
        return False

    def generate(self, line: str) -> None:
        """Continue a prompt. An empty line continues the last text."""
        session, last = self.session, self.row
        if line.strip():
            session.new_seed()
            row = session.row(line)
        elif last is None or session.reads or session.chat:
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
            show.stream(session, [row])
        finally:
            if row.sequence:
                self.row = row
                if session.chat and row.sequence.new_ids:  # there is an answer, or a part of one
                    session.chat.add("user", row.prompt)
                    session.chat.add("assistant", row.text)

    def command(self, name: str, value: str) -> bool:
        """Run /NAME VALUE. Return whether to quit. A unique beginning of NAME is enough."""
        found = [name] if name in NAMES else [known for known in NAMES if known.startswith(name)]
        if len(found) != 1:
            meant = options.did_you_mean("/" + name, [f"/{known}" for known in NAMES])
            raise UserError(f"no command /{name}{meant}; /help lists the commands")
        [name], session = found, self.session
        if name in COMMANDS[:4] and not (self.row or (value and name != "html")):
            raise UserError(f"/{name}: there is no text yet")
        if name == "score" and not value:
            print_score(session.tokenizer, session.score_row(self.row))
        elif name in ("explain", "compare", "score"):
            look.view(session, name, value or self.row)
        elif name == "html":
            look.write_page(session, session.row(self.row), value)
        elif name == "reset":
            self.session, self.row = Session(self.first), None
        elif name == "help":
            names = textwrap.fill(", ".join(NAMES[7:]), 79, break_on_hyphens=False)
            print(HELP.format(names, HISTORY))
        elif name != "quit":
            self.option(name.replace("-", "_"), value)
        gc.collect()  # replaced parts: a user's file and its functions refer to each other
        return name == "quit"

    def option(self, name: str, value: str) -> None:
        """Show, set or unset an option."""
        session, given = self.session, {**self.session.given}
        if value == "off":
            given.pop(name, None)
        elif value or SETTABLE[name] is options.FLAG:
            value = value[1:-1] if value[:1] == value[-1:] == '"' else value
            given[name] = options.parse([options.flag(name) + f"={value}" * bool(value)])[name]
        if given != session.given:
            if name in LOADING:
                self.session, self.row = Session(given), None
            else:
                session.use(given)
        print(show.visible(f"{name} = {self.session.settings.get(name)}"))

    def prompt(self) -> str:
        """Return the shell's prompt: the model, the method, and how tokens are drawn."""
        s = self.session.settings
        state = [Path(s["model"]).name[:30], s["method"]]
        if s["method"] in options.DRAWING:
            state.append(f"T {s['temperature'] or 1:g}" if self.session.sampled else "greedy")
        return show.visible(" · ".join(state) + " › ")


def interact(session: Session) -> None:
    """Answer the user's lines until /quit or the end of the input."""
    shell = Shell(session)
    what = "a message" if session.chat else "the beginning of a text"
    print(f"Type {what}, or /help. Ctrl-C stops a text, Ctrl-D quits.")
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):  # not every system has readline
            edit_lines()
    while True:
        try:
            if shell.answer(input(shell.prompt())):
                return
        except EOFError:
            return print()
        except KeyboardInterrupt:  # at the prompt, Ctrl-C starts a new line
            print()


def edit_lines() -> None:
    """Use readline: keys edit the line, Tab completes commands, and the history is saved."""
    import readline

    def complete(line: str, state: int) -> Any:
        found = [f"/{name} " for name in NAMES if line and f"/{name}".startswith(line)]
        return [*found, None][state]

    readline.set_completer(complete)
    readline.set_completer_delims("")  # for Tab, the whole line is one word
    readline.parse_and_bind("tab: complete")
    if os.environ.get("TERM") != "dumb":  # several pasted lines are one prompt
        readline.parse_and_bind("set enable-bracketed-paste on")
    with contextlib.suppress(OSError):
        HISTORY.parent.mkdir(parents=True, exist_ok=True)
        HISTORY.touch(mode=0o600)
        readline.read_history_file(HISTORY)
        atexit.register(readline.write_history_file, HISTORY)
