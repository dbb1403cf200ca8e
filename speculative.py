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

from generate import Sequence, lengthen, not_cached
from interface import Drafter, Ids, Model
from samplers import Sampler, draw


def speculative(
    model: Model, sequences: list[Sequence], new_drafter: Callable[[Sequence], Drafter],
    gamma: int = 4,
) -> Iterator[tuple[Sequence, int]]:  # fmt: skip
    """A loop like `naive` and `cached`: all sequences in one pass, of which each may accept another
    number of drafts. new_drafter(sequence) gives the drafter of its text, which proposes at most
    gamma tokens per pass of the model. ValueError if it proposes more, or not a distribution for
    each."""
    cache = model.new_cache(len(sequences))
    drafters = {sequence: new_drafter(sequence) for sequence in sequences if sequence.running}
    while True:
        rows = [row for row, sequence in enumerate(sequences) if sequence.running]
        if not rows:
            return
        sequences = [sequences[row] for row in rows]
        cache.select(rows)

        # Draft. The pass itself adds one more token.
        drafts, qs = [], []
        for sequence in sequences:
            n = min(gamma, sequence.n_left - 1)
            row_drafts, row_qs = drafters[sequence].propose(list(sequence.ids), n)
            if not len(row_drafts) == len(row_qs) <= n:
                raise ValueError(f"a drafter proposed {len(row_drafts)} drafts and {len(row_qs)}"
                                 f" distributions, not at most {n} of each")  # fmt: skip
            drafts.append(list(row_drafts))
            qs.append(row_qs)

        # Verify.
        last = 1 + max(map(len, drafts))
        texts = [sequence.ids + row_drafts for sequence, row_drafts in zip(sequences, drafts)]
        logits = model(not_cached(texts, cache), cache, last=last)  # [n_rows, last, n_vocab]
        for row, sequence in enumerate(sequences):
            if not sequence.running:  # the reader of another row has ended it
                continue
            row_logits = logits[row, last - 1 - len(drafts[row]) :]  # [n_drafts + 1, n_vocab]
            ids = list(sequence.ids)
            tokens = verify(row_logits, ids, drafts[row], qs[row], sequence.sampler, sequence.rng,
                            sequence.stop_ids)  # fmt: skip
            drafters[sequence].learn(ids, drafts[row], row_logits, tokens)
            yield from lengthen(sequence, tokens)
        # The last token of a row has not been through the model yet.
        cache.cut([len(sequence.ids) - 1 for sequence in sequences])


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
    except Exception:  # of a sampler, at a later token: the next pass raises it again
        if not tokens:
            raise
        return tokens


def residual(p, q):  # [n_vocab] x 2 -> [n_vocab], not normalised: `draw` does that
    excess = np.maximum(p - q, 0)
    return excess if excess.any() else p  # p = q, except for rounding
