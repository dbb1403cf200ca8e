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

    n_ctx, stop_ids, has_source = 1000, (), False
    generation_config: dict = {}

    def __init__(self, ids, n_vocab):
        self.n_vocab, counts = n_vocab, np.full((n_vocab, n_vocab), 1e-4, np.float32)
        np.add.at(counts, (ids[:-1], ids[1:]), 1)
        self.log_counts = np.log(counts)

    def __call__(self, ids, cache=None, last=None):
        ids = np.asarray(ids)  # [..., n_new], -1 for padding
        if cache:
            cache.lengths = cache.lengths + (ids >= 0).sum(-1)
        return self.log_counts[ids[..., -(last or 0) :]]

    def new_cache(self, *batch):
        return OnlyLengths(np.zeros(batch, int))

    def begin(self, prompts):
        return self, prompts


class OnlyLengths:
    """Its cache: a bigram model needs no keys and values, so only the number of tokens per row."""

    def __init__(self, lengths):
        self.lengths = lengths

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)

    def select(self, rows):
        self.lengths = self.lengths[rows]

    def join(self, other):
        self.lengths = np.append(self.lengths, other.lengths)


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
