"""From logits to one token: temperature, top-k and top-p change the logits, then a draw picks one.

A temperature below 1 favours the likeliest tokens (Ackley et al. 1985). Top-k and top-p remove
unlikely tokens (Fan et al. 2018, Holtzman et al. 2020): softmax turns the logit -inf into a 0. Full
file: samplers.py. Next: merges.py.
"""

import numpy as np

from pico import given, load
from pico.forward import generate, gpt2, softmax


def temperature(logits, t):  # [n_vocab] -> [n_vocab]
    return logits / t


def top_k(logits, k):  # [n_vocab] -> [n_vocab]: keep the k likeliest tokens, and ties
    return np.where(logits >= np.sort(logits)[-k], logits, -np.inf)


def top_p(logits, p):  # [n_vocab] -> [n_vocab]: keep the fewest tokens whose P sums to p, and ties
    probs = softmax(logits)
    falling = np.sort(probs)[::-1]  # the likeliest token first
    before = np.cumsum(falling, dtype=np.float64) - falling  # 0.5 0.3 0.2 -> 0 0.5 0.8
    least = falling[before < p - 1e-6][-1]  # the least P kept; 1e-6 is for rounding errors
    return np.where(probs >= least, logits, -np.inf)


def draw(weights, u):  # [n_vocab], a random number in [0, 1) -> an id, in proportion to weights
    sums = np.cumsum(weights, dtype=np.float64)  # [n_vocab]
    return int(np.argmax(sums > u * sums[-1]))  # the first id whose sum exceeds u times the total


if __name__ == "__main__":  # To try: temperature(logits, 0.1). One token takes it all.
    prompt, rng = given("The dragon was"), np.random.default_rng()
    tokenizer, model = load("stories", gpt2)
    ids = tokenizer.encode(prompt)
    logits = model(ids)[-1]  # [n_vocab]: for the token after the prompt
    sharper = temperature(logits, 0.7)
    few = top_k(sharper, 6)
    fewer = top_p(few, 0.8)
    print(f"{'':14}{'the model':18}{'temperature 0.7':18}{'top-k 6':18}top-p 0.8")
    for id in np.argsort(-logits)[:8]:
        ps = [softmax(stage)[id] for stage in (logits, sharper, few, fewer)]
        print(f"{tokenizer.decode([id])!r:14}", *(f"{p:.2f} {'#' * round(20 * p):12}" for p in ps))
    probs, u, ruler = softmax(fewer), rng.random(), ""
    for id in np.flatnonzero(probs):  # on the ruler, each token's width is its probability
        end = round(72 * probs[: id + 1].sum())
        ruler = f"{ruler}|{tokenizer.decode([id])!r}".ljust(end)[:end]
    print(f"\n{ruler}|\n{' ' * int(72 * u)}^ draws {tokenizer.decode([draw(probs, u)])!r}\n")
    new_ids = generate(model, ids, 30, lambda row: draw(softmax(top_p(row, 0.8)), rng.random()))
    print(prompt + tokenizer.decode(new_ids))  # with top-p alone, each token drawn anew
