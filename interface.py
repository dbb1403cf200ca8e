"""What everything that generates is written over: a model, its cache, a sampler, a loop, a drafter,
and an encoder for the text.

Nothing here runs. A model, a sampler or a drafter of your own is any object of its shape.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

Ids = list[int]  # tokens, by their places in the vocabulary
Filter = Callable[[np.ndarray, Ids], np.ndarray]  # logits [n_vocab], ids so far -> logits
Sampler = Callable[[np.ndarray, Ids], np.ndarray]  # the same -> probabilities [n_vocab]
Done = Callable[[int, Ids], bool]  # row, its ids so far -> has it ended?


class Cache(Protocol):
    """The keys and values of every token so far. The caller holds it, the model fills it."""

    length: int  # slots filled, padding included; the model moves it on

    def cut(self, length: int) -> None: ...  # forget all slots from there on
    def select(self, rows: list[int]) -> None: ...  # keep these rows of the batch, in this order
    @property
    def nbytes(self) -> int: ...


class Model(Protocol):
    """ids [..., n_seq] -> float32 logits [..., n_seq, n_vocab], or of the last positions alone.
    With a cache, ids come behind those that it holds. -1 is padding, on the left."""

    n_vocab: int
    n_ctx: int
    stop_ids: tuple[int, ...]
    defaults: dict

    def __call__(
        self, ids: ArrayLike, cache: Any = None, last: int | None = None
    ) -> np.ndarray: ...  # cache: one that its new_cache has made
    def new_cache(self, *batch: int) -> Cache: ...
    def select(self, rows: list[int]) -> "Model": ...  # the model of these rows: of their sources


class Loop(Protocol):
    """Yields (row, id) as each token is made, until every row is done."""

    def __call__(
        self, model: Model, prompts: list[Ids], samplers: list[Sampler],
        rngs: list[np.random.Generator], done: Done,
    ) -> Iterator[tuple[int, int]]: ...  # fmt: skip


class Drafter(Protocol):
    """Proposes at most n ids that may come, for a model to verify, and for each the distribution
    [n_vocab] that it was drawn from; learns from the model's logits [len(drafts) + 1, n_vocab]
    behind ids and each draft."""

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]: ...
    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray) -> None: ...


class TextStream(Protocol):
    """Decodes ids as they come: what it returns, joined, is the text of them all."""

    def feed(self, id: int) -> str: ...  # the text that is certain now
    def finish(self) -> str: ...  # what is left when no id follows


class Encoder(Protocol):
    """Text <-> ids."""

    n_vocab: int
    end_of_text: int | None
    special: dict[str, int]  # {text: id} of the tokens that are parsed only with `special`

    def encode(self, text: str, special: bool = False) -> Ids: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def stream(self) -> TextStream: ...
