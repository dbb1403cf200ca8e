r"""Stochastic beams: k different texts, as if drawn one by one without replacement.

Add a Gumbel number to the log P of every text: the largest sum belongs to an exact draw, and the k
largest to k draws without replacement. A beam search finds them without looking at all texts: first
the largest sum of all texts with a certain beginning is drawn, then the sums of its continuations,
so that this is their maximum. (Kool et al. 2019, "Stochastic Beams and Where to Find Them",
algorithm 1.)

    python generate.py "Lily saw a" --samples 3 --temperature 1 --tokens 12 \
        --loop examples/stochastic_beams.py:distinct
"""

import heapq
import itertools
from typing import NamedTuple

import numpy as np

from generate import lengthen


class Beam(NamedTuple):
    """A beginning: its log P plus Gumbel noise, by which beams are ordered; its log P; its ids."""

    perturbed: float
    log_p: float
    ids: list  # the new ones
    parent: int  # its row in the previous step, -1 once it has ended


def distinct(model, sequences):
    """A loop: rows with the same prompt get different texts, the first of them a plain draw. Rows
    for which no other text exists end with stop reason "no other"."""
    if model.has_source:
        raise ValueError("equal prompts are one text's beginning here, not a source")
    groups = {}
    for sequence in sequences:
        if sequence.running:
            groups.setdefault(tuple(sequence.ids), []).append(sequence)
    for group in groups.values():
        beams = stochastic_beams(model, group[0], len(group))
        for sequence, beam in itertools.zip_longest(group, beams):
            yield from lengthen(sequence, beam.ids if beam else [])
            if sequence.running:
                sequence.finish("no other")


def stochastic_beams(model, sequence, k):
    """At most k different continuations of a sequence -> a list of Beam, the largest sum first."""
    cache, ended = model.new_cache(1), []
    beams, new = [Beam(0.0, 0.0, [], 0)], [sequence.ids]
    while beams:
        logits = model(np.array(new), cache, last=1)[:, -1]  # [n_beams, n_vocab]
        found = list(ended)
        for parent, (beam, row) in enumerate(zip(beams, logits)):
            found += continuations(beam, row, sequence, k, parent)
        best = heapq.nlargest(k, found)
        ended = [beam for beam in best if beam.parent < 0]
        beams = [beam for beam in best if beam.parent >= 0]
        cache.select([beam.parent for beam in beams])
        new = [beam.ids[-1:] for beam in beams]
    return best


def continuations(beam, logits, sequence, k, parent):
    """The k best continuations of a beam by one token."""
    with np.errstate(divide="ignore"):  # log 0 is -inf, a removed token
        log_p = np.log(sequence.sampler(logits, sequence.ids + beam.ids), dtype=np.float64)
    log_p += beam.log_p
    perturbed = gumbels(log_p, beam.perturbed, sequence.rng)
    for token in np.argsort(-perturbed)[:k].tolist():
        if perturbed[token] > -np.inf:
            ids = [*beam.ids, token]
            ends = token in sequence.stop_ids or len(ids) == sequence.n_left
            yield Beam(float(perturbed[token]), float(log_p[token]), ids, -1 if ends else parent)


def gumbels(log_p, maximum, rng):  # [n], a number -> [n]
    """log_p + Gumbel noise, given that the largest sum is `maximum`: draw them freely, then shift
    each so that, with the largest, all keep their distribution."""
    g = log_p + rng.gumbel(size=len(log_p))
    with np.errstate(divide="ignore"):  # the largest: log 0, and it becomes the maximum
        v = maximum - g + np.log1p(-np.exp(g - g.max()))
    return maximum - np.maximum(v, 0) - np.log1p(np.exp(-np.abs(v)))
