"""Prints two views: --explain (each step of generation) and --score (each token's surprise)."""

import math
import shutil
from functools import partial
from typing import Any

import numpy as np

from decoding.drafters import Measured, common_prefix
from gpt2 import softmax
from page import label
from page.tree import format_tree
from terminal import show
from terminal.options import DRAFTING
from terminal.row import Row
from terminal.session import Session

STEPS = """model: P of the token; drawn: P after temperature and filters, if different;
bits: how unsure the model was (the entropy); others: other likely tokens
  model  drawn   bits            token           others"""
DRAFTS = "accepted/drafted: the accepted drafts, -the rejected ones, +the model's own token"
BEAMS = "runs of tokens, each with the log P (nats) up to its end; x: dropped"
WIDTH = shutil.get_terminal_size().columns or 80  # Python 3.10 may return 0 for an unknown width
LEGENDS = {"naive": STEPS, "cached": STEPS, "beam": BEAMS}


def explain(session: Session, row: Row) -> None:
    """Generate a row. Print each step (for beam search, one tree of all steps), then the text."""
    method, tokenizer = session.settings["method"], session.tokenizer
    sequence: Any = session.start(row)
    draws, sampler = [], sequence.sampler  # per draw: (ids, model's P [n_vocab], sampler's P)

    def remembering(logits, ids):  # [n_vocab] -> [n_vocab]
        draws.append((list(ids), softmax(logits), sampler(logits, ids)))
        return draws[-1][-1]

    if method in ("naive", "cached"):
        sequence.sampler = remembering
    elif method in DRAFTING:
        row.drafter = PrintedPasses(session.new_drafter(row), tokenizer)
    print(LEGENDS.get(method, DRAFTS))
    for _ in session.generate([row]):
        if method in ("naive", "cached"):
            print(step_line(draws, sequence.ids, tokenizer), flush=True)
    if row.steps:
        print(show.visible(row.prompt.rpartition("\n")[2]))
        print(format_tree(row.steps, partial(label, tokenizer), sequence.new_ids, WIDTH))
    print(show.visible(row.opening + row.text))
    show.print_figures(show.statistics_line(session, row))


def step_line(draws: list, ids: list[int], tokenizer: Any) -> str:
    """Return a line about the last token: the model's P of it, the sampler's P if different, the
    entropy, the token, and other likely tokens. If it was not drawn, return only the token."""
    *before, token = ids
    name = repr(label(tokenizer, token))
    if not draws or draws[-1][0] != before:
        return f"{'':33}{name}"
    _, p, q = draws[-1]  # [n_vocab]
    drawn = f"{q[token]:.1%}" if abs(q[token] - p[token]) >= 0.0005 else ""
    bits = -float((p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum())
    line, others = f"{p[token]:7.1%}{drawn:>7}  {bits:5.2f} {bar(bits / 10, 10):<10} ", ""
    room = WIDTH - len(line) - max(15, len(name))
    for other in np.argsort(-p, kind="stable")[: int((p > 0.005).sum())].tolist():
        text = f" {label(tokenizer, other)!r} {p[other]:.0%}"
        others += text if other != token and len(others + text) <= room else ""
    tinted = show.tint(name, -math.log2(max(float(p[token]), 1e-30)))
    return (line + tinted + " " * (15 - len(name)) + others).rstrip()


class PrintedPasses(Measured):
    """Prints each pass: the accepted and the rejected drafts, and the model's own token, if any."""

    def __init__(self, drafter: Any, tokenizer: Any):
        super().__init__(drafter)
        self.decode = tokenizer.decode

    def learn(self, ids, drafts, logits, tokens):
        """Count and print a pass. The arguments are those of speculative.Drafter.learn: tokens are
        the accepted drafts, then the model's own token, if any."""
        super().learn(ids, drafts, logits, tokens)
        n = common_prefix(drafts, tokens)
        parts = [show.colour(repr(self.decode([token])), "accepted") for token in drafts[:n]]
        if n < min(len(tokens), len(drafts)):
            parts.append(show.colour(f"-{self.decode(drafts[n:])!r}", "rejected"))
        if n < len(tokens):
            parts.append(show.colour(f"+{self.decode(tokens[n:])!r}", "corrected"))
        print(f"{n}/{len(drafts)}", *parts, flush=True)


def print_score(tokenizer: Any, result: dict) -> None:
    """Print a result of `score`: the text, tinted by surprise; a line for each token; the total."""
    names = [label(tokenizer, token) for token in result["ids"]]
    surprises = [-logprob / math.log(2) for logprob in result["logprobs"]]
    print("".join(show.tint(show.visible(name), bits) for name, bits in zip(names, surprises)))
    print("\nsurprise in bits: -log2 P of each token; a full bar is 10 or more")
    for name, bits in zip(names, surprises):
        print(f"{bits:8.2f}  {bar(bits / 10, 10):<10}  {name!r}")
    print(f"{-result['total'] / math.log(2):8.2f}  in {show.n_tokens(names)};", end=" ")
    print(f"{result['bits_per_byte']:.4f} per byte; perplexity {result['perplexity']:.2f}")


def bar(share: float, width: int) -> str:
    """Return a bar of share * width characters, rounded to an eighth of a character."""
    full, eighths = divmod(round(min(share, 1) * width * 8), 8)
    return "█" * full + "▏▎▍▌▋▊▉"[eighths - 1 : eighths]
