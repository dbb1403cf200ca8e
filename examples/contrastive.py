"""Contrastive decoding: prefer the tokens that a large model likes more than a small model does.

Both models prefer dull and repeated text, the small model even more. The difference of their log p
cancels this preference. Where the large model gives a token hardly any probability, the difference
is noise. So only plausible tokens compete: the logits are log p_large - log p_small where
p_large >= alpha * max p_large, else -inf.
(Li et al. 2022, "Contrastive Decoding: Open-ended Text Generation as Optimization", section 3.)

    python generate.py "Once upon a time" --model "examples/contrastive.py:contrastive()" -n 60
"""

import numpy as np

import utils
from gpt2 import log_softmax


def contrastive(large="stories", small="stories-draft", alpha=0.1):
    """Return (tokenizer, model). large, small: the names of the two models. A token is removed if
    its probability in the large model is below alpha times that of the most probable token."""
    tokenizer, expert = utils.load(large)
    other, amateur = utils.load(small)
    if other.tokens != tokenizer.tokens:
        raise ValueError("the two models must have the same vocabulary")

    def subtract(expert_logits, amateur_logits):  # two [..., n_vocab] -> [..., n_vocab]
        log_p = log_softmax(expert_logits)
        plausible = log_p >= log_p.max(-1, keepdims=True) + np.log(np.float32(alpha))
        difference = log_p - log_softmax(amateur_logits)
        return np.where(plausible, difference, np.float32(-np.inf))

    return tokenizer, Pair(expert, amateur, subtract)


class Pair:
    """Two models with the same vocabulary, as one model. Both read the same ids. The logits are
    combine(logits of `one`, logits of `two`)."""

    def __init__(self, one, two, combine):
        self.one, self.two, self.combine = one, two, combine
        self.n_vocab, self.stop_ids = one.n_vocab, one.stop_ids
        self.n_ctx = min(one.n_ctx, two.n_ctx)
        self.generation_config = getattr(one, "generation_config", {})

    def __call__(self, ids, cache=None, last=None):
        cache = cache or self.new_cache(*np.shape(ids)[:-1])
        cache.cut(cache.length)  # after an interrupted pass, `one` is longer than `two`
        return self.combine(self.one(ids, cache.one, last), self.two(ids, cache.two, last))

    def new_cache(self, *batch):
        return PairCache(self.one.new_cache(*batch), self.two.new_cache(*batch))


class PairCache:
    """The caches of a Pair's two models, as one cache."""

    def __init__(self, one, two):
        self.one, self.two = one, two

    @property
    def length(self):
        return min(self.one.length, self.two.length)

    def cut(self, length):
        for cache in (self.one, self.two):
            cache.cut(min(length, self.length))

    def select(self, rows):
        self.one.select(rows)
        self.two.select(rows)
