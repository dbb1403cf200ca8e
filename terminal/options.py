"""The options of the command line, and the settings that follow from them.

`given` is a dict of the options that the user typed. `settings` also has the default values.
"""

import argparse
import math
from typing import Any

from loading.errors import UserError
from terminal.loops import DRAFTERS, LOOPS

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
VIEWS = ("score", "explain", "compare", "html", "code", "interactive")

# Option -> its name in a checkpoint's generation_config.json. No option is named early_stopping.
SAME = (*SAMPLING, "repetition_penalty", "length_penalty", "draft", "seed", "early_stopping")
CONFIG = {name: name for name in SAME} | dict(tokens="max_new_tokens", beams="num_beams")
CONFIG |= dict(min_length="min_new_tokens", no_repeat_ngram="no_repeat_ngram_size")
TOTALS = dict(tokens="max_length", min_length="min_length")  # these count the prompt, too

# Option -> the least and the greatest value, for the user and for a checkpoint.
WHOLE = dict.fromkeys("tokens min_length seed top_k no_repeat_ngram".split(), (0.0, math.inf))
WHOLE |= dict(beams=(1, 1000), gamma=(1, math.inf))
RANGES = WHOLE | dict(temperature=(0, math.inf), top_p=(0, 1), min_p=(0, 1))
RANGES |= dict(repetition_penalty=(1e-9, 1e9), length_penalty=(-50, 50))

# Settings of a checkpoint that are not supported -> the value that, like None, turns them off.
OFF = """suppress_tokens begin_suppress_tokens bad_words_ids force_words_ids constraints
    sequence_bias stop_strings max_time exponential_decay_length_penalty penalty_alpha dola_layers
    encoder_no_repeat_ngram_size epsilon_cutoff eta_cutoff watermarking_config diversity_penalty
    token_healing renormalize_logits remove_invalid_values"""
ONE = """encoder_repetition_penalty guidance_scale num_beam_groups num_return_sequences top_h
    typical_p"""
NEUTRAL = dict.fromkeys(OFF.split(), 0) | dict.fromkeys(ONE.split(), 1)

# Option -> the only methods to which it applies.
ONLY_FOR: dict[str, Any] = dict.fromkeys(SAMPLING, LOOPS.keys() - {"beam"})
ONLY_FOR |= dict.fromkeys(("beams", "length_penalty"), ["beam"])
ONLY_FOR |= dict(draft=["speculative"], drafter=["speculative"], gamma=DRAFTERS, loop=["cached"])
ONLY_FOR |= dict(code=["naive", "cached", "speculative"])


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UserError(f"{message}; --help lists the options; words after -- are prompts")

    def _get_values(self, action, words):  # before Python 3.13, argparse drops a value that is --
        if words != ["--"]:
            return super()._get_values(action, words)
        self._check_value(action, value := self._get_value(action, "--"))
        return value


FLAG, TEXT, FILE = dict(action="store_true"), dict(metavar="TEXT"), dict(metavar="FILE")
INT, FLOAT = dict(type=int, metavar="N"), dict(type=float, metavar="X")
OWN, MORE = dict(metavar="FILE.py:EXPRESSION"), dict(action="append")
OPTIONS: dict[str, list[tuple[str, dict, str]]] = {
    "general": [
        ("model", dict(metavar="NAME"), "a name, a folder, OWNER/NAME on the hub, or FILE.py:..."),
        ("source_lang", dict(metavar="CODE"), "the language of mBART's source, such as en_XX"),
        ("target_lang", dict(metavar="CODE"), "the language of mBART's answer, such as ro_RO"),
        ("chat", FLAG, "each prompt is a turn of a conversation, in the model's format"),
        ("system", TEXT, "like --chat, with a message to the model before the conversation"),
        ("json", FLAG, "one JSON object per text"),
    ],
    "generation (a checkpoint may have its own defaults)": [
        ("method", dict(choices=[*LOOPS]), "default cached, or beam if the checkpoint says so"),
        ("tokens", INT, "at most N new tokens; default 100"),
        ("min_length", INT, "the text does not end before N new tokens"),
        ("stop", TEXT | MORE, "end the text before TEXT; may be repeated"),
        ("seed", INT, "default: a different one each time; prompt i uses N + i"),
        ("temperature", FLOAT, "default: greedy, or 1 with --top-k, ..."),
        ("top_k", INT, "draw from the N most probable tokens"),
        ("top_p", FLOAT, "draw from the fewest top tokens that sum to X; 0: all"),
        ("min_p", FLOAT, "drop tokens below X times the best probability"),
        ("repetition_penalty", FLOAT, "penalise repeats; 1: no penalty"),
        ("no_repeat_ngram", INT, "never the same N tokens in a row twice"),
        ("filter", OWN | MORE, "(logits, ids) -> logits, after the other filters; may be repeated"),
    ],
    "for one method": [
        ("loop", OWN, "cached: your own loop, (model, sequence) -> tokens"),
        ("beams", INT, "beam: the number of beams; default 4"),
        ("length_penalty", FLOAT, "beam: score log P / length**X; default 1"),
        ("draft", dict(metavar="MODEL"), "speculative: the model that proposes tokens"),
        ("drafter", OWN, "speculative: your own drafter, instead of a model"),
        ("gamma", INT, "drafting: at most N drafts per pass; default 4"),
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
GENERAL, *SOME, _ = [[name for name, _, _ in group] for group in OPTIONS.values()]
GENERATING = sum(SOME, [])

# The settings, unless the user or the checkpoint gives a value.
DEFAULTS: dict[str, Any] = dict.fromkeys(GENERAL + GENERATING)
DEFAULTS |= dict(model="stories", method="cached", tokens=100, min_length=0, stop=[], filter=[])
DEFAULTS |= dict(gamma=4, beams=4, length_penalty=1.0, early_stopping=False)


def parse(words: list[str]) -> dict[str, Any]:
    """Parse ["Hi", "--seed", "3"] into {"prompts": ["Hi"], "seed": 3}. Raises UserError."""
    p = Parser("generate.py", argument_default=argparse.SUPPRESS, allow_abbrev=False)
    p.add_argument("prompts", nargs="*", metavar="PROMPT", help="- is standard input", default=[])
    p.add_argument("--version", action="version", version="tokenwise 3.0")
    for title, options in OPTIONS.items():
        group = p.add_argument_group(title)
        for name, how, about in options:
            group.add_argument(*["-n"] * (name == "tokens"), flag(name), help=about, **how)
    end = words.index("--") if "--" in words else len(words)
    given = vars(p.parse_intermixed_args(words[:end]))
    given["prompts"] += words[end + 1 :]  # words after -- are prompts
    for name in RANGES.keys() & given.keys():
        checked(name, given[name])
    check(given, given.get("method", ""))
    return given


def checked(name: str, value: Any, key: str = "") -> Any:
    """Return an option's value. key: its name in generation_config.json, if a checkpoint gives the
    value. Raises UserError if the value is not in RANGES."""
    (least, most), is_whole = RANGES[name], name in WHOLE
    is_number = type(value) in (int, float) and not (is_whole and value // 1 != value)
    if not (is_number and least <= value <= most):
        where = f"generation_config.json: {key}" if key else flag(name)
        fits = f"a{' whole' * is_whole} number from {least:g} to {most:g}"
        raise UserError(f"{where} is {value!r:.50}, not {fits}")
    return int(value) if is_whole else value


def check(given: dict, method: str) -> None:
    """Raise UserError if the given options contradict each other or do not apply to the method."""
    views = [flag(view) for view in VIEWS if view in given]
    idle = [flag(name) for name in GENERATING if name in given]
    n_prompts, is_one = len(given["prompts"]), method and "compare" not in given
    misplaced = [flag(name) for name in ONLY_FOR if name in given and method not in ONLY_FOR[name]]
    for nonsense, message in [
        (len(views) > 1, f"give only one of {', '.join(views)}"),
        ({"draft", "drafter"} <= given.keys(), "give only one of --draft, --drafter"),
        ("score" in given and idle, f"--score takes no {', '.join(idle)}"),
        ("interactive" in given and n_prompts, "--interactive takes no prompts"),
        (given.keys() & {"html", "code"} and n_prompts != 1, "--html, --code: exactly one PROMPT"),
        ("" in given.get("stop", []), "--stop needs a text that is not empty"),
        ("live" in given and "html" not in given, "--live needs --html"),
        ("json" in given and given.keys() & {"explain", "compare"}, "this view has no --json"),
        (is_one and misplaced, f"{', '.join(misplaced)}: not for --method {method}"),
    ]:
        if nonsense:
            raise UserError(message)


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def resolve(given: dict, generation_config: dict) -> dict[str, Any]:
    """Return the settings: each is the user's, else the checkpoint's, else the default. Temperature
    is 0 (greedy) for beam search, and where there is no sampling option and no filter."""
    samples = bool(generation_config.get("do_sample"))
    config: dict[str, Any] = {"temperature": 1.0} if samples else {}
    for name, key in CONFIG.items():
        if generation_config.get(key) is not None:
            value = generation_config[key]
            value = checked(name, value, key) if name in RANGES else value
            if samples or name not in SAMPLING:
                config[name] = value
    if config.get("beams", 1) > 1 and not given.keys() & {*SAMPLING, "loop", "code"}:
        config["method"] = "beam"  # the checkpoint asks for beam search
    totals = {name: generation_config.get(key) or 0 for name, key in TOTALS.items()}
    limited = [name for name, total in totals.items() if checked(name, total, TOTALS[name])]
    settings = DEFAULTS | dict.fromkeys(limited) | config | given
    drawn = settings["filter"] or any(settings[name] is not None for name in SAMPLING)
    if settings["method"] == "beam" or not drawn:
        settings |= dict.fromkeys(SAMPLING) | {"temperature": 0}
    return settings
