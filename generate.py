"""Generate text one token at a time: the two loops, and the sequences that they lengthen.

On the command line: python generate.py "Once upon a time"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from interface import Cache, Ids, Model
from samplers import Sampler, draw, greedy


def naive(model: Model, sequences: list[Sequence]) -> Iterator[tuple[Sequence, int]]:
    """The definition: run the model over the whole sequence so far, draw the next token, append it,
    repeat. Yields (sequence, token)."""
    while any(sequence.running for sequence in sequences):
        ids = left_pad([sequence.ids for sequence in sequences])  # [n_rows, n_seq]
        logits = model(ids, last=1)[:, -1]  # [n_rows, n_vocab]
        yield from draw_next(sequences, logits)


def cached(model: Model, sequences: list[Sequence]) -> Iterator[tuple[Sequence, int]]:
    """The same, but each token passes through the model once: its keys and values are kept."""
    cache = model.new_cache(len(sequences))
    new = left_pad([sequence.ids for sequence in sequences])  # prefill: the prompts [n_rows, n_seq]
    while any(sequence.running for sequence in sequences):
        logits = model(new, cache, last=1)[:, -1]  # [n_rows, n_vocab]
        yield from draw_next(sequences, logits)
        rows = [row for row, sequence in enumerate(sequences) if sequence.running]
        sequences = [sequences[row] for row in rows]
        cache.select(rows)
        new = np.array([sequence.ids[-1:] for sequence in sequences])  # decode: [n_rows, 1]


def draw_next(sequences: list[Sequence], logits: np.ndarray) -> Iterator[tuple[Sequence, int]]:
    """Lengthen each running sequence by one token: logits -> probabilities -> token."""
    for sequence, row_logits in zip(sequences, logits):
        if sequence.running:
            probabilities = sequence.sampler(row_logits, sequence.ids)  # [n_vocab]
            token = draw(probabilities, sequence.rng)
            sequence.append(token)
            yield sequence, token


def lengthen(sequence: Sequence, tokens: Ids) -> Iterator[tuple[Sequence, int]]:
    """Append tokens, until the text ends by one of them or by its reader."""
    for token in tokens:
        if sequence.running:
            sequence.append(token)
            yield sequence, token


def left_pad(rows: list[Ids]) -> np.ndarray:
    """Lists of ids -> [n_rows, n_longest] ints, -1 before the shorter ones."""
    longest = max(map(len, rows), default=0)
    return np.array([[-1] * (longest - len(ids)) + list(ids) for ids in rows])


def not_cached(rows: list[Ids], cache: Cache) -> np.ndarray:
    """The ids of each row that follow those in the cache -> [n_rows, n_longest], padded."""
    return left_pad([ids[n_cached:] for ids, n_cached in zip(rows, cache.lengths)])


class Sequence:
    """One text on its way: ids, of which the first n_prompt are the prompt's; at most n_left more.

    stop_reason: None while it goes on, then "eos" (a stop id of the model), "length" (n new tokens)
    or "context" (n_ctx tokens in all), or a reason that its reader gives to `finish`. ValueError
    for a prompt that is empty, or longer than the context.
    """

    def __init__(self, model: Model, prompt: Ids, n: int, sampler: Sampler = greedy, seed=0):
        if isinstance(prompt, str):
            raise ValueError("a prompt is a list of token ids: encode the text first")
        if not 1 <= len(prompt) <= model.n_ctx:
            raise ValueError(f"a prompt of {len(prompt)} tokens: 1 to {model.n_ctx} are possible")
        if n < 0:
            raise ValueError(f"{n} new tokens are not possible")
        self.ids, self.n_prompt = list(prompt), len(prompt)
        self.sampler, self.rng = sampler, np.random.default_rng(seed)
        self.model, self.stop_ids, self.n, self.n_ctx = model, model.stop_ids, n, model.n_ctx
        self.stop_reason: str | None = None
        self._check_length()

    def append(self, token: int) -> None:
        """Take the next token, and see whether the text ends with it."""
        self.ids.append(token)
        self._check_length()
        if token in self.stop_ids:
            self.finish("eos")

    def _check_length(self):
        if self.n_left <= 0:
            self.finish("length" if self.n_prompt + self.n <= self.n_ctx else "context")

    def finish(self, reason: str) -> None:
        """End the text here, for this reason."""
        self.stop_reason = reason

    @property
    def running(self) -> bool:
        return self.stop_reason is None

    @property
    def n_left(self) -> int:
        """How many more tokens the length and the context allow."""
        return min(self.n_prompt + self.n, self.n_ctx) - len(self.ids)

    @property
    def new_ids(self) -> Ids:
        """The tokens after the prompt, a stop id included."""
        return self.ids[self.n_prompt :]


Loop = Callable[[Model, list[Sequence]], Iterable[tuple[Sequence, int]]]


def generate(
    model: Model, prompt: Ids, n: int, sampler: Sampler = greedy, seed: int = 0, loop: Loop = cached
) -> Iterator[int]:
    """Yield at most n new ids after one prompt (a list of ids; an encoder-decoder's is its source),
    a stop id included."""
    model, [start] = model.begin([prompt])
    for _, token in loop(model, [Sequence(model, start, n, sampler, seed)]):
        yield token


if __name__ == "__main__":
    import sys

    try:
        from terminal import cli  # imported late: only the command line reads files

        sys.exit(cli.main())
    except KeyboardInterrupt:  # before main was reached
        print("interrupted", file=sys.stderr)
        sys.exit(130)
