"""Ways to look at generation: score a text, explain each step, compare the methods.

Everything is measured or computed from the model as it runs; nothing here generates by itself.
"""

import os
import sys
import time

import numpy as np

import beam
import generate
import speculative
from gpt2 import GPT2, softmax
from layouts import gpt2_shapes
from samplers import greedy
from session import DRAFTING, METHODS
from tensors import fill

# --- score: one line a token ----------------------------------------------------------------------


def print_score(encoder, result):
    for token, logprob in zip(result["ids"], result["logprobs"]):
        print(f"{logprob:9.4f}  {encoder.decode([token])!r}")
    print(
        f"{result['total']:9.4f}  log P of {len(result['ids'])} tokens;"
        f" {result['bits_per_byte']:.4f} bits per byte, perplexity {result['perplexity']:.2f}"
    )


# --- explain: each step as it is taken ------------------------------------------------------------

COLOURS = {"accepted": "32", "rejected": "31;9", "corrected": "33;1"}


def colour(text, kind):
    """In the terminal's colour, or bare when piped or where NO_COLOR is set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m"


class Onlooker:
    """A sampler that remembers what it was last asked, and what it answered."""

    def __init__(self, sampler):
        self.sampler, self.filters = sampler, sampler.filters

    def __call__(self, logits, ids):
        self.model_probs, self.probs = softmax(logits), self.sampler(logits, ids)
        return self.probs


def entropy(probs):
    """In bits."""
    probs = probs[probs > 0]
    return float(-(probs * np.log2(probs)).sum())


def explain(session, row):
    """Generate one row and print each step: what was chosen, from what, and how sure it was."""
    if session.options["method"] == "beam":
        trace = []
        session.search(row, trace)
        print(beam.format_tree(trace, session.encoder.decode))
        return
    onlookers = {}

    def wrap(row, sampler):
        return onlookers.setdefault("row", Onlooker(sampler))

    def watch(row, drafts, tokens):
        explain_round(session, drafts, tokens)

    drafting = session.options["method"] in DRAFTING
    if not drafting:
        print("step  token: P by the model > by the sampler, entropy in bits; the model's top five")
    for _ in session.generate([row], wrap, watch):
        if not drafting:
            explain_step(session, len(row.times), onlookers["row"], row)


def explain_step(session, step, seen, row):
    def shares(token):
        name = repr(session.encoder.decode([token]))
        return f"{name} {seen.model_probs[token]:.3f} > {seen.probs[token]:.3f}"

    best = np.argsort(-seen.model_probs)[:5]
    print(f"{step:4}  {shares(row.last)}, {entropy(seen.model_probs):.2f}", end="; ")
    print("  ".join(shares(int(other)) for other in best), flush=True)


def explain_round(session, drafts, tokens):
    """The accepted drafts, the rejected ones, the model's own token; a row may end before it."""
    accepted = speculative.common_prefix(drafts, tokens)
    parts = [colour(repr(session.encoder.decode([t])), "accepted") for t in drafts[:accepted]]
    if len(tokens) > accepted:
        if accepted < len(drafts):
            rejected = session.encoder.decode(drafts[accepted:])
            parts.append(colour(f"-{rejected!r}", "rejected"))
        parts.append(colour("+" + repr(session.encoder.decode(tokens[accepted:])), "corrected"))
    print(f"{accepted}/{len(drafts)}", " ".join(parts), flush=True)


# --- compare: the same prompt through every method ------------------------------------------------


def compare(session, prompt):
    """One table over the methods that apply, with the session's sampler and one seed."""
    print(f"{'method':<12}{'tokens/s':>9}{'x naive':>8}{'first, s':>9}{'tokens':>7}"
          f"{'per pass':>9}{'accepted':>9}{'cache, MB':>10}  ids")  # fmt: skip
    naive, speeds, keeps_store = None, {}, session.keeps_store
    session.keeps_store, session.store = False, None  # each method starts knowing nothing
    try:
        for method in METHODS:
            if method == "speculative" and not session.options.get("draft"):
                continue
            session.options = session.settle(method)
            row = session.row(prompt)
            for _ in session.generate([row]):
                pass
            naive = naive or row
            speeds[method] = speed(row)
            print(compare_line(session, row, naive), flush=True)
    finally:  # an interrupt too leaves the session with its own method
        session.options, session.keeps_store = session.settle(), keeps_store
    if max(map(speeds.get, speeds.keys() & DRAFTING)) < speeds["cached"]:
        print("(drafts do not pay here: what a pass of a small model costs is mostly overhead, and"
              "\n more tokens are more of it; of a large one, its weights: see --replay 0.8)")


def speed(row):
    """Tokens a second, the first included."""
    return len(row.times) / (row.times[-1] - row.started) if row.times else 0.0


def compare_line(session, row, naive):
    if not row.times:
        return f"{session.options['method']:<12} no tokens: the context is full"
    method, speculation = session.options["method"], row.extra.get("speculation")
    held = 0 if method == "naive" else cache_bytes(session, row)
    per_pass = f"{speculation.tokens_per_call:.2f}" if speculation else "1.00"
    accepted = f"{speculation.acceptance:.0%}" if speculation else "-"
    if method == "beam":
        ids = "the likeliest text found"
    elif speculation and session.sampled:
        ids = "sampled: the same distribution"
    else:
        ids = "identical to naive" if row.ids == naive.ids else "DIFFERENT from naive"
    return (f"{method:<12}{speed(row):>9.1f}{speed(row) / speed(naive):>8.2f}"
            f"{row.seconds_to_first_token:>9.3f}{len(row.times):>7}{per_pass:>9}{accepted:>9}"
            f"{held / 1e6:>10.2f}  {ids}")  # fmt: skip


def cache_bytes(session, row):
    """What the model's cache holds at the end, over all beams."""
    n_rows = session.options["beams"] if session.options["method"] == "beam" else 1
    cache = session.model_for([row]).new_cache(n_rows)
    cache.length = len(row.start) + len(row.times)
    return cache.nbytes


# --- replay: what speculation gains at a given acceptance rate ------------------------------------


def replay(rates, gamma, n=48, shape=(50257, 128, 768, 12), n_head=12):
    """Draft a known text, each token right at a given rate, for a random model of GPT-2's size.

    shape: n_vocab, n_ctx, n_embd, n_layer. The drafts cost nothing here; a pass over gamma + 1
    tokens costs more than one over a single token, by a factor that is measured too.
    """
    model, prompt = random_model(shape, n_head), [1, 2, 3]
    text, step = timed(generate.generate(model, prompt, n))
    text = prompt + text
    _, block = timed(run_replay(model, text, 0.0, gamma, speculative.Statistics()))
    print(f"\na random model of GPT-2 124M's width and depth, gamma {gamma}: a pass over"
          f" {gamma + 1} tokens costs {block / step:.2f} single steps\n{'accepted':>9}{'':>9}"
          f"{'per pass':>9}{'':>9}{'speed-up':>9}\n{'asked':>9}{'measured':>9}{'expected':>9}"
          f"{'measured':>9}{'expected':>9}{'measured':>9}")  # fmt: skip
    for rate in rates:
        statistics = speculative.Statistics()
        ids, seconds = timed(run_replay(model, text, rate, gamma, statistics))
        expected = statistics.expected_tokens_per_call(gamma)
        print(f"{rate:>9.2f}{statistics.acceptance:>9.2f}{expected:>9.2f}"
              f"{statistics.tokens_per_call:>9.2f}{expected * step / block:>9.2f}"
              f"{step / seconds:>9.2f}", flush=True)  # fmt: skip
        if prompt + ids != text:
            print("DIFFERENT from the plain loop: two best logits within rounding of each other")


def run_replay(model, text, rate, gamma, statistics):
    """The speculative loop over a known text; yields its ids after the first three."""
    rng = np.random.default_rng(0)
    drafter = speculative.Replay(model.n_vocab, text, rate, rng)

    def done(row, ids):
        return len(ids) >= len(text)

    for _, token in speculative.speculative(
        model, [text[:3]], [greedy], [rng], done, [drafter], gamma, statistics.record
    ):
        yield token


def timed(tokens):
    """A generator of ids -> the ids, and seconds a token after the first."""
    ids, times = [], []
    for token in tokens:
        ids.append(token)
        times.append(time.perf_counter())
    return ids, (times[-1] - times[0]) / (len(times) - 1)


def random_model(shape, n_head):
    rng, shapes = np.random.default_rng(0), gpt2_shapes(*shape, n_inner=4 * shape[2])

    def tensor(name, shape):
        if name.endswith(".g"):
            return np.ones(shape, np.float32)
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    return GPT2(fill(shapes, tensor), n_head)
