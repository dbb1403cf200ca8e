r"""Choosing among texts: draw n of them, and keep one.

The most probable text is often dull, a drawn one can be anything. Best of n keeps the drawn text
with the highest mean log P. Minimum Bayes risk keeps the text that is most like all the others: if
the model believes what it draws, that is the text of the least expected error. (Eikema & Aziz 2020,
"Is MAP Decoding All You Need?"; likeness is chrF: Popović 2015. With likeness 1 for equal texts and
else 0 it is a majority vote: Wang et al. 2022, "Self-Consistency".)

    python generate.py "It is cold today." --model en-de --temperature 1 \
        --loop "examples/choosing.py:mbr(32)"
"""

from collections import Counter

import numpy as np

from generate import Sequence, cached, left_pad, lengthen
from gpt2 import log_softmax


def best_of(n):
    """A loop: of n texts the one with the highest log P(text) / (its number of tokens)."""
    return choosing(n, mean_log_probabilities)


def mbr(n, tokenizer):
    """A loop: of n texts the one with the highest sum of chrF(it, another)."""

    def total_likeness(model, texts):  # list of Sequence -> list of float
        decoded = [tokenizer.decode(text.new_ids) for text in texts]
        counts = Counter(decoded)  # equal texts are compared once
        grams = {text: ngrams(text) for text in counts}
        total = {text: sum(n * chrf(grams[text], grams[other]) for other, n in counts.items())
                 for text in counts}  # fmt: skip
        return [total[text] for text in decoded]

    return choosing(n, total_likeness)


def choosing(n, scores):
    """A loop: draws n texts as one batch, and takes that of the highest of scores(model, texts)."""

    def loop(model, sequences):  # yields (sequence, token)
        for row, sequence in enumerate(sequences):
            if not sequence.running:
                continue
            copies = Copies(model, len(sequences), row)
            seeds = sequence.rng.integers(2**62, size=n)
            texts = [Sequence(model, sequence.ids, sequence.n_left, sequence.sampler, seed)
                     for seed in seeds]  # fmt: skip
            list(cached(copies, texts))  # type: ignore[arg-type]  # Copies is made like a Model
            best = texts[int(np.argmax(scores(copies, texts)))]
            yield from lengthen(sequence, best.new_ids)

    return loop


class Copies:
    """A model of any number of copies of one row of a batch, which may have a source of its own."""

    def __init__(self, model, n_rows, row):
        self.model, self.n_rows, self.row = model, n_rows, row

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache, last=None):
        return self.model(ids, cache, last)

    def new_cache(self, n):  # of n rows, all copies of one
        cache = self.model.new_cache(self.n_rows)
        cache.select([self.row] * n)
        return cache


def mean_log_probabilities(model, texts):  # list of Sequence -> [n_texts]
    ids = left_pad([text.ids for text in texts])  # [n_texts, n_longest]
    log_p = log_softmax(model(ids[:, :-1], model.new_cache(len(texts))))
    of_tokens = np.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
    return [row[-len(text.new_ids) :].mean() for row, text in zip(of_tokens, texts)]


def ngrams(text, longest=6):  # -> for each n a Counter of the n-grams of its characters, no spaces
    text = "".join(text.split())
    return [Counter(text[i : i + n] for i in range(len(text) - n + 1))
            for n in range(1, longest + 1)]  # fmt: skip


def chrf(one, other, beta=2):
    """How alike two texts are, from 0 to 100: the F-score of their n-grams' mean precision and
    recall."""
    pairs = [(a, b) for a, b in zip(one, other) if a and b]
    shared = [(a & b).total() for a, b in pairs]
    if not any(shared):
        return 0.0
    precision = np.mean([s / a.total() for s, (a, _) in zip(shared, pairs)])
    recall = np.mean([s / b.total() for s, (_, b) in zip(shared, pairs)])
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
