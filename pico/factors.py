"""The probability of a text is a product: P(x_1 .. x_n) = P(x_1) P(x_2 | x_1) P(x_3 | x_1, x_2) ...

Each factor says how likely a token is after those before it. One pass gives them all. Surprise in
bits, -log2 P: Shannon 1948, "A Mathematical Theory of Communication". Full file: decoding/score.py.
Next: pico/cache.py.
"""

import numpy as np

from pico import load, words
from pico.forward import gpt2, softmax


def factors(model, ids):  # [n_seq] -> [n_seq - 1]: P(ids[1] | ids[:1]), P(ids[2] | ids[:2]), ...
    probs = softmax(model(ids[:-1]))  # row i: the probability of each token that may follow token i
    return np.array([row[id] for row, id in zip(probs, ids[1:])])  # of the one that does follow


if __name__ == "__main__":  # To try: the same words in another order. Compare the bits.
    tokenizer, model = load("stories", gpt2)
    ids = [tokenizer.end_of_text] + tokenizer.encode(words("One day, a dragon sang."))
    ps = factors(model, ids)  # after end_of_text, with which a story begins
    print("P(token | before)   bits   P(text so far)  token")
    for id, p, product in zip(ids[1:], ps, np.cumprod(ps)):
        print(f"{p:17.6f}{-np.log2(p):7.2f}{product:17.2e}  {tokenizer.decode([id])!r}")
    bits = -np.log2(ps).sum()  # the product of a long text is soon too small for a float
    mean = bits / len(ps)
    print(f"in all {bits:17.2f} bits; {mean:.2f} per token; perplexity 2^{mean:.2f}: {2**mean:.1f}")

    _, small = load("stories-draft", gpt2)  # a small model, because this takes n_vocab passes
    first = softmax(small(ids)[-1])  # [n_vocab]: P(a | text) of each token a
    pairs = [p * softmax(small(ids + [a])[-1]) for a, p in enumerate(first)]  # times P(b | text, a)
    print(f"P of all {np.size(pairs):,} continuations by two tokens: {np.sum(pairs):.5f} in sum")
