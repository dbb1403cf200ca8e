"""The candidates of each token, for sliders in a browser: logits, what filters change, the rest."""

import functools
from collections.abc import Callable

import numpy as np

SLIDERS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # no change
N_EXTRA = 12  # stored tokens for sure: the token that came, and the model's own best


def candidates(logits, sequence, temperatures, n):  # [n_rows, n_vocab] -> arrays [n_rows, ...]
    """Return what a browser needs to redo each row's sampling as its sliders move. best: n ids, the
    best after the filters before the sliders', N_EXTRA among them; logits: theirs; first, last: the
    changes by the filters before and after the sliders' (-inf: removed); by: which filter removed
    it, from 1, or 0. All other tokens together have rest, log sum exp((logit - best) / T) for each
    temperature, and left, the share of their probability that the last filters leave."""
    names = filter_names(sequence.sampler)
    filters = [*enumerate(sequence.sampler.filters, 1)]
    with_slider = [i for i, name in enumerate(names) if name in SLIDERS] or [len(names)]
    before, middle = filters[: with_slider[0]], filters[with_slider[0] : with_slider[-1] + 1]
    rows = []
    for i, row in enumerate(logits):
        ids, by = sequence.ids[: i + 1], np.zeros(len(row), np.uint8)
        first, add, left = row, np.zeros_like(row), 1.0
        if len(ids) >= sequence.n_prompt:  # the sampler chose the next token
            first = apply(before, row, ids, by)
            cut = apply(middle, first, ids, by.copy())
            last = apply(filters[with_slider[-1] + 1 :], cut, ids, by)
            with np.errstate(invalid="ignore"):  # inf - inf
                add = np.where(last == cut, 0, last - cut)
        stored = choose(row, first, sequence.ids[i + 1], n)
        if add.any():
            odds = np.exp(np.delete(cut - cut.max(), stored))
            left = (odds * np.exp(np.delete(add, stored))).sum() / max(odds.sum(), 1e-30)
        others = np.delete(first - first.max(), stored)
        with np.errstate(divide="ignore"):  # log 0: a small vocabulary has no others
            rest = [np.log(np.exp(others / np.float32(t)).sum()) for t in temperatures]
        found = (x[stored] for x in (row, first - row, add, by))
        rows.append((stored, *found, rest, left))
    columns = ("best", "logits", "first", "last", "by", "rest", "left")
    return {name: np.array(column) for name, column in zip(columns, zip(*rows))}


def filter_names(sampler) -> list[str]:
    """Return each filter's function or class: no_repeat_ngram for samplers.no_repeat_ngram(3)."""
    plain = [f.func if isinstance(f, functools.partial) else f for f in sampler.filters]
    return [getattr(f, "__qualname__", type(f).__name__).split(".")[0] for f in plain]


def apply(filters: list[tuple[int, Callable]], logits, ids, by):  # [n_vocab] -> same
    """Apply numbered filters in turn; by [n_vocab] gets the number of a token's remover."""
    for number, f in filters:
        after = f(logits, ids)
        by[np.isneginf(after) & ~np.isneginf(logits)] = number
        logits = after
    return logits


def choose(row, filtered, came, n):  # [n_vocab] x 2 -> n ids
    """Return the best after the filters, with the token that came and the model's own best."""
    best = top(filtered, n)
    must = [came, *top(row, N_EXTRA - 1)]
    return [*dict.fromkeys([*best[: max(0, n - N_EXTRA)], *must, *best])][:n]


def top(logits, n):  # [n_vocab] -> the n best ids, best first, ties in order
    some = np.flatnonzero(logits >= np.partition(logits, -n)[-n]) if n < len(logits) else None
    some = np.arange(len(logits)) if some is None else some
    return some[np.argsort(-logits[some], kind="stable")][:n].tolist()
