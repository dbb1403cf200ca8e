"""Continuous batching: texts join a running batch and leave it, one by one.

A plain batch runs until its longest text ends, while more and more of its rows become idle. A
continuous batch gives an idle row to the next waiting text. The model reads the new prompt alone,
one chunk after each step of the other rows. Then the prompt's cache becomes a row of the batch.
A server does two more things. Paging: keys and values are in blocks that any text can take, so that
no row has idle slots. Preemption: a running text is set aside for a more urgent one.

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> texts = [Sequence(model, tokenizer.encode(text), n=3) for text in ("The cat", "One day,")]
    >>> for text, token in continuous(texts):
    ...     pass  # a server would send the token to whoever waits for the text
    >>> [tokenizer.decode(text.ids) for text in texts]
    ['The cat and Ben are', 'One day, a little boy']

Yu et al. 2022, "Orca: A Distributed Serving System for Transformer-Based Generative Models";
for the chunks: Agrawal et al. 2023, "SARATHI".
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from decoding.drafters import common_prefix
from generate import Sequence, advance
from gpt2 import Cache, new_positions
from samplers import Ids, draw


def continuous(
    sequences: Iterable[Sequence | None], max_rows: int = 8, chunk: int = 256
) -> Iterator[tuple[Sequence, int]]:
    """Run many texts, at most max_rows at once; yield (sequence, token).

    sequences: a list, or an iterator, which is asked for a text when a row is free. A server's
    iterator yields None while it has none, so that the running texts go on. If none is running,
    `continuous` returns; call it again later. All texts share one model, but may have different
    sources. Its cache must be a gpt2.Cache. chunk: how many tokens of a prompt are read between
    two steps, at most."""
    if min(max_rows, chunk) < 1:
        raise ValueError("max_rows and chunk must be at least 1")
    waiting = (sequence for sequence in sequences if sequence is None or sequence.running)
    prefill, rows = Prefill(), Rows()
    running: list[Sequence] = []  # the text of each row
    while True:
        # Admit the next text, if a row is free.
        is_free = not prefill.is_busy and len(running) < max_rows
        if is_free and (sequence := next(waiting, None)):
            prefill.admit(sequence)
        if not prefill.is_busy and not running:
            return

        # Prefill: read a chunk of the prompt. After the last one, add a row.
        if prefill.is_busy and (logits := prefill.step(chunk)) is not None:
            sequence = prefill.sequence
            yield sequence, draw_next(sequence, logits)
            if sequence.running:
                running.append(sequence)
                rows.join(prefill.cache)

        # Decode: draw one token for each row.
        if running:
            new = np.array([sequence.ids[-1:] for sequence in running])  # [n_rows, 1]
            model = running[0].model  # all texts share it
            logits = model(new, rows, last=1)[:, -1]  # [n_rows, n_vocab]
            for sequence, row_logits in zip(running, logits):
                if sequence.running:  # the caller may have ended the text
                    yield sequence, draw_next(sequence, row_logits)
            rows.select([i for i, sequence in enumerate(running) if sequence.running])
            running = [sequence for sequence in running if sequence.running]


def draw_next(sequence: Sequence, logits: np.ndarray) -> int:  # [n_vocab] -> the token
    """Draw a text's next token from its logits, append it and return it."""
    probabilities = sequence.sampler(logits, sequence.ids)
    return sequence.append(draw(probabilities, sequence.rng))


class Prefill:
    """Reads the prompts one after another. The cache still contains the previous prompt. If the
    new prompt begins with the same tokens, only its other tokens are read."""

    def __init__(self):
        self.sequence: Any = None
        self.cache: Any = None
        self.ids: Ids = []

    @property
    def is_busy(self) -> bool:
        is_read = self.cache is None or self.cache.length == len(self.ids)
        return not is_read and self.sequence.running  # the caller may have ended it

    def admit(self, sequence: Sequence) -> None:
        """Prepare to read a text's prompt."""
        if self.sequence is None or sequence.model is not self.sequence.model:  # another source
            self.cache, self.ids = sequence.model.new_cache(), []
        if not isinstance(self.cache, Cache):
            raise ValueError("a custom cache cannot join a batch: run its texts one by one")
        n_same = common_prefix(self.ids, sequence.ids[:-1])
        self.cache.cut(n_same)  # these tokens need not be read again
        self.sequence, self.ids = sequence, list(sequence.ids)

    def step(self, chunk: int) -> np.ndarray | None:
        """Read at most `chunk` tokens. Return logits [n_vocab] after the last chunk, else None."""
        end = self.cache.length + chunk
        logits = advance(self.sequence.model, self.ids[:end], self.cache, chunk)
        return logits if end >= len(self.ids) else None


class Rows(Cache):
    """The caches of several texts as one batch. Row i contains length[i] tokens.

    A shorter row has unused slots at its end. The causal mask hides them, as it hides later tokens.
    """

    def __init__(self):
        self.kv: Any = None  # [2, n_layer, n_rows, n_head, n_slots, d_head]
        self.length: Any = np.zeros(0, int)
        self.source: Rows | None = None  # an encoder-decoder's sources, one per row

    def join(self, cache: Any) -> None:
        """Add a text's cache as a row."""
        if self.kv is None:
            self.kv, self.n_ctx = cache.kv[:, :, None][:, :, :0], cache.n_ctx  # no rows yet
            self.source = Rows() if hasattr(cache, "source") else None
        self.make_room(cache.length)
        row = np.zeros_like(self.kv, shape=(*self.kv.shape[:2], 1, *self.kv.shape[3:]))
        row[:, :, 0, :, : cache.length] = cache.kv[..., : cache.length, :]
        self.kv = np.concatenate([self.kv, row], axis=2)
        self.length = np.append(self.length, cache.length)
        if self.source:
            self.source.join(cache.source)

    def append(self, layer, k, v):  # 2 x [n_rows, n_head, n_new, d_head]
        n_rows, _, n_new, _ = k.shape
        positions = new_positions(n_new, self.n_ctx, self)  # [n_rows, n_new]
        n_all = positions.max() + 1
        self.make_room(n_all)
        rows = np.arange(n_rows)[:, None]
        self.kv[0, layer][rows, :, positions] = k.swapaxes(1, 2)
        self.kv[1, layer][rows, :, positions] = v.swapaxes(1, 2)
        return self.kv[:, layer, ..., :n_all, :]

    def cut(self, length):  # [n_rows], or one number for all rows
        self.length = np.minimum(self.length, length)

    def select(self, rows):
        """Keep these rows of the batch and of its sources."""
        if list(rows) != list(range(len(self.length))):
            super().select(rows)
            self.length = self.length[rows]
            if self.source:
                self.source.select(rows)
