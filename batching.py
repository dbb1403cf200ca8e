"""Continuous batching: sequences join a running batch and leave it, one by one.

A batch that runs until its longest text ends computes less and less: the rows of the texts that
ended are empty. Here such a row goes to the next sequence that waits. Its prompt passes through the
model by itself, in chunks, while the other rows go on; then its cache joins theirs. Yu et al. 2022,
"Orca: A Distributed Serving System for Transformer-Based Generative Models"; chunks: Agrawal et al.
2023, "SARATHI".
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from drafters import common_prefix
from generate import Sequence, draw_next
from interface import Ids, Model


def continuous(
    model: Model, sequences: Iterable[Sequence | None], max_rows: int = 8, chunk: int = 256
) -> Iterator[tuple[Sequence, int]]:
    """A loop like `cached` that runs at most max_rows sequences at once; the others wait.

    sequences: a list, or an iterator that makes them as they arrive: it is asked for the next one
    when a row is free, and gives None if none waits now. At most `chunk` tokens of a prompt pass
    between two steps of the running rows. The loop ends when no sequence runs or waits. Each
    sequence's own model has read its source, if there is one; `model` need not have read any.
    ValueError unless max_rows and chunk are at least 1.
    """
    if min(max_rows, chunk) < 1:
        raise ValueError("max_rows and chunk must be at least 1")
    waiting = (sequence for sequence in sequences if sequence is None or sequence.running)
    arriving, prefill = None, Prefill()
    rows: list[Sequence] = []
    cache: Any = None
    while True:
        if arriving is not None and not arriving.running:  # the reader of another row has ended it
            arriving = None
        if arriving is None and len(rows) < max_rows:
            arriving = next(waiting, None)
            if arriving is not None:
                prefill.begin(arriving)
        if arriving is None and not rows:
            return

        if arriving is not None and (logits := prefill.step(chunk)) is not None:
            yield from draw_next([arriving], logits)
            if arriving.running:
                if rows:
                    cache.join(prefill.cache)
                else:
                    cache = copy.deepcopy(prefill.cache)
                rows.append(arriving)
            arriving = None

        if rows:
            new = np.array([sequence.ids[-1:] for sequence in rows])  # [n_rows, 1]
            logits = model(new, cache, last=1)[:, -1]  # [n_rows, n_vocab]
            yield from draw_next(rows, logits)
            kept = [row for row, sequence in enumerate(rows) if sequence.running]
            rows = [rows[row] for row in kept]
            cache.select(kept)


class Prefill:
    """Passes one prompt after the other. Its cache, of one row, keeps the last prompt: of the next
    prompt, only what follows their common beginning passes; of an equal one, its last token."""

    def __init__(self):
        self.model: Any = None
        self.cache: Any = None
        self.ids: Ids = []

    def begin(self, sequence: Sequence) -> None:
        if sequence.model is not self.model:  # another source of an encoder-decoder
            self.model, self.cache, self.ids = sequence.model, sequence.model.new_cache(1), []
        self.cache.cut(common_prefix(self.ids, sequence.ids[:-1]))
        self.ids = list(sequence.ids)

    def step(self, chunk: int) -> np.ndarray | None:
        """Pass at most `chunk` tokens. After the last one -> its logits [1, n_vocab]."""
        begin, ids = self.cache.lengths[0], self.ids
        self.ids = ids[:begin]  # only these are kept, should the pass be interrupted
        logits = self.model(np.array([ids[begin : begin + chunk]]), self.cache, last=1)[:, -1]
        self.ids = ids
        return logits if begin + chunk >= len(ids) else None
