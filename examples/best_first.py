"""Best-first search is certain to find the most probable text of all, if it may run long enough.

A text is never more probable than its beginning. So the search always continues the most probable
beginning. The first text that it completes is the most probable text. (This is Dijkstra's
shortest-path algorithm; a token costs -log p.) The search can need a huge number of passes, so
their number is limited. The most probable text is often too short: this is an error of the model,
not of the search. (Stahlberg & Byrne 2019, "On NMT Search Errors and Model Errors: Cat Got Your
Tongue?"; Meister et al. 2020, "Best-First Beam Search".)

    python generate.py "I am tired." --model en-de --loop "examples/best_first.py:best_first(500)"
"""

import heapq
import itertools

import numpy as np

from decoding.drafters import common_prefix
from generate import advance
from gpt2 import log_softmax


def best_first(passes=1000):
    """Return a generation loop. If the search needs more than `passes` passes, the loop yields the
    most probable beginning that it has found, and the stop reason is "passes"."""

    def loop(model, sequence):  # yields tokens
        if not sequence.running:
            return
        ids, found = search(model, sequence, passes)
        for token in ids:
            yield sequence.append(token)
        if not found:
            sequence.finish("passes")

    return loop


def search(model, sequence, passes):
    """Return the new ids of the most probable text, and True. If it is not found after `passes`
    passes, return the new ids of the most probable beginning, and False."""
    heap, seen, cache = [], [], model.new_cache()
    number = itertools.count()  # breaks ties between equally probable texts

    def push(texts):  # pushes only the first text; the loop pushes the others later
        for cost, new in itertools.islice(texts, 1):
            heapq.heappush(heap, (cost, next(number), new, texts))

    push(iter([(0.0, [])]))
    while heap:
        cost, _, new, others = heapq.heappop(heap)
        push(others)
        ended = len(new) == sequence.n_left or new and new[-1] in sequence.stop_ids
        if ended or passes == 0:
            return new, ended
        passes -= 1
        ids = sequence.ids + new
        cache.cut(common_prefix(seen, ids))
        logits, seen = advance(model, ids, cache), ids
        push(continuations(sequence.sampler.filter(logits, ids), cost, new))
    raise ValueError("no text is left: the filters removed all tokens")


def continuations(logits, cost, new):  # yields (-log P, new ids), the most probable first
    log_p = log_softmax(logits)
    for token in np.argsort(-log_p, kind="stable").tolist():
        if log_p[token] > -np.inf:
            yield cost - float(log_p[token]), [*new, token]
