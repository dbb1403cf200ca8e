"""The interactive prompt: a line is a prompt, a /command shows or sets an option."""

import argparse
import atexit
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from loading.errors import UserError
from terminal import options, show
from terminal.chat import Conversation
from terminal.compare import compare
from terminal.explain import explain, print_score
from terminal.session import Session

SAMPLER_OPTIONS = options.SAMPLING + options.FILTERS
INTRO = "Type {}, or /help. Ctrl-C stops a text, /quit or Ctrl-D ends."


def setter(option: str, doc: str) -> Callable:
    """A command that shows an option, or sets it to one word, checked as on the command line."""

    def command(self, text):
        if text:
            self.apply([f"--{option}", *shlex.split(text)], [option])
        value = self.session.settings[option]
        if option == "tokens" and value is None:
            value = "as the checkpoint's max_length"
        print(show.visible(f"{option} = {value}"))

    command.__doc__ = doc
    return command


class Shell:
    """Answers lines. do_NAME(text) is the command /NAME, its docstring the line of /help."""

    def __init__(self, session: Session):
        self.session, self.first_args = session, session.args

    def answer(self, line: str) -> bool:
        """One line, a /command or a prompt -> is it the last? Errors do not end the program."""
        try:
            if line.startswith("/"):
                name, _, text = line[1:].partition(" ")
                if name not in self.commands():
                    raise UserError(f"no command /{name}: /help lists them")
                return bool(getattr(self, f"do_{name}")(text.strip()))
            if line.strip():
                row = self.session.row(line)
                try:
                    show.stream(self.session, [row])
                finally:
                    self.session.answered(row)
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (UserError, ValueError, OSError, MemoryError) as error:
            print(show.one_line(error), file=sys.stderr)
        except SystemExit:  # the parser has printed the error
            pass
        return False

    def commands(self):
        return [name[3:] for name in vars(Shell) if name.startswith("do_")]

    def complete(self, word: str, state: int) -> str | None:
        """For Tab: the command number `state` that begins with the word, or None."""
        found = [f"/{name} " for name in self.commands() if word and f"/{name}".startswith(word)]
        return found[state] if state < len(found) else None

    def apply(self, words: list[str], names: Collection[str]) -> None:
        """Set these options by command-line words; one that the words leave out is not given."""
        parser = options.parser(names)
        parser.hint = "/help lists the commands"
        new = vars(parser.parse_args(words))
        given = vars(self.session.args) | new
        if "draft" in names:
            self.session.draft_model(new["draft"])  # fails now, not when it is first used
        if "model" in names:  # without the options for the previous model's sources
            given |= dict.fromkeys(("source_lang", "target_lang", "truncate"))
            self.session = Session(argparse.Namespace(**given))
        else:
            self.session.use(argparse.Namespace(**given))
        method = self.session.settings["method"]
        known = given if {"model", "method"} & {*names} else new
        if message := options.misplaced(known, method):
            print(f"({message})")

    # --- commands ---------------------------------------------------------------------------------

    do_model = setter("model", "/model [NAME|FOLDER]: the model that generates")
    do_method = setter("method", f"/method [{'|'.join(options.METHODS)}]: how it generates")
    do_length = setter("tokens", "/length [N]: at most N new tokens")
    do_gamma = setter("gamma", "/gamma [G]: at most G drafts per pass of the model")
    do_draft = setter("draft", "/draft [MODEL]: the model that drafts, for /method speculative")
    do_seed = setter("seed", "/seed [S]: where the random numbers start")

    def do_sampler(self, text):
        "/sampler [--temperature T --top-k K --top-p P --min-p P ...]: how tokens are drawn"
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
            raise UserError("/system needs a conversation: python generate.py --interactive --chat")
        self.session.chat = Conversation(self.session.tokenizer, text)

    def do_compare(self, text):
        "/compare PROMPT: every method that applies, in one table"
        compare(self.session, text)

    def do_explain(self, text):
        "/explain PROMPT: each step, the choice, the top five, the entropy"
        explain(self.session, self.session.row(text))

    def do_score(self, text):
        "/score TEXT, of an encoder-decoder SOURCE => TARGET: log P of each token, bits per byte"
        words = text.split(" => ", 1) if self.session.model.has_source else [text]
        print_score(self.session.tokenizer, self.session.score(*words))

    def do_reset(self, text):
        "/reset: all options as at the start, an empty n-gram store, another conversation"
        self.session = Session(self.first_args)

    def do_help(self, text):
        "/help: the commands"
        for name in self.commands():
            print(getattr(self, f"do_{name}").__doc__)

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
            if shell.answer(input("> ")):
                return
        except EOFError:
            return print()
        except KeyboardInterrupt:  # at the prompt: a new line, not the end
            print()


def edit_lines(complete: Callable[[str, int], str | None]) -> None:
    """Where the system has readline: editing, Tab, and a history that is kept between sessions."""
    try:
        import readline
    except ImportError:
        return
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")  # a / is part of the word
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_history_length(1000)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = Path(state, "tokenwise", "history")
    with contextlib.suppress(OSError):
        readline.read_history_file(path)

    def save():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)

    atexit.register(save)
