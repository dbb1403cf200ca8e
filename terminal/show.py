"""What is printed: rows as they come, as text or JSON, and the ways to look at generation.

Everything is measured or computed from the model as it runs; nothing here generates by itself.
"""

import copy
import itertools
import json
import os
import re
import sys
from collections.abc import Callable

import numpy as np

import beam
import speculative
from gpt2 import softmax
from interface import Encoder, Ids
from terminal.options import DRAFTING, METHODS, decoded
from terminal.session import Onlooker, Row, Session
from utils import UserError

# What moves the cursor, commands the terminal or turns the order of the letters; not \n and \t.
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text of a model or a file, for stdout: on a terminal an escape becomes \\x1b."""
    if not sys.stdout.isatty():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(error: BaseException) -> str:
    """An error's message for stderr, without what could command a terminal."""
    return str(UserError(str(error))) or type(error).__name__


# --- rows -----------------------------------------------------------------------------------------


def stream(session: Session, rows: list[Row]) -> None:
    """Print rows in their order, no matter which ends first: text as it comes, or a JSON object."""
    current, shown = 0, ""
    for latest in itertools.chain(session.generate(rows), [None]):
        while current < len(rows):
            row = rows[current]
            if not session.args.json:
                text = session.opening(row) + row.text
                print(visible(text[len(shown) :]), end="", flush=True)
                shown = text
            if row.stop_reason is None or (row.speculation and row is latest):
                # The last round of a speculation is yet to be counted.
                break
            finish(session, row)
            current, shown = current + 1, ""


def finish(session: Session, row: Row) -> None:
    """What is printed when a row has ended."""
    if session.args.json:
        print(json.dumps(as_json(session, row)), flush=True)
        return
    print(flush=True)
    for hypothesis in (row.beams or [])[1:]:
        print(visible(session.opening(row) + session.text(hypothesis.ids)), flush=True)
    print(statistics_line(row), file=sys.stderr)


def statistics_line(row: Row) -> str:
    """What is told of a row on stderr: tokens, seconds, why it ended."""
    ends: dict[str | None, str] = {
        "eos": "end of text", "stop": "a stop text", "length": "the length asked for",
        "context": f"the end of the context, {row.room + len(row.start)} tokens",
    }  # fmt: skip
    parts = [n_tokens(row.ids)]
    if row.times:
        parts.append(f"{row.seconds_to_first_token:.3f} s to the first")
        parts.append(f"{row.tokens_per_second:.0f} tokens/s")
    if row.speculation:
        parts.append(f"{row.speculation.acceptance:.0%} of drafts accepted")
        parts.append(f"{row.speculation.tokens_per_call:.2f} tokens a pass")
    return f"({', '.join(parts)}; ended by {ends[row.stop_reason]})"


def n_tokens(ids):
    return f"{len(ids)} token{'s' * (len(ids) != 1)}"


def as_json(session: Session, row: Row) -> dict:
    """One row as the object that --json prints."""
    result = {
        "prompt": row.prompt, "text": row.text, "prompt_ids": row.prompt_ids, "ids": row.ids,
        "stop_reason": row.stop_reason, "seconds_to_first_token": row.seconds_to_first_token,
        "tokens_per_second": row.tokens_per_second, "model": decoded(session.options["model"]),
        "method": session.options["method"], "seed": row.seed if session.sampled else None,
    }  # fmt: skip
    if row.beams is not None:
        result["beams"] = [
            {"ids": [t for t in h.ids if t not in row.stop_ids], "text": session.text(h.ids),
             "log_probability": h.log_probability, "score": h.score}
            for h in row.beams
        ]  # fmt: skip
    if s := row.speculation:
        result["speculation"] = {
            "drafted": s.drafted, "tested": s.accepted + s.rejected, "accepted": s.accepted,
            "acceptance": s.acceptance, "tokens_per_call": s.tokens_per_call,
            "expected_tokens_per_call": s.expected_tokens_per_call,
            "accepted_lengths": dict(sorted(s.lengths.items())),
        }  # fmt: skip
    return result


# --- score: one line a token ----------------------------------------------------------------------


def print_score(encoder: Encoder, result: dict) -> None:
    """What score.score has found, logarithms in nats."""
    for token, logprob in zip(result["ids"], result["logprobs"]):
        print(f"{logprob:9.4f}  {encoder.decode([token])!r}")
    print(
        f"{result['total']:9.4f}  log P of {n_tokens(result['ids'])};"
        f" {result['bits_per_byte']:.4f} bits per byte, perplexity {result['perplexity']:.2f}"
    )


# --- explain: each step as it is taken ------------------------------------------------------------

COLOURS = {"accepted": "32", "rejected": "31;9", "corrected": "33;1"}


def colour(text: str, kind: str) -> str:
    """In the terminal's colour, or bare when piped or where NO_COLOR is set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"


def entropy(probs):  # [n_vocab] -> bits
    probs = probs[probs > 0]
    return float(-(probs * np.log2(probs)).sum())


class Explainer(Onlooker):
    """Remembers what the sampler was asked last, and what it answered; prints each round."""

    def __init__(self, decode: Callable[[Ids], str]):
        self.decode = decode
        self.trace: list = []  # of beam search

    def sampler(self, sampler):
        def remember(logits, ids):  # [n_vocab] -> [n_vocab]
            self.model_probs, self.probs = softmax(logits), sampler(logits, ids)
            return self.probs

        return remember

    def step(self, number: int, token: int) -> None:
        """Print a token, its probabilities and the model's best five; then the entropy, in bits."""
        best = np.argsort(-self.model_probs)[:5].tolist()
        bits = f"{entropy(self.model_probs):.2f}"
        shown = "  ".join(map(self.shares, best))
        print(f"{number:4}  {self.shares(token)}, {bits}; {shown}", flush=True)

    def shares(self, token):
        name = repr(self.decode([token]))
        return f"{name} {self.model_probs[token]:.3f} -> {self.probs[token]:.3f}"

    def round(self, drafts: Ids, tokens: Ids) -> None:
        """Print the accepted drafts, the rejected ones, the model's own token; a row may end before
        the latter."""
        accepted = speculative.common_prefix(drafts, tokens)
        parts = [colour(repr(self.decode([token])), "accepted") for token in drafts[:accepted]]
        if accepted < len(tokens):
            if accepted < len(drafts):
                parts.append(colour(f"-{self.decode(drafts[accepted:])!r}", "rejected"))
            parts.append(colour(f"+{self.decode(tokens[accepted:])!r}", "corrected"))
        print(f"{accepted}/{len(drafts)}", *parts, flush=True)


LEGENDS = {
    "naive": "step  token: P by the model -> by the sampler, entropy in bits; the model's top five",
    "beam": "the tree of beams: a line is a run of tokens, and the log P up to its end; behind a |"
            " stands a branch no longer than the one below it; what is not finished was dropped",
    "speculative": "accepted/drafted: the accepted drafts, -the rejected ones, +the model's own",
}  # fmt: skip
LEGENDS |= {"cached": LEGENDS["naive"]} | dict.fromkeys(DRAFTING, LEGENDS["speculative"])


def explain(session: Session, row: Row) -> None:
    """Generate one row and print each step: what was chosen, from what, and how sure it was."""
    session, method = copy.copy(session), session.options["method"]
    session.look = explainer = Explainer(session.encoder.decode)
    if method == "speculative":
        session.draft_model(session.options.get("draft"))  # refused before anything is printed
    print(LEGENDS[method])
    for _ in session.generate([row]):
        if method in ("naive", "cached"):
            explainer.step(len(row.times), row.last)
    if method == "beam":
        print(beam.format_tree(explainer.trace, session.encoder.decode))


# --- compare: the same prompt through every method ------------------------------------------------


def compare(session: Session, prompt: str, number: int = 0) -> None:
    """One table over the methods that apply, with the session's sampler and one seed."""
    session = copy.copy(session)  # whatever happens, the other one is as it was
    draft = session.options.get("draft")
    session.row(prompt, number)  # what is refused, is before a line of the table is printed
    if draft:
        session.draft_model(draft)
    print(f"{'method':<12}{'tokens/s':>9}{'x naive':>8}{'first, s':>9}{'tokens':>7}"
          f"{'per pass':>9}{'accepted':>9}{'cache, MB':>10}  ids")  # fmt: skip
    naive, speeds = None, {}
    session.keeps_store, session.store = False, None  # each method starts knowing nothing
    for method in METHODS:
        if method == "speculative" and not draft:
            continue
        session.options, meter = session.settle(method), Meter()
        session.look = meter
        row = session.row(prompt, number)
        for _ in session.generate([row]):
            pass
        naive = naive or row
        speeds[method] = row.tokens_per_second or 0.0
        print(compare_line(session, row, naive, meter.nbytes()), flush=True)
    if max(speeds[method] for method in speeds.keys() & DRAFTING) < speeds["cached"]:
        print("(drafts do not pay here: to verify them costs more than they save;")
        print(" whether they would on a large model, --compare --replay 0.8 measures)")


def compare_line(session: Session, row: Row, naive: Row, held: int) -> str:
    """A row of the table; held: the bytes of its caches."""
    method, speculation = session.options["method"], row.speculation
    speed, plain = row.tokens_per_second, naive.tokens_per_second
    if not speed or not plain:
        return f"{method:<12} no tokens: the context is full"
    per_pass = f"{speculation.tokens_per_call:.2f}" if speculation else "1.00"
    accepted = f"{speculation.acceptance:.0%}" if speculation else "-"
    if method == "beam":
        ids = "the likeliest text found"
    elif speculation and session.sampled:
        ids = "sampled: the same distribution"
    else:
        ids = "identical to naive" if row.ids == naive.ids else "DIFFERENT from naive"
    return (f"{method:<12}{speed:>9.1f}{speed / plain:>8.2f}"
            f"{row.seconds_to_first_token:>9.3f}{len(row.times):>7}{per_pass:>9}{accepted:>9}"
            f"{held / 1e6:>10.2f}  {ids}")  # fmt: skip


class Meter(Onlooker):
    """Sees how much the caches hold: the model's, over all beams, and the draft's."""

    def __init__(self):
        self.sizes = []  # for each model a list: the bytes after each call

    def model(self, model):
        self.sizes.append([0])
        return Metered(model, self.sizes[-1])

    def nbytes(self):
        return sum(map(max, self.sizes))


class Metered:
    """A model that notes in a list how many bytes its cache holds after each call."""

    def __init__(self, model, sizes):
        self.model, self.sizes = model, sizes

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        logits = self.model(ids, cache, last)
        self.sizes.append(cache.nbytes if cache else 0)
        return logits

    def select(self, rows):
        return Metered(self.model.select(rows), self.sizes)

    def __getattr__(self, name):  # all else is the model's own
        return getattr(self.model, name)
