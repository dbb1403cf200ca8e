"""--score and --explain: each token with its probability, each step as it is taken."""

import copy
import functools
import os
import sys
from collections.abc import Callable

import numpy as np

from drafters import Measured, common_prefix
from gpt2 import softmax
from interface import Drafter, Ids, Tokenizer
from samplers import Sampler
from terminal.options import DRAFTING
from terminal.row import Row
from terminal.session import Session
from terminal.show import n_tokens
from terminal.tree import format_tree

COLOURS = {"accepted": "32", "rejected": "31;9", "corrected": "33;1"}
LEGENDS = {
    "naive": "step  token: P by the model -> by the sampler, entropy in bits; the model's top five",
    "beam": "the tree of beams: a line is a run of tokens, and the log P at its end; a line that"
            " begins with | is a branch no longer than the one below; unmarked ends were dropped",
    "speculative": "accepted/drafted: the accepted drafts, -the rejected ones, +the model's own",
}  # fmt: skip
LEGENDS |= {"cached": LEGENDS["naive"]} | dict.fromkeys(DRAFTING, LEGENDS["speculative"])


def print_score(tokenizer: Tokenizer, result: dict) -> None:
    """Print the result of score.score: one token per line, logarithms in nats."""
    for token, logprob in zip(result["ids"], result["logprobs"]):
        print(f"{logprob:9.4f}  {tokenizer.decode([token])!r}")
    print(
        f"{result['total']:9.4f}  log P of {n_tokens(result['ids'])};"
        f" {result['bits_per_byte']:.4f} bits per byte, perplexity {result['perplexity']:.2f}"
    )


def explain(session: Session, row: Row) -> None:
    """Generate one row and print each step: the choice, its alternatives, and how sure it was."""
    session, method = copy.copy(session), session.settings["method"]
    decode = session.tokenizer.decode
    if method == "speculative":
        session.draft_model()  # refused before anything is printed
    print(LEGENDS[method])
    sampler = RememberingSampler(row.sequence.sampler)
    row.sequence.sampler = sampler
    session.measure = functools.partial(PrintedPasses, decode=decode)
    session.trace = trace = []
    for _ in session.generate([row]):
        if method in ("naive", "cached"):
            print(step_line(sampler, row.sequence.new_ids, decode), flush=True)
    if method == "beam":
        print(format_tree(trace, decode))


class RememberingSampler(Sampler):
    """The same sampler; it remembers its last probabilities [n_vocab], and the model's."""

    def __init__(self, sampler: Sampler):
        super().__init__(*sampler.filters, to_probs=sampler.to_probs)

    def __call__(self, logits, ids):  # [n_vocab] -> [n_vocab]
        self.model_probs, self.probs = softmax(logits), super().__call__(logits, ids)
        return self.probs


def step_line(sampler: RememberingSampler, new_ids: Ids, decode: Callable[[Ids], str]) -> str:
    """A token and its probabilities, the entropy in bits, and the model's best five tokens."""
    model_probs, probs = sampler.model_probs, sampler.probs  # [n_vocab]

    def shares(token):
        return f"{decode([token])!r} {model_probs[token]:.3f} -> {probs[token]:.3f}"

    best = "  ".join(map(shares, np.argsort(-model_probs)[:5].tolist()))
    return f"{len(new_ids):4}  {shares(new_ids[-1])}, {entropy(model_probs):.2f}; {best}"


def entropy(probs):  # [n_vocab] -> bits
    probs = probs[probs > 0]
    return float(-(probs * np.log2(probs)).sum())


class PrintedPasses(Measured):
    """Prints each pass: accepted drafts, rejected drafts, and the model's own token, if any."""

    def __init__(self, drafter: Drafter, decode: Callable[[Ids], str]):
        super().__init__(drafter)
        self.decode = decode

    def record(self, drafts: Ids, tokens: Ids) -> None:
        super().record(drafts, tokens)
        accepted = common_prefix(drafts, tokens)
        parts = [colour(repr(self.decode([token])), "accepted") for token in drafts[:accepted]]
        if accepted < len(tokens):
            if accepted < len(drafts):
                parts.append(colour(f"-{self.decode(drafts[accepted:])!r}", "rejected"))
            parts.append(colour(f"+{self.decode(tokens[accepted:])!r}", "corrected"))
        print(f"{accepted}/{len(drafts)}", *parts, flush=True)


def colour(text: str, kind: str) -> str:
    """Colour a text, unless stdout is piped or NO_COLOR is set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"
