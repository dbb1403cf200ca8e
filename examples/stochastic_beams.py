r"""Stochastic beams: k different texts, as if drawn one by one without replacement.

Imagine that a random number from a Gumbel distribution is added to the log P of every text. The
text with the largest sum is then an exact draw, and those with the k largest sums are k draws
without replacement. A beam search finds these texts without computing every sum. A beam stands for
all texts that begin with its tokens, and knows only the largest of their sums. To extend the beam,
we draw such a sum for each next token, under the condition that the largest is the beam's own sum.
(Kool et al. 2019, "Stochastic Beams and Where to Find Them", algorithm 1.)

    python generate.py "Lily saw a" --samples 3 --temperature 1 --tokens 12 \
        --loop examples/stochastic_beams.py:distinct
"""

import heapq
from typing import NamedTuple

import numpy as np

from generate import advance


class Beam(NamedTuple):
    """The beginning of a text. Beams are ranked by `perturbed`: log_p plus Gumbel noise."""

    perturbed: float
    log_p: float
    ids: list  # without the prompt
    parent: int  # the row of the beam that this one extends, or -1 if the text has ended


class Distinct:
    """A loop that yields a different text at each call with the same prompt. The first call draws k
    texts, and each call yields one of them. If none is left, the stop reason is "no other"."""

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
    """Return at most k different continuations of a text: Beams, sorted from the largest to the
    smallest `perturbed`."""
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
    """Extend a beam by one token, and yield the k best results. parent: the row of this beam."""
    with np.errstate(divide="ignore"):  # a removed token has log 0 = -inf
        log_p = np.log(sequence.sampler(logits, sequence.ids + beam.ids), dtype=np.float64)
    log_p += beam.log_p
    perturbed = gumbels(log_p, beam.perturbed, sequence.rng)
    for token in np.argsort(-perturbed)[:k].tolist():
        if perturbed[token] > -np.inf:
            ids = [*beam.ids, token]
            ends = token in sequence.stop_ids or len(ids) == sequence.n_left
            yield Beam(float(perturbed[token]), float(log_p[token]), ids, -1 if ends else parent)


def gumbels(log_p, maximum, rng):  # [n], a number -> [n]
    """Return log_p + Gumbel noise, under the condition that the largest sum is `maximum`. First the
    sums are drawn without this condition, then each is mapped so that the condition holds."""
    g = log_p + rng.gumbel(size=len(log_p))
    with np.errstate(divide="ignore"):  # log 0 = -inf for the largest sum, which becomes `maximum`
        v = maximum - g + np.log1p(-np.exp(g - g.max()))
    return maximum - np.maximum(v, 0) - np.log1p(np.exp(-np.abs(v)))
