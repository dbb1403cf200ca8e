"""Beam search: the likeliest whole text, not the likeliest next token.

Greedy decoding can walk past a good sequence that begins with an unlikely token. Beam search keeps
the `width` best beginnings (beams) at once: at each step every beam is continued by every token,
and of these width x n_vocab candidates the best go on. A beam that ends is set aside, and all that
ended compete by their score, log P(tokens) / n_tokens ** length_penalty. Lowerre 1976, "The HARPY
Speech Recognition System"; where implementations differ, this follows transformers 5.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from generate import not_cached
from gpt2 import log_softmax
from interface import Filter, Ids, Model


class Hypothesis(NamedTuple):
    """A sequence that ended: at a stop id, or as long as allowed."""

    ids: Ids  # the new tokens, the stop id included
    log_probability: float  # log P(ids), the sum over its tokens after the filters
    score: float


class Candidate(NamedTuple):
    """A beam and one more token, and its status: kept, finished, or dropped."""

    parent: int  # index of its beam in the previous step
    ids: tuple  # the new tokens
    log_probability: float
    status: str


def beam_search(
    model: Model, prompt: Ids, n: int, width: int = 4, length_penalty: float = 1.0,
    early_stopping: bool | str = False, n_return: int = 1, filters: Collection[Filter] = (),
    trace: list | None = None,
) -> list[Hypothesis]:  # fmt: skip
    """Up to n new ids -> a list of the n_return best Hypothesis, best first; fewer if fewer exist.

    prompt: a list of ids (an encoder-decoder's: the first ids of its decoder). filters change the
    log-probabilities, which are not normalised again. length_penalty: 0 compares sums, 1 means,
    more favours long sequences. early_stopping: True stops with `width` finished sequences; False
    when the best running beam, scored at its current length, beats no finished one; "never" scores
    it as if it had n tokens (an upper bound). trace: a list that gets each step's Candidates.
    ValueError for settings that make no sense, or if the filters leave no sequence.
    """
    check(model, prompt, n, width, early_stopping, n_return)
    search = Search(model, prompt, n, width, length_penalty, early_stopping, filters, trace)
    run_together(model, [search])
    return search.hypotheses(n_return)


def check(model, prompt, n, width, early_stopping, n_return):  # ValueError if not possible
    if min(n, width, n_return) < 1:
        raise ValueError("n, width and n_return must be at least 1")
    if n_return > width:
        raise ValueError(f"{width} beams cannot return {n_return} sequences: raise width")
    if early_stopping not in (True, False, "never"):
        raise ValueError(f'early_stopping is True, False or "never", not {early_stopping!r}')
    if not 1 <= len(prompt) < model.n_ctx:
        raise ValueError(f"a prompt of {len(prompt)} tokens: 1 to {model.n_ctx - 1} are possible")


def run_together(model: Model, searches: "list[Search]") -> None:
    """Search for several prompts at once: the beams of all are the rows of one batch."""
    cache = model.new_cache(len(searches))
    rows = [row for row, search in enumerate(searches) if search.beams]
    while rows:
        cache.select(rows)
        searches = [search for search in searches if search.beams]
        texts = [[*search.prompt, *beam.ids] for search in searches for beam in search.beams]
        logits = model(not_cached(texts, cache), cache, last=1)[:, -1]  # [n_rows, n_vocab]
        rows, first = [], 0
        for search in searches:
            n_beams = len(search.beams)
            search.step(logits[first : first + n_beams])
            rows += [first + beam.parent for beam in search.beams]
            first += n_beams


class Search:
    """The search for one text: `beams` go on (none: the search is over), `finished` ended."""

    def __init__(
        self, model: Model, prompt: Ids, n: int, width: int, length_penalty: float,
        early_stopping: bool | str, filters: Collection[Filter] = (), trace: list | None = None,
    ):  # fmt: skip
        self.prompt, self.n = prompt, min(n, model.n_ctx - len(prompt))
        self.width, self.length_penalty = width, length_penalty
        self.early_stopping, self.filters, self.trace = early_stopping, filters, trace
        self.stop_ids, self.n_vocab = model.stop_ids, model.n_vocab
        self.beams = [Candidate(0, (), 0.0, "kept")] if self.n > 0 else []
        self.finished: list[Hypothesis] = []

    def step(self, logits: np.ndarray) -> None:  # [n_beams, n_vocab]
        """Continue every beam by every token; the best go on."""
        length = len(self.beams[0].ids) + 1
        totals = summed_log_probs(logits, self.beams, self.prompt, self.filters)
        # `width` candidates go on, even if every stop id of every beam ranks above them.
        n_candidates = max(2, 1 + len(self.stop_ids)) * self.width
        ends = self.stop_ids if length < self.n else range(self.n_vocab)  # at last, every token
        step = rank(totals, self.beams, n_candidates, self.width, ends)
        if self.trace is not None:
            self.trace.append(step)
        self.beams = [c for c in step if c.status == "kept"]
        ended = [hypothesis(c, self.length_penalty) for c in step if c.status == "finished"]
        best = sorted(self.finished + ended, key=lambda h: -h.score)  # among ties the earlier ones
        self.finished = best[: self.width]
        if self.beams and self.is_decided(length):
            self.beams = []

    def is_decided(self, length: int) -> bool:
        """True if no running beam can still displace one of the `width` finished sequences."""
        if len(self.finished) < self.width:
            return False
        if self.early_stopping is True:
            return True
        to_the_end = self.early_stopping == "never" and self.length_penalty > 0
        reach = self.n if to_the_end else length
        best = score(self.beams[0].log_probability, reach, self.length_penalty)
        return best <= self.finished[-1].score

    def hypotheses(self, n_return: int) -> list[Hypothesis]:
        """The n_return best that were found. ValueError if there is none."""
        if not self.finished:
            raise ValueError(
                "no sequence is left: all tokens are removed, or logits are not numbers"
            )
        return self.finished[:n_return]


def summed_log_probs(logits, beams, prompt, filters):  # [n_beams, n_vocab] -> the same
    """log P of each beam continued by each token."""
    totals = log_softmax(logits)
    for row, beam in enumerate(beams):
        ids = [*prompt, *beam.ids]
        for f in filters:
            totals[row] = f(totals[row], ids)
        totals[row] += beam.log_probability
    return totals


def rank(totals, beams, n_candidates, width, ends):
    """[n_beams, n_vocab] -> the n_candidates best, best first. One that ends is finished if it is
    among the first `width`; of those that go on, the first `width` are kept."""
    step, n_kept = [], 0
    for place, index in enumerate(top_indices(totals.ravel(), n_candidates).tolist()):
        row, token = divmod(index, totals.shape[1])
        if token in ends:
            status = "finished" if place < width else "dropped"
        else:
            status = "kept" if n_kept < width else "dropped"
            n_kept += status == "kept"
        ids = (*beams[row].ids, token)
        step.append(Candidate(row, ids, float(totals[row, token]), status))
    return step


def top_indices(x, k):  # [n] -> the indices of the k largest, largest first, among ties the first
    indices = np.flatnonzero(x > -np.inf)  # a token that a filter removed is not a candidate
    if len(indices) > k:  # a partition, because sorting all takes 10 times as long
        indices = indices[x[indices] >= np.partition(x[indices], -k)[-k]]
    return indices[np.argsort(-x[indices], kind="stable")][:k]


def hypothesis(candidate, length_penalty):  # Candidate -> Hypothesis
    ids, log_probability = list(candidate.ids), candidate.log_probability
    return Hypothesis(ids, log_probability, score(log_probability, len(ids), length_penalty))


def score(log_probability: float, length: int, length_penalty: float) -> float:
    """By the plain length, as in transformers; Wu et al. 2016: ((5 + length) / 6) ** penalty."""
    return log_probability / length**length_penalty
