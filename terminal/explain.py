"""--score and --explain: each token with its probability, each step as it is taken."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from drafters import Measured, common_prefix
from gpt2 import softmax
from inside.labels import label
from interface import Drafter, Ids, Tokenizer
from samplers import Sampler
from terminal import show
from terminal.options import DRAFTING
from terminal.row import Row
from terminal.session import Session
from terminal.show import terminal_size, visible, wrapped
from terminal.tree import format_tree

LEGENDS = {
    "naive": "  model  drawn  bits of entropy  token           other candidates of the model",
    "beam": "runs of tokens and their log P; └─ a branch, the longest of them goes on below",
    "speculative": "accepted/drafted: the accepted drafts, -the rejected ones, +the model's own",
}  # fmt: skip
LEGENDS |= {"cached": LEGENDS["naive"]} | dict.fromkeys(DRAFTING, LEGENDS["speculative"])


def print_score(tokenizer: Tokenizer, result: dict) -> None:
    """Print the result of score.score: one token per line, logarithms in nats, a bar of up to 10
    bits. On a terminal also the text, coloured by surprise."""
    names = [label(tokenizer, token) for token in result["ids"]]
    bits = [-logprob / math.log(2) for logprob in result["logprobs"]]
    for name, logprob, surprise in zip(names, result["logprobs"], bits):
        print(f"{logprob:9.4f}  {bar(surprise / 10, 10):<10}  {name!r}")
    text = (show.colour(visible(name), f"surprise {min(3, int(surprise / 3))}")
            for name, surprise in zip(names, bits))  # fmt: skip
    if show.is_coloured():
        print("".join(text))
    print(
        f"{result['total']:9.4f}  log P of {show.n_tokens(result['ids'])};"
        f" {result['bits_per_byte']:.4f} bits per byte, perplexity {result['perplexity']:.2f}"
    )


def explain(session: Session, row: Row) -> None:
    """Generate one row and print each step: the choice, its alternatives, and how sure it was. Then
    the text, which on a terminal grows below the steps."""
    session, method, live = copy.copy(session), session.settings["method"], Live()
    if method == "speculative" and not session.own["drafter"]:
        session.draft_model()  # refused before anything is printed
    print(LEGENDS[method])
    sampler = RememberingSampler(row.sequence.sampler)
    row.sequence.sampler = sampler
    decode = session.tokenizer.decode
    session.measure = functools.partial(PrintedPasses, decode=decode, live=live)
    session.trace = tree = LiveTree(decode, live)
    for _ in session.generate([row]):
        if method in ("naive", "cached"):
            live.print(step_line(sampler, row.sequence.ids, session.tokenizer))
        live.show(lambda: wrapped(row.opening + row.text), 3)
    if tree:
        live.print(tree.lines(row.sequence.new_ids))
    live.print(wrapped(row.opening + row.text))
    show.print_figures(show.statistics_line(session, row))


class Live:
    """The end of what a terminal shows, which the next lines replace; elsewhere there is none."""

    n_lines = 0

    def show(self, text: Callable[[], str], most: int) -> None:
        """Show the last lines of a text, at most so many, in the place of those before. Elsewhere
        it is not made."""
        if show.is_coloured():
            lines = [line.rstrip() for line in text().split("\n")[-most:]]
            up = f"\x1b[{self.n_lines}A" if self.n_lines else ""
            print(f"{up}\r\x1b[J" + "\n".join(lines), end="", flush=True)
            self.n_lines = len(lines) - 1

    def print(self, *parts: str) -> None:
        """Print a line for good."""
        self.show(str, 1)  # no text
        print(*parts, flush=True)


class LiveTree(list):
    """The trace of a beam search, shown after each step."""

    def __init__(self, decode: Callable[[Ids], str], live: Live):
        super().__init__()
        self.decode, self.live = decode, live

    def append(self, step: Any) -> None:
        super().append(step)
        self.live.show(lambda: self.lines([]), terminal_size().lines - 1)

    def lines(self, winner: Ids) -> str:
        return format_tree(self, self.decode, winner, terminal_size().columns)


class RememberingSampler(Sampler):
    """The same sampler; it remembers its last probabilities [n_vocab], the model's, and the ids."""

    ids: Ids | None = None

    def __init__(self, sampler: Sampler):
        super().__init__(*sampler.filters, to_probs=sampler.to_probs)

    def __call__(self, logits, ids):  # [n_vocab] -> [n_vocab]
        self.model_probs, self.probs = softmax(logits), super().__call__(logits, ids)
        self.ids = list(ids)
        return self.probs


def step_line(sampler: RememberingSampler, ids: Ids, tokenizer: Tokenizer) -> str:
    """P of the last token by the model and, if it differs, by the sampler; the model's entropy; the
    token; and its other candidates above half a percent, as many as fit the terminal. The token
    alone, if a loop of the user's own chose it without the sampler."""
    *before, token = ids
    name = f"{label(tokenizer, token)!r:<15}"
    if sampler.ids != before:
        return f"{'':33}{name}".rstrip()
    p, q = sampler.model_probs, sampler.probs  # [n_vocab]
    drawn, bits = f"{q[token]:.1%}" if abs(q[token] - p[token]) >= 0.0005 else "", entropy(p)
    line = f"{p[token]:7.1%}{drawn:>7}  {bits:5.2f} {bar(bits / 10, 10):<10} {name}"
    width = terminal_size().columns
    for other in np.argsort(-p, kind="stable")[: int((p > 0.005).sum())].tolist():
        name = f" {label(tokenizer, other)!r} {p[other]:.0%}"
        if other != token and len(line) + len(name) <= width:
            line += name
    return line.rstrip()


def bar(share: float, width: int) -> str:
    """A bar of share * width characters, to an eighth of one."""
    full, eighths = divmod(round(min(share, 1) * width * 8), 8)
    return "█" * full + "▏▎▍▌▋▊▉"[eighths - 1 : eighths]


def entropy(probs):  # [n_vocab] -> bits
    probs = probs[probs > 0]
    return float(-(probs * np.log2(probs)).sum())


class PrintedPasses(Measured):
    """Prints each pass: accepted drafts, rejected drafts, and the model's own token, if any."""

    def __init__(self, drafter: Drafter, decode: Callable[[Ids], str], live: Live):
        super().__init__(drafter)
        self.decode, self.live = decode, live

    def record(self, drafts: Ids, tokens: Ids) -> None:
        super().record(drafts, tokens)
        accepted = common_prefix(drafts, tokens)
        parts = [show.colour(repr(self.decode([token])), "accepted") for token in drafts[:accepted]]
        if accepted < len(tokens):
            if accepted < len(drafts):
                parts.append(show.colour(f"-{self.decode(drafts[accepted:])!r}", "rejected"))
            parts.append(show.colour(f"+{self.decode(tokens[accepted:])!r}", "corrected"))
        self.live.print(f"{accepted}/{len(drafts)}", *parts)
