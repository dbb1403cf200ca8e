"""What happened in a run: its passes, the numbers that were thrown, the bets of speculation."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from decoding.drafters import common_prefix
from generate import Sequence
from inside.recorder import Call, passes, recording
from samplers import greedy
from speculative import residual, verify


class Die(np.random.Generator):
    """A sequence's random generator that notes what it throws: {length of the text: [u, ...]}."""

    def __init__(self, sequence: Sequence):
        super().__init__(sequence.rng.bit_generator)
        self.ids, self.thrown = sequence.ids, defaultdict[int, list[float]](list)

    def random(self, *shape: Any, **settings: Any) -> Any:
        u = super().random(*shape, **settings)
        self.thrown[len(self.ids)].append(u)
        return u


class Run:
    """The recorded calls of a loop, and the numbers that its sequence's die has thrown."""

    calls: list[Call]
    thrown: dict[int, list[float]]


@contextlib.contextmanager
def watching(sequence: Sequence) -> Iterator[Run]:
    """While it lasts, note how a loop lengthens the sequence."""
    run, rng, die = Run(), sequence.rng, Die(sequence)
    run.thrown, sequence.rng = die.thrown, die
    keep = {"__call__": lambda logits: len(sequence.ids), "verify": lambda tokens: None}
    try:
        with recording(sequence.model, keep, also=[verify]) as run.calls:
            yield run
    finally:
        sequence.rng = rng


def read_passes(run: Run, sequence: Sequence) -> list[dict[str, Any]]:
    """Each pass of the model: its rows, the first position it computed and how many, the length of
    the text before it, its multiply-adds and those of drafting before it, and its bets."""
    found, drafting, own = [], 0, {id(call) for call in passes(run.calls, sequence.model)}
    for call in run.calls:
        if call.name == "verify" and found:
            us = run.thrown[len(call.arguments["ids"])]
            found[-1] |= read_bets(call.arguments, us, sequence.ids)
        elif id(call) in own:
            n_new = np.shape(call.arguments["ids"])[-1]
            stored = [inner for inner in call.walk() if inner.name == "append"]
            begin = stored[0].output[-2] - n_new if stored else 0
            rows = int(np.prod(np.shape(call.arguments["ids"])[:-1], dtype=int))
            found.append({"rows": rows, "begin": begin, "new": n_new, "known": call.value,
                          "seconds": round(call.seconds, 5), "multiply_adds": call.multiply_adds,
                          "drafting": drafting, "accepted": 0, "bets": [], "residual": [],
                          "last": None})  # fmt: skip
            drafting = 0
        else:
            drafting += call.multiply_adds
    return found


def read_bets(given: dict[str, Any], us: list[float], text: list[int]) -> dict[str, Any]:
    """How `verify` accepted drafts. bets: of each draft [token, q(x) of the drafter, p(x) of the
    model, the u that decided]; accepted: how many; residual: the best tokens of what replaced the
    rejected draft's distribution; last: [u, from, to] of the token that was drawn after them."""
    known, drafts, qs = list(given["ids"]), list(given["drafts"]), given["qs"]
    n = common_prefix(drafts, text[len(known) :])
    ps = [given["sampler"](given["logits"][i], known + drafts[:i]) for i in range(len(drafts[: n + 1]))]
    bets = [[int(x), float(q[x]), None, None] for x, q in zip(drafts, qs)]
    for bet, p, u in zip(bets, ps, us):
        bet[2:] = [float(p[bet[0]]), u]
    found = {"bets": bets, "accepted": n, "residual": [], "last": None}
    if len(known) + n < len(text) and len(us) > len(ps):
        if n < len(drafts):
            p = residual(ps[n], qs[n])
            best = np.argsort(-p)[:5]
            found["residual"] = [(int(i), float(p[i] / p.sum())) for i in best if p[i] > 0]
        else:
            p = given["sampler"](given["logits"][n], known + drafts)
        found["last"] = [us[-1], *share(p, text[len(known) + n])]
    return found


def read_draws(run: Run, sequence: Sequence, found: list[dict], logits: np.ndarray) -> list[list]:
    """How each new token came: [how], and where a number u was thrown for it, u and the token's
    share of the cumulative distribution. logits: those that the sampler saw, [n, n_vocab]."""
    draws = [["unknown"] for _ in sequence.new_ids]
    is_greedy, n_prompt = sequence.sampler.to_probs is greedy.to_probs, sequence.n_prompt
    for i in range(n_prompt, len(sequence.ids)):
        if is_greedy:
            draws[i - n_prompt] = ["best"]
        elif len(us := run.thrown.get(i, [])) == 1:
            p = sequence.sampler(logits[i - 1], sequence.ids[:i])
            draws[i - n_prompt] = ["drawn", *us, *share(p, sequence.ids[i])]
    for one in found:
        first, last = one["known"] - n_prompt, one["known"] - n_prompt + one["accepted"]
        draws[first:last] = [["accepted"]] * (last - first)
        if one["last"] and not is_greedy:
            draws[last] = ["residual" if one["residual"] else "drawn", *one["last"]]
    return draws


def share(p: np.ndarray, token: int) -> tuple[float, float]:
    """Where a token lies in the cumulative distribution, in the order of the ids."""
    total = np.cumsum(p, dtype=float)
    return float((total[token] - p[token]) / total[-1]), float(total[token] / total[-1])
