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

        without = model if model.has_source else WithoutPrompt(model, [[0]])
        super().__init__(model, without, guide)

    def begin(self, prompts):  # as Model.begin, of both models
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
        place = cache.lengths[:, None] + np.cumsum(ids >= 0, axis=1) - 1  # of a token in its text
        cache.lengths = place[:, -1] + 1
        ids = np.where(place < cache.n_hidden[:, None], -1, ids)
        return self.model(ids, cache.cache, last)

    def new_cache(self, n_rows):
        return HidingCache(self.model.new_cache(n_rows), np.broadcast_to(self.n_hidden, n_rows))


class HidingCache:
    """A cache without the first n_hidden [n_rows] tokens of each row; `lengths` counts them too."""

    def __init__(self, cache, n_hidden):
        self.cache, self.n_hidden, self.lengths = cache, n_hidden, np.zeros(len(n_hidden), int)

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)
        self.cache.cut(np.maximum(self.lengths - self.n_hidden, 0))

    def select(self, rows):
        self.lengths, self.n_hidden = self.lengths[rows], self.n_hidden[rows]
        self.cache.select(rows)

    def join(self, other):  # as Cache.join
        self.lengths = np.append(self.lengths, other.lengths)
        self.n_hidden = np.append(self.n_hidden, other.n_hidden)
        self.cache.join(other.cache)
