"""The interactive prompt: a line is a prompt, a /command shows or sets an option."""

import argparse
import atexit
import contextlib
import glob
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import utils
from loading.errors import UserError
from terminal import options, show
from terminal.chat import Conversation
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.row import Row
from terminal.session import Session

SAMPLER_OPTIONS = options.SAMPLING + options.FILTERS
INTRO = "Type {}, or /help. Ctrl-C stops a text, Ctrl-D ends."
PLAIN = {"exit": "/quit", "quit": "/quit", "help": "/help"}
UNSET = {"tokens": "as the checkpoint's max_length", "seed": "a new one for each text"}
STATE = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
HISTORY = Path(STATE, "tokenwise", "history")


class Words(options.Parser):
    """Parses the words after a command; what is wrong with them does not end the program."""

    hint = "/help lists the commands"

    def exit(self, status=0, message=None):
        raise UserError((message or self.hint).strip().removeprefix("generate.py: "))


def setter(option: str, doc: str) -> Callable:
    """A command that shows an option, or sets it to one word, checked as on the command line."""

    def command(self, text):
        if text:
            words = [] if text == "off" else [f"--{option}", *shlex.split(text)]
            self.apply(words, [option])
        value = self.session.settings[option]
        print(show.visible(f"{option} = {UNSET.get(option) if value is None else value}"))

    command.__doc__ = doc
    return command


class Shell:
    """Answers lines. do_NAME(text) is the command /NAME, its docstring the line of /help."""

    def __init__(self, session: Session):
        self.session, self.first_args = session, session.args
        self.row: Row | None = None  # the last one

    def answer(self, line: str) -> bool:
        """One line, a /command or a prompt -> is it the last? Errors do not end the program."""
        line = PLAIN.get(line.strip(), line)
        command, _, text = line.partition(" ") if line.startswith("/") else ("", "", "")
        try:
            with self.session.errors():
                if command:
                    return bool(self.command(command)(text.strip()))
                self.generate(line)
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (UserError, ValueError, OSError, MemoryError) as error:
            message = show.one_line(error)
            if not command.startswith("/sa"):  # /sampler has more than one argument
                message = re.sub("^argument [^ ]+: ", "", message)
            message = f"{command}: {message}" if command else message
            print(show.wrapped(message, sys.stderr), file=sys.stderr)
        return False

    def generate(self, line: str) -> None:
        """A prompt; an empty one goes on with the last text."""
        last, lengthens = self.row, not (self.session.model.has_source or self.session.chat)
        self.session.new_seed()
        if line.strip():
            row = self.session.row(line)
        elif last and lengthens:
            row = self.session.row(last.prompt + last.text)
            row.opening = ""
        else:
            return
        self.row = row
        try:
            show.stream(self.session, [row])
        finally:
            self.session.answered(row)

    def command(self, name: str) -> Callable[[str], bool | None]:
        """The command of this name, or of which only one begins so. UserError if there is none."""
        found = [f"/{known}" for known in self.commands() if f"/{known}".startswith(name)]
        if name not in found and len(found) != 1:
            raise UserError("no such command, /help lists them")
        return getattr(self, f"do_{(name if name in found else found[0])[1:]}")

    def commands(self) -> list[str]:
        """The names, in the order of /help."""
        return [name[3:] for name in vars(Shell) if name.startswith("do_")]

    def last(self, text: str, whole: bool = False) -> str:
        """The text that a command is given; if none, the last prompt, or with its new text."""
        if text:
            return text
        if not self.row:
            raise UserError("needs a text")
        between = " => " * self.session.model.has_source
        return self.row.prompt + (between + self.row.text) * whole

    def prompt(self) -> str:
        """What is printed before a line: the model, the method, how tokens are drawn."""
        s = self.session.settings
        state = [f"{Path(options.decoded(s['model'])).name:.30}", s["method"]]
        if s["method"] in options.DRAWING:
            state.append(f"T {s['temperature'] or 1:g}" if self.session.sampled else "greedy")
        prompt = show.colour(show.visible(" · ".join(state) + " ›"), "figures")
        if "readline" in sys.modules and sys.stdin.isatty():  # these take no column of the line
            prompt = re.sub("(\x1b.*?m)", "\1\\1\2", prompt)
        return prompt + " "

    def complete(self, line: str) -> list[str]:
        """For Tab: what the last word of a line, up to the cursor, may become."""
        *before, word = re.split(r"\s", line)
        if not before:
            return [f"/{name} " for name in self.commands() if word and f"/{name}".startswith(word)]
        models = [name for name, *_ in utils.names()]
        flags = [options.OPTIONS[name].flag for name in SAMPLER_OPTIONS]
        known = {"/model": models, "/draft": models, "/method": options.METHODS, "/sampler": flags,
                 "/seed": ["off"], "/stop": ["off"]}  # fmt: skip
        found = [f"{value} " for value in known.get(before[0], []) if value.startswith(word)]
        if before[0] in ("/model", "/draft") or before[-1] in ("--filter", "--sampler"):
            paths = glob.glob(glob.escape(word) + "*")
            found += [path + "/" * os.path.isdir(path) for path in sorted(paths)
                      if os.path.isdir(path) or path.endswith(".py")]  # fmt: skip
        return found

    def apply(self, words: list[str], names: Collection[str]) -> None:
        """Set these options by command-line words; one that the words leave out is not given."""
        new = vars(options.parser(names, Words).parse_args(words))
        given = vars(self.session.args) | new
        if "draft" in names:
            self.session.draft_model(new["draft"])  # fails now, not when it is first used
        if "model" in names:  # without the options for the previous model's sources
            given |= dict.fromkeys(("source_lang", "target_lang", "truncate"))
            self.session, self.row = Session(argparse.Namespace(**given)), None
        else:
            self.session.use(argparse.Namespace(**given))
        method = self.session.settings["method"]
        known = given if {"model", "method"} & {*names} else new
        if message := options.misplaced(known, method):
            print(show.wrapped(f"({message})"))

    # --- commands ---------------------------------------------------------------------------------

    do_model = setter("model", "/model [NAME|FOLDER]: the model that generates")
    do_method = setter("method", f"/method [{'|'.join(options.METHODS)}]: how it generates")
    do_length = setter("tokens", "/length [N]: at most N new tokens")
    do_gamma = setter("gamma", "/gamma [G]: at most G drafts per pass of the model")
    do_draft = setter("draft", "/draft [MODEL]: the model that drafts, for /method speculative")
    do_seed = setter("seed", "/seed [S]: of the random numbers; /seed off: a new one for each text")
    do_temperature = setter("temperature", "/temperature [T]: below 1 sharper, 0 greedy")

    def do_sampler(self, text):
        "/sampler [--temperature T --top-k K --top-p P ...]: how tokens are drawn"
        if text:
            self.apply(shlex.split(text), SAMPLER_OPTIONS)
        names = [name for name in SAMPLER_OPTIONS if self.session.settings.get(name)]
        settings = ", ".join(f"{name} = {self.session.settings[name]}" for name in names)
        print(settings if self.session.sampled else f"greedy {settings}".strip())

    def do_stop(self, text):
        "/stop [TEXT ...]: end before one of these; /stop off forgets them"
        if text:
            texts = [] if text == "off" else shlex.split(text)
            self.apply([f"--stop={stop}" for stop in texts], ["stop"])
        print(f"stop = {self.session.args.stop}")

    def do_system(self, text):
        "/system TEXT, with --chat: begin another conversation, with this text before it"
        if not self.session.chat:
            raise UserError("needs a conversation: python generate.py --interactive --chat")
        self.session.chat = Conversation(self.session.tokenizer, text)

    def do_compare(self, text):
        "/compare [PROMPT]: every method that applies, in one table"
        compare(self.session, self.last(text))

    def do_explain(self, text):
        "/explain [PROMPT]: each step, the choice, its alternatives, the entropy"
        explain(self.session, self.session.row(self.last(text)))

    def do_score(self, text):
        "/score [TEXT], of an encoder-decoder [SOURCE => TARGET]: log P of each token"
        text = self.last(text, whole=True)
        words = text.split(" => ", 1) if self.session.model.has_source else [text]
        print_score(self.session.tokenizer, self.session.score(*words))

    def do_reset(self, text):
        "/reset: all options as at the start, an empty n-gram store, another conversation"
        self.session, self.row = Session(self.first_args), None

    def do_help(self, text):
        "/help: the commands"
        for name in self.commands():
            print(getattr(self, f"do_{name}").__doc__)
        print("An empty line continues the last text, and /compare, /explain, /score take it.")
        print(f"What you type is kept in {HISTORY}")

    def do_quit(self, text):
        "/quit: end"
        return True


def interact(session: Session) -> None:
    """Run until /quit or the end of the input."""
    shell = Shell(session)
    print(INTRO.format("a message" if session.chat else "the beginning of a text"))
    if sys.stdin.isatty():
        edit_lines(shell.complete)
    while True:
        try:
            if shell.answer(input(shell.prompt())):
                return
        except EOFError:
            return print()
        except KeyboardInterrupt:  # at the prompt: a new line, not the end
            print()


def edit_lines(complete: Callable[[str], list[str]]) -> None:
    """Where the system has readline: editing, Tab, pasted lines as one text, and a history that is
    kept between sessions."""
    try:
        import readline
    except ImportError:
        return

    found: list[str] = []

    def completer(word, state):
        if state == 0:
            found[:] = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[state] if state < len(found) else None

    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n")  # a / is part of the word
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    if not is_libedit and os.environ.get("TERM") != "dumb":  # Python has switched it off
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.set_history_length(1000)
    with contextlib.suppress(OSError):
        readline.read_history_file(HISTORY)

    def save():
        with contextlib.suppress(OSError):
            HISTORY.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(HISTORY)

    atexit.register(save)
