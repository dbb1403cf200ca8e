"""Speculative decoding: a cheap drafter proposes tokens, the model verifies them all in one pass.

A pass over gamma + 1 tokens reads every weight once, as a pass over one token does: where reading
the weights dominates, it costs little more. The acceptance rule keeps the model's own distribution
exactly, for any drafter and any sampler (greedy is a one-hot distribution, without another rule).
Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"; Chen et al.
2023. The letters are theirs: p is the model's distribution of a token, q the drafter's.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator

from generate import Sequence
from interface import Drafter, Ids, Model
from samplers import Sampler, draw


def speculative(
    model: Model, sequences: list[Sequence], new_drafter: Callable[[Sequence], Drafter],
    gamma: int = 4,
) -> Iterator[tuple[Sequence, int]]:  # fmt: skip
    """A loop like `naive` and `cached`, but one sequence after the other. new_drafter(sequence)
    gives the drafter of its text, which proposes at most gamma tokens per pass of the model."""
    for row, sequence in enumerate(sequences):
        if not sequence.running:
            continue
        drafter, cache = new_drafter(sequence), model.new_cache(len(sequences))
        cache.select([row])  # an encoder-decoder's cache holds a source per row
        while sequence.running:
            ids = list(sequence.ids)
            # Draft. The pass itself adds one more token.
            drafts, qs = drafter.propose(ids, min(gamma, sequence.n_left - 1))
            # Verify.
            new = np.array([ids[cache.length :] + drafts])  # [1, n_new]
            logits = model(new, cache, last=len(drafts) + 1)[0]  # [len(drafts) + 1, n_vocab]
            tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng,
                            sequence.stop_ids)  # fmt: skip
            drafter.learn(ids, drafts, logits, tokens)
            for token in tokens:
                if sequence.running:  # its reader may have ended it
                    sequence.append(token)
                    yield sequence, token
            cache.cut(len(sequence.ids) - 1)  # the last token has not been through the model yet


def verify(
    logits: np.ndarray, ids: Ids, drafts: Ids, qs: list[np.ndarray], sampler: Sampler,
    rng: Generator, stop_ids: Ids | tuple = (),
) -> Ids:  # fmt: skip
    """The tokens that replace the drafts, distributed as if drawn from p one by one.

    Accept draft x ~ q with probability min(1, p(x) / q(x)); at the first rejection draw from the
    excess of p over q, norm(max(0, p - q)), and stop; if all pass, draw one more from p. Nothing
    follows a stop id.
    """
    tokens: Ids = []
    try:
        for draft, q in zip(drafts, qs):
            p = sampler(logits[len(tokens)], ids + tokens)  # [n_vocab]
            if rng.random() * q[draft] >= p[draft]:  # reject if u >= p / q (q may be 0)
                return [*tokens, draw(residual(p, q), rng)]
            tokens.append(draft)
            if draft in stop_ids:
                return tokens
        p = sampler(logits[-1], ids + tokens)
        return [*tokens, draw(p, rng)]
    except Exception:  # of a sampler: raised again only if the text gets as far
        if not tokens:
            raise
        return tokens


def residual(p, q):  # [n_vocab] x 2 -> [n_vocab], not normalised: `draw` does that
    excess = np.maximum(p - q, 0)
    return excess if excess.any() else p  # p = q, except for rounding
