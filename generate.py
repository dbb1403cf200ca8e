"""Generate a text, a Sequence, token by token: `naive`, and `cached`, which computes each once.

On the command line: python generate.py "Once upon a time"

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> ids = tokenizer.encode("Once upon a time")
    >>> tokenizer.decode(generate(model, ids, n=10))
    ', there was a little girl named Lily. She'
"""
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy>=1.26", "regex>=2024.4", "safetensors>=0.4.3", "threadpoolctl>=3.5"]
# ///

from __future__ import annotations

if __name__ == "__main__":  # before the imports: the command line says what is missing
    import sys

    from terminal import cli

    sys.exit(cli.main())

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from samplers import Ids, Sampler, draw, greedy


def naive(model: Model, sequence: Sequence) -> Iterator[int]:
    """Yield tokens by the definition: run the model over the whole text, draw the next one."""
    while sequence.running:
        logits = model(np.array(sequence.ids), last=1)[-1]  # [n_vocab]
        probabilities = sequence.sampler(logits, sequence.ids)
        yield sequence.append(draw(probabilities, sequence.rng))


def cached(model: Model, sequence: Sequence, cache: Any = None) -> Iterator[int]:
    """Yield the same tokens, but pass each through the model once: its keys and values are kept.

    cache: holds a beginning of the text already, such as the turns of a chat before this one.
    """
    cache = model.new_cache() if cache is None else cache
    while sequence.running:
        logits = advance(model, sequence.ids, cache)  # first the prompt, then one token at a time
        probabilities = sequence.sampler(logits, sequence.ids)  # [n_vocab]
        yield sequence.append(draw(probabilities, sequence.rng))


def advance(model: Model, ids: Any, cache: Any, chunk: int = 256) -> np.ndarray:
    """Pass the ids [..., n_seq] that the cache does not hold yet; return the logits [..., n_vocab]
    after the last one. A long prompt passes in chunks: its scores would fill the memory."""
    ids = np.asarray(ids)
    cache.cut(ids.shape[-1] - 1)  # the last token passes in any case
    for start in range(cache.length, ids.shape[-1], chunk):
        logits = model(ids[..., start : start + chunk], cache, last=1)  # [..., 1, n_vocab]
    return logits[..., -1, :]


def generate(
    model: Any, prompt: Ids, n: int, sampler: Sampler = greedy, seed: int = 0, loop: Loop = cached
) -> Iterator[int]:
    """Yield at most n new ids, a stop id included. One seed gives one text."""
    model, ids = begin(model, prompt)
    yield from loop(model, Sequence(model, ids, n, sampler, seed))


def begin(model: Any, prompt: Ids) -> tuple[Model, Ids]:
    """Return the model to run and the first ids of its text. An encoder-decoder reads the prompt,
    its source, and is then a model like any other."""
    if not hasattr(model, "read"):
        return model, prompt
    model = model.read(prompt)
    return model, model.start_ids


class Sequence:
    """A text on its way: ids, of which the first n_prompt are the prompt's; at most n_left more.

    stop_reason: None while it runs, then "eos" (a stop id), "length" (n new tokens), "context"
    (n_ctx tokens in all), or the reason that its reader gives to `finish`. ValueError for a prompt
    that is no list of token ids, or too long, and for a filter that is in no Sampler.
    """

    def __init__(self, model: Model, prompt: Ids, n: int, sampler: Sampler = greedy, seed: Any = 0):
        check_prompt(prompt, model.n_vocab, model.n_ctx)
        if not isinstance(sampler, Sampler):
            raise ValueError(f"{sampler!r} is no sampler: a filter alone is Sampler(filter)")
        if n < 0:
            raise ValueError(f"{n} new tokens are not possible")
        self.model, self.stop_ids, self.n, self.n_ctx = model, model.stop_ids, n, model.n_ctx
        self.ids, self.n_prompt = [int(id) for id in prompt], len(prompt)
        self.sampler, self.rng = sampler, np.random.default_rng(seed)
        self.stop_reason: str | None = None
        self._check_length()

    def append(self, token: int) -> int:
        """Take the next token, see whether the text ends with it, and return it."""
        self.ids.append(int(token))
        self._check_length()
        if token in self.stop_ids:
            self.finish("eos")
        return self.ids[-1]

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


def check_prompt(ids: Any, n_vocab: int, n_ctx: int) -> None:
    """ValueError unless ids are 1 to n_ctx token ids."""
    if np.ndim(ids) != 1 or (len(ids) > 0 and np.asarray(ids).dtype.kind not in "iu"):
        raise ValueError("a prompt is a list of token ids: encode the text first")
    if not 1 <= len(ids) <= n_ctx:
        raise ValueError(f"a prompt of {len(ids)} tokens: 1 to {n_ctx} are possible")
    if not 0 <= min(ids) <= max(ids) < n_vocab:
        raise ValueError(f"token ids are 0 to {n_vocab - 1}, not {min(ids)} to {max(ids)}")


class Model(Protocol):
    """ids [n_new] -> float32 logits [n_new, n_vocab]; last=k: of the last k positions only.

    A cache from new_cache holds the tokens before ids, and takes in ids: its `length` says how many
    it has, `cut(length)` forgets the later ones. To look inside a model, inside/recorder.py also
    needs `params`, and functions named as in gpt2.py.
    """

    n_vocab: int
    n_ctx: int
    stop_ids: tuple[int, ...]

    def __call__(self, ids: Any, cache: Any = None, last: int | None = None) -> np.ndarray: ...
    def new_cache(self, *batch: int) -> Any: ...


Loop = Callable[[Any, Sequence], Iterator[int]]
