"""Records a run: its passes, its random numbers, and how each draft was tested (its "bet")."""

import contextlib
from collections import defaultdict

import numpy as np

from decoding.beam import top_indices
from decoding.drafters import common_prefix
from inside.recorder import passes, recording
from samplers import one_hot
from speculative import residual, verify

NO_BETS = {"bets": [], "accepted": 0, "residual": [], "last": None}


class Die(np.random.Generator):
    """A sequence's random generator that records what it draws: {the text's length: [u, ...]}."""

    def __init__(self, sequence):
        super().__init__(sequence.rng.bit_generator)
        self.ids, self.thrown = sequence.ids, defaultdict(list)

    def random(self, *shape, **settings):
        u = super().random(*shape, **settings)
        self.thrown[len(self.ids)].append(u)
        return u


@contextlib.contextmanager
def watching(sequence):
    """Record the model's calls and the random numbers while a loop runs in a `with` block."""
    die = sequence.rng = Die(sequence)
    keep = {"__call__": lambda logits: len(sequence.ids), "verify": None}
    with recording(sequence.model, keep, also=[verify]) as calls:
        yield calls, die.thrown


def read_passes(run, sequence):
    """Return a dict for each pass. begin: its first position; new: how many tokens it reads; known:
    the text's length before it; drafting: the draft model's multiply-adds; bets: see read_bets."""
    calls, thrown = run
    found, drafting, own = [], 0, passes(calls, sequence.model)
    for call in calls:
        if call.name == "verify":
            found[-1] |= read_bets(call.arguments, thrown, sequence.ids)
        elif call not in own:
            drafting += call.multiply_adds
        else:
            n_ids, n_new = np.size(call.arguments["ids"]), np.shape(call.arguments["ids"])[-1]
            n_all = call.named("attention")[0].inputs["k"][-2]
            one = {"rows": n_ids // n_new, "new": n_new, "begin": n_all - n_new}
            one |= {"known": call.value, "seconds": call.seconds, "drafting": drafting}
            found.append(NO_BETS | one | {"multiply_adds": call.multiply_adds})
            drafting = 0
    return found


def read_bets(given, thrown, text):
    """Return how `verify` tested drafts. bets: [x, q(x), p(x), u] for each draft x, decided by the
    random number u; accepted: how many drafts; residual: the best tokens of the distribution that
    replaced a rejected draft, and the drawn one; last: [u, from, to] for the last token drawn."""
    known, drafts, qs, sampler = (given[name] for name in ("ids", "drafts", "qs", "sampler"))
    n, us = common_prefix(drafts, text[len(known) :]), thrown[len(known)]
    ps = [sampler(row, known + drafts[:i]) for i, row in enumerate(given["logits"][: n + 1])]
    bets = [[int(x), float(q[x]), None, None] for x, q in zip(drafts, qs)]
    for bet, p, u in zip(bets, ps, us):
        bet[2:] = float(p[bet[0]]), u
    found = {"bets": bets, "accepted": n}
    if len(known) + n < len(text) and len(us) > min(n + 1, len(drafts)):
        came, p = text[len(known) + n], ps[n]
        if n < len(drafts):
            p = residual(p, qs[n])
            shown = dict.fromkeys([*top_indices(p, 5), came])
            found["residual"] = [(int(x), float(p[x])) for x in shown if p[x] > 0]
        found["last"] = [us[-1], *share(p, came)]
    return found


def read_draws(run, sequence, data, logits):
    """Return how each new token was chosen: [how], or [how, u, from, to] if a random number u chose
    it, between `from` and `to` of the cumulative distribution. logits [n, n_vocab]: unfiltered."""
    is_greedy, n_prompt, ids = sequence.sampler.to_probs is one_hot, sequence.n_prompt, sequence.ids
    how = "beams" if data["beams"] else "best" if is_greedy else "unknown"
    draws = [[how] for _ in sequence.new_ids]
    for i, us in run[1].items():
        if not is_greedy and len(us) == 1 and i < len(ids):
            p = sequence.sampler(logits[i - 1], ids[:i])
            draws[i - n_prompt] = ["drawn", *us, *share(p, ids[i])]
    for one in data["passes"]:
        place = one["known"] - n_prompt + one["accepted"]  # the token after the accepted drafts
        draws[place - one["accepted"] : place] = [["accepted"]] * one["accepted"]
        if one["last"] and not is_greedy:
            draws[place] = ["residual" if one["residual"] else "drawn", *one["last"]]
    return draws


def share(p, token):  # [n_vocab], id -> where its share of the cumulative sum begins and ends
    ends = np.cumsum(p, dtype=float) / np.sum(p, dtype=float)
    return float(ends[token - 1]) if token else 0.0, float(ends[token])
