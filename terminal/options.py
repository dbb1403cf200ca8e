"""The options of the command line, and the settings that follow from them.

`given` is a dict of the options that the user typed. `settings` also has the default values.
"""

import argparse
import contextlib
import math
import re
from typing import Any

from loading.errors import UserError
from terminal.loops import DRAFTERS, LOOPS

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
VIEWS = ("score", "explain", "compare", "html", "code", "interactive")
DRAWING = tuple(name for name in LOOPS if name != "beam")

# Option -> its name in a checkpoint's generation_config.json.
SAME = (*SAMPLING, "repetition_penalty", "length_penalty", "draft", "seed")
CONFIG = dict(zip(SAME, SAME)) | dict(tokens="max_new_tokens", beams="num_beams")
CONFIG |= dict(min_length="min_new_tokens", no_repeat_ngram="no_repeat_ngram_size")

# Settings of a checkpoint that are not supported -> the value that changes no text, besides null.
OFF: dict[str, Any] = dict(suppress_tokens=[], begin_suppress_tokens=[], bad_words_ids=[])
OFF |= dict(force_words_ids=[], constraints=[], sequence_bias=[], stop_strings=[], max_time=0)
OFF |= dict(exponential_decay_length_penalty=0, encoder_no_repeat_ngram_size=0, top_h=1)
OFF |= dict(encoder_repetition_penalty=1, typical_p=1, epsilon_cutoff=0, eta_cutoff=0)
OFF |= dict(guidance_scale=1, penalty_alpha=0, dola_layers=0, watermarking_config=0)
OFF |= dict(num_beam_groups=1, diversity_penalty=0, num_return_sequences=1, token_healing=0)
OFF |= dict(renormalize_logits=0, remove_invalid_values=0)
FORCED: dict = dict(forced_bos_token_id=None, forced_eos_token_id=None)  # only with an encoder

# Option -> the only methods to which it applies; option -> the option that it needs.
ONLY_FOR: dict[str, Any] = dict.fromkeys((*SAMPLING, "seed"), DRAWING)
ONLY_FOR |= dict.fromkeys(("beams", "length_penalty", "return"), ["beam"])
ONLY_FOR |= dict.fromkeys(("draft", "drafter"), ["speculative"])
ONLY_FOR |= dict(loop=["cached"], gamma=DRAFTERS, code=["naive", "cached", "speculative"])
NEEDS = dict(live="html", system="chat")


class Usage(UserError):
    """The command line that the user typed is wrong."""

    status = 2


class Parser(argparse.ArgumentParser):
    def _parse_optional(self, word):  # a word such as "- milk - eggs" is a prompt, not an option
        return None if re.match("[^=]* ", word) else super()._parse_optional(word)

    def error(self, message):
        raise Usage(f"{message}; --help lists the options")


def number(metavar, kind, least=0, most=math.inf):
    """Return argparse's settings for an option whose value is a number from `least` to `most`."""
    whole, limit = "whole " * (kind is int), f" to {most:g}" * (most < math.inf)

    def parse(text):  # str -> int or float
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most and value < math.inf:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not a {whole}number from {least:g}{limit}")

    return dict(type=parse, metavar=metavar)


FLAG, TEXT, FILE = dict(action="store_true"), dict(metavar="TEXT"), dict(metavar="FILE")
OWN, MORE = dict(metavar="FILE.py:EXPRESSION"), dict(action="append")
OPTIONS = {
    "general": [
        ("model", dict(metavar="NAME"), "a name, a folder, OWNER/NAME on the hub, or FILE.py:..."),
        ("prompts_file", FILE, "one prompt per line"),
        ("source_lang", dict(metavar="CODE"), "the language of mBART's source, such as en_XX"),
        ("target_lang", dict(metavar="CODE"), "the language of mBART's answer, such as ro_RO"),
        ("chat", FLAG, "each prompt is a turn of a conversation, in the model's format"),
        ("system", TEXT, "with --chat: a message to the model before the conversation"),
        ("json", FLAG, "one JSON object per text"),
    ],
    "generation (a checkpoint may have its own defaults)": [
        ("method", dict(choices=[*LOOPS]), "default cached, or beam if the checkpoint says so"),
        ("tokens", number("N", int, 1), "at most N new tokens; default 100"),
        ("min_length", number("N", int), "the text does not end before N new tokens"),
        ("stop", TEXT | MORE, "end the text before TEXT; may be repeated"),
        ("seed", number("S", int), "default: a different one each time; prompt i uses S + i"),
        ("temperature", number("T", float, 0, 100000), "default: greedy, or 1 with --top-k, ..."),
        ("top_k", number("K", int), "draw from the K most probable tokens"),
        ("top_p", number("P", float, 0.0001, 1), "draw from the fewest top tokens that sum to P"),
        ("min_p", number("P", float, 0, 1), "drop tokens below P times the best probability"),
        ("repetition_penalty", number("R", float, 0.001, 1000), "penalise repeats; 1: no penalty"),
        ("no_repeat_ngram", number("N", int), "never the same N tokens in a row twice"),
        ("filter", OWN | MORE, "(logits, ids) -> logits, after the other filters; may be repeated"),
    ],
    "for one method": [
        ("loop", OWN, "cached: your own loop, (model, sequence) -> tokens"),
        ("beams", number("B", int, 1, 64), "beam: the number of beams; default 4"),
        ("length_penalty", number("A", float, -20, 20), "beam: score log P / length**A; default 1"),
        ("return", number("K", int, 1, 64), "beam: print the K best texts; default 1"),
        ("draft", dict(metavar="MODEL"), "speculative: the model that proposes tokens"),
        ("drafter", OWN, "speculative: your own drafter, instead of a model"),
        ("gamma", number("G", int, 1, 16), "drafting: at most G drafts per pass; default 4"),
    ],
    "instead of plain text": [
        ("score", FLAG, "how much each token of the text surprises the model"),
        ("explain", FLAG, "each step: the token, its alternatives, the entropy"),
        ("compare", FLAG, "run every method that applies, and print one table"),
        ("html", FILE, "also write a page (.html) that shows how the text was made"),
        ("code", FILE, "also write a page (.html) that steps through the code, with its numbers"),
        ("live", FLAG, "with --html: put the model, rounded to 8 bits, into the page"),
        ("interactive", FLAG, "an interactive prompt; /help lists its commands"),
    ],
}
GROUPS = [[name for name, _, _ in group] for group in OPTIONS.values()]
GENERATING = GROUPS[1] + GROUPS[2]

# The settings, unless the user or the checkpoint gives a value.
DEFAULTS: dict[str, Any] = dict.fromkeys(name for group in GROUPS[:-1] for name in group)
DEFAULTS |= dict(model="stories", method="cached", tokens=100, min_length=0, stop=[], filter=[])
DEFAULTS |= {"gamma": 4, "beams": 4, "length_penalty": 1.0, "early_stopping": False, "return": 1}


def parse(words: list[str]) -> dict[str, Any]:
    """Parse ["Hi", "--seed", "3"] into {"prompts": ["Hi"], "seed": 3}. Raises Usage."""
    p = Parser("generate.py", argument_default=argparse.SUPPRESS, allow_abbrev=False)
    p.add_argument("prompts", nargs="*", metavar="PROMPT", help="- is standard input", default=[])
    p.add_argument("--version", action="version", version="tokenwise 3.0")
    for title, options in OPTIONS.items():
        group = p.add_argument_group(title)
        for name, how, about in options:
            group.add_argument(*["-n"] * (name == "tokens"), flag(name), help=about, **how)
    end = words.index("--") if "--" in words else len(words)
    if any(word.endswith("=--") for word in words[:end]):  # argparse would crash before Python 3.13
        raise Usage("-- is not a value")
    given = vars(p.parse_intermixed_args(words[:end]))
    return given | {"prompts": given["prompts"] + words[end + 1 :]}  # words after -- are prompts


def check(given: dict, method: str = "") -> None:
    """Raise Usage if the given options contradict each other or do not apply to the method."""
    n_prompts, least = len(given["prompts"]), given.get("min_length", 0)
    n_prompts += 2 * ("prompts_file" in given)  # it may have several
    one = [flag(view) for view in ("explain", "compare", "html", "code") if view in given]
    views = [flag(view) for view in VIEWS if view in given]
    idle = [flag(name) for name in GENERATING if name in given]
    alone = [f"{flag(a)} needs {flag(b)}" for a, b in NEEDS.items() if {a, b} & {*given} == {a}]
    for nonsense, message in [
        (len(views) > 1, f"give only one of {', '.join(views)}"),
        (alone, ", ".join(alone)),
        ("score" in given and idle, f"--score takes no {', '.join(idle)}"),
        ("interactive" in given and n_prompts, "--interactive takes no prompts"),
        ("interactive" in given and "json" in given, "--interactive takes no --json"),
        (
            given.keys() & {"html", "code"} and n_prompts != 1,
            "--html and --code take exactly one PROMPT",
        ),
        ({"code", "loop"} <= given.keys(), "--code steps through the loops of generate.py only"),
        (one and given.get("return", 1) > 1, f"{', '.join(one)}: one text per prompt"),
        ("json" in given and given.keys() & {"explain", "compare"}, "this view has no --json"),
        ({"draft", "drafter"} <= given.keys(), "give only one of --draft, --drafter"),
        ("" in given.get("stop", []), "--stop needs a text that is not empty"),
        (given.get("tokens", least) < least, f"--min-length {least} is more than --tokens"),
    ]:
        if nonsense:
            raise Usage(message)
    method = method or given.get("method", "")
    misplaced = [name for name in ONLY_FOR if name in given and method not in ONLY_FOR[name]]
    if method and misplaced and "compare" not in given:
        methods = ONLY_FOR[misplaced[0]]
        its = f", but for {' or '.join(methods)}" if len(methods) < 4 else ""
        raise Usage(f"{flag(misplaced[0])} is not for --method {method}{its}")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def resolve(given: dict, generation_config: dict) -> dict[str, Any]:
    """Return the settings: each is the user's, else the checkpoint's, else the default. Temperature
    is 0 (greedy) for beam search, and where there is no sampling option and no filter."""
    config = read_config(generation_config)
    if (value := generation_config.get("early_stopping")) in (True, "never"):
        config["early_stopping"] = value  # only a checkpoint can ask for it
    if config.get("beams", 1) > 1 and not given.keys() & {*SAMPLING, "loop"}:
        config["method"] = "beam"  # the checkpoint asks for beam search
    settings = DEFAULTS | config | given
    for name, total in ("tokens", "max_length"), ("min_length", "min_length"):
        if generation_config.get(total) and name not in config | given:
            read_config({CONFIG[name]: generation_config[total]})  # it must be a number, too
            settings[name] = None  # the checkpoint limits the total length: see Session.start
    drawn = settings["filter"] or any(settings[name] is not None for name in SAMPLING)
    if settings["method"] == "beam" or not drawn:
        settings |= dict.fromkeys(SAMPLING) | {"temperature": 0}
    return settings


def read_config(generation_config: dict) -> dict[str, Any]:
    """Return the options in a checkpoint's generation_config.json, parsed as if the user had typed
    them. Ignore the sampling options unless do_sample is true."""
    samples, words = generation_config.get("do_sample") is True, []
    for name, theirs in CONFIG.items():
        value = generation_config.get(theirs)
        is_given = value is not None and value is not False
        if is_given and (samples or name not in SAMPLING):
            words.append(flag(name) + f"={value}" * (value is not True))
    try:
        return (dict(temperature=1.0) if samples else {}) | parse(words)
    except Usage as error:
        raise UserError(f"generation_config.json (or config.json) asks for this: {error}") from None
