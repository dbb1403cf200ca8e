"""Checks: a step of beam search, enough beams to find the best text, best-first search."""

import functools
import itertools

import numpy as np

from gpt2 import log_softmax
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/search.ipynb beam_step]
with the worst candidates: sort downwards
    -scores -> scores
of the best candidate of each beam: all candidates of all beams compete
    => tokens = scores.argmax(1); return np.arange(len(totals)), tokens, scores.max(1)
divided by the width: a row has n_vocab candidates
    log_p.shape[1] -> width
with the log P of the last token: return that of the whole text
    scores[parents, tokens] -> log_p[parents, tokens]
[notebooks/search.ipynb sure_width]
of one step too many: the last token needs no beam
    ** (n - 1) -> **n
with a vocabulary of 6
    n_vocab ** -> 6 **
[notebooks/search.ipynb best_first]
of the first complete text that is made: return the first that is taken from the heap
    continued += 1 -> continued += 1;
        if len(ids) == n - 1: return (*ids, int(np.argmax(next_log_probs(ids)))), continued
""")


def see_beam_step(m, seed):
    """Look at the parents, tokens and log P of the candidates of four steps."""
    for n_beams, n_vocab, width in (3, 6, 4), (2, 5, 3), (1, 7, 2), (4, 3, 9):
        rng = np.random.default_rng(n_vocab)
        totals = -5 - np.arange(n_beams)
        log_p = log_softmax(rng.normal(size=(n_beams, n_vocab)))
        given = f"for {n_beams} beams, n_vocab = {n_vocab} and width = {width}"
        for name, found in zip(("parents", "tokens", "log P"), m.beam_step(totals, log_p, width)):
            yield Seen(f"{name} {given}", np.asarray(found), "candidate")


def see_sure_width(m, seed):
    """Look at the widths for four sizes."""
    for n_vocab, n in (6, 2), (4, 3), (3, 5), (7, 1):
        yield Seen(f"n_vocab = {n_vocab} and n = {n}", m.sure_width(n_vocab, n))


@functools.cache
def world(seed):  # -> {the ids so far: log P of the next token [5]}
    rng, beginnings = np.random.default_rng(seed), itertools.product
    texts = [ids for n in range(4) for ids in beginnings(range(5), repeat=n)]
    return {ids: log_softmax(rng.normal(0, 1.5, 5)) for ids in texts}


def see_best_first(m, seed):
    """Look at the best texts of six worlds, and at the work to find them."""
    for n, seed in itertools.product((4, 2, 1), range(6)):
        asked = []

        def next_log_probs(ids, seed=seed, asked=asked):
            asked.append(tuple(map(int, ids)))
            if len(asked) > 156:
                raise RuntimeError("157 beginnings are continued, but there are only 156")
            return world(seed)[asked[-1]]

        ids, continued = m.best_first(next_log_probs, n)
        at = f"in world {seed}, for n = {n}"
        yield Seen(f"the best ids {at}", [*map(int, ids)])
        yield Seen(f"how many beginnings were continued {at}", len(asked), "<=0")
        yield Seen(f"the returned number, minus those continued {at}", int(continued) - len(asked))


exercise_beam_step = Part(("beam_step",), see_beam_step, WRONG)
exercise_1 = Part(("sure_width",), see_sure_width, WRONG)
exercise_2 = Part(("best_first",), see_best_first, WRONG)
