"""The command line: prompts in, text out as it is made, one line of statistics on stderr."""

import argparse
import itertools
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np

import show
from session import DEFAULTS, DRAFTING, METHODS, SAMPLER_OPTIONS, SAMPLING, Session
from utils import UserError

BELONGS = {  # an option that only some methods know
    "beams": ("beam",), "length_penalty": ("beam",), "early_stopping": ("beam",),
    "n_return": ("beam",), "draft": ("speculative",), "gamma": DRAFTING,
    "ngram": ("ngram", "lookup"), "filler_top_k": ("ngram",),
    **dict.fromkeys((*SAMPLING, "seed"), ("naive", "cached", *DRAFTING)),
}  # fmt: skip
GENERATING = {*BELONGS, *SAMPLER_OPTIONS, "method", "tokens", "stop", "min_length"}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"generate.py: {message} (--help lists the options)\n")


def number(kind, low, high=math.inf, above=False):
    """An argparse type: a finite number from low (or above it) to high."""

    def parse(text):
        value = kind(text)
        if not (low <= value <= high) or math.isinf(value) or (above and value == low):
            bound = f"above {low}" if above else f"at least {low}"
            bound += f" and at most {high}" if high < math.inf else ""
            raise argparse.ArgumentTypeError(f"{text} is not {bound}")
        return value

    parse.__name__ = "number" if kind is float else "whole number"
    return parse


def parser():
    p = Parser("generate.py", description="Generate text with GPT-2, one token at a time.")
    add = p.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help="'-' reads standard input")
    add("--prompts-file", metavar="FILE", help="one prompt a line, run as one batch")
    add("--model", metavar="NAME|FOLDER", help="stories (default), 124M, 355M, 774M, 1558M, ...")
    add("--models-dir", metavar="DIR", help="where downloaded models are kept")
    add("--method", choices=METHODS, help="default: cached")
    add("-n", "--tokens", type=number(int, 1), metavar="N", help="at most N new tokens")
    add("--seed", type=number(int, 0), metavar="S", help="row i of a batch uses S + i")
    add("--stop", nargs="+", action="extend", default=[], metavar="TEXT", help="end before TEXT")
    add("--min-length", type=number(int, 0), metavar="N", help="no stop before N new tokens")
    add("--target", metavar="TEXT", help="with --score: what an encoder-decoder might answer")
    add("--source-lang", metavar="CODE", help="for mBART, such as en_XX")
    add("--target-lang", metavar="CODE", help="for mBART, such as ro_RO")
    add("--truncate", action="store_true", help="cut a source that is too long for the encoder")
    add("--json", action="store_true", help="one JSON object a prompt")

    group = p.add_argument_group("sampling (without any of these: greedy)")
    add = group.add_argument
    add("--temperature", type=number(float, 0), metavar="T", help="below 1 sharper; 0 is greedy")
    add("--top-k", type=number(int, 0), metavar="K", help="of the K most probable tokens")
    add("--top-p", type=number(float, 0, 1, above=True), metavar="P", help="of a nucleus of mass P")
    add("--min-p", type=number(float, 0, 1), metavar="P", help="at least P times the best")
    add("--repetition-penalty", type=number(float, 0, above=True), metavar="R", help="1 is none")
    add("--no-repeat-ngram", type=number(int, 0), metavar="N", help="no N tokens in a row twice")
    add("--sampler", metavar="FILE:FUNCTION", help="your own f(logits, ids) -> logits, last")

    group = p.add_argument_group("--method beam")
    add = group.add_argument
    add("--beams", type=number(int, 1), metavar="B", help="width, default 4")
    add("--length-penalty", type=number(float, -20, 20), metavar="A", help="default 1")
    add("--early-stopping", action="store_true", default=None, help="end with B finished beams")
    add("--return", type=number(int, 1), metavar="K", dest="n_return", help="the K best")

    group = p.add_argument_group("--method speculative, ngram, lookup")
    add = group.add_argument
    add("--draft", metavar="MODEL", help="the model that proposes (for stories: stories-draft)")
    add("--gamma", type=number(int, 1, 16), metavar="G", help="at most G drafts a pass, default 4")
    add("--ngram", type=number(int, 2, 16), metavar="N", help="longest n-gram, default 3")
    add("--filler-top-k", type=number(int, 1), metavar="K", help="learn the model's K best tokens")

    group = p.add_argument_group("instead of plain text")
    add = group.add_mutually_exclusive_group().add_argument
    add("--score", action="store_true", help="log P of each token of the text; bits per byte")
    add("--explain", action="store_true", help="each step: the choice, the top five, the entropy")
    add("--compare", action="store_true", help="every method that applies, in one table")
    group.add_argument("--replay", nargs="+", type=number(float, 0, 1), metavar="RATE",
                       help="with --compare: what drafts accepted at RATE gain on a large model")
    add("--interactive", action="store_true", help="a prompt with /help")
    return p


def check(p, args):
    """Refuse what can't be meant together."""
    method = args.method or "cached"
    for name, methods in BELONGS.items():
        if getattr(args, name) is not None and method not in methods and not args.compare:
            flag = {"n_return": "return"}.get(name, name).replace("_", "-")
            p.error(f"--{flag} is for --method {' or '.join(methods)}, not {method}")
    prompts = args.prompts or args.prompts_file
    looks = args.explain or args.compare
    generating = any(getattr(args, name) not in (None, []) for name in GENERATING)
    for nonsense, message in [
        ("" in args.stop, "--stop needs a text that is not empty"),
        ((args.n_return or 1) > (args.beams or DEFAULTS["beams"]),
         f"--return {args.n_return} is more than the number of beams"),
        (args.replay and not args.compare, "--replay belongs to --compare"),
        (args.target is not None and not args.score, "--target belongs to --score"),
        (args.score and generating, "--score generates nothing: it takes no options for that"),
        (args.json and looks, "--explain and --compare print no JSON"),
        (args.interactive and (prompts or args.json or args.score or looks),
         "--interactive takes no prompt, and asks for the rest by /commands"),
        (args.prompts.count("-") > 1, "standard input can be read once"),
        (not prompts and not args.interactive,
         "a PROMPT is missing ('' starts from nothing, - reads standard input)"),
    ]:  # fmt: skip
        if nonsense:
            p.error(message)


def read_prompts(args):
    """The prompts of the command line, of standard input (-) and of --prompts-file."""
    try:
        prompts = [read_standard_input() if p == "-" else p for p in args.prompts]
        if args.prompts_file:
            text = Path(args.prompts_file).read_text(encoding="utf-8")
            prompts += [line for line in text.split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise UserError(f"the prompts are not UTF-8 text: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {args.prompts_file}: {error.strerror}") from None
    if not prompts:
        raise UserError(f"{args.prompts_file} has no prompt in it")
    return prompts


def read_standard_input():
    if sys.stdin is None:
        raise UserError("standard input is closed")
    sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # whatever the locale says
    return sys.stdin.read().rstrip("\n")


def run(args):
    """Load, generate, print."""
    if args.interactive:
        import shell  # which imports this file

        return shell.interact(args)
    session = Session(args)
    if args.score or args.explain or args.compare:
        return look(session, args)
    rows = [session.row(prompt, number) for number, prompt in enumerate(read_prompts(args))]
    if args.model is None and not args.json:
        print("(stories, a very small model; --model 124M downloads GPT-2 itself)", file=sys.stderr)
    stream(session, rows)


def stream(session, rows):
    """Print rows in their order, text as it comes or one JSON object a row, whichever ends first"""
    started = time.perf_counter()
    for row in rows:
        row.started = started
    current, shown = 0, ""
    for latest in itertools.chain(session.generate(rows), [None]):
        while current < len(rows):
            row = rows[current]
            if not session.args.json:
                text = session.opening(row) + row.text
                print(text[len(shown) :], end="", flush=True)
                shown = text
            if row.stop_reason is None or row is latest:  # its last round is yet to be counted
                break
            finish(session, row)
            current, shown = current + 1, ""


def look(session, args):
    """--score, --explain, --compare: see show.py."""
    for number, prompt in enumerate(read_prompts(args)):
        if args.score:
            result = session.score(prompt, args.target)
            print(json.dumps(result)) if args.json else show.print_score(session.encoder, result)
        elif args.explain:
            show.explain(session, session.row(prompt, number))
        else:
            show.compare(session, prompt)
    if args.replay:
        show.replay(args.replay, session.options["gamma"])


def finish(session, row):
    """What is printed when a row has ended."""
    if session.args.json:
        print(json.dumps(as_json(session, row)), flush=True)
        return
    print(flush=True)
    for hypothesis in row.extra.get("beams", [])[1:]:
        print(session.opening(row) + session.text(hypothesis.ids), flush=True)
    print(statistics_line(row), file=sys.stderr)


def statistics_line(row):
    ends = {
        "eos": "end of text", "stop": "a stop text", "length": "the length asked for",
        "context": f"the end of the context, {row.room + len(row.start)} tokens",
    }  # fmt: skip
    parts = [f"{len(row.ids)} tokens"]
    if row.times:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
    if row.tokens_per_second:
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if speculation := row.extra.get("speculation"):
        parts.append(f"{speculation.acceptance:.0%} of drafts accepted")
        parts.append(f"{speculation.tokens_per_call:.2f} tokens a pass")
    return f"({', '.join(parts)}; ended by {ends[row.stop_reason]})"


def as_json(session, row):
    """One row as the object that --json prints."""
    result = {
        "prompt": row.prompt, "text": row.text, "prompt_ids": row.prompt_ids, "ids": row.ids,
        "stop_reason": row.stop_reason, "seconds_to_first_token": row.seconds_to_first_token,
        "tokens_per_second": row.tokens_per_second, "model": session.options["model"],
        "method": session.options["method"], "seed": row.seed if session.sampled else None,
    }  # fmt: skip
    if "beams" in row.extra:
        result["beams"] = [
            {"ids": [t for t in h.ids if t not in row.stop_ids], "text": session.text(h.ids),
             "log_probability": h.log_probability, "score": h.score}
            for h in row.extra["beams"]
        ]  # fmt: skip
    if speculation := row.extra.get("speculation"):
        result["speculation"] = {
            "drafted": speculation.drafted, "accepted": speculation.accepted,
            "acceptance": speculation.acceptance, "tokens_per_call": speculation.tokens_per_call,
            "expected_tokens_per_call": speculation.expected_tokens_per_call(
                session.options["gamma"]),
            "accepted_lengths": dict(sorted(speculation.lengths.items())),
        }  # fmt: skip
    return result


def main(argv=None):
    """-> exit status: 0, 1 a failure, 2 wrong usage (by SystemExit), 130 interrupted."""
    p, words = parser(), sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    args = p.parse_intermixed_args(words[:end])
    args.prompts = [*args.prompts, *words[end + 1 :]]  # behind -- nothing is an option
    check(p, args)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode gets '?', not a crash
            stream.reconfigure(errors="replace")
    try:
        with np.errstate(all="ignore"):  # what is no number is found where a token is drawn
            run(args)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, ValueError, OSError, MemoryError) as error:
        message = " ".join(str(error).splitlines()) or type(error).__name__
        print(f"generate.py: {message}", file=sys.stderr)
        return 1
    return 0
