"""The shortest filter, drafter, model and loop. Copy one of them to start your own."""

import numpy as np

import utils
from decoding.drafters import one_hots
from samplers import draw
from speculative import Drafter


def no_the(tokenizer):
    """Return a filter that removes the token " the"."""
    [the] = tokenizer.encode(" the")

    def remove(logits, ids):  # [n_vocab], the ids so far -> [n_vocab]
        logits = logits.copy()
        logits[the] = -np.inf
        return logits

    return remove


class Again(Drafter):
    """A drafter that repeats the last token."""

    def __init__(self, model):
        self.n_vocab = model.n_vocab

    def propose(self, ids, n):
        drafts = ids[-1:] * n
        return drafts, one_hots(drafts, self.n_vocab)


class Bigram:
    """A model that has counted which tokens follow which in a text. Its logits are log counts."""

    n_ctx, stop_ids = 1000, ()

    def __init__(self, ids, n_vocab):
        self.n_vocab, counts = n_vocab, np.full((n_vocab, n_vocab), 1e-4, np.float32)
        np.add.at(counts, (ids[:-1], ids[1:]), 1)
        self.log_counts = np.log(counts)

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        ids = np.asarray(ids)
        if cache:
            cache.length += ids.shape[-1]
        return self.log_counts[ids[..., -(last or 0) :]]

    def new_cache(self, *batch):
        return OnlyLength()


class OnlyLength:
    """The cache of a Bigram. It stores no keys or values, only the number of tokens."""

    length = 0

    def cut(self, length):
        self.length = min(self.length, length)

    def select(self, rows):  # nothing to do: all beams have the same length
        pass


def bigram(text):
    """Return a tokenizer, and a Bigram that has counted the pairs of tokens in a text."""
    tokenizer, _ = utils.load("stories")
    return tokenizer, Bigram(tokenizer.encode(text), tokenizer.n_vocab)


def plain(model, sequence):
    """Yield tokens. This loop uses no cache."""
    while sequence.running:
        logits = model(np.array(sequence.ids), last=1)[-1]  # [n_vocab]
        probabilities = sequence.sampler(logits, sequence.ids)
        yield sequence.append(draw(probabilities, sequence.rng))
