r"""Choosing among texts: draw n texts, and select one.

The most probable text is often dull, and a drawn text can be anything. Best of n selects the drawn
text with the highest mean log P per token. Minimum Bayes risk (MBR) selects the text that is most
similar to all the others. Its expected error is the smallest if the drawn texts have the same
distribution as the right texts. (Eikema & Aziz 2020, "Is MAP Decoding All You Need?". The
similarity is chrF: Popović 2015. If only equal texts were similar, this would be a majority vote.)

    python generate.py "It is cold today." --model en-de --temperature 1 \
        --loop "examples/choosing.py:mbr(32, tokenizer)"
"""

from collections import Counter

import numpy as np

from decoding.batching import continuous
from decoding.score import log_probabilities
from generate import Sequence


def best_of(n):
    """Return a loop that draws n texts and selects the one with the highest log P / n_tokens."""

    def mean_log_p(model, texts):  # list of Sequence -> [n_texts]
        return [log_probabilities(model, t.ids)[t.n_prompt - 1 :].mean() for t in texts]

    return choosing(n, mean_log_p)


def mbr(n, tokenizer):
    """Return a loop that draws n texts and selects the one that is most similar to all of them: the
    one with the highest sum of chrF."""

    def total_likeness(model, texts):  # list of Sequence -> [n_texts]
        grams = [ngrams(tokenizer.decode(text.new_ids)) for text in texts]
        return [sum(chrf(one, other) for other in grams) for one in grams]

    return choosing(n, total_likeness)


def choosing(n, rate):
    """Return a loop that draws n texts as one batch, and selects the text with the highest rating.
    rate(model, texts) -> the ratings [n_texts]."""

    def loop(model, sequence):  # yields tokens
        same = model, sequence.ids, sequence.n_left, sequence.sampler
        texts = [Sequence(*same, seed) for seed in sequence.rng.integers(2**62, size=n)]
        list(continuous(texts, max_rows=n))
        best = texts[int(np.argmax(rate(model, texts)))]
        for token in best.new_ids:
            if sequence.running:  # the caller may have ended the text at a stop string
                yield sequence.append(token)

    return loop


def ngrams(text, longest=6):  # -> a list: for n = 1, 2, ..., the Counter of the character n-grams
    text = "".join(text.split())  # chrF ignores spaces
    lengths = range(1, longest + 1)
    return [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for n in lengths]


def chrf(one, other, beta=2):
    """Return the similarity of two texts, from 0 to 100: the F-score of the mean precision and the
    mean recall, whose weight is beta. one, other: the results of `ngrams`."""
    pairs = [(a, b) for a, b in zip(one, other) if a and b]
    shared = [(a & b).total() for a, b in pairs]
    if not any(shared):
        return 0.0
    precision = np.mean([s / a.total() for s, (a, _) in zip(shared, pairs)])
    recall = np.mean([s / b.total() for s, (_, b) in zip(shared, pairs)])
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
