"""The options of the command line, and the settings that they make with those of a checkpoint.

`given` is a dict of the options that somebody has typed; `settings` has a value for each of them.
"""

import argparse
import difflib
import math
import platform
import re
from typing import Any

import numpy as np

from loading.errors import UserError

VERSION = f"tokenwise 3.0 (NumPy {np.__version__}, Python {platform.python_version()})"
METHODS = ("naive", "cached", "beam", "speculative", "ngram", "lookup")
DRAFTING = METHODS[3:]
DRAWING = ("naive", "cached", *DRAFTING)
SAMPLING = ("temperature", "top_k", "top_p", "min_p")
OWN = "FILE.py:EXPRESSION"

# Every option that generates text, and what it is where neither the user nor the checkpoint says.
DEFAULTS: dict[str, Any] = dict(method="cached", tokens=100, min_length=0, stop=[], loop=None)
DEFAULTS |= dict(seed=None, samples=1, max_rows=16, filter=[]) | dict.fromkeys(SAMPLING)
DEFAULTS |= dict(repetition_penalty=None, no_repeat_ngram=None, gamma=4, ngram=3, filler_top_k=1)
DEFAULTS |= {"beams": 4, "length_penalty": 1.0, "early_stopping": False, "return": 1}
DEFAULTS |= dict(draft=None, drafter=None)
GENERATING = tuple(DEFAULTS)
DEFAULTS |= dict(model="stories", truncate=False, chat=False, system=None, json=False)

# Their names in a checkpoint's generation_config.json.
CONFIG = {name: name for name in (*SAMPLING, "repetition_penalty", "length_penalty", "seed")}
CONFIG |= dict(tokens="max_new_tokens", min_length="min_new_tokens", beams="num_beams")
CONFIG |= dict(no_repeat_ngram="no_repeat_ngram_size")

# The methods of an option that is not for all of them.
ONLY_FOR = dict.fromkeys((*SAMPLING, "seed", "samples"), DRAWING)
ONLY_FOR |= dict.fromkeys(("beams", "length_penalty", "early_stopping", "return"), ("beam",))
ONLY_FOR |= dict(loop=("cached",), max_rows=("cached",), gamma=DRAFTING, ngram=DRAFTING[1:])
ONLY_FOR |= dict(draft=("speculative",), drafter=("speculative",), filler_top_k=("ngram",))

# What makes no sense beside one of the views.
WITHOUT = dict(score=(*GENERATING, "chat"), explain=("json", "samples", "return"))
WITHOUT |= dict(compare=("json", "samples", "return", "method"), html=("samples", "prompts_file"))
WITHOUT |= dict(interactive=("json", "prompts_file"))


class Usage(UserError):
    """A wrong use of the command line."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        words = re.findall(r"^unrecognized arguments: (--[\w-]+)", message)
        flags = re.findall(r"--[a-z-]+", self.format_help())
        raise Usage(message + "".join(did_you_mean(word, flags) for word in words))


def did_you_mean(word: str, known: list[str]) -> str:
    """Return the known word that was meant as the end of a message, or ""."""
    near = difflib.get_close_matches(word, known, 1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def number(kind, least=0, most=math.inf):
    """Return the argparse type of a number in a range."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if least <= value <= most and value != math.inf:
            return value
        name = "a whole number" if kind is int else "a number"
        limit = "" if most == math.inf else f" to {most:g}"
        raise argparse.ArgumentTypeError(f"{text!r} is not {name} from {least:g}{limit}")

    return parse


def decoded(word: str) -> str:
    """A word of the command line: bytes that the locale could not read are read as UTF-8, and those
    that are not UTF-8 become U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


whole, positive, share = number(int), number(int, 1), number(float, 0, 1)
OPTIONS = {
    "general": [  # (name, type, metavar, help); [type]: it may be given more than once
        ("model", str, "NAME", "a name, a folder, OWNER/NAME of the hub, or your own " + OWN),
        ("prompts_file", str, "FILE", "one prompt per line"),
        ("source_lang", str, "CODE", "for mBART, such as en_XX"),
        ("target_lang", str, "CODE", "for mBART, such as ro_RO"),
        ("truncate", bool, None, "cut a source that is too long for the encoder"),
        ("chat", bool, None, "a prompt is a turn of a conversation, in the model's own format"),
        ("system", decoded, "TEXT", "with --chat: what the conversation begins with"),
        ("json", bool, None, "one JSON object per text"),
        ("threads", number(int, 1, 1024), "T", "default: one per core, or one for a small model"),
    ],
    "generation (what you leave out is the checkpoint's, then the default)": [
        ("method", METHODS, None, "default cached, or beam if the checkpoint sets num_beams"),
        ("tokens", positive, "N", "at most N new ones; default 100"),
        ("min_length", whole, "N", "no end of text before N new tokens"),
        ("stop", [decoded], "TEXT", "end before TEXT; may be given more than once"),
        ("seed", whole, "S", "default: a new one each time; prompt i uses S + i"),
        ("samples", positive, "N", "N texts of each prompt, with the seeds S, S + 1, ..."),
        ("temperature", number(float, 0, 100000), "T", "below 1 sharper; 0, the default: greedy"),
        ("top_k", whole, "K", "draw of the K most probable tokens"),
        ("top_p", number(float, 0.0001, 1), "P", "draw of a nucleus of mass P"),
        ("min_p", share, "P", "draw of those at least P times as probable as the best"),
        ("repetition_penalty", number(float, 0.001, 1000), "R", "of tokens that occur; 1 is none"),
        ("no_repeat_ngram", whole, "N", "no N tokens in a row twice"),
        ("filter", [str], OWN, "(logits, ids) -> logits, after the others; more than once"),
    ],
    "for one method": [
        ("loop", str, OWN, "cached: (model, sequence) that yields tokens, instead of ours"),
        ("max_rows", positive, "R", "cached: at most R texts at once; default 16"),
        ("beams", number(int, 1, 64), "B", "beam: the width; default 4"),
        ("length_penalty", number(float, -20, 20), "A", "beam: 0: sums; 1, the default: means"),
        ("early_stopping", bool, None, "beam: end with B finished beams"),
        ("return", number(int, 1, 64), "K", "beam: the K best; default 1"),
        ("draft", str, "MODEL", "speculative: the model that proposes tokens"),
        ("drafter", str, OWN, "speculative: what proposes tokens, instead of a model"),
        ("gamma", number(int, 1, 16), "G", "drafting: at most G drafts per pass; default 4"),
        ("ngram", number(int, 2, 16), "N", "ngram, lookup: the longest n-gram; default 3"),
        ("filler_top_k", positive, "K", "ngram: learn the model's K best tokens; default 1"),
    ],
    "instead of plain text": [
        ("score", bool, None, "how much each token of the text surprises the model"),
        ("target", decoded, "TEXT", "with --score: an encoder-decoder's answer"),
        ("explain", bool, None, "each step: the token, its alternatives, the entropy"),
        ("compare", bool, None, "every method that applies, in one table"),
        ("trace", bool, None, "two passes of the model, call by call, with their shapes"),
        ("html", str, "FILE.html", "beside the text, a page that shows where it came from"),
        ("interactive", bool, None, "a prompt with /help"),
        ("list_models", bool, None, "the names that --model knows"),
    ],
}


def parser() -> Parser:
    """Make the parser of all options. What is not given is not in its result."""
    text = "Generate text with GPT-2 and its relatives, one token at a time."
    p = Parser("generate.py", description=text, argument_default=argparse.SUPPRESS)
    about = "'-' reads standard input, less one newline at its end"
    p.add_argument("prompts", nargs="*", type=decoded, metavar="PROMPT", help=about, default=[])
    p.add_argument("--version", action="version", version=VERSION)
    for title, options in OPTIONS.items():
        add = p.add_argument_group(title).add_argument
        for name, kind, metavar, about in options:
            names = ["-n"] * (name == "tokens") + [flag(name)]
            if kind is bool:
                add(*names, action="store_true", help=about)
            elif kind is METHODS:
                add(*names, choices=METHODS, help=about)
            elif isinstance(kind, list):
                add(*names, action="append", type=kind[0], metavar=metavar, help=about)
            else:
                add(*names, type=kind, metavar=metavar, help=about)
    return p


def parse(words: list[str]) -> dict[str, Any]:
    """Read the words of a command line. Usage if they make no sense."""
    end = words.index("--") if "--" in words else len(words)
    given = vars(parser().parse_intermixed_args(words[:end]))
    given["prompts"] += map(decoded, words[end + 1 :])  # after -- nothing is an option
    return given


def check(given: dict) -> None:
    """Refuse options that contradict each other."""
    views = [view for view in ("trace", *WITHOUT) if view in given]
    wrong = {name for view in views for name in WITHOUT.get(view, ()) if name in given}
    least = given.get("min_length", 0)
    for nonsense, message in [
        (len(views) > 1, f"give one of {', '.join(map(flag, views))}"),
        (wrong, f"{flag(''.join(views))} takes no {', '.join(map(flag, sorted(wrong)))}"),
        ("interactive" in given and given["prompts"], "--interactive takes no prompt"),
        ("html" in given and len(given["prompts"]) != 1, "--html is a page about one prompt"),
        ("target" in given and "score" not in given, "--target belongs to --score"),
        ("system" in given and "chat" not in given, "--system belongs to --chat"),
        ("" in given.get("stop", []), "--stop takes a text that is not empty"),
        (given.get("tokens", least) < least, f"--min-length {least} is more than --tokens"),
    ]:
        if nonsense:
            raise Usage(message)


def misplaced(given: dict, method: str) -> str:
    """Return the message for an option that is not for this method, or ""."""
    for name, methods in ONLY_FOR.items():
        if name in given and method not in methods:
            its = f", but for {' or '.join(methods)}" if len(methods) < 4 else ""
            return f"{flag(name)} is not for --method {method}{its}"
    return ""


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def resolve(given: dict, generation_config: dict) -> dict[str, Any]:
    """Return the settings: what is given, else the checkpoint's, else the default. Beam search is
    greedy, and so is everything where nothing asks for sampling."""
    config = read_config(generation_config)
    if config.get("beams", 1) > 1 and not given.keys() & {*SAMPLING, "loop"}:
        config["method"] = "beam"  # the checkpoint was tuned for it
    settings = DEFAULTS | config | given
    for name, total in ("tokens", "max_length"), ("min_length", "min_length"):
        if generation_config.get(total) and name not in config | given:
            settings[name] = None  # the checkpoint limits the total length: see Session.start
    drawn = settings["filter"] or any(settings[name] is not None for name in SAMPLING)
    if settings["method"] == "beam" or not drawn:
        settings |= dict.fromkeys(SAMPLING) | {"temperature": 0}
    return settings


def read_config(generation_config: dict) -> dict[str, Any]:
    """Read a checkpoint's generation_config.json as if its values were typed. Its sampling options
    count if it has do_sample."""
    samples = generation_config.get("do_sample") is True
    found = {name: generation_config.get(theirs) for name, theirs in CONFIG.items()}
    words = [
        f"{flag(name)}={value}"
        for name, value in found.items()
        if value is not None and (samples or name not in SAMPLING)
    ]
    try:
        config = dict(temperature=1.0) if samples else {}
        config |= parse(words)
    except Usage as error:
        raise UserError(f"the model's generation_config.json: {error}") from None
    del config["prompts"]
    kept = {name: generation_config.get(name) for name in ("early_stopping", "draft")}
    return config | {name: value for name, value in kept.items() if value is not None}
