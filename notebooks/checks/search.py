"""Checks: enough beams to find the best text, best-first search, a consensus."""

import itertools

import lessons
import numpy as np

from decoding.beam import beam_search
from gpt2 import log_softmax

N_VOCAB, PROMPT = 6, [0]


def of_all(model, n):
    """Return {ids: log P} for all texts of n tokens."""
    texts = list(itertools.product(range(N_VOCAB), repeat=n))
    ids = np.hstack([np.tile(PROMPT, (len(texts), 1)), np.array(texts)])
    log_p = log_softmax(model(ids[:, :-1]))
    sums = np.take_along_axis(log_p, ids[:, 1:, None], axis=-1).sum(axis=(1, 2))
    return dict(zip(texts, sums))


def exercise_1(sure_width):
    """Check sure_width(n_vocab, n) -> the fewest beams that always find the best text."""
    assert sure_width(N_VOCAB, 2) is not None, "write sure_width"
    for n in (1, 2, 3):
        width, needed = sure_width(N_VOCAB, n), N_VOCAB ** (n - 1)
        assert width >= needed, f"for n = {n}, {width} beams can miss the best text"
        assert width <= needed, f"for n = {n}, {width} beams are more than necessary"
    assert sure_width(4, 3) == 16, f"with a vocabulary of {N_VOCAB} this is right, but not with 4"
    for model in (lessons.tiny_model(N_VOCAB, seed) for seed in range(10)):
        best = beam_search(model, PROMPT, 3, width=sure_width(N_VOCAB, 3))[0]
        missed = max(of_all(model, 3).values()) - best.log_probability
        assert abs(missed) < 1e-4, f"with this width, beam search ends {missed:.3f} nats too low"


def exercise_2(best_first):
    """Check best_first(next_log_probs, n) -> (the best n ids, the number of continued beginnings).

    next_log_probs(ids) -> log P of each next token, [n_vocab].
    """
    # With some of these models, the first complete text that gets onto the heap is not the best.
    for seed in (128, 1, 19, 23, 26, 29, 42):
        model, asked = lessons.tiny_model(N_VOCAB, seed), set()

        def next_log_probs(ids, model=model, asked=asked):
            asked.add(tuple(ids))
            return log_softmax(model(np.array([*PROMPT, *ids]), last=1)[-1])

        answer = best_first(next_log_probs, 4)
        assert answer is not None, "write best_first"
        ids, continued = answer
        texts, n_beginnings = of_all(model, 4), sum(N_VOCAB**i for i in range(4))
        assert len(ids) == 4, f"the returned text is not complete: it has {len(ids)} of 4 tokens"
        missed = max(texts.values()) - texts[tuple(map(int, ids))]
        assert missed < 1e-4, (
            f"the text is {missed:.3f} nats below the optimum: return the first complete text that"
            " is *taken* from the heap"
        )
        assert continued == len(asked), f"{len(asked)} beginnings were continued, not {continued}"
        assert continued < n_beginnings / 2, (
            f"you tried nearly everything, {continued} of {n_beginnings} beginnings: take the most"
            " probable one from the heap"
        )


def exercise_3(consensus):
    """Check consensus(texts) -> the index of the text (a list of ids) most like the others."""
    texts = [[7, 8, 9], [1, 2, 4], [1, 2, 3], [1, 2, 3, 4]]
    assert consensus(texts) is not None, "write consensus"
    assert np.ndim(consensus(texts)) == 0, "return an index, not a text"
    assert consensus(texts) == 2, f"of {texts}, a different text is most like the others"
    uneven = [[1, 4, 1, 1, 3], [4, 1], [1, 1, 2], [1, 1, 1]]
    assert consensus(uneven) == 3, f"of {uneven}, the last one is best: what do you divide by?"
    repeated = [[1, 2, 1, 2, 1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert consensus(repeated) == 1, (
        f"{repeated[1]} is best of {repeated}: is (1, 2) counted twice?"
    )
    groups = [[1, 2]] * 2 + [[3, 4]] * 3
    assert consensus(groups) >= 2, f"of {groups}, one of the last three is most like the others"
