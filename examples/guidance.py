"""Classifier-free guidance: more of what the prompt changes.

The model runs twice, with the prompt and without it, and the step from the second to the first is
made gamma times as long: log p' = log p + gamma * (log p_with_prompt - log p). gamma = 1 is the
model itself; more follows the prompt more closely. The prompt of an encoder-decoder is its source.
(Sanchez et al. 2023, "Stay on topic with Classifier-Free Guidance".)

    python generate.py "The dragon was sad" --model "examples/guidance.py:guided('stories', 2.0)"
    python generate.py "The cat sleeps." --model "examples/guidance.py:guided('en-de', 1.5)"
"""

import numpy as np

import utils
from examples.contrastive import Pair
from gpt2 import log_softmax


def guided(name="stories", gamma=1.5):
    """-> tokenizer, model."""
    tokenizer, model = utils.load(name)
    return tokenizer, Guided(model, gamma)


class Guided(Pair):
    """A model and itself without the prompt, once `begin` has been given the prompts."""

    def __init__(self, model, gamma):
        gamma = np.float32(gamma)

        def guide(with_prompt, without):  # 2 x [..., n_vocab] -> the same
            log_p, plain = log_softmax(with_prompt), log_softmax(without)
            return plain + gamma * (log_p - plain)

        super().__init__(model, model, guide)

    def begin(self, prompts):
        model, starts = self.one.begin(prompts)
        if self.has_source:  # without it: its special tokens, and nothing between them
            without, _ = self.one.begin([self.one.add_special_tokens([])])
        else:
            without = WithoutPrompt(model, starts)
        return Pair(model, without, self.combine), starts


class WithoutPrompt:
    """A model that sees of each prompt only the last token: the others are padding for it."""

    def __init__(self, model, prompts):
        self.model, self.n_hidden = model, np.array([len(prompt) - 1 for prompt in prompts])

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache=None, last=None):  # [n_rows, n_new]
        ids = np.asarray(ids)
        cache = cache or self.new_cache(len(ids))
        place = cache.n_seen[:, None] + np.cumsum(ids >= 0, axis=1) - 1  # of a token in its text
        cache.n_seen = place[:, -1] + 1
        ids = np.where(place < cache.n_hidden[:, None], -1, ids)
        return self.model(ids, cache.cache, last)

    def new_cache(self, n_rows):
        n_hidden = np.broadcast_to(self.n_hidden, n_rows)
        return CountingCache(self.model.new_cache(n_rows), n_hidden, np.zeros(n_rows, int))


class CountingCache:
    """A cache that also counts the tokens that each row has seen."""

    def __init__(self, cache, n_hidden, n_seen):  # n_hidden, n_seen [n_rows]
        self.cache, self.n_hidden, self.n_seen = cache, n_hidden, n_seen

    @property
    def length(self):
        return self.cache.length

    def cut(self, length):
        self.n_seen = np.maximum(self.n_seen - (self.length - length), 0)
        self.cache.cut(length)

    def select(self, rows):
        self.n_hidden, self.n_seen = self.n_hidden[rows], self.n_seen[rows]
        self.cache.select(rows)

    def join(self, other):
        self.n_hidden = np.append(self.n_hidden, other.n_hidden)
        self.n_seen = np.append(self.n_seen, other.n_seen)
        self.cache.join(other.cache)
