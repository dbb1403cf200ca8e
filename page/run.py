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
    """Return a dict for each pass: what it read, and how its drafts were tested. Example:

        {"rows": 1, "begin": 7, "new": 3, "known": 8, "seconds": 0.01, "accepted": 1,
         "bets": [[45, 0.5, 0.6, 0.9], [7, 0.4, 0.1, 0.8]], "residual": [(9, 0.7, 0.1, 0.6), ...]}

    rows: the batch size. begin, new: the first new position, and how many there are. known: the
    text's length before the pass. The other keys are those of `read_bets`."""
    found, own = [], passes(calls, sequence.model)
    for call in calls:
        if call in own:
            found.append(read_pass(call))
        elif call.name == "verify":
            found[-1] |= read_bets(call, sequence.ids)
    return found


def read_pass(call):
    shapes = call.named("attention")[0].inputs
    q, k = shapes["q"], shapes["k"]
    one = {"rows": math.prod(q[:-3]), "new": q[-2], "begin": k[-2] - q[-2]}
    one |= {"known": call.value, "seconds": call.seconds}
    return one | {"bets": [], "accepted": 0, "residual": []}


def read_bets(call, text):
    """Return how `verify` tested the drafts. bets: [x, q(x), p(x), u] for each draft x, where u is
    its random number. accepted: the number of accepted drafts. residual: [x, p(x), q(x), P(x)] for
    the rejected draft, its replacement and the best tokens, where P is norm(max(0, p - q))."""
    known, drafts, qs, sampler = (call.arguments[x] for x in ("ids", "drafts", "qs", "sampler"))
    (_, tokens), drawn = call.value, call.named("draw")
    n_used = len(text) - len(known)  # the loop may have cut the tokens
    n = min(len(tokens) - len(drawn), n_used)
    rows = call.arguments["logits"][: n + 1]
    ps = [sampler(row, known + drafts[:i]) for i, row in enumerate(rows)]
    bets = [[int(x), float(q[x]), None, None] for x, q in zip(drafts, qs)]
    for bet, p, u in zip(bets[:n_used], ps, call.named("random")):
        bet[2:] = float(p[bet[0]]), u.value
    is_rejected = n < min(len(drafts), n_used)
    residual = []
    if is_rejected:
        left = drawn[0].arguments["probs"]
        residual = read_residual(ps[n], qs[n], left, [drafts[n], tokens[n]])
    return {"bets": bets, "accepted": n, "residual": residual}


def read_residual(p, q, left, others):  # 3 x [n_vocab], ids -> rows from the likeliest on
    shown = dict.fromkeys([*top_indices(left, 4), *top_indices(p, 2), *others])
    rows = [(int(x), float(p[x]), float(q[x]), float(left[x])) for x in shown]
    return sorted(rows, key=lambda row: -row[-1])


def read_draws(calls, sequence, other):
    """Return how each new token was chosen: [how], or [how, u, start, end] if the random number u
    fell into the token's interval of the cumulative P, from start to end. Example:
    [["drawn", 0.31, 0.2, 0.5], ["accepted"], ...]. other: the `how` of a token that neither
    `verify` nor `draw` chose."""
    draws, is_greedy = {}, sequence.sampler.to_probs is one_hot
    for call in calls:
        us = call.named("random")
        if call.name not in ("verify", "draw") or not us:  # a draft model draws with its own rng
            continue
        known, tokens = call.value
        places = [*enumerate(tokens, known)]
        draws |= dict.fromkeys(places, ["accepted"])
        for last in call.named("draw"):
            how = "drawn" if len(tokens) > len(call.arguments.get("drafts", [])) else "residual"
            ends = np.cumsum(np.append(0.0, last.arguments["probs"]))  # [n_vocab + 1]
            share = ends[tokens[-1] :][:2] / ends[-1]
            draws[places[-1]] = ["best"] if is_greedy else [how, us[-1].value, *share.tolist()]
    return [draws.get(place, [other]) for place in enumerate(sequence.new_ids, sequence.n_prompt)]
