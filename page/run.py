"""Record a loop's run: passes, random numbers, and how each draft was tested (its "bet")."""

import contextlib
import math

import numpy as np

from decoding.beam import top_indices
from page.recorder import passes, recording
from samplers import draw, one_hot
from speculative import verify


class Die(np.random.Generator):
    """A random generator whose `random` is a Python function, so that the recorder sees its
    calls. `watching` needs a sequence with such a generator."""

    def random(self, *shape, **settings):
        return super().random(*shape, **settings)


def die(seed):
    """Return a Die, given an int or another generator: both draw the same numbers."""
    return Die(np.random.default_rng(seed).bit_generator)


@contextlib.contextmanager
def watching(sequence):
    """Record the calls of models, `verify` and `draw` while a loop runs in a `with` block. The
    `value` of a model's call is the length of the text at that time. For `verify` and `draw`, it is
    this length and the returned tokens."""
    if not hasattr(sequence.model, "params"):
        raise ValueError("the recorder looks into models with layers: this one has none")
    keep = {"__call__": lambda logits: len(sequence.ids), "random": lambda u: u}
    keep |= dict.fromkeys(["verify", "draw"], lambda x: (len(sequence.ids), np.ravel(x).tolist()))
    with recording(sequence.model, keep, also=[verify, draw, Die.random]) as calls:
        yield calls


def read_passes(calls, sequence):
    """Return a dict for each pass. rows: the batch size; begin: the first new position; new: the
    number of new tokens; known: the text's length before the pass; other keys: see read_bets."""
    found, own = [], passes(calls, sequence.model)
    for call in calls:
        if call in own:
            q, k = (call.named("attention")[0].inputs[name] for name in "qk")
            one = {"rows": math.prod(q[:-3]), "new": q[-2], "begin": k[-2] - q[-2]}
            one |= {"known": call.value, "seconds": call.seconds}
            found.append(one | {"bets": [], "accepted": 0, "residual": []})
        elif call.name == "verify":
            found[-1] |= read_bets(call, sequence.ids)
    return found


def read_bets(call, text):
    """Return how `verify` tested the drafts. bets: [x, q(x), p(x), u] for each draft x, where u is
    its random number. accepted: the number of accepted drafts. residual: [x, p(x), q(x), P(x)] for
    the rejected draft, its replacement and the best tokens, where P is norm(max(0, p - q))."""
    known, drafts, qs, sampler = (call.arguments[x] for x in ("ids", "drafts", "qs", "sampler"))
    (_, tokens), drawn = call.value, call.named("draw")
    n = min(len(tokens) - len(drawn), len(text) - len(known))  # the loop may have cut the tokens
    ps = [sampler(x, known + drafts[:i]) for i, x in enumerate(call.arguments["logits"][: n + 1])]
    bets = [[int(x), float(q[x]), None, None] for x, q in zip(drafts, qs)]
    for bet, p, u in zip(bets[: len(text) - len(known)], ps, call.named("random")):
        bet[2:] = float(p[bet[0]]), u.value
    rows = []
    if n < min(len(drafts), len(text) - len(known)):
        p, q, left = ps[n], qs[n], drawn[0].arguments["probs"]
        shown = dict.fromkeys([*top_indices(left, 4), *top_indices(p, 2), drafts[n], tokens[n]])
        rows = [(int(x), float(p[x]), float(q[x]), float(left[x])) for x in shown]
    return {"bets": bets, "accepted": n, "residual": sorted(rows, key=lambda row: -row[-1])}


def read_draws(calls, sequence, other):
    """Return how each new token was chosen: [how], or [how, u, start, end] if the random number u
    fell into the token's interval of the cumulative P, from start to end. other: the `how` of a
    token that neither `verify` nor `draw` chose."""
    draws, is_greedy = {}, sequence.sampler.to_probs is one_hot
    for call in calls:
        us = call.named("random")
        if call.name in ("verify", "draw") and us:  # a draft model draws with its own rng
            known, tokens = call.value
            places = [*enumerate(tokens, known)]
            draws |= dict.fromkeys(places, ["accepted"])
            for last in call.named("draw"):
                how = "drawn" if len(tokens) > len(call.arguments.get("drafts", [])) else "residual"
                ends = np.cumsum(np.append(0.0, last.arguments["probs"]))  # [n_vocab + 1]
                share = (ends[tokens[-1] :][:2] / ends[-1]).tolist()
                draws[places[-1]] = ["best"] if is_greedy else [how, us[-1].value, *share]
    return [draws.get(place, [other]) for place in enumerate(sequence.new_ids, sequence.n_prompt)]
