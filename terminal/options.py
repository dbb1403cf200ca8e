"""The options: the flags of the command line, what a checkpoint may suggest, what each may be."""

import argparse
import bdb
import contextlib
import difflib
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from interface import Filter
from utils import UserError

METHODS = ("naive", "cached", "beam", "speculative", "ngram", "lookup")
DRAFTING = ("speculative", "ngram", "lookup")


class Number(NamedTuple):
    """What an option may be: int or float, from least to most, or 0. It is an argparse type too."""

    kind: type
    least: float = 0
    most: float = 10**9
    or_zero: bool = False

    def allows(self, value: Any) -> bool:
        """Is it of this kind, and in the range? A whole number may stand for a float."""
        right = type(value) in (int, self.kind)
        return right and (self.least <= value <= self.most or (self.or_zero and value == 0))

    def __call__(self, text):
        try:
            value = self.kind(text)
        except ValueError:
            value = None
        if not self.allows(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {self}")
        return value

    def __str__(self):
        kind = "a whole number" if self.kind is int else "a number"
        return "0 or " * self.or_zero + f"{kind} from {self.least:g} to {self.most:g}"


def decoded(word: str) -> str:
    """A word of the command line: bytes that the locale could not read are read as UTF-8, and those
    that are not UTF-8 become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def stop_text(word):
    if not word:
        raise argparse.ArgumentTypeError("it must not be empty")
    return decoded(word)


# group -> option: what stands for its value, what it may be, what it does
FLAGS: dict[str, dict[str, tuple]] = {
    "general": {
        "prompts_file": ("FILE", str, "one prompt a line"),
        "model": ("NAME|FOLDER", str, "default stories; or en-de, 124M, 355M, 774M, 1558M,"
                  " a folder, a name of the Hugging Face hub such as t5-small"),
        "models_dir": ("DIR", str, "where downloaded models are kept"),
        "method": (None, METHODS, "default: cached, or the checkpoint's beam"),
        "tokens": ("N", Number(int, 1), "at most N new ones, default: the checkpoint's, or 100"),
        "seed": ("S", Number(int, 0, 2**63), "default: the checkpoint's, or a new one each time;"
                 " prompt i uses S + i"),
        "stop": ("TEXT", stop_text, "end before TEXT; may be given more than once"),
        "min_length": ("N", Number(int), "no end of text before N new tokens"),
        "target": ("TEXT", decoded, "with --score: what an encoder-decoder might answer"),
        "source_lang": ("CODE", str, "for mBART, such as en_XX"),
        "target_lang": ("CODE", str, "for mBART, such as ro_RO"),
        "truncate": (None, bool, "cut a source that is too long for the encoder"),
        "batch_tokens": ("N", Number(int, 1), "how many tokens, of prompts and texts, run at once;"
                         " default 4096"),
        "json": (None, bool, "one JSON object a prompt"),
        "threads": ("T", Number(int, 1, 1024), "of the matrix products; default: one a core"),
    },
    "sampling (by default the checkpoint's; where it has none: greedy)": {
        "temperature": ("T", Number(float, 1e-6, 1e6, True), "below 1 sharper; 0 is greedy"),
        "top_k": ("K", Number(int), "of the K most probable tokens"),
        "top_p": ("P", Number(float, 1e-9, 1), "of a nucleus of mass P"),
        "min_p": ("P", Number(float, 0, 1), "at least P times the best"),
    },
    "filters, of any method": {
        "repetition_penalty": ("R", Number(float, 1e-3, 1e3), "1 is none"),
        "no_repeat_ngram": ("N", Number(int), "no N tokens in a row twice"),
        "sampler": ("FILE.py:FUNCTION", str, "your own f(logits, ids) -> logits, last; it draws,"
                    " unless --temperature 0"),
    },
    "--method beam": {
        "beams": ("B", Number(int, 1, 64), "width, default 4, at most 64"),
        "length_penalty": ("A", Number(float, -20, 20), "default 1"),
        "early_stopping": (None, bool, "end with B finished beams"),
        "return": ("K", Number(int, 1, 64), "the K best"),
    },
    "--method speculative, ngram, lookup": {
        "draft": ("MODEL", str, "the model that proposes (for stories: stories-draft)"),
        "gamma": ("G", Number(int, 1, 16), "at most G drafts a pass, default 4"),
        "ngram": ("N", Number(int, 2, 16), "longest n-gram, default 3"),
        "filler_top_k": ("K", Number(int, 1), "learn the model's K best tokens, default 1"),
    },
    "instead of plain text": {
        "score": (None, bool, "log P of each token of the text; bits per byte"),
        "explain": (None, bool, "each step: the choice, the top five, the entropy"),
        "compare": (None, bool, "every method that applies, in one table"),
        "replay": ("RATE", Number(float, 0, 1),
                   "with --compare: what drafts accepted at RATE gain on a large model; may be"
                   " given more than once"),
        "interactive": (None, bool, "a prompt with /help"),
    },
}  # fmt: skip
KINDS = {name: kind for flags in FLAGS.values() for name, (_, kind, _) in flags.items()}
DEFAULTS: dict[str, Any] = {
    "model": "stories", "method": "cached", "tokens": 100, "beams": 4, "length_penalty": 1.0,
    "early_stopping": False, "return": 1, "gamma": 4, "ngram": 3, "filler_top_k": 1,
    "min_length": 0, "batch_tokens": 4096,
}  # fmt: skip
SUGGESTIONS = {  # what a checkpoint's generation_config.json may set, and our name for it
    "max_new_tokens": "tokens", "temperature": "temperature", "top_k": "top_k", "top_p": "top_p",
    "min_p": "min_p", "repetition_penalty": "repetition_penalty", "seed": "seed",
    "no_repeat_ngram_size": "no_repeat_ngram", "num_beams": "beams", "draft": "draft",
    "length_penalty": "length_penalty", "early_stopping": "early_stopping",
    "min_new_tokens": "min_length",
}  # fmt: skip
SAMPLING = ("temperature", "top_k", "top_p", "min_p")  # one of these given: not greedy
SAMPLER_OPTIONS = (*SAMPLING, "repetition_penalty", "no_repeat_ngram", "sampler")
BELONGS = {  # an option that only some methods know
    "beams": ("beam",), "length_penalty": ("beam",), "early_stopping": ("beam",),
    "return": ("beam",), "draft": ("speculative",), "gamma": DRAFTING,
    "ngram": ("ngram", "lookup"), "filler_top_k": ("ngram",), "batch_tokens": ("naive", "cached"),
    **dict.fromkeys((*SAMPLING, "seed"), ("naive", "cached", *DRAFTING)),
}  # fmt: skip
GENERATING = {*BELONGS, *SAMPLER_OPTIONS, "method", "tokens", "stop", "min_length"}

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


def parser() -> Parser:
    """The argparse parser of FLAGS: an option not given is None, but --stop an empty list."""
    p = Parser("generate.py", usage="%(prog)s [options] [PROMPT ...]",
               description="Generate text with GPT-2, one token at a time.")  # fmt: skip
    p.add_argument("prompts", nargs="*", metavar="PROMPT",
                   help="'-' reads standard input, less one newline at its end")  # fmt: skip
    more: dict[str, dict] = {
        "stop": {"action": "append", "default": []}, "replay": {"action": "append"},
    }  # fmt: skip
    for title, flags in FLAGS.items():
        group = p.add_argument_group(title)
        for name, (metavar, kind, text) in flags.items():
            names = ["-n", "--tokens"] if name == "tokens" else [flag(name)]
            how: dict[str, Any]
            if kind is bool:
                how = {"action": "store_true", "default": None}
            elif kind is METHODS:
                how = {"choices": METHODS}
            else:
                how = {"type": kind, "metavar": metavar, **more.get(name, {})}
            group.add_argument(*names, help=text, **how)
    return p


def flag(name):
    return "--" + name.replace("_", "-")


def check(p: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse what can't be meant together, whatever the model."""
    prompts = args.prompts or args.prompts_file is not None
    looks = args.explain or args.compare
    generating = any(getattr(args, name) not in (None, []) for name in GENERATING)
    wrong_method = "" if args.compare or not args.method else misplaced(vars(args), args.method)
    for nonsense, message in [
        (wrong_method, wrong_method),
        (sum(map(bool, (args.score, args.explain, args.compare))) > 1,
         "one of --score, --explain and --compare, not more"),
        (args.replay and not args.compare, "--replay belongs to --compare"),
        (args.target is not None and not args.score, "--target belongs to --score"),
        (args.score and generating, "--score generates nothing: it takes no options for that"),
        (args.json and looks, "--explain and --compare print no JSON"),
        (args.compare and args.method, "--compare runs every method: it takes no --method"),
        (args.interactive and (prompts or args.json or args.score or looks),
         "--interactive takes no prompt, no --json, --score, --explain or --compare"),
        (args.prompts.count("-") > 1, "standard input can be read once"),
        (not prompts and not args.interactive,
         "a PROMPT is missing ('' starts from nothing, - reads standard input)"),
    ]:  # fmt: skip
        if nonsense:
            p.error(message)


def check_settled(p: argparse.ArgumentParser, args: argparse.Namespace, options: dict) -> None:
    """Refuse what the options in force, the checkpoint's among them, leave without a meaning."""
    if not args.compare and (message := misplaced(vars(args), options["method"])):
        p.error(message)
    if options["return"] > options["beams"]:
        p.error(f"--return {options['return']} is more than the {options['beams']} beams")


def misplaced(given: dict, method: str) -> str:
    """What to say of {option: value} where one is for other methods than this; "" if all fit."""
    for name, methods in BELONGS.items():
        if given[name] is not None and method not in methods:
            return f"{flag(name)} is for --method {' or '.join(methods)}, not {method}"
    return ""


# --- a checkpoint's generation_config.json --------------------------------------------------------


def suggestions(defaults: dict) -> dict:
    """What a checkpoint's generation_config.json asks for, by our names. Its sampling options count
    if it says do_sample. UserError for a value that makes no sense."""
    place = "the model's generation_config.json"
    found = {ours: defaults[name] for name, ours in SUGGESTIONS.items()
             if defaults.get(name) is not None}  # fmt: skip
    for name, value in found.items():
        if isinstance(KINDS[name], Number) and not KINDS[name].allows(value):
            raise UserError(f"{place} says {name} = {value!r:.50}, which is not {KINDS[name]}")
    draft = found.get("draft")
    if draft is not None and not (isinstance(draft, str) and re.fullmatch(r"\w[\w.-]*", draft)):
        raise UserError(f"{place} says draft = {draft!r:.50}, which is not the name of a model")
    if defaults.get("do_sample") is True:
        return {"temperature": 1.0} | found
    return {name: value for name, value in found.items() if name not in SAMPLING}


# --- --sampler FILE.py:FUNCTION -------------------------------------------------------------------


def load_function(where: str) -> Filter:
    """FILE.py:FUNCTION -> the filter f(logits [n_vocab], ids) -> logits, its mistakes told in one
    line, as a UserError. UserError if there is none."""
    file, _, name = where.rpartition(":")
    if ":" not in where:
        raise UserError(f"--sampler {where}: no function is named; the form is FILE.py:FUNCTION")
    if not Path(file).is_file() or not file.endswith(".py"):
        raise UserError(f"--sampler {where}: no Python file {file!r}; the form is FILE.py:FUNCTION")
    names: dict[str, Any] = {"__name__": "own_sampler", "__file__": file}
    with told(where, file):
        exec(compile(Path(file).read_bytes(), file, "exec"), names)
    function = names.get(name)
    if not callable(function):
        raise UserError(f"--sampler {where}: {file} has no function {name!r}")

    def own(logits, ids):  # [n_vocab] -> [n_vocab]
        with told(where, file):
            result = np.asarray(function(logits.copy(), list(ids)), np.float32)
        if result.shape != logits.shape:
            shapes = f"{list(logits.shape)}, not {list(result.shape)}"
            raise UserError(f"--sampler {where} must return logits {shapes}")
        if not (result < np.inf).all():
            raise UserError(f"--sampler {where} must return numbers or -inf, not +inf or NaN")
        return result

    return own


@contextlib.contextmanager
def told(where: str, file: str) -> Iterator[None]:
    """An error in the user's own file becomes one line, with its place in the file. An interrupt
    passes, and so does the end of a debugger."""
    try:
        yield
    except (KeyboardInterrupt, bdb.BdbQuit):
        raise
    except BaseException as error:  # SystemExit too
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        place = f"{Path(file).name}:{lines[-1]}: " if lines else ""  # none where it is not Python
        raise UserError(f"--sampler {where}: {place}{type(error).__name__}: {error}") from error
