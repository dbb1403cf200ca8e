"""GPT-2 on one page. Run it: python -m examples.pico "Once upon a time"

Each function calls the ones below it. A text has n tokens. Each token has n_embd numbers, which are
n_head parts of d_head numbers. Next: gpt2.py, the same model, with batches of texts and a cache.
"""

import sys

import numpy as np

from loading.parameters import plain
from utils import load


def generate(ids, params, n_head, stop_ids):  # the text's token ids -> the longer text's token ids
    while len(ids) < len(params["wpe"]) and ids[-1] not in stop_ids:  # wpe: a row per position
        logits = gpt2(ids, **params, n_head=n_head)
        ids = [*ids, int(logits[-1].argmax())]  # the likeliest token after the whole text
    return ids


def gpt2(ids, wte, wpe, blocks, ln_f, n_head):  # [n] -> [n, n_vocab]: scores of the next token
    x = wte[ids] + wpe[: len(ids)]  # [n, n_embd]: which token it is, plus where it stands
    for params in blocks:
        x = block(x, **params, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


def block(x, ln_1, attn, ln_2, mlp, n_head):  # [n, n_embd] -> [n, n_embd]
    x = x + self_attention(layer_norm(x, **ln_1), **attn, n_head=n_head)  # mixes the tokens
    return x + feed_forward(layer_norm(x, **ln_2), **mlp)  # works on each token separately


def self_attention(x, c_attn, c_proj, n_head):  # [n, n_embd] -> [n, n_embd]
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 x [n, n_embd]: queries, keys, values
    q, k, v = (np.split(part, n_head, axis=-1) for part in qkv)  # 3 x n_head x [n, d_head]
    return linear(np.hstack([attention(*head) for head in zip(q, k, v)]), **c_proj)


def attention(q, k, v):  # 3 x [n, d_head] -> [n, d_head]: for each query, a mean of the values
    mask = np.triu(np.full((len(q), len(k)), np.float32(-1e10)), k=1)  # no token sees a later one
    return softmax(q @ k.T / q.shape[-1] ** 0.5 + mask) @ v


def feed_forward(x, c_fc, c_proj):  # [n, n_embd] -> [n, n_embd]
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def linear(x, w, b):  # [n, n_in], [n_out, n_in], [n_out] -> [n, n_out]
    return x @ w.T + b


def layer_norm(x, g, b):  # each row: mean 0 and variance 1, then times g, plus b
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def gelu(x):  # about 0 for x << 0, about x for x >> 0, smooth in between
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def softmax(x):  # each row becomes positive, and sums to 1
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":
    tokenizer, model = load("stories")
    ids = tokenizer.encode(" ".join(sys.argv[1:]) or "Once upon a time")
    ids = generate(ids, plain(model.params), model.n_head, model.stop_ids)
    print(tokenizer.decode(id for id in ids if id not in model.stop_ids))
