"""The probability of a text is a product: P(x_1 .. x_n) = P(x_1) P(x_2 | x_1) P(x_3 | x_1, x_2) ...

Each factor says how likely a token is given those before it. One pass gives them all. In bits,
-log2 P: Shannon 1948, "A Mathematical Theory of Communication". Full file: decoding/score.py. Next:
cache.py.
"""

import numpy as np

from pico import given, load
from pico.forward import gpt2, softmax


def factors(model, ids):  # [n_seq] -> [n_seq - 1]: P of ids[1], ids[2], ..., given those before
    probs = softmax(model(ids[:-1]))  # row i: P of every token as ids[i + 1]; none follows the last
    return np.array([row[id] for row, id in zip(probs, ids[1:])])  # P of the token that follows


if __name__ == "__main__":  # To try: "One day, a bird sang." Which tokens save bits?
    tokenizer, model = load("stories", gpt2)
    ids = tokenizer.encode(given("One day, a dragon sang."))
    ids = [tokenizer.end_of_text] + ids  # it precedes every story, so x_1 has a factor, too
    ps = factors(model, ids)
    print("P(token | before)   bits   P(text so far)  token")
    for id, p, product in zip(ids[1:], ps, np.cumprod(ps)):
        print(f"{p:17.6f}{-np.log2(p):7.2f}{product:17.2e}  {tokenizer.decode([id])!r}")
    bits = -np.log2(ps).sum()  # -log2 of the product: a sum, which never underflows
    mean = bits / len(ps)  # perplexity: as unsure as a choice of 2**mean equal tokens
    print(f"total {bits:18.2f} bits, {mean:.2f} per token: perplexity 2^{mean:.2f} = {2**mean:.1f}")
    _, small = load("stories-draft", gpt2)  # a small model, for so many passes
    first = softmax(small(ids)[-1])  # [n_vocab]: P(a | text) of every token a
    rows = [p * softmax(small(ids + [a])[-1]) for a, p in enumerate(first)]  # row a: P(a, b | text)
    print(f"P of all {np.size(rows):,} two-token continuations, summed: {np.sum(rows):.5f}")
