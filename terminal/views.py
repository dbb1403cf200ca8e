"""The views of a prompt: --score, --explain, --compare, and the page of --html."""

import copy
import dataclasses
import json
import math
import shutil
import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

import page
from decoding.score import score
from generate import begin
from gpt2 import softmax
from loading.errors import UserError
from page.recorder import counted
from samplers import Sampler
from terminal.loops import LOOPS
from terminal.options import resolve
from terminal.row import Row
from terminal.session import Session
from terminal.show import Text, visible
from terminal.streams import about

STEPS = """model: P of the token; drawn: P after temperature and filters, if different;
bits: how unsure the model was (the entropy); others: other likely tokens
  model  drawn   bits            token           others"""
BEAMS = """the beams after each step; log P: the sum over the tokens, in nats
 step   log P            tokens"""
WIDTH = shutil.get_terminal_size().columns or 80  # Python 3.10 may return 0 for an unknown width
N_ROUNDS = 3  # how often --compare times each method
HEADING = "method      tokens/s x naive      MFLOP        MB per pass   accepted  ids"


class Remembering(Sampler):
    """A sampler that keeps, for each length of the text, the model's P and its own, 2 x [n_vocab].
    Tokens at the end may be drafts: if they are rejected, others replace them."""

    def __init__(self, sampler: Sampler):
        super().__init__(*sampler.filters, to_probs=sampler.to_probs)
        self.kept: dict[int, tuple] = {}

    def __call__(self, logits, ids):  # [n_vocab] -> [n_vocab]
        probs = super().__call__(logits, ids)
        self.kept[len(ids)] = softmax(logits), probs
        return probs


class Explained(Text):
    """Prints each step of a row, then the text."""

    def __init__(self, session: Session, rows: list[Row]):
        super().__init__(session, rows)
        for row in rows:
            row.watch = Remembering

    def show(self, row: Row) -> None:
        """Print a line for each new token; for beam search, which has ended, lines for all."""
        if row.n_printed is None:
            print(f"{row.prompt!r}:\n" * (len(self.rows) > 1), end="")
            print(BEAMS if self.session.settings["method"] == "beam" else STEPS)
            for n, step in enumerate(row.steps, 1):
                for beam in [beam for beam in step if beam.status != "dropped"]:
                    start = f"{n:5}{beam.log_probability:8.2f}  {beam.status:<8}  "
                    print(start + self.label(*beam.ids)[len(start) - WIDTH :])  # the text's end
        first, row.n_printed = row.n_printed or 0, len(row.sequence.new_ids)
        for i in range(first, row.n_printed if not row.steps else 0):
            print(self.step(row.sequence, i), flush=True)

    def end(self, row: Row) -> None:
        self.show(row)
        print(visible(row.opening + row.text), end="")
        super().end(row)

    def label(self, *ids: int) -> str:
        return repr("".join(page.label(self.session.tokenizer, id) for id in ids))

    def step(self, sequence: Any, i: int) -> str:
        """Return a line about the new token i: the model's P of it, the sampler's P if different,
        the entropy, the token, and other likely tokens."""
        n_ids, token = sequence.n_prompt + i, sequence.new_ids[i]
        if not (kept := sequence.sampler.kept.get(n_ids)):  # a user's loop chose it without P
            return f"{'':33}{self.label(token)}"
        p, q = kept  # [n_vocab] each
        drawn = f"{q[token]:.1%}" if abs(q[token] - p[token]) >= 0.0005 else ""
        bits = -float((p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum())
        line = f"{p[token]:7.1%}{drawn:>7}  {bits:5.2f} {bar(bits):<10} {self.label(token):<15}"
        for other in np.argsort(-p, kind="stable")[: int((p > 0.005).sum())].tolist():
            text = f" {self.label(other)} {p[other]:.0%}"
            line += text if other != token and len(line + text) <= WIDTH else ""
        return line.rstrip()


def compare(session: Session, rows: list[Row]) -> None:
    """Run each row through every possible method, with the session's options, and print a table."""
    session = copy.copy(session)  # the caller's session must not change
    drafts = session.own.get("drafter") or session.settings["draft"] and session.draft_model()
    methods = [method for method in LOOPS if method != "speculative" or drafts]
    for row in rows:
        runs: dict[str, list[Row]] = {method: [] for method in methods}
        with about(row.number, [row.prompt for row in rows]):
            # The first round counts, and warms up. Counting takes time, so other rounds are timed.
            costs = {m: counted(session.model, run_all, *begun(session, row, m)) for m in methods}
            for method in methods * N_ROUNDS:  # in turns, so that a slow moment affects all methods
                runs[method].append(run_all(*begun(session, row, method)))
        print(f"{row.prompt!r}:\n" * (len(rows) > 1) + HEADING)
        sampled = session.settings["temperature"] != 0
        for method in methods:
            _, *cost = costs[method]
            line = compare_line(method, runs[method], runs["naive"], cost, sampled)
            print(f"{method:<12}{line}")
        if sampled:
            print(f"(seed {row.seed})", file=sys.stderr)
    if runs["naive"][-1].source:
        print("(MFLOP and MB are the decoder's, without the encoder)", file=sys.stderr)


def begun(session: Session, row: Row, method: str) -> tuple[Row, Iterator[int]]:
    """Begin a copy of a row with this method. Return it and its loop."""
    session.settings = resolve(session.given | {"method": method}, session.config)
    run = dataclasses.replace(row)
    return run, session.loop(run)


def run_all(run: Row, loop: Iterator[int]) -> Row:
    """Run a row's loop to the end of its text. Return the row."""
    for _ in loop:
        run.feed()
        if run.ended:
            break
    run.feed(is_end=True)
    return run


def compare_line(method: str, rows: list[Row], naive: list[Row], cost: Any, sampled: bool) -> str:
    """Return a method's line in the table. cost: its FLOPs, and the bytes that it has read."""
    row, drafter = rows[-1], rows[-1].drafter
    if not (row.times and naive[-1].times):
        return " no tokens: the context is full"
    speed, plain = (median(r.tokens_per_second or 0 for r in x) for x in (rows, naive))
    flops, read = (f"{n / 1e6:,.0f}" if n else "-" for n in cost)  # 0: no layers to look into
    ids = "as naive" if row.ids == naive[-1].ids else "DIFFERENT"
    if method == "beam" or drafter and sampled:
        ids = "likeliest" if method == "beam" else "sampled"
    per_pass = drafter.tokens_per_pass if drafter else 1
    accepted = f"{drafter.accepted} of {drafter.tested}" if drafter and drafter.tested else "-"
    line = f"{speed:>8.1f} {speed / plain:>7.2f} {flops:>10} {read:>9}"
    return f"{line} {per_pass:>8.2f} {accepted:>10}  {ids}"


def print_scores(session: Session, prompts: list[str]) -> None:
    """Score each prompt. Print a line for each token, and the total."""
    for number, prompt in enumerate(prompts):
        with about(number, prompts):
            result = scored(session, prompt)
        if session.settings["json"]:
            print(json.dumps(result))
            continue
        print(f"{prompt!r}:\n" * (len(prompts) > 1), end="")
        print("surprise in bits: -log2 P of each token; a full bar is 10 or more")
        for token, logprob in zip(result["ids"], result["logprobs"]):
            bits = -logprob / math.log(2)
            print(f"{bits:8.2f}  {bar(bits):<10}  {page.label(session.tokenizer, token)!r}")
        n = len(result["ids"])
        print(f"{-result['total'] / math.log(2):8.2f}  in {n} token{'s' * (n != 1)};", end=" ")
        print(f"{result['bits_per_byte']:.4f} per byte; perplexity {result['perplexity']:.2f}")


def scored(session: Session, text: str) -> dict:
    """Score a text; in a chat or with an encoder-decoder, only its part after =>."""
    source, _, target = text.partition(" => ")
    model, ids = begin(session.model, session.rows([source])[0].prompt_ids)
    if model is session.model and not session.chat:  # it has not read the source: see `begin`
        return score(session.tokenizer, model, text)
    if not target:
        raise UserError("an encoder-decoder or --chat scores 'SOURCE => TARGET'")
    forced = session.config.get("forced_bos_token_id")
    prefix = [*ids, forced] if len(ids) == 1 and forced is not None else ids
    return score(session.tokenizer, model, target, prefix)


def bar(tenths: float) -> str:
    """Return a bar of up to ten characters, rounded to an eighth of a character."""
    full, eighths = divmod(round(min(tenths, 10) * 8), 8)
    return "█" * full + "▏▎▍▌▋▊▉"[eighths - 1 : eighths]
