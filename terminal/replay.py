"""What speculation gains at a given acceptance rate, measured and by theory (Leviathan et al. 2023,
equation 1), on a large random model, for a pass of a small one is mostly overhead."""

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import generate
import speculative
from interface import Ids, Model
from loading.layouts import random_gpt2

LARGE: dict[str, Any] = {  # GPT-2 124M's sizes, but for the context
    "n_vocab": 50257, "n_ctx": 128, "n_embd": 768, "n_layer": 12, "n_head": 12,
}  # fmt: skip
N_TOKENS = 48  # of the known text


def replay(rates: Sequence[float], gamma: int) -> None:
    """Draft a known text, each token right at a given rate, for a random model; print a table.

    The drafts cost nothing; a pass over gamma + 1 tokens costs more than one over a single token,
    by a factor that is measured too.
    """
    model, prompt = random_gpt2(**LARGE), [1, 2, 3]
    model(prompt)  # warms up
    text, step = timed(generate.generate(model, prompt, N_TOKENS))
    _, block, _ = run_replay(model, prompt, text, 0.0, gamma)
    print(f"\na random model of GPT-2 124M's width and depth, gamma {gamma}: a pass over"
          f" {gamma + 1} tokens, fewer at the end, costs {block / step:.2f} single steps\n"
          f"{'accepted':>9}{'':>9}{'per pass':>9}{'':>9}{'speed-up':>9}\n"
          f"{'asked':>9}{'measured':>9}{'expected':>9}"
          f"{'measured':>9}{'expected':>9}{'measured':>9}")  # fmt: skip
    for rate in rates:
        ids, seconds, found = run_replay(model, prompt, text, rate, gamma)
        expected = found.expected_tokens_per_call
        print(f"{rate:>9.2f}{found.acceptance:>9.2f}{expected:>9.2f}{found.tokens_per_call:>9.2f}"
              f"{expected * step / block:>9.2f}{step / seconds:>9.2f}", flush=True)  # fmt: skip
        if ids != text:
            print("DIFFERENT from the plain loop: two best logits within rounding of each other")


def run_replay(
    model: Model, prompt: Ids, text: Ids, rate: float, gamma: int
) -> tuple[Ids, float, speculative.Statistics]:
    """The speculative loop over a known text -> its ids, seconds a token, Statistics."""
    drafter = speculative.Replay(model.n_vocab, prompt + text, rate, np.random.default_rng(0))
    found = speculative.Statistics()
    loop = functools.partial(
        speculative.speculative, drafters=[drafter], gamma=gamma, watch=found.record
    )
    return *timed(generate.generate(model, prompt, len(text), loop=loop)), found


def timed(tokens: Iterable[int]) -> tuple[Ids, float]:
    """A generator of ids -> the ids, and seconds a token, over the whole run."""
    started = time.perf_counter()
    ids = list(tokens)
    return ids, (time.perf_counter() - started) / len(ids)
