"""Generate text token by token. The whole idea is a loop that anyone can write:

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> ids = tokenizer.encode("Once upon a time")
    >>> for _ in range(10):
    ...     logits = model(ids)  # [n_seq, n_vocab]: row i scores what may follow token i
    ...     next_id = logits[-1].argmax()  # greedy: the best token after the last one
    ...     ids.append(int(next_id))
    >>> tokenizer.decode(ids)
    'Once upon a time, there was a little girl named Lily. She'

`naive` is this loop with a sampler and stop conditions. `cached` yields the same ids, but runs the
model over each token only once. Both take a Sequence (below): a text, its sampler and its end.

The command line draws at random instead: python generate.py "Once upon a time"
"""

from __future__ import annotations

if __name__ == "__main__":  # above the imports: if NumPy is missing, main says how to install it
    from terminal.cli import main

    raise SystemExit(main())

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from samplers import Ids, Sampler, check, draw, greedy


def naive(model: Model, sequence: Sequence) -> Iterator[int]:
    """Yield ids the simplest way: run the model over the whole text, then draw the next id."""
    while sequence.running:
        ids = np.array(sequence.ids)
        logits = model(ids, last=1)[-1]  # [n_vocab]. last=1: no other row of logits is needed
        probabilities = sequence.sampler(logits, sequence.ids)  # ids: to avoid repetitions
        next_id = draw(probabilities, sequence.rng)
        yield sequence.append(next_id)


def cached(model: Model, sequence: Sequence, cache: Any = None) -> Iterator[int]:
    """Yield the same ids as `naive`, but run the model over each token only once.

    cache: it may already contain the beginning of the text, such as the earlier turns of a chat.
    """
    cache = model.new_cache() if cache is None else cache
    while sequence.running:
        logits = advance(model, sequence.ids, cache)  # first the prompt, then one token at a time
        probabilities = sequence.sampler(logits, sequence.ids)
        next_id = draw(probabilities, sequence.rng)
        yield sequence.append(next_id)


def advance(model: Model, ids: Any, cache: Any, chunk: int = 256) -> np.ndarray:
    """Run the model over those of the ids [..., n_all] that are not in the cache yet. Return the
    logits [..., n_vocab] after the last one. Chunks save memory in a long prompt."""
    ids = np.asarray(ids)
    cache.cut(ids.shape[-1] - 1)  # a text that is resumed needs the logits after its last token
    for start in range(cache.length, ids.shape[-1], chunk):
        logits = model(ids[..., start : start + chunk], cache, last=1)  # [..., 1, n_vocab]
    return logits[..., -1, :]


def generate(
    model: Any, prompt: Ids, n: int, sampler: Sampler = greedy, seed: Any = 0, loop: Loop = cached
) -> Iterator[int]:
    """Yield at most n new ids, and stop after a stop id. The same number as the seed gives the same
    text. Wrong arguments raise ValueError when the first id is asked for."""
    model, ids = begin(model, prompt)
    yield from loop(model, Sequence(model, ids, n, sampler, seed))


def begin(model: Any, prompt: Ids) -> tuple[Model, Ids]:
    """Return the model to run and the first ids of the text. An encoder-decoder reads the prompt as
    its source. The model to run is then its decoder, which works like any other model."""
    if not hasattr(model, "read"):
        return model, prompt
    model = model.read(prompt)
    return model, model.start_ids


class Sequence:
    """A text that grows. Its first n_prompt ids are the prompt; up to n_left more may follow.

    stop_reason: None while the text grows; then "eos" (a stop id), "length" (n new tokens),
    "context" (n_ctx tokens in all), or the reason that a caller passed to `finish`. seed: a number,
    or a NumPy Generator to draw from. Raises ValueError for a wrong argument, such as a prompt that
    is not a list of token ids.
    """

    def __init__(self, model: Model, prompt: Ids, n: int, sampler: Sampler = greedy, seed: Any = 0):
        check_prompt(prompt, model.n_vocab, model.n_ctx)
        is_sampler = isinstance(sampler, Sampler)
        check(is_sampler, f"{sampler!r} is not a Sampler: wrap a filter as Sampler(filter)")
        check(n >= 0, f"{n} new tokens are not possible")
        self.model, self.stop_ids, self.n, self.n_ctx = model, model.stop_ids, n, model.n_ctx
        self.ids, self.n_prompt = [int(id) for id in prompt], len(prompt)
        self.sampler, self.rng = sampler, np.random.default_rng(seed)
        self.stop_reason: str | None = None
        self._check_length()

    def append(self, next_id: int) -> int:
        """Append the next id and return it. A stop id or the maximum length ends the text."""
        self.ids.append(int(next_id))
        self._check_length()
        if next_id in self.stop_ids:
            self.finish("eos")
        return self.ids[-1]

    def _check_length(self):
        if self.n_left <= 0:
            self.finish("length" if self.n_prompt + self.n <= self.n_ctx else "context")

    def finish(self, reason: str) -> None:
        """End the text, and store the reason."""
        self.stop_reason = reason

    @property
    def running(self) -> bool:
        return self.stop_reason is None

    @property
    def n_left(self) -> int:
        """Return how many more tokens may follow: n and the context are the limits."""
        return min(self.n_prompt + self.n, self.n_ctx) - len(self.ids)

    @property
    def new_ids(self) -> Ids:
        """Return the tokens after the prompt, including a stop id at the end."""
        return self.ids[self.n_prompt :]


def check_prompt(ids: Any, n_vocab: int, n_ctx: int) -> None:
    """Raise ValueError unless ids is a list of 1 to n_ctx token ids."""
    are_ids = np.ndim(ids) == 1 and (len(ids) == 0 or np.asarray(ids).dtype.kind in "iu")
    check(are_ids, "a prompt is a list of token ids: encode the text first")
    check(1 <= len(ids) <= n_ctx, f"a prompt of {len(ids)} tokens: 1 to {n_ctx} are possible")
    least, most = min(ids), max(ids)
    check(0 <= least <= most < n_vocab, f"token ids are 0 to {n_vocab - 1}, not {least} to {most}")


class Model(Protocol):
    """model(ids [n_new]) -> float32 logits [n_new, n_vocab]; with last=k, only the last k rows.

    new_cache() returns an empty cache. model(ids, cache) adds the ids to it. Its `length` is the
    number of ids in it, and `cut(length)` drops those after the first `length`. A checkpoint's
    model also has generation_config, such as {"num_beams": 4}; for read(source), see `begin`.
    """

    n_vocab: int
    n_ctx: int
    stop_ids: tuple[int, ...]

    def __call__(self, ids: Any, cache: Any = None, last: int | None = None) -> np.ndarray: ...
    def new_cache(self, *batch: int) -> Any: ...


Loop = Callable[[Any, Sequence], Iterator[int]]

# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy>=1.26", "regex>=2024.4", "safetensors>=0.4.3", "threadpoolctl>=3.5"]
# ///
