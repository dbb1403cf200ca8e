"""The interactive prompt: a line is a prompt, and /NAME VALUE is the option --NAME VALUE."""

import atexit
import bdb
import contextlib
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import utils
from loading.errors import UserError
from terminal import look, options, show
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.options import flag
from terminal.plugin import report
from terminal.row import Row
from terminal.session import Session

INTRO = "Type {}, or /help. Ctrl-C stops a text, Ctrl-D ends."
HELP = """\
An empty line continues the last text. Without a PROMPT these take the last one:
/explain [PROMPT]    each step: the token, its alternatives, the entropy
/compare [PROMPT]    every method that applies, in one table
/trace [PROMPT]      two passes of the model, call by call
/html FILE.html      the last prompt's text once more, and a page about it
/score [TEXT]        the surprise of each token; for an encoder-decoder SOURCE => TARGET
/reset               the options of the beginning, another conversation
/help, /quit
/NAME VALUE          the option --NAME VALUE; /NAME shows it, /NAME off forgets it. NAME is"""
COMMANDS = ["explain", "compare", "trace", "html", "score", "reset", "help", "quit"]
TABLES = (options.GENERAL, options.GENERATION, options.CHOICE, options.ONE_METHOD)
KINDS = {name: kind for table in TABLES for name, kind, *_ in table if name != "prompts_file"}
NAMES = COMMANDS + [flag(name)[2:] for name in KINDS]
LOADING = ("model", "source_lang", "target_lang", "threads")  # these need another Session
STATE = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
HISTORY = Path(STATE, "tokenwise", "history")


class Shell:
    """Answers lines; `row` is the last text."""

    def __init__(self, session: Session):
        self.session, self.first, self.row = session, session.given, None

    def answer(self, line: str) -> bool:
        """Answer one line -> is it the last? No error ends the session."""
        words = {"exit": "/quit", "quit": "/quit", "help": "/help"}
        line = words.get(line.strip(), line)
        try:
            if not line.startswith("/"):
                self.generate(line)
                return False
            name, _, value = line[1:].partition(" ")
            return self.command(name, value.strip())
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (BrokenPipeError, bdb.BdbQuit):
            raise
        except Exception as error:
            report(error)
        return False

    def generate(self, line: str) -> None:
        """Lengthen a prompt; an empty one goes on with the last text."""
        session, last = self.session, self.row
        session.new_seed()
        if line.strip():
            row = session.row(line)
        elif last is None or session.reads or session.chat:
            return
        elif last.sequence.stop_reason == "eos":
            return print("(the text has ended: type another)")
        else:
            row = session.row(last.prompt + last.text)
            row.opening = ""
        try:
            show.stream(session, [row])
        finally:
            if row.sequence is not None:
                self.row = row
                session.answered(row)

    def command(self, name: str, value: str) -> bool:
        """Run /NAME VALUE -> is it the last? The beginning of a name is enough if it is the only
        one."""
        found = [name] if name in NAMES else [known for known in NAMES if known.startswith(name)]
        if len(found) != 1:
            near = options.did_you_mean(f"/{name}", [f"/{known}" for known in NAMES])
            raise UserError(f"no command /{name}{near}; /help lists them")
        [name] = found
        session = self.session
        if name == "explain":
            explain(session, session.row(self.last(value)))
        elif name == "compare":
            compare(session, self.last(value))
        elif name == "trace":
            look.trace(session, session.row(self.last(value)))
        elif name == "html":
            look.write_page(session, session.row(self.last("")), value)
        elif name == "score":
            self.score(value)
        elif name == "reset":
            self.reset()
        elif name == "help":
            print(HELP, textwrap.fill(", ".join(NAMES[len(COMMANDS) :]), 79), sep="\n")
        elif name != "quit":
            self.option(name.replace("-", "_"), value)
        return name == "quit"

    def last(self, prompt: str) -> str:
        """Return the prompt that is given, or the last one."""
        if not prompt and self.row is None:
            raise UserError("there is no text yet: give a PROMPT")
        return prompt or self.row.prompt

    def score(self, text: str) -> None:
        """Score a text, or the tokens of the last one."""
        if not text:
            self.last("")
            result = self.session.score_row(self.row)
        else:
            result = self.session.score(*text.split(" => ", 1) if self.session.reads else [text])
        print_score(self.session.tokenizer, result)

    def option(self, name: str, value: str) -> None:
        """Show an option, set it, or forget it."""
        given = {key: x for key, x in self.session.given.items() if key != name}
        if value != "off" and (value or KINDS[name] is bool):
            value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
            words = [flag(name) + f"={value}" * bool(value)]
            given |= {name: options.parse(words)[name]}
        elif not value:
            given = self.session.given
        if given is not self.session.given:
            self.apply(given, name)
        print(show.visible(f"{name} = {self.session.settings[name]}"))
        method = self.session.settings["method"]
        known = given if name in ("model", "method") else given.keys() & {name}
        if message := options.misplaced(known, method):
            print(f"({message})")

    def apply(self, given: dict, name: str) -> None:
        """Use other options, of which this one has changed."""
        options.check(given)
        if name in LOADING:
            self.session, self.row = Session(given), None
        else:
            self.session.use(given)
            if name in ("chat", "system"):
                self.session.reset()

    def reset(self) -> None:
        """Go back to the options of the beginning."""
        if any(self.first.get(name) != self.session.given.get(name) for name in LOADING):
            self.session = Session(self.first)
        self.session.use(self.first)
        self.session.reset()
        self.row = None

    def prompt(self) -> str:
        """Return what stands before a line: the model, the method, how tokens are drawn."""
        s = self.session.settings
        state = [f"{Path(options.decoded(s['model'])).name:.30}", s["method"]]
        if s["method"] in options.DRAWING:
            state.append(f"T {s['temperature'] or 1:g}" if self.session.sampled else "greedy")
        prompt = show.colour(show.visible(" · ".join(state) + " ›"), "figures")
        if "readline" in sys.modules and sys.stdin.isatty():  # these take no column of the line
            prompt = re.sub("(\x1b.*?m)", "\1\\1\2", prompt)
        return prompt + " "

    def complete(self, line: str) -> list[str]:
        """Return what a line, up to the cursor, may become."""
        command, space, _ = line.partition(" ")
        if not space:
            lines = [f"/{name} " for name in NAMES]
        elif command in ("/model", "/draft"):
            lines = [f"{command} {name}" for name, *_ in utils.names()]
        else:
            lines = [f"{command} {method}" for method in options.METHODS if command == "/method"]
        return [found for found in lines if line.startswith("/") and found.startswith(line)]


def interact(session: Session) -> None:
    """Run until /quit or the end of the input."""
    shell = Shell(session)
    print(INTRO.format("a message" if session.chat else "the beginning of a text"))
    if sys.stdin.isatty():
        edit_lines(shell)
    while True:
        try:
            if shell.answer(input(shell.prompt())):
                return
        except EOFError:
            return print()
        except KeyboardInterrupt:  # at the prompt: a new line, not the end
            print()


def edit_lines(shell: Any) -> None:
    """Edit lines by readline, where the system has it: Tab, and a history that is kept."""
    try:
        import readline
    except ImportError:
        return
    readline.set_completer(lambda line, state: [*shell.complete(line), None][state])
    readline.set_completer_delims("")  # the whole line is completed
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    if not is_libedit and os.environ.get("TERM") != "dumb":  # pasted lines are one text
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.set_history_length(1000)
    with contextlib.suppress(OSError):
        HISTORY.parent.mkdir(parents=True, exist_ok=True)
        atexit.register(write_history, readline)
        readline.read_history_file(HISTORY)


def write_history(readline: Any) -> None:
    with contextlib.suppress(OSError):
        readline.write_history_file(HISTORY)
