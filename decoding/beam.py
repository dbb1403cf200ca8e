"""Beam search looks for the likeliest whole text, not for the likeliest next token.

Greedy decoding misses a likely text that begins with a less likely token:

    >>> from generate import generate
    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> ids = tokenizer.encode("Tom and Sam")
    >>> tokenizer.decode(generate(model, ids, n=5))  # " were" has 60 %, all five tokens 12 %
    ' were twins who liked to'
    >>> best, *others = beam_search(model, ids, n=5, width=3)
    >>> tokenizer.decode(best.ids)  # " are" has 32 %, all five tokens 23 %
    ' are friends. They like'
    >>> round(best.log_probability, 2)  # log 0.23
    -1.47

So the search keeps the `width` best beginnings (beams) at once. Each step continues every beam with
every token: that makes width x n_vocab candidates. Of the best, those that end are finished texts,
and the first `width` others are the new beams. Finished texts are ranked by their score, which is
log P(tokens) / n_tokens ** length_penalty. Lowerre 1976, "The HARPY Speech Recognition System".
Where implementations differ, this code follows transformers 5. It leaves out beam sampling, groups
of diverse beams, and constraints.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from generate import advance, check_prompt
from gpt2 import log_softmax
from samplers import Filter, Ids, Sampler, check


class Hypothesis(NamedTuple):
    """A finished text, which ends at a stop id, where `ends` says so, or is as long as allowed."""

    ids: Ids  # the new tokens, including a stop id
    log_probability: float  # the sum of the tokens' log P, after the filters
    score: float  # log_probability / n ** length_penalty (Wu et al. 2016: (5 + n) / 6 for n)


class Candidate(NamedTuple):
    """A beam with one more token. Its status is "kept", "finished" or "dropped"."""

    parent: int  # the index of the beam that it continues
    ids: tuple  # all new tokens
    log_probability: float
    status: str


def beam_search(
    model: Any,
    prompt: Ids,
    n: int,
    width: int = 4,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    n_return: int = 1,
    filters: Collection[Filter] = (),
    trace: list | None = None,
    ends: Callable[[Ids], bool] = lambda ids: False,
) -> list[Hypothesis]:
    """Return the n_return best texts of up to n new ids, best first; fewer if fewer exist.

    filters: they change the log-probabilities, which are not normalised again. length_penalty: 0
    ranks by the sum of log P, 1 by the average; a larger value favours long texts. early_stopping:
    True stops at `width` finished texts. False continues while the best beam would score better
    than the worst of them if it ended now. "never" continues while it could score better if it
    reached n tokens without losing probability (now, if length_penalty <= 0). trace: a list
    that receives each step's candidates. ends: ends(new ids) is true where a text ends, besides a
    stop id. The model's cache needs a method `select`, as gpt2.Cache has."""
    check_prompt(prompt, model.n_vocab, model.n_ctx - 1)
    check_settings(n, width, length_penalty, early_stopping, n_return)
    n = min(n, model.n_ctx - len(prompt))
    beams, finished, cache = [Candidate(0, (), 0.0, "kept")], [], model.new_cache(1)

    def is_end(ids):  # step n ends all texts
        return len(ids) == n or ids[-1] in model.stop_ids or ends(ids)

    for length in range(1, n + 1):
        texts = [[*prompt, *beam.ids] for beam in beams]
        totals = summed_log_probs(advance(model, texts, cache), beams, texts, filters)
        step = rank(totals, beams, len(model.stop_ids), width, is_end)
        if trace is not None:
            trace.append(step)
        beams = [c for c in step if c.status == "kept"]
        finished += [hypothesis(c, length_penalty) for c in step if c.status == "finished"]
        finished = sorted(finished, key=lambda h: -h.score)[:width]
        if not beams:
            break
        if len(finished) == width:
            later = n if early_stopping == "never" and length_penalty > 0 else length
            hope = beams[0].log_probability / later**length_penalty
            if early_stopping is True or hope <= finished[-1].score:
                break
        cache.select([beam.parent for beam in beams])
    check(finished, "no text is left: all tokens are removed, or logits are not numbers")
    return finished[:n_return]


def hypothesis(candidate, length_penalty):
    """Return a finished candidate with its score."""
    score = candidate.log_probability / len(candidate.ids) ** length_penalty
    return Hypothesis([*candidate.ids], candidate.log_probability, score)


def check_settings(n, width, length_penalty, early_stopping, n_return):
    """Raise ValueError for a setting of `beam_search` that has no meaning."""
    fits = 1 <= n_return <= width and n >= 1
    check(fits, f"n={n} is below 1, or n_return={n_return} is not from 1 to width={width}")
    fits = type(early_stopping) is bool or early_stopping == "never"
    check(fits, f"early_stopping is {early_stopping!r}, not True, False or 'never'")
    check(abs(length_penalty) <= 50, f"length_penalty is {length_penalty}, not from -50 to 50")


def summed_log_probs(logits, beams, texts, filters):  # [n_beams, n_vocab] -> same
    """Return log P of each beam followed by each token, after the filters."""
    totals = log_softmax(logits)
    for row, (beam, ids) in enumerate(zip(beams, texts)):
        totals[row] = Sampler(*filters).filter(totals[row], ids) + beam.log_probability
    return totals


def rank(totals, beams, n_stop_ids, width, is_end):  # totals [n_beams, n_vocab]
    """Return the best candidates, best first: enough to keep `width` beams, even if all stop ids
    rank higher. A candidate that ends is "finished" if it is among the first `width`, else
    "dropped". The first `width` others are "kept"."""
    n_candidates = max(2, 1 + n_stop_ids) * width
    step, n_kept = [], 0
    for place, index in enumerate(top_indices(totals.ravel(), n_candidates).tolist()):
        row, token = divmod(index, totals.shape[1])
        ids = (*beams[row].ids, token)
        if is_end(ids):
            status = "finished" if place < width else "dropped"
        else:
            status = "kept" if n_kept < width else "dropped"
            n_kept += status == "kept"
        step.append(Candidate(row, ids, float(totals[row, token]), status))
    return step


def top_indices(x, k):  # [n] -> the indices of the k largest, largest first, ties in order
    indices = np.flatnonzero(x > -np.inf)  # a token that a filter removed is not a candidate
    if len(indices) > k:  # partition first: sorting all of x would take 10 times as long
        indices = indices[x[indices] >= np.partition(x[indices], -k)[-k]]
    return indices[np.argsort(-x[indices], kind="stable")][:k]
