"""The interfaces that all generation code is written against: a model, its cache, a filter, a
drafter, and a tokenizer. (A sequence and its loops are in generate.py.)

A model, a filter or a drafter of your own is any object with these methods. On the command line it
is --filter, --model, --drafter or --loop FILE.py:NAME: what NAME is, a Filter, a tuple (tokenizer,
model) as utils.load returns it, a Drafter for all texts, or a Loop (generate.py). Or it is
FILE.py:NAME(VALUES): what NAME returns for these values, literals such as 3, '[0-9]+', n=3. After
them NAME may have more parameters, which are filled in by name: `tokenizer` and `model`; for a
filter `n_prompt`, how many ids are the prompt's; for a drafter `sequence`. For a filter or a
drafter, NAME is called once for each text.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

Ids = list[int]  # token ids: indices into the vocabulary
Filter = Callable[[np.ndarray, Ids], np.ndarray]  # logits [n_vocab], ids so far -> logits


class Cache(Protocol):
    """The keys and values of every token so far. The caller holds it, the model fills it."""

    lengths: np.ndarray  # [*batch], the tokens of each row

    def cut(self, lengths: ArrayLike) -> None: ...  # forget each row's tokens from there on
    def select(self, rows: list[int]) -> None: ...  # keep these rows of the batch, in this order
    def join(self, other: Any) -> None: ...  # add the rows of another cache of this model


class Model(Protocol):
    """ids [..., n_new] -> float32 logits [..., n_new, n_vocab], or of only the last positions. With
    a cache, which its new_cache has made, ids continue the tokens it holds. -1 is padding, on the
    left. begin: the model to run, which has encoded the prompts if they are sources, and the first
    ids of each sequence."""

    n_vocab: int
    n_ctx: int
    stop_ids: tuple[int, ...]
    generation_config: dict
    has_source: bool  # an encoder-decoder: a prompt is a source to read, not a text to continue

    def __call__(
        self, ids: ArrayLike, cache: Any = None, last: int | None = None
    ) -> np.ndarray: ...
    def new_cache(self, *batch: int) -> Cache: ...
    def begin(self, prompts: list[Ids]) -> tuple["Model", list[Ids]]: ...


class Drafter(Protocol):
    """Proposes at most n ids that may come next, for a model to verify, and for each the
    distribution [n_vocab] that it was drawn from."""

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]: ...

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray, tokens: Ids) -> None:
        """Called after each pass. logits [len(drafts) + 1, n_vocab]: the model's, after ids and
        after each draft; tokens: the accepted drafts, then the model's own token, if any. The body
        may be empty."""
        return None


class TextStream(Protocol):
    """Decodes ids as they come: the returned pieces concatenate to the whole text."""

    def feed(self, id: int) -> str: ...  # the text that is complete with this id; may be empty
    def finish(self) -> str: ...  # the rest, when no id follows


class Tokenizer(Protocol):
    """Text <-> ids. encode begins with BOS where the model's texts do."""

    n_vocab: int
    end_of_text: int | None
    special: dict[str, int]  # {text: id} of the tokens that are parsed only with `special`

    def encode(self, text: str, special: bool = False) -> Ids: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def stream(self) -> TextStream: ...
