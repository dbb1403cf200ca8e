"""Classifier-free guidance: amplify the effect of the prompt.

The model runs twice, with the prompt and without it, and gamma multiplies the difference:
log p' = log p + gamma * (log p_with_prompt - log p). With gamma = 1, p' is the model's own
distribution. With a larger gamma, the text follows the prompt more closely. The prompt of an
encoder-decoder is its source. (Sanchez et al. 2023, "Stay on topic with Classifier-Free Guidance".)

    python generate.py "The dragon was sad" --model "examples/guidance.py:guided('stories', 2.0)"
    python generate.py "The cat sleeps." --model "examples/guidance.py:guided('en-de', 1.5)"
"""

from typing import Any

import numpy as np

import utils
from examples.contrastive import Pair
from generate import begin
from gpt2 import log_softmax


def guided(name="stories", gamma=1.5):
    """Return (tokenizer, guided model). name: a model's name."""
    tokenizer, model = utils.load(name)
    return tokenizer, Guided(model, gamma, tokenizer.encode(""))


class Guided:
    """A model whose `read` returns a Pair: the model with the prompt, and the model without it.
    empty: the ids of an empty source, which are only special tokens."""

    def __init__(self, model, gamma, empty=()):
        self.model, self.gamma, self.empty = model, np.float32(gamma), [*empty]
        self.n_vocab, self.n_ctx, self.stop_ids = model.n_vocab, model.n_ctx, model.stop_ids
        self.generation_config = getattr(model, "generation_config", {})

    def read(self, prompt):
        """Return the Pair for a prompt, a list of ids. Its texts begin with pair.start_ids."""
        model, start = begin(self.model, prompt)
        without: Any = begin(self.model, self.empty)[0]
        if model is self.model:  # the text begins with the prompt, which only one of the two sees
            without = WithoutPrompt(model, len(prompt) - 1)
        pair: Any = Pair(model, without, self.guide)
        pair.start_ids = start
        return pair

    def guide(self, with_prompt, without):  # two [..., n_vocab] -> [..., n_vocab]
        log_p, plain = log_softmax(with_prompt), log_softmax(without)
        return plain + self.gamma * (log_p - plain)


class WithoutPrompt:
    """A model that does not see the first n_hidden tokens of a text."""

    def __init__(self, model, n_hidden):
        self.model, self.n_hidden = model, n_hidden
        self.n_vocab, self.n_ctx, self.stop_ids = model.n_vocab, model.n_ctx, model.stop_ids

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        ids = np.asarray(ids)
        cache = cache or self.new_cache(*ids.shape[:-1])
        n_skipped = min(max(self.n_hidden - cache.length, 0), ids.shape[-1])
        logits = np.zeros((*ids.shape, self.n_vocab), np.float32)  # zeros for hidden tokens
        if n_skipped < ids.shape[-1]:
            logits[..., n_skipped:, :] = self.model(ids[..., n_skipped:], cache.cache)
        cache.length += ids.shape[-1]  # only now, so that an interrupted pass does not count
        return logits if last is None else logits[..., -last:, :]

    def new_cache(self, *batch):
        return HidingCache(self.model.new_cache(*batch), self.n_hidden)


class HidingCache:
    """A cache that lacks the first n_hidden tokens. Its length counts them nevertheless."""

    def __init__(self, cache, n_hidden):
        self.cache, self.n_hidden, self.length = cache, n_hidden, 0
        self.select = cache.select

    def cut(self, length):
        self.length = min(self.length, length)
        self.cache.cut(max(self.length - self.n_hidden, 0))
