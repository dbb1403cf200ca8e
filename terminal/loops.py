"""The loops and drafters that --method can name. To add one, write a function and name it below.

A loop is called with a session and a row that has begun, and returns an iterator of tokens.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from decoding.beam import beam_search
from decoding.drafters import Checked, DraftModel, Measured, NGramStore, PromptLookup
from generate import begin, cached, naive
from speculative import speculative
from terminal.row import Row


def with_cache(session: Any, row: Row) -> Iterator[int]:
    """Run the cached loop, or the user's own. Keep the cache, to continue the text or the chat."""
    if own := session.own.get("loop"):
        return own(sequence=row.sequence)(row.sequence.model, row.sequence)
    row.cache = row.cache or row.sequence.model.new_cache()
    return cached(row.sequence.model, row.sequence, row.cache)


def drafting(session: Any, row: Row) -> Iterator[int]:
    row.drafter = Measured(DRAFTERS[session.settings["method"]](session, row))
    return speculative(row.sequence.model, row.sequence, row.drafter, session.settings["gamma"])


def search(session: Any, row: Row) -> Iterator[int]:
    """Run beam search, and yield the best beam's ids."""
    settings, sequence = session.settings, row.sequence
    if sequence.running:
        how = {name: settings[name] for name in ("length_penalty", "early_stopping")}
        how |= dict(width=settings["beams"], filters=sequence.sampler.filters, trace=row.steps)
        last, decode = sequence.ids[-1:], session.tokenizer.decode
        n = len(decode(last))  # a token's space may depend on the token before it
        how["ends"] = lambda ids: any(s in decode([*last, *ids])[n:] for s in row.stops)
        [best] = beam_search(sequence.model, sequence.ids, sequence.n_left, **how)
        yield from map(sequence.append, best.ids)


def draft_model(session: Any, row: Row) -> Any:
    if own := session.own.get("drafter"):
        return Checked(own(sequence=row.sequence), session.model.n_vocab)
    draft = session.draft_model()
    draft, _ = begin(draft, row.prompt_ids[: draft.n_ctx])  # it reads all of a source that fits
    return DraftModel(draft, row.sequence.sampler, np.random.default_rng([row.seed, 1]))


DRAFTERS = {
    "speculative": draft_model,
    "ngram": lambda session, row: NGramStore(session.model.n_vocab, before=row.source),
    "lookup": lambda session, row: PromptLookup(session.model.n_vocab, before=row.source),
}
LOOPS = {
    "naive": lambda session, row: naive(row.sequence.model, row.sequence),
    "cached": with_cache,
    "beam": search,
    **dict.fromkeys(DRAFTERS, drafting),
}
