"""The shortest filter, drafter, model and loop of one's own."""

import numpy as np

import utils
from drafters import one_hots
from interface import Drafter
from samplers import draw


def no_the(tokenizer):
    """A filter: the word " the" does not occur."""
    [the] = tokenizer.encode(" the")

    def remove(logits, ids):  # [n_vocab], the sequence so far -> [n_vocab]
        logits = logits.copy()
        logits[the] = -np.inf
        return logits

    return remove


class Again(Drafter):
    """A drafter: the last token comes once more."""

    def __init__(self, model):
        self.n_vocab = model.n_vocab

    def propose(self, ids, n):
        drafts = ids[-1:] * n
        return drafts, one_hots(drafts, self.n_vocab)


class Bigram:
    """A model: how often each token has followed the last one, in `ids`."""

    n_ctx, stop_ids, generation_config, has_source = 1000, (), {}, False

    def __init__(self, ids, n_vocab):
        self.n_vocab, counts = n_vocab, np.full((n_vocab, n_vocab), 1e-4, np.float32)
        np.add.at(counts, (ids[:-1], ids[1:]), 1)
        self.log_counts = np.log(counts)

    def __call__(self, ids, cache=None, last=None):
        if cache:
            cache.length += np.shape(ids)[-1]
        return self.log_counts[np.asarray(ids)[..., -(last or 0) :]]

    def new_cache(self, *batch):
        return OnlyLength()

    def begin(self, prompts):
        return self, prompts


class OnlyLength:
    """Its cache: a bigram model needs no keys and values, so only the number of tokens."""

    length = 0

    def cut(self, length):
        self.length = length

    def select(self, rows):
        pass

    def join(self, other):
        self.length = max(self.length, other.length)


def bigram(text):
    tokenizer, _ = utils.load("stories")
    return tokenizer, Bigram(tokenizer.encode(text), tokenizer.n_vocab)


def plain(model, sequences):
    """A loop: one sequence after the other, without a cache."""
    for sequence in sequences:
        while sequence.running:
            logits = model(np.array([sequence.ids]), last=1)[0, -1]  # [n_vocab]
            token = draw(sequence.sampler(logits, sequence.ids), sequence.rng)
            sequence.append(token)
            yield sequence, token
