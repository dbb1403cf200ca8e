"""The views of one prompt: --score, --explain, --compare, and the page of --html."""

import contextlib
import copy
import json
import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import page
from decoding.score import score
from generate import begin
from gpt2 import softmax
from loading.errors import UserError
from page import live
from page.file import writing
from samplers import Sampler
from terminal import options
from terminal.loops import LOOPS
from terminal.row import Row
from terminal.session import Session
from terminal.show import (
    Json,
    Text,
    n_tokens,
    print_figures,
    statistics_line,
    visible,
)

STEPS = """model: P of the token; drawn: P after temperature and filters, if different;
bits: how unsure the model was (the entropy); others: other likely tokens
  model  drawn   bits            token           others"""
BEAMS = "runs of tokens, each with the log P (nats) up to its end; x: dropped"
WIDTH = shutil.get_terminal_size().columns or 80  # Python 3.10 may return 0 for an unknown width
N_ROUNDS = 3  # of --compare, after one to warm up
HEADING = f"{'method':<12}tokens/s  x naive{'':<11}first (s) per pass accepted  ids"


def choose(session: Session, rows: list[Row], given: dict) -> tuple[Text, Callable]:
    """Return what prints the rows, and the loop over each. --explain runs them one by one."""
    if "explain" in given:
        return Explained(session, rows), session.loop
    return (Json if session.settings["json"] else Text)(session, rows), session.loop_over(rows)


class Explained(Text):
    """Prints each step of a row (for beam search, one tree of all steps), then the text."""

    def begin(self, row: Row) -> None:
        self.session.start(row, watch=Remembering)
        print(f"{visible(repr(row.prompt))}:\n" * (len(self.rows) > 1), end="")
        print(BEAMS if self.session.settings["method"] == "beam" else STEPS)

    def show(self, row: Row) -> None:
        if not row.beams:
            print(step_line(row.sequence, self.session.tokenizer), flush=True)

    def fail(self, row: Row) -> None:
        """Leave the text out: its steps have been printed."""

    def end(self, row: Row) -> None:
        if row.beams:
            name, best = partial(page.label, self.session.tokenizer), row.sequence.new_ids
            print(visible(row.prompt.rpartition("\n")[2]))
            print(format_tree(row.steps, name, best))
        print(visible(row.opening + row.text))
        print_figures(statistics_line(self.session, row))


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


def step_line(sequence: Any, tokenizer: Any) -> str:
    """Return a line about the last token: the model's P of it, the sampler's P if different, the
    entropy, the token, and other likely tokens. If it was not drawn, return only the token."""
    token = sequence.ids[-1]
    name = repr(page.label(tokenizer, token))
    if not (kept := sequence.sampler.kept.get(len(sequence.ids) - 1)):
        return f"{'':33}{name}"
    p, q = kept  # [n_vocab] each
    drawn = f"{q[token]:.1%}" if abs(q[token] - p[token]) >= 0.0005 else ""
    bits = -float((p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum())
    line = f"{p[token]:7.1%}{drawn:>7}  {bits:5.2f} {bar(bits):<10} {name:<15}"
    for other in np.argsort(-p, kind="stable")[: int((p > 0.005).sum())].tolist():
        text = f" {page.label(tokenizer, other)!r} {p[other]:.0%}"
        line += text if other != token and len(line + text) <= WIDTH else ""
    return line.rstrip()


def format_tree(trace: list, name: Callable[[int], str], winner: list[int]) -> str:
    """Return the steps of a beam search as a tree. Each line has the tokens up to the next fork,
    and log P so far. name: id -> the token's text; winner: the ids of the best text."""
    seen = {c.ids: c for step in trace for c in step if c.status != "dropped"}
    children = defaultdict(list)
    for ids in seen:
        children[ids[:-1]].append(ids)
    lines, stack = [], [((), "")]
    while stack:
        ids, branch = stack.pop()
        start = len(ids) - 1
        while ids and len(children[ids]) == 1:
            ids = children[ids][0]
        if ids:
            mark = "" if children[ids] else "  x"
            if seen[ids].status == "finished":
                mark = "  <- the best" if [*ids] == winner else "  finished"
            end = f" {seen[ids].log_probability:.2f}{mark}"
            text = repr("".join(map(name, ids[start:])))
            shown = branch[-WIDTH // 2 :]  # a line that is too long loses the end of its tokens
            lines.append(shown + text[: WIDTH - len(shown) - len(end)] + end)
        before = branch[:-3] + {"├─ ": "│  ", "└─ ": "   ", "": ""}[branch[-3:]]
        *others, last = children[ids] or [None]
        stack += [(last, before + "└─ ")] * bool(last)
        stack += [(child, before + "├─ ") for child in others[::-1]]
    return "\n".join(lines)


def compare(session: Session, rows: list[Row]) -> None:
    """Run each row through every possible method, with the session's options, and print a table."""
    session = copy.copy(session)  # the caller's session must not change
    drafts = session.own.get("drafter") or session.settings["draft"] and session.draft_model()
    for number, row in enumerate(rows):
        print(f"{visible(repr(row.prompt))}:\n" * (len(rows) > 1), end="")
        runs: dict[str, list[Row]] = {m: [] for m in LOOPS if m != "speculative" or drafts}
        for _ in range(1 + N_ROUNDS):  # take turns, so that a slow moment affects all methods
            for method in runs:
                settings = session.given | {"method": method}
                session.settings = options.resolve(settings, session.config)
                runs[method].append(run := session.row(row, number))
                for token in session.loop(run):
                    run.feed(token)
                    if run.ended:
                        break
                run.finish()
        print(HEADING)
        for method in runs:
            print(compare_line(method, runs[method], runs["naive"], session.sampled))
        if session.sampled:
            print_figures(f"(seed {row.seed})")


def compare_line(method: str, rows: list[Row], naive: list[Row], sampled: bool) -> str:
    """Return a method's line in the table. Its speed is the median of the rounds after warm-up."""
    speed, plain = (median(r.tokens_per_second or 0.0 for r in x[1:]) for x in (rows, naive))
    if not speed or not plain:
        return f"{method:<12} no tokens: the context is full"
    row, drafter, ratio = rows[-1], rows[-1].drafter, speed / plain
    ids = "as naive" if row.ids == naive[-1].ids else "DIFFERENT"
    if method == "beam" or drafter and sampled:
        ids = "likeliest" if method == "beam" else "sampled"
    per_pass, accepted = 1.0, "-"
    if drafter:
        per_pass, accepted = drafter.tokens_per_pass, f"{drafter.acceptance:.0%}"
    line = f"{method:<12}{speed:>8.1f} {ratio:>8.2f} {bar(ratio):<10}"
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
    tokenizer, model = session.tokenizer, session.model
    if not (session.reads or session.chat):
        return score(tokenizer, model, text)
    source, _, target = text.partition(" => ")
    if not target:
        raise UserError("an encoder-decoder or --chat scores 'SOURCE => TARGET'")
    model, ids = begin(model, session.row(source).prompt_ids)
    return score(tokenizer, model, target, getattr(model, "prefix", ids))


@contextlib.contextmanager
def page_for(session: Session, row: Row, given: dict) -> Iterator[None]:
    """With --html or --code, write a page about a row, which grows in this `with` block."""
    if not given.keys() & {"html", "code"}:
        yield
        return
    file, is_live = given.get("html") or given["code"], "live" in given
    if is_live:
        session.model = live.in_8_bits(session.tokenizer, session.model)
    settings = session.settings | {"seed": row.seed}
    if settings["method"] == "beam":  # beam search does not sample: the sliders start at neutral
        settings |= dict.fromkeys(page.SLIDERS)
    source, model = row.prompt_ids if session.reads else (), session.model
    sequence, tokenizer = session.start(row, page.die(row.seed)), session.tokenizer

    def make(run):
        if "code" in given:
            return page.code_html(run, tokenizer, sequence)
        data = page.record(tokenizer, sequence, run, source, row.steps, settings)
        return page.html(data, live.parts(tokenizer, model) if is_live else None)

    recorder = page.watching(sequence)
    if "code" in given:
        recorder = page.stepping(model, len(row.prompt_ids), *session.drafts.values())
    with writing(file, recorder, make):
        yield
    if not session.settings["json"]:
        print_figures(f"({file} is written: open it in a browser)")


def bar(tenths: float) -> str:
    """Return a bar of up to ten characters, rounded to an eighth of a character."""
    full, eighths = divmod(round(min(tenths, 10) * 8), 8)
    return "█" * full + "▏▎▍▌▋▊▉"[eighths - 1 : eighths]
