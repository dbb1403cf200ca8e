"""The views of a prompt: --score, --explain, --compare, and the page of --html."""

import contextlib
import copy
import dataclasses
import json
import math
import shutil
from collections.abc import Iterator
from statistics import median

import numpy as np

import page
from decoding.beam import Candidate
from decoding.score import score
from generate import Sequence, advance, begin
from gpt2 import softmax
from loading.errors import UserError
from page.file import writing
from page.live import in_8_bits
from terminal.loops import LOOPS
from terminal.options import resolve
from terminal.row import Row
from terminal.session import Session
from terminal.show import Text, n_tokens, print_figures, visible

STEPS = """model: P of the token; drawn: P after temperature and filters, if different;
bits: how unsure the model was (the entropy); others: other likely tokens
  model  drawn   bits            token           others\n"""
BEAMS = """the beams after each step; log P: the sum over the tokens, in nats
 step   log P            tokens\n"""
WIDTH = shutil.get_terminal_size().columns or 80  # Python 3.10 may return 0 for an unknown width
N_ROUNDS = 3  # of --compare, after one to warm up
HEADING = f"{'method':<12}tokens/s  x naive{'':<11}first (s) per pass accepted  ids"


class Explained(Text):
    """Prints each step of a row, then the text."""

    def heading(self, row: Row) -> str:
        self.cache = row.sequence.model.new_cache()
        legend = BEAMS if self.session.settings["method"] == "beam" else STEPS
        return f"{visible(repr(row.prompt))}:\n" * (len(self.rows) > 1) + legend

    def newest(self, row: Row) -> str:
        """Return a line for each new token; for beam search, which has ended, lines for all."""
        first, row.n_printed = row.n_printed or 0, len(row.sequence.new_ids)
        steps = [self.step(row.sequence, i) for i in range(first, row.n_printed) if not row.beams]
        if row.beams and first == 0:
            steps = [
                self.beam(n, c)
                for n, step in enumerate(row.steps, 1)
                for c in step
                if c.status != "dropped"
            ]
        return "".join(f"{line}\n" for line in steps)

    def label(self, *ids: int) -> str:
        return repr("".join(page.label(self.session.tokenizer, id) for id in ids))

    def step(self, sequence: Sequence, i: int) -> str:
        """Return a line about the new token i: the model's P of it, the sampler's P if different,
        the entropy, the token, and other likely tokens."""
        *ids, token = sequence.ids[: sequence.n_prompt + i + 1]
        logits = advance(sequence.model, ids, self.cache)  # again, because no loop keeps them
        p, q = softmax(logits), sequence.sampler(logits, ids)  # [n_vocab] each
        drawn = f"{q[token]:.1%}" if abs(q[token] - p[token]) >= 0.0005 else ""
        bits = -float((p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum())
        line = f"{p[token]:7.1%}{drawn:>7}  {bits:5.2f} {bar(bits):<10} {self.label(token):<15}"
        for other in np.argsort(-p, kind="stable")[: int((p > 0.005).sum())].tolist():
            text = f" {self.label(other)} {p[other]:.0%}"
            line += text if other != token and len(line + text) <= WIDTH else ""
        return line.rstrip()

    def beam(self, step: int, beam: Candidate) -> str:
        line = f"{step:5}{beam.log_probability:8.2f}  {beam.status:<8}  "
        return line + self.label(*beam.ids)[-(WIDTH - len(line)) :]  # the end of a long text

    def rest(self, row: Row) -> str:
        return visible(row.opening + row.text) + super().rest(row)


def compare(session: Session, rows: list[Row]) -> None:
    """Run each row through every possible method, with the session's options, and print a table."""
    session = copy.copy(session)  # the caller's session must not change
    drafts = session.own.get("drafter") or session.settings["draft"] and session.draft_model()
    methods = [method for method in LOOPS if method != "speculative" or drafts]
    for row in rows:
        runs: dict[str, list[Row]] = {method: [] for method in methods}
        for method in methods * (1 + N_ROUNDS):  # in turns: a slow moment affects all methods
            session.settings = resolve(session.given | {"method": method}, session.config)
            runs[method].append(run := dataclasses.replace(row))
            for _ in session.loop(run):
                run.feed()
                if run.ended:
                    break
            run.feed(is_end=True)
        print(f"{visible(repr(row.prompt))}:\n" * (len(rows) > 1) + HEADING)
        for method in methods:
            print(
                compare_line(method, runs[method], runs["naive"], session.settings["temperature"])
            )
        if session.settings["temperature"]:
            print_figures(f"(seed {row.seed})")


def compare_line(method: str, rows: list[Row], naive: list[Row], sampled: bool) -> str:
    """Return a method's line in the table. Its speed is the median of the rounds after warm-up."""
    row, drafter = rows[-1], rows[-1].drafter
    if not (row.times and naive[-1].times):
        return f"{method:<12} no tokens: the context is full"
    speed, plain = (median(r.tokens_per_second or 0 for r in x[1:]) for x in (rows, naive))
    ids = "as naive" if row.ids == naive[-1].ids else "DIFFERENT"
    if method == "beam" or drafter and sampled:
        ids = "likeliest" if method == "beam" else "sampled"
    per_pass = drafter.tokens_per_pass if drafter else 1
    accepted = f"{drafter.acceptance:.0%}" if drafter else "-"
    line = f"{method:<12}{speed:>8.1f} {speed / plain:>8.2f} {bar(speed / plain):<10}"
    return f"{line}{row.seconds_to_first_token:>9.3f}{per_pass:>9.2f}{accepted:>9}  {ids}"


def print_scores(session: Session, prompts: list[str]) -> None:
    """Score each prompt. Print a line for each token, and the total."""
    for prompt in prompts:
        result = scored(session, prompt)
        if session.settings["json"]:
            print(json.dumps(result))
            continue
        print(f"{visible(repr(prompt))}:\n" * (len(prompts) > 1), end="")
        print("surprise in bits: -log2 P of each token; a full bar is 10 or more")
        for token, logprob in zip(result["ids"], result["logprobs"]):
            bits = -logprob / math.log(2)
            print(f"{bits:8.2f}  {bar(bits):<10}  {page.label(session.tokenizer, token)!r}")
        print(f"{-result['total'] / math.log(2):8.2f}  in {n_tokens(result['ids'])};", end=" ")
        print(f"{result['bits_per_byte']:.4f} per byte; perplexity {result['perplexity']:.2f}")


def scored(session: Session, text: str) -> dict:
    """Score a text; in a chat or with an encoder-decoder, only its part after =>."""
    source, _, target = text.partition(" => ")
    prompt_ids = session.encode(source)
    model, ids = begin(session.model, prompt_ids)
    if ids == prompt_ids and not session.chat:
        return score(session.tokenizer, model, text)
    if not target:
        raise UserError("an encoder-decoder or --chat scores 'SOURCE => TARGET'")
    forced = session.config.get("forced_bos_token_id")
    prefix = [*ids, forced] if len(ids) == 1 and forced is not None else ids
    return score(session.tokenizer, model, target, prefix)


@contextlib.contextmanager
def page_for(session: Session, row: Row, file: str, is_live: bool) -> Iterator[None]:
    """Write a page about a row, which grows in this `with` block. is_live: with the model."""
    if is_live:
        session.model = in_8_bits(session.tokenizer, session.model)
    sequence = session.start(row, page.die)
    settings = session.settings | {"seed": row.seed}
    if settings["method"] == "beam":  # beam search does not sample: the sliders start at neutral
        settings |= dict.fromkeys(page.SLIDERS)
    model = session.model if is_live else None
    with writing(file, session.tokenizer, sequence, row.source, row.steps, settings, model):
        yield
    if not session.settings["json"]:
        print_figures(f"({file} is written: open it in a browser)")


def bar(tenths: float) -> str:
    """Return a bar of up to ten characters, rounded to an eighth of a character."""
    full, eighths = divmod(round(min(tenths, 10) * 8), 8)
    return "█" * full + "▏▎▍▌▋▊▉"[eighths - 1 : eighths]
