"""Speculative decoding: a cheap drafter proposes tokens, and the model verifies all in one pass.

A pass reads each weight once, whether it runs over one token or gamma + 1. If reading the weights
takes most of the time, more tokens cost little. The acceptance rule preserves the model's own
distribution exactly, for any drafter and any sampler. It also holds for greedy decoding, with
one-hot distributions. As in Leviathan et al. 2023, "Fast Inference from Transformers via
Speculative Decoding", p is the model's distribution and q the drafter's. See also Chen et al. 2023.

    >>> from decoding.drafters import PromptLookup
    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> sequence = Sequence(model, tokenizer.encode("Lily and Ben. Lily and"), n=8)
    >>> tokenizer.decode(speculative(model, sequence, PromptLookup(model.n_vocab)))
    ' Ben were playing in the park. They'
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from generate import Model, Sequence, advance
from samplers import Ids, draw


class Drafter(Protocol):
    """Proposes tokens that may come next. Only `propose` is required."""

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        """Return at most n drafts to follow ids, and each draft's distribution q [n_vocab]."""

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray, tokens: Ids) -> None:
        """Learn from a pass. logits [len(drafts) + 1, n_vocab]: the model's logits after ids and
        after each draft. tokens: the accepted drafts, then the model's own token, if any."""
        return None


def speculative(
    model: Model, sequence: Sequence, drafter: Drafter, gamma: int = 4
) -> Iterator[int]:
    """Yield tokens as `naive` and `cached` do, but up to gamma + 1 tokens per pass of the model."""
    cache = model.new_cache()
    if sequence.running and len(sequence.ids) > 1:
        advance(model, sequence.ids[:-1], cache)  # the last token is read along with the drafts
    while sequence.running:
        # Draft tokens, leaving room for one token by the model itself.
        ids, n = list(sequence.ids), min(gamma, sequence.n_left - 1)
        drafts, qs = drafter.propose(ids, n)

        # Run the model once, over the last token and all drafts: logits [n_drafts + 1, n_vocab].
        logits = model(np.array([ids[-1], *drafts]), cache)

        # Accept or replace drafts, and cut the rejected ones from the cache.
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng, sequence.stop_ids)
        if hasattr(drafter, "learn"):
            drafter.learn(ids, drafts, logits, tokens)
        for token in tokens:
            if sequence.running:  # the caller may have ended the text
                yield sequence.append(token)
        cache.cut(len(sequence.ids) - 1)


def verify(logits, ids, drafts, qs, sampler, rng, stop_ids=()):
    """Return the accepted drafts and one more token, as if all had been drawn from p one by one.

    logits [n_drafts + 1, n_vocab]: those after ids and after each draft; qs [n_drafts, n_vocab].
    Accept a draft x ~ q with probability min(1, p(x) / q(x)). At the first rejection, draw from
    norm(max(0, p - q)) and stop. If all are accepted, draw one from p. Nothing follows a stop id.
    """
    tokens = []
    for x, q in zip(drafts, qs):
        p = sampler(logits[len(tokens)], ids + tokens)  # [n_vocab]
        if rng.random() * q[x] >= p[x]:  # reject, because u >= p(x) / q(x)
            return [*tokens, draw(residual(p, q), rng)]
        tokens.append(x)
        if x in stop_ids:
            return tokens
    p = sampler(logits[-1], ids + tokens)
    return [*tokens, draw(p, rng)]


def residual(p, q):  # [n_vocab] x 2 -> [n_vocab]: norm(max(0, p - q))
    excess = np.maximum(p - q, 0)
    return excess / excess.sum() if excess.any() else p  # if all are 0, p = q up to rounding
