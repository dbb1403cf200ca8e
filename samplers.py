"""Samplers: logits -> probabilities -> one token.

A *filter* is a function f(logits, ids) -> logits. ids is the text so far, and logits [n_vocab] are
those of the next token. To remove a token, a filter sets that logit to -inf, in a copy: it never
changes its arguments. A *sampler* applies its filters, then softmax, or one_hot if it is greedy.

    >>> logits = np.log(np.array([0.1, 0.6, 0.3], np.float32))
    >>> sampler = Sampler(temperature(0.5), top_k(2))
    >>> probabilities = sampler(logits, ids=[])
    >>> probabilities.round(3)
    array([0. , 0.8, 0.2], dtype=float32)
    >>> draw(probabilities, np.random.default_rng(seed=0))
    1
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gpt2 import softmax

Ids = list[int]  # token ids, which are indices into the vocabulary
Filter = Callable[[np.ndarray, Ids], np.ndarray]  # logits [n_vocab], the ids so far -> logits


class Sampler:
    """sampler(logits [n_vocab], ids) -> probabilities [n_vocab], which sum to 1.

    to_probs: softmax, or one_hot for greedy decoding. Raises ValueError if all tokens are removed.
    """

    def __init__(self, *filters: Filter, to_probs: Callable[[np.ndarray], np.ndarray] = softmax):
        self.filters, self.to_probs = filters, to_probs

    def filter(self, logits: np.ndarray, ids: Ids) -> np.ndarray:  # [n_vocab] -> [n_vocab]
        for f in self.filters:
            found = f(logits, ids)
            if not isinstance(found, np.ndarray) or found.shape != logits.shape:
                raise ValueError(f"a filter returned {found!r:.40}, not logits: forgot a return?")
            logits = found
        return logits

    def __call__(self, logits: np.ndarray, ids: Ids) -> np.ndarray:
        logits = self.filter(logits, ids)
        if not np.isfinite(logits.max()):
            raise ValueError("no token can be drawn: logits are not numbers, or all are removed")
        return self.to_probs(logits)


def one_hot(logits):  # [n_vocab] -> [n_vocab]: 1 for the largest logit (the first, if tied)
    probs = np.zeros_like(logits)
    probs[np.argmax(logits)] = 1
    return probs


greedy = Sampler(to_probs=one_hot)


def draw(probs: np.ndarray, rng: np.random.Generator) -> int:
    """Draw a token from probabilities [n_vocab], by inverse transform sampling.

    Return the first token whose cumulative probability exceeds u ~ U[0, 1). A token of probability
    0 is never drawn. Raises ValueError if the probabilities do not sum to 1.
    """
    cumulative = np.cumsum(probs, dtype=np.float64)
    if not abs(cumulative[-1] - 1) < 1e-3:
        raise ValueError(f"probabilities sum to {cumulative[-1]:.6g}, not to 1")
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def temperature(t: float) -> Filter:
    """Divide the logits by t. If t < 1, the distribution is sharper (Ackley et al. 1985)."""
    check(t >= 0, f"temperature is {t}, not at least 0")
    scale = np.float32(min(max(t, 1e-6), 1e6))  # outside this range, numbers could overflow
    return lambda logits, ids: logits / scale


def top_k(k: int) -> Filter:
    """Keep the k most probable tokens, and all tokens that tie with the k-th (Fan et al. 2018)."""
    check(isinstance(k, int | np.integer) and k > 0, f"top_k is {k}, not 1, 2, 3, ...")

    def keep_top_k(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        if k >= len(logits):
            return logits
        return keep(logits, logits >= np.partition(logits, -k)[-k])

    return keep_top_k


def top_p(p: float) -> Filter:
    """Keep the fewest top tokens whose P sums to p or more, and ties (Holtzman et al. 2020)."""
    check(0 <= p <= 1, f"top_p is {p}, not from 0 to 1")

    def keep_top_p(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        if p in (0, 1) or not np.isfinite(logits.max()):  # keep all, or let Sampler raise the error
            return logits
        probs = softmax(logits)
        falling = np.sort(probs[probs > 0])[::-1]  # after top-k, there are few tokens to sort
        mass = np.cumsum(falling, dtype=np.float64)
        last = np.searchsorted(mass[:-1], p - 1e-6)  # float32: the mass is off by up to 1e-6
        return keep(logits, probs >= falling[last])

    return keep_top_p


def min_p(p: float) -> Filter:
    """Keep the tokens that are at least p times as probable as the best (Nguyen et al. 2024)."""
    check(0 <= p <= 1, f"min_p is {p}, not from 0 to 1")
    least = np.float32(np.log(p) if p > 0 else -np.inf)
    return lambda logits, ids: keep(logits, logits >= logits.max() + least)


def repetition_penalty(r: float) -> Filter:
    """Make the text's tokens less likely to occur again, if r > 1. Divide their logits by r (CTRL,
    Keskar et al. 2019), but multiply negative logits by r: a division would raise them."""
    check(r > 0, f"repetition_penalty is {r}, not more than 0")

    def penalise(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        penalised, seen = logits.copy(), logits[ids]
        penalised[ids] = np.where(seen > 0, seen / r, seen * r)  # a repeated id counts once
        return penalised

    return penalise


def no_repeat_ngram(n: int) -> Filter:
    """Remove every token that would complete an n-gram already in the text (Paulus et al. 2017)."""
    check(isinstance(n, int | np.integer) and n > 0, f"no_repeat_ngram is {n}, not 1, 2, 3, ...")

    def forbid(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        if len(ids) < n:
            return logits
        ngrams = sliding_window_view(np.asarray(ids), n)  # [len(ids) - n + 1, n]
        prefix = ids[len(ids) - n + 1 :]  # the last n - 1 tokens
        return remove(logits, ngrams[(ngrams[:, :-1] == prefix).all(axis=1), -1])

    return forbid


def min_length(length: int, stop_ids: Iterable[int]) -> Filter:
    """Remove the stop ids until the text, including the prompt, has `length` tokens."""
    removed = list(stop_ids)
    return lambda logits, ids: remove(logits, removed) if len(ids) < length else logits


def check(fits, message):
    if not fits:
        raise ValueError(message)


def keep(logits, kept):  # [n_vocab], [n_vocab] bools -> [n_vocab]
    return np.where(kept, logits, np.float32(-np.inf))


def remove(logits, ids):  # [n_vocab], removed ids -> [n_vocab]
    logits = logits.copy()
    logits[ids] = -np.inf
    return logits


ORDER = repetition_penalty, no_repeat_ngram, temperature, top_k, top_p, min_p
FILTERS = {make.__name__: make for make in ORDER}


def make_sampler(first: Iterable[Filter] = (), last: Iterable[Filter] = (), **settings) -> Sampler:
    """Return a sampler with the filters in `first`, then FILTERS in their order, then `last`.

    settings: values for FILTERS, such as top_k=40. None or 0 omits a filter, but temperature=0 is
    greedy. Hard constraints, such as min_length, come `first`: after top_k, no token might be left.
    """
    if unknown := settings.keys() - FILTERS.keys():
        raise TypeError(f"no such settings: {', '.join(sorted(unknown))}")
    chain = [make(settings[name]) for name, make in FILTERS.items() if settings.get(name)]
    to_probs = one_hot if settings.get("temperature") == 0 else softmax
    return Sampler(*first, *chain, *last, to_probs=to_probs)
