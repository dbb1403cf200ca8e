"""What happened in a run: its passes, its random numbers, the bets of speculation."""

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

Thrown = dict[int, list[float]]  # the text's length -> the random numbers drawn at that length
Run = tuple[list[Call], Thrown]


class Die(np.random.Generator):
    """A sequence's random generator that notes the numbers it draws."""

    def __init__(self, sequence: Sequence):
        super().__init__(sequence.rng.bit_generator)
        self.ids, self.thrown = sequence.ids, defaultdict[int, list[float]](list)

    def random(self, *shape: Any, **settings: Any) -> Any:
        u = super().random(*shape, **settings)
        self.thrown[len(self.ids)].append(u)
        return u


@contextlib.contextmanager
def watching(sequence: Sequence) -> Iterator[Run]:
    """Note how a loop lengthens the sequence inside a `with` block."""
    die = sequence.rng = Die(sequence)
    keep = {"__call__": lambda logits: len(sequence.ids), "verify": lambda tokens: None}
    with recording(sequence.model, keep, also=[verify]) as calls:
        yield calls, die.thrown


def read_passes(run: Run, sequence: Sequence) -> list[dict[str, Any]]:
    """Return a dict for each pass. begin, new: its first position, and how many; known: the text's
    length before it; drafting: the multiply-adds of drafting before it; bets: see read_bets."""
    (calls, thrown), found, drafting = run, [], 0
    own = {id(call) for call in passes(calls, sequence.model)}
    for call in calls:
        if call.name == "verify" and found:
            found[-1] |= read_bets(call.arguments, thrown, sequence.ids)
        elif id(call) in own:
            *rows, n_new = np.shape(call.arguments["ids"])
            stored = [inner.output[-2] for inner in call.walk() if inner.name == "append"]
            one = {"rows": int(np.prod(rows)), "new": n_new, "known": call.value}
            one |= {"begin": (stored[0] if stored else n_new) - n_new, "seconds": call.seconds}
            one |= {"multiply_adds": call.multiply_adds, "drafting": drafting}
            found.append(one | {"bets": [], "accepted": 0, "residual": [], "last": None})
            drafting = 0
        else:
            drafting += call.multiply_adds
    return found


def read_bets(given: dict[str, Any], thrown: Thrown, text: list[int]) -> dict[str, Any]:
    """Return how `verify` tested drafts. bets: [token, the drafter's q(x), the model's p(x), the u
    that decided] of each draft; accepted: how many; residual: after a rejection [token, p, q, norm(max(0, p - q))]
    of the rejected one, the best, and the one drawn; last: [u, from, to] of the token drawn then."""
    known, drafts, qs, sampler = (given[name] for name in ("ids", "drafts", "qs", "sampler"))
    n, us = common_prefix(drafts, text[len(known) :]), thrown[len(known)]
    p_of = [sampler(row, known + drafts[:i]) for i, row in enumerate(given["logits"][: n + 1])]
    n_tested = min(n + 1, len(drafts))
    bets = [[int(x), float(q[x]), None, None] for x, q in zip(drafts, qs)]
    for bet, p, u in zip(bets[:n_tested], p_of, us):
        bet[2:] = [float(p[bet[0]]), u]
    found = {"bets": bets, "accepted": n, "residual": [], "last": None}
    if len(known) + n < len(text) and len(us) > n_tested:
        p = p_of[n]
        if n < len(drafts):
            q, left = qs[n], residual(p, qs[n])
            shown = {*np.argsort(-left)[:4], *np.argsort(-p)[:2], drafts[n], text[len(known) + n]}
            best = sorted(shown, key=lambda i: -left[i])
            found["residual"] = [(int(i), float(p[i]), float(q[i]), float(left[i])) for i in best]
            p = left
        found["last"] = [us[-1], *share(p, text[len(known) + n])]
    return found


def read_draws(run: Run, sequence: Sequence, found: list[dict], logits: np.ndarray) -> list[list]:
    """Return how each new token came: [how], or [how, u, from, to] if a number u was drawn for it.
    from, to: its share of the cumulative distribution. logits [n, n_vocab]: the sampler's input."""
    is_greedy, n_prompt = sequence.sampler.to_probs is greedy.to_probs, sequence.n_prompt
    draws: list[list[Any]] = [["best" if is_greedy else "unknown"] for _ in sequence.new_ids]
    for i, us in run[1].items():
        if not is_greedy and len(us) == 1 and i < len(sequence.ids):
            p = sequence.sampler(logits[i - 1], sequence.ids[:i])
            draws[i - n_prompt] = ["drawn", *us, *share(p, sequence.ids[i])]
    for one in found:
        first, last = one["known"] - n_prompt, one["known"] - n_prompt + one["accepted"]
        draws[first:last] = [["accepted"]] * (last - first)
        if one["last"] and not is_greedy:
            draws[last] = ["residual" if one["residual"] else "drawn", *one["last"]]
    return draws


def share(p: np.ndarray, token: int) -> tuple[float, float]:
    """Return the ends of a token's share of the cumulative distribution, in the order of ids."""
    ends = np.cumsum(p, dtype=float) / np.sum(p, dtype=float)
    return float(ends[token - 1]) if token else 0.0, float(ends[token])
