"""The options of the command line. Each is declared once, in GROUPS; the parser, the checks and a
checkpoint's own settings are made from that."""

import argparse
import contextlib
import difflib
import platform
import re
from argparse import Namespace
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from loading.errors import UserError

VERSION = f"tokenwise 2.0 (NumPy {np.__version__}, Python {platform.python_version()})"
METHODS = ("naive", "cached", "beam", "speculative", "ngram", "lookup")
DRAFTING = ("speculative", "ngram", "lookup")
DRAWING = ("naive", "cached", *DRAFTING)  # the methods that draw tokens


class Number(NamedTuple):
    """The allowed range of a numeric option; also usable as an argparse type."""

    kind: type
    least: float = 0
    most: float = 10**9

    def allows(self, value: Any) -> bool:
        """Is it of this kind, and in the range? A whole number may be given for a float."""
        return type(value) in (int, self.kind) and self.least <= value <= self.most

    def __call__(self, text):
        with contextlib.suppress(ValueError):
            if self.allows(value := self.kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {self}")

    def __str__(self):
        kind = "a whole number" if self.kind is int else "a number"
        return f"{kind} from {self.least:g} to {self.most:g}"


def decoded(word: str) -> str:
    """A word of the command line: bytes that the locale could not read are read as UTF-8, and those
    that are not UTF-8 become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Option(NamedTuple):
    """One option. kind: a Number, str, bool (a flag), METHODS, or a function of the given word;
    methods: those that it applies to; config: its name in a checkpoint's generation_config.json."""

    name: str
    metavar: str | None
    kind: Any
    help: str
    default: Any = None
    methods: tuple = METHODS
    config: str | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


GROUPS = {
    "general": [
        Option("prompts_file", "FILE", str, "one prompt per line"),
        Option("model", "NAME|FOLDER", str, "default stories; or en-de, 124M, 355M, 774M, 1558M,"
               " a folder, a name of the Hugging Face hub such as t5-small, or your own:"
               " FILE.py:NAME(VALUES) that returns (tokenizer, model)",
               "stories"),
        Option("source_lang", "CODE", str, "for mBART, such as en_XX"),
        Option("target_lang", "CODE", str, "for mBART, such as ro_RO"),
        Option("truncate", None, bool, "cut a source that is too long for the encoder"),
        Option("chat", None, bool, "a prompt is a turn of a conversation, in the model's format"),
        Option("json", None, bool, "one JSON object per prompt"),
        Option("threads", "T", Number(int, 1, 1024), "of the matrix products; default: one per"
               " core, or one for a small model"),
    ],
    "generation": [
        Option("method", None, METHODS, "default: cached, or beam if the checkpoint sets num_beams",
               "cached"),
        Option("tokens", "N", Number(int, 1), "at most N new ones; default: the checkpoint's, or"
               " 100", 100, config="max_new_tokens"),
        Option("min_length", "N", Number(int), "no end of text before N new tokens", 0,
               config="min_new_tokens"),
        Option("stop", "TEXT", decoded, "end before TEXT; may be given more than once", []),
        Option("loop", "FILE.py:NAME", str, "your own loop(model, sequences), or NAME(VALUES) that"
               " makes one, in the place of the cached one", None, ("cached",)),
        Option("seed", "S", Number(int, 0, 2**63), "default: the checkpoint's, or a new one each"
               " time; prompt i uses S + i", None, DRAWING, "seed"),
        Option("samples", "N", Number(int, 1, 10**4), "N texts of each prompt, with the seeds S,"
               " S + 1, ...; default 1", 1, DRAWING),
        Option("max_rows", "R", Number(int, 1, 10**4), "at most R texts at once, the others wait;"
               " default 16", 16),
    ],
    "sampling (by default the checkpoint's; if it has none: greedy)": [
        Option("temperature", "T", Number(float, 0, 1e6), "below 1 sharper; 0 is greedy", None,
               DRAWING, "temperature"),
        Option("top_k", "K", Number(int), "of the K most probable tokens", None, DRAWING, "top_k"),
        Option("top_p", "P", Number(float, 1e-9, 1), "of a nucleus of mass P", None, DRAWING,
               "top_p"),
        Option("min_p", "P", Number(float, 0, 1), "at least P times the best", None, DRAWING,
               "min_p"),
    ],
    "filters, for every method": [
        Option("repetition_penalty", "R", Number(float, 1e-3, 1e3), "1 is none",
               config="repetition_penalty"),
        Option("no_repeat_ngram", "N", Number(int), "no N tokens in a row twice",
               config="no_repeat_ngram_size"),
        Option("filter", "FILE.py:NAME", str, "your own f(logits, ids) -> logits, or NAME(VALUES)"
               " that makes one, after all others; may be given more than once; tokens are drawn,"
               " unless --temperature 0", []),
    ],
    "--method beam": [
        Option("beams", "B", Number(int, 1, 64), "width; default 4", 4, ("beam",), "num_beams"),
        Option("length_penalty", "A", Number(float, -20, 20), "default 1", 1.0, ("beam",),
               "length_penalty"),
        Option("early_stopping", None, bool, "end with B finished beams", False, ("beam",),
               "early_stopping"),
        Option("return", "K", Number(int, 1, 64), "the K best; default 1", 1, ("beam",)),
    ],
    "--method speculative, ngram, lookup": [
        Option("draft", "MODEL", str, "the model that proposes (for stories: stories-draft)", None,
               ("speculative",), "draft"),
        Option("drafter", "FILE.py:NAME", str, "your own, NAME(VALUES) that makes one for each"
               " text, in the place of a draft model", None, ("speculative",)),
        Option("gamma", "G", Number(int, 1, 16), "at most G drafts per pass; default 4", 4,
               DRAFTING),
        Option("ngram", "N", Number(int, 2, 16), "longest n-gram; default 3", 3,
               ("ngram", "lookup")),
        Option("filler_top_k", "K", Number(int, 1), "learn the model's K best tokens; default 1", 1,
               ("ngram",)),
    ],
    "instead of plain text": [
        Option("score", None, bool, "log P of each token of the text; bits per byte"),
        Option("target", "TEXT", decoded, "with --score: an answer of an encoder-decoder"),
        Option("explain", None, bool, "each step: the choice, its alternatives, the entropy"),
        Option("compare", None, bool, "every method that applies, in one table"),
        Option("trace", None, bool, "two passes of the model, call by call, with their shapes"),
        Option("html", "FILE", str, "beside the text, a page that shows where it came from"),
        Option("interactive", None, bool, "a prompt with /help"),
        Option("list_models", None, bool, "the names that --model knows"),
    ],
}  # fmt: skip
OPTIONS = {option.name: option for options in GROUPS.values() for option in options}
GENERAL, GENERATION, SAMPLING, FILTERS, BEAM, DRAFTS, VIEWS = (
    [option.name for option in options] for options in GROUPS.values()
)
ALIASES = {"tokens": ["-n"], "filter": ["--sampler"]}


# --- the command line -----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    hint = "--help lists the options"

    def error(self, message):
        unknown = "".join(re.findall(r"^unrecognized arguments: (--[^\s=]+)", message))
        near = difflib.get_close_matches(unknown, self._option_string_actions, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else self.hint
        self.exit(2, f"generate.py: {UserError(message)} ({hint})\n")

    def _get_values(self, action, words):
        if action.option_strings and words == ["--"]:  # argparse drops it, before Python 3.13
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, words)


def parser(names: Collection[str] = ("prompts", *OPTIONS), kind: type[Parser] = Parser) -> Parser:
    """The argparse parser of these options: one that is not given is None, except --stop: []."""
    p = kind("generate.py", usage="%(prog)s [options] [PROMPT ...]",
               description="Generate text with GPT-2, one token at a time.")  # fmt: skip
    if "prompts" in names:
        p.add_argument("prompts", nargs="*", metavar="PROMPT",
                       help="'-' reads standard input, less one newline at its end")  # fmt: skip
        p.add_argument("--version", action="version", version=VERSION)
    for title, options in GROUPS.items():
        group = p.add_argument_group(title)
        for option in (option for option in options if option.name in names):
            how: dict[str, Any] = {"type": option.kind, "metavar": option.metavar}
            if option.kind is bool:
                how = {"action": "store_true", "default": None}
            elif option.kind is METHODS:
                how = {"choices": METHODS}
            elif isinstance(option.default, list):
                how |= {"action": "append", "default": []}
            flags = [*ALIASES.get(option.name, []), option.flag]
            group.add_argument(*flags, dest=option.name, help=option.help, **how)
    return p


def check(p: argparse.ArgumentParser, args: Namespace) -> None:
    """Reject contradictory options."""
    prompts = args.prompts or args.prompts_file is not None
    views = [f"--{name}" for name in ("score", "explain", "compare", "trace", "html")
             if getattr(args, name)]  # fmt: skip
    generating = [*GENERATION, *SAMPLING, *FILTERS, *BEAM, *DRAFTS]
    wrong_method = "" if args.compare or not args.method else misplaced(vars(args), args.method)
    for nonsense, message in [
        (wrong_method, wrong_method),
        (len(views) > 1, f"{' and '.join(views)}: give one of them"),
        (args.target is not None and not args.score, "--target belongs to --score"),
        (args.score and args.chat, "--score takes the text as it is, not as a turn: no --chat"),
        (args.score and any(getattr(args, name) not in (None, []) for name in generating),
         "--score generates nothing: it takes no options for that"),
        (args.json and (args.explain or args.compare), "--explain and --compare print no JSON"),
        ((args.max_rows or args.samples or getattr(args, "return"))
         and (args.explain or args.compare),
         "--explain and --compare print one text: no --return, no --samples, no --max-rows"),
        (args.html and (len(args.prompts) != 1 or args.prompts_file or (args.samples or 1) > 1),
         "--html is a page about one text: give one PROMPT"),
        (args.drafter and args.draft, "--draft names a model, --drafter a drafter: not both"),
        (args.compare and args.method, "--compare runs every method: it takes no --method"),
        (args.interactive and (prompts or args.json or views),
         "--interactive takes no prompt, no --json and no view such as --score"),
        ("" in args.stop, "--stop takes a text that is not empty"),
        (args.prompts.count("-") > 1, "standard input can be read once"),
        (not prompts and not args.interactive and not args.list_models,
         'a PROMPT is missing, such as "Once upon a time"; or --interactive'),
    ]:  # fmt: skip
        if nonsense:
            p.error(message)


def check_resolved(p: argparse.ArgumentParser, args: Namespace, settings: Mapping) -> None:
    """Reject options that the effective settings make meaningless."""
    if not args.compare and (message := misplaced(vars(args), settings["method"])):
        p.error(message)
    if settings["return"] > settings["beams"]:
        p.error(f"--return {settings['return']} is more than the {settings['beams']} beams")


def misplaced(given: Mapping, method: str) -> str:
    """The error message for an option that this method does not take, or ""."""
    for option in OPTIONS.values():
        if given.get(option.name) not in (None, []) and method not in option.methods:
            return f"{option.flag} is for --method {' or '.join(option.methods)}, not {method}"
    return ""


# --- the effective settings -----------------------------------------------------------------------


def resolve(args: Namespace, generation_config: dict, method: str | None = None) -> dict:
    """The effective settings: `method`, if named, over the command line's over the checkpoint's
    over the defaults. Greedy for beam search, and where nothing asks for sampling."""
    config = read_generation_config(generation_config)
    given = {name: value for name, value in vars(args).items() if value is not None}
    if config.get("beams", 1) > 1 and not given.keys() & {*SAMPLING, "loop"}:
        config["method"] = "beam"  # the checkpoint was tuned for it
    defaults = {name: option.default for name, option in OPTIONS.items()}
    settings = defaults | config | given
    settings["method"] = method or settings["method"]
    for name, total in {"tokens": "max_length", "min_length": "min_length"}.items():
        if type(generation_config.get(total)) is int and name not in config | given:
            settings[name] = None  # the checkpoint limits the total length: see Session.row
    drawn = settings["filter"] or any(settings[name] is not None for name in SAMPLING)
    if settings["method"] == "beam" or not drawn:
        settings |= dict.fromkeys(SAMPLING) | {"temperature": 0}
    return settings


def read_generation_config(generation_config: dict) -> dict:
    """A checkpoint's generation_config.json by our names. Its sampling options count if it has
    do_sample. UserError for a value that makes no sense."""
    file, samples = "the model's generation_config.json", generation_config.get("do_sample") is True
    found: dict[str, Any] = {"temperature": 1.0} if samples else {}
    for option in OPTIONS.values():
        value = generation_config.get(option.config)
        if value is None:
            continue
        if isinstance(option.kind, Number) and not option.kind.allows(value):
            raise UserError(f"{file} has {option.name} = {value!r:.50}, which is not {option.kind}")
        if samples or option.name not in SAMPLING:
            found[option.name] = value
    draft = found.get("draft")
    if draft is not None and not (isinstance(draft, str) and re.fullmatch(r"\w[\w.-]*", draft)):
        raise UserError(f"{file} has draft = {draft!r:.50}, which is not the name of a model")
    return found
