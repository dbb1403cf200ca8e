"""The interactive prompt: text generates, /commands show or set what the command line sets."""

import cmd
import shlex
import sys

import cli
import session
import show
from utils import UserError

try:
    import readline  # noqa: F401 (line editing and history, where the system has it)
except ImportError:
    pass


class Shell(cmd.Cmd):
    intro = "Type a text to go on with, or /help. Ctrl-C stops a text, /quit or Ctrl-D ends."
    prompt = "> "
    doc_header = "Commands, each behind a / (/help NAME tells more):"
    undoc_header = None

    def __init__(self, args):
        super().__init__()
        self.parser, self.first_args = cli.parser(), args
        self.open(args)

    def open(self, args):
        self.session = session.Session(args)
        self.session.keeps_store = True

    # --- lines ------------------------------------------------------------------------------------

    def onecmd(self, line):
        """One line: a /command, or a prompt. Nothing that happens in it ends the program."""
        try:
            if line.startswith("/"):
                return super().onecmd(line[1:])
            if line == "EOF":
                print()
                return True
            if line.strip():
                cli.stream(self.session, [self.session.row(line)])
        except KeyboardInterrupt:
            print("\n(stopped)")
        except (UserError, ValueError, OSError, MemoryError) as error:
            print(error)
        except SystemExit:  # the parser has said what is wrong
            pass

    def default(self, line):
        print(f"no command /{line.split()[0] if line.split() else ''}: /help lists them")

    def emptyline(self):
        pass

    def set(self, name, flag, text):
        """Show one option, or set it, checked as on the command line."""
        if text:
            self.apply([flag, *shlex.split(text)])
        print(f"{name} = {self.session.options.get(name)}")

    def apply(self, words, forget=()):
        """Put command-line words over the options in force, without those to `forget`. The model
        is loaded anew if named."""
        plain, given = vars(self.parser.parse_args([])), vars(self.parser.parse_args(words))
        given = {name: value for name, value in given.items() if value != plain[name]}
        if "prompts" in given:
            raise UserError(f"{given['prompts'][0]!r} is one word too many: see /help")
        if "" in given.get("stop", []):
            raise UserError("a stop text must not be empty")
        kept = {name: v for name, v in vars(self.session.args).items() if name not in forget}
        args = type(self.session.args)(**{**plain, **kept, **given})
        if "model" in given:
            self.open(args)
        else:
            self.session.use(args)

    # --- commands ---------------------------------------------------------------------------------

    def do_model(self, text):
        "/model [NAME|FOLDER]: the model that generates"
        self.set("model", "--model", text)

    def do_method(self, text):
        "/method [naive|cached|beam|speculative|ngram|lookup]: how it generates"
        self.set("method", "--method", text)

    def do_sampler(self, text):
        "/sampler [--temperature T --top-k K --top-p P --min-p P ...]: how tokens are drawn"
        if text:
            words = self.parser.parse_args(shlex.split(text))
            plain = self.parser.parse_args([])
            for name, value in vars(words).items():
                if value != getattr(plain, name) and name not in session.SAMPLER_OPTIONS:
                    raise UserError(f"/sampler knows nothing of {name}: see /help sampler")
            self.apply(shlex.split(text), forget=session.SAMPLER_OPTIONS)
        names = [name for name in session.SAMPLER_OPTIONS if self.session.options.get(name)]
        settings = ", ".join(f"{name} = {self.session.options[name]}" for name in names)
        print(settings if self.session.sampled else f"greedy {settings}".strip())

    def do_length(self, text):
        "/length [N]: at most N new tokens"
        self.set("tokens", "--tokens", text)

    def do_gamma(self, text):
        "/gamma [G]: at most G drafts a pass of the model"
        self.set("gamma", "--gamma", text)

    def do_draft(self, text):
        "/draft [MODEL]: the model that drafts, for /method speculative"
        self.set("draft", "--draft", text)

    def do_seed(self, text):
        "/seed [S]: where the random numbers start"
        self.set("seed", "--seed", text)

    def do_stop(self, text):
        "/stop [TEXT ...]: end before one of these; /stop off forgets them"
        if text:
            self.apply([] if text == "off" else ["--stop", *shlex.split(text)], forget=["stop"])
        print(f"stop = {self.session.args.stop}")

    def do_compare(self, text):
        "/compare PROMPT: every method that applies, in one table"
        show.compare(self.session, text)

    def do_explain(self, text):
        "/explain PROMPT: each step, the choice, the top five, the entropy"
        show.explain(self.session, self.session.row(text))

    def do_score(self, text):
        "/score TEXT: log P of each token, bits per byte, perplexity"
        show.print_score(self.session.encoder, self.session.score(text))

    def do_reset(self, text):
        "/reset: all options as at the start, and an empty n-gram store"
        self.open(self.first_args)

    def do_quit(self, text):
        "/quit: end"
        return True


def interact(args):
    """Run until /quit or the end of the input."""
    if sys.stdin is None:
        raise UserError("standard input is closed")
    shell = Shell(args)
    while True:
        try:
            return shell.cmdloop()
        except KeyboardInterrupt:  # at the prompt: a new line, not the end
            print()
            shell.intro = None
