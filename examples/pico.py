"""GPT-2 on one page; gpt2.py comes next. Run it: python -m examples.pico "Once upon a time"

A text has n tokens; x has a row of n_embd numbers for each. wte [n_vocab, n_embd] has a row for
each token there is, wpe for each position. c_... is a linear layer {w, b}, ln_... a norm {g, b}.
"""

import sys

import numpy as np

from loading.parameters import plain  # not the weights of families/few_rows.py: @ is NumPy's own
from utils import load


def generate(ids, params, n_head, stop_ids):  # token ids -> the ids that follow, one by one
    while len(ids) < len(params["wpe"]):  # n_ctx, the longest text
        ids = [*ids, int(gpt2(ids, **params, n_head=n_head)[-1].argmax())]  # the likeliest token
        if ids[-1] in stop_ids:
            return  # the text has ended
        yield ids[-1]


def gpt2(ids, wte, wpe, blocks, ln_f, n_head):  # [n] -> [n, n_vocab]
    x = wte[ids] + wpe[: len(ids)]  # [n, n_embd]: which token it is, plus where it stands
    for block in blocks:  # each adds something to x
        h = layer_norm(x, **block["ln_1"])
        x = x + self_attention(h, **block["attn"], n_head=n_head)  # mixes the tokens
        x = x + feed_forward(layer_norm(x, **block["ln_2"]), **block["mlp"])  # each token alone
    return layer_norm(x, **ln_f) @ wte.T  # row i, the logits: a score of each next token


def self_attention(x, c_attn, c_proj, n_head):  # [n, n_embd] -> [n, n_embd]
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)  # queries, keys, values: [n, n_embd] each
    qs, ks, vs = (np.split(part, n_head, axis=-1) for part in (q, k, v))  # n_head x [n, d] each
    heads = [attention(q, k, v) for q, k, v in zip(qs, ks, vs)]  # n_head x [n, d]: one by one
    return linear(np.hstack(heads), **c_proj)  # side by side again: d is n_embd / n_head


def attention(q, k, v):  # 3 x [n, d] -> [n, d]: for each query, a weighted mean of values
    mask = (1 - np.tri(len(q), dtype=np.float32)) * -1e10  # [n, n]: softmax makes -1e10 a 0
    return softmax(q @ k.T / q.shape[-1] ** 0.5 + mask) @ v  # q @ k.T: does query i fit key j?


def feed_forward(x, c_fc, c_proj):  # [n, n_embd] -> [n, 4 n_embd] -> [n, n_embd]
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def linear(x, w, b):  # [n, n_in], [n_out, n_in], [n_out] -> [n, n_out]
    return x @ w.T + b


def layer_norm(x, g, b):  # each row: mean 0 and variance 1, then times g, plus b
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def gelu(x):  # about 0 for very negative x, about x for large x, smooth in between
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def softmax(x):  # each row becomes weights that sum to 1
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":
    tokenizer, model = load("stories")
    print(text := " ".join(sys.argv[1:]) or "Once upon a time", end="")
    for id in generate(tokenizer.encode(text), plain(model.params), model.n_head, model.stop_ids):
        print(tokenizer.decode([id]), end="", flush=True)  # see encoder.Stream for parts of letters
    print()
