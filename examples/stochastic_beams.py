r"""Stochastic beams: k different texts, as if drawn one by one without replacement.

Add a random number from a Gumbel distribution to the log P of every text. Then the text with the
largest sum is an exact draw, and the texts with the k largest sums are k draws without replacement.
A beam search finds these texts, and it does not need the sums of all texts. For a beginning, it
draws only the largest sum of all texts with this beginning. Then it draws the sums of the
continuations, given that their maximum is this sum. (Kool et al. 2019, "Stochastic Beams and Where
to Find Them", algorithm 1.)

    python generate.py "Lily saw a" --samples 3 --temperature 1 --tokens 12 \
        --loop examples/stochastic_beams.py:distinct
"""

import heapq
from typing import NamedTuple

import numpy as np

from generate import advance


class Beam(NamedTuple):
    """The beginning of a text. perturbed: log_p plus Gumbel noise, by which beams are ranked."""

    perturbed: float
    log_p: float
    ids: list  # without the prompt
    parent: int  # the beam's row in the previous step, or -1 after its end


class Distinct:
    """A loop whose texts for the same prompt differ. The first call draws k texts; each call yields
    the next of them. If none is left, it yields nothing, and the stop reason is "no other"."""

    def __init__(self, k):
        self.k, self.waiting = k, {}  # (model, prompt) -> beams not yielded yet

    def __call__(self, model, sequence):  # yields tokens
        prompt = id(model), *sequence.ids
        if prompt not in self.waiting:
            self.waiting[prompt] = stochastic_beams(model, sequence, self.k)
        for token in self.waiting[prompt].pop(0).ids if self.waiting[prompt] else []:
            yield sequence.append(token)
        if sequence.running:
            sequence.finish("no other")


distinct = Distinct(16)


def stochastic_beams(model, sequence, k):
    """Return at most k different continuations of a text, as Beams with the largest `perturbed`
    first."""
    cache, ended = model.new_cache(1), []
    beams = [Beam(0.0, 0.0, [], 0)]
    while beams:
        logits = advance(model, [sequence.ids + beam.ids for beam in beams], cache)
        found = list(ended)
        for parent, (beam, row) in enumerate(zip(beams, logits)):
            found += continuations(beam, row, sequence, k, parent)
        best = heapq.nlargest(k, found)
        ended = [beam for beam in best if beam.parent < 0]
        beams = [beam for beam in best if beam.parent >= 0]
        if beams:
            cache.select([beam.parent for beam in beams])
    return best


def continuations(beam, logits, sequence, k, parent):
    """Yield the k best continuations of a beam by one token. parent: the beam's row."""
    with np.errstate(divide="ignore"):  # log 0 = -inf is a removed token
        log_p = np.log(sequence.sampler(logits, sequence.ids + beam.ids), dtype=np.float64)
    log_p += beam.log_p
    perturbed = gumbels(log_p, beam.perturbed, sequence.rng)
    for token in np.argsort(-perturbed)[:k].tolist():
        if perturbed[token] > -np.inf:
            ids = [*beam.ids, token]
            ends = token in sequence.stop_ids or len(ids) == sequence.n_left
            yield Beam(float(perturbed[token]), float(log_p[token]), ids, -1 if ends else parent)


def gumbels(log_p, maximum, rng):  # [n], a number -> [n]
    """Return log_p + Gumbel noise, given that the largest sum is `maximum`. The sums are drawn
    without this condition, then shifted: the shifted sums have the conditional distribution."""
    g = log_p + rng.gumbel(size=len(log_p))
    with np.errstate(divide="ignore"):  # log 0 = -inf makes the largest sum the maximum
        v = maximum - g + np.log1p(-np.exp(g - g.max()))
    return maximum - np.maximum(v, 0) - np.log1p(np.exp(-np.abs(v)))
