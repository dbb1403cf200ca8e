"""Drafters propose tokens, and the model verifies them (see speculative.py). The drafters below use
a smaller model, n-gram counts, or the text itself. `Measured` counts a drafter's accepted drafts;
`Checked` finds mistakes in a drafter of your own.

    >>> PromptLookup(n_vocab=10, n=3).propose([1, 2, 3, 4, 5, 1, 2, 3], n=2)[0]
    [4, 5]
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.random import Generator

from generate import Model, advance
from samplers import Ids, Sampler, check, draw
from speculative import Drafter


class DraftModel(Drafter):
    """Drafts with a smaller model that has the same vocabulary. sampler: the sequence's own.
    rng: its seed must not be the sequence's, so that drafting and verifying are independent."""

    def __init__(self, model: Model, sampler: Sampler, rng: Generator):
        self.model, self.sampler, self.rng = model, sampler, rng
        self.cache, self.seen = model.new_cache(), Ids()

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        drafts, qs = Ids(), []
        self.cache.cut(common_prefix(self.seen, ids))
        for _ in range(min(n, self.model.n_ctx - len(ids))):
            logits = advance(self.model, ids + drafts, self.cache)  # [n_vocab]
            logits = self.sampler.filter(logits, ids + drafts)
            if not np.isfinite(logits.max()):
                break  # the filters have removed every token
            qs.append(self.sampler.to_probs(logits))
            drafts.append(draw(qs[-1], self.rng))
            if drafts[-1] in self.model.stop_ids:
                break  # nothing follows a stop id
        self.seen = ids + drafts
        return drafts, qs


class NGramStore(Drafter):
    """Drafts the token that most often followed the longest known context. The store counts the
    k-grams (k = 2..n) of `before`, such as an encoder-decoder's source, and of the text. It also
    counts the model's best token at every position of a pass, even after a rejected draft (ANPD,
    Ou et al. 2024). One store may serve many prompts."""

    def __init__(self, n_vocab: int, n: int = 3, before: Iterable[int] = ()):
        self.n_vocab, self.n = n_vocab, n
        self.counts: dict[tuple, Counter] = defaultdict(Counter)
        self.seen = Ids()
        self.read(list(before))

    def count(self, ids, token):
        for size in range(1, min(self.n - 1, len(ids)) + 1):
            self.counts[tuple(ids[-size:])][token] += 1

    def read(self, ids: Ids) -> None:
        """Count the k-grams of ids, except those that the previous call counted."""
        for i in range(max(1, common_prefix(self.seen, ids)), len(ids)):
            self.count(ids[max(0, i - self.n) : i], ids[i])
        self.seen = list(ids)

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        self.read(ids)
        drafts = Ids()
        while len(drafts) < n and (token := self.next(ids + drafts)) is not None:
            drafts.append(token)
        return drafts, one_hots(drafts, self.n_vocab)

    def next(self, ids: Ids) -> int | None:
        """Return the token that most often followed the longest known end of ids, or None."""
        for size in range(min(self.n - 1, len(ids)), 0, -1):
            if successors := self.counts.get(tuple(ids[-size:])):
                return max(successors, key=successors.__getitem__)
        return None

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray, tokens: Ids) -> None:
        for i, row in enumerate(logits):
            self.count(ids[-self.n :] + drafts[:i], int(row.argmax()))


class PromptLookup(Drafter):
    """Finds the longest end of the text, up to n tokens, that also occurs earlier in the text or in
    `before` (a source). Drafts what followed it the last time (Saxena 2023: the first time)."""

    def __init__(self, n_vocab: int, n: int = 3, before: Iterable[int] = ()):
        self.n_vocab, self.n, self.before = n_vocab, n, list(before)

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        text = self.before + ids
        for size in range(min(self.n, len(text) - 1), 0, -1):
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == text[-size:]:
                    found = text[start + size :]
                    drafts = [found[i % len(found)] for i in range(n)]  # repeats a short `found`
                    return drafts, one_hots(drafts, self.n_vocab)
        return [], []


class Checked(Drafter):
    """Wraps a drafter that may have mistakes. Raises ValueError if it proposes more than n drafts,
    or an invalid draft or q. It gets copies of the text, so that it cannot change it."""

    def __init__(self, drafter: Any, n_vocab: int):
        self.drafter, self.n_vocab = drafter, n_vocab

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        drafts, qs = self.drafter.propose(list(ids), n)
        found = f"{len(drafts)} drafts and {len(qs)} distributions"
        fits = len(drafts) == len(qs) <= n
        check(fits, f"a drafter proposed {found}, not at most {n} of each")
        for x, q in zip(drafts, qs):
            fits = 0 <= x < self.n_vocab
            check(fits, f"a drafter proposed token {x}: ids are 0 to {self.n_vocab - 1}")
            fits = isinstance(q, np.ndarray) and q.shape == (self.n_vocab,)
            check(fits, f"a drafter's q (array) has the shape {np.shape(q)}, not ({self.n_vocab},)")
            found = f"least {q.min():.4g}, sum {q.sum():.4g}, at the draft {q[x]:.4g}"
            fits = q.min() >= 0 and abs(q.sum() - 1) < 1e-3 and q[x] > 0  # also refuses NaN
            check(fits, f"a drafter's q is not the distribution of its draft {x}: {found}")
        return drafts, qs

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray, tokens: Ids) -> None:
        if hasattr(self.drafter, "learn"):
            self.drafter.learn(list(ids), list(drafts), logits, list(tokens))


class Measured(Drafter):
    """Wraps a drafter and counts its drafts over all passes of the model. Drafts after a rejected
    one are not tested. All tokens of a pass count, even those after the end of the text."""

    def __init__(self, drafter: Drafter):
        self.drafter = drafter
        self.tested = self.accepted = self.tokens = self.passes = 0

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        return self.drafter.propose(ids, n)

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray, tokens: Ids) -> None:
        accepted = common_prefix(drafts, tokens)
        self.accepted += accepted
        self.tested += min(accepted + 1, len(drafts), len(tokens))
        self.tokens += len(tokens)
        self.passes += 1
        if hasattr(self.drafter, "learn"):
            self.drafter.learn(ids, drafts, logits, tokens)

    @property
    def tokens_per_pass(self) -> float:
        """Return the measured number of tokens per pass of the model."""
        return self.tokens / max(1, self.passes)


def one_hots(drafts: Ids, n_vocab: int) -> list[np.ndarray]:
    """Return a one-hot q [n_vocab] for each draft, for drafts that were not drawn at random."""
    qs = np.zeros((len(drafts), n_vocab), np.float32)
    qs[range(len(drafts)), drafts] = 1
    return list(qs)


def common_prefix(a: Ids, b: Ids) -> int:
    """Return how many leading tokens two sequences share."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
