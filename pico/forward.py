"""GPT-2 on one page: a pass scores every possible next token; a loop appends the best.

A token is a word, a part of one, or a sign. Its id is its number: row `id` of wte is its vector,
row i of wpe that of position i. c_... is a layer {w, b}, ln_... a norm {g, b}. Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners". Full file: gpt2.py. Next: factors.py.
"""

import numpy as np

from pico import given, load


def generate(model, ids, n, choose=np.argmax):  # yields the n ids that follow, one by one
    for _ in range(n):
        logits = model(ids)  # [n_seq, n_vocab]: a pass over the whole text
        last = logits[-1]  # [n_vocab]: a score (logit) for every possible next token
        next_id = int(choose(last))  # np.argmax is greedy: it takes the best token
        ids = ids + [next_id]
        yield next_id


def gpt2(ids, wte, wpe, blocks, ln_f, n_head):  # [n_seq] -> [n_seq, n_vocab]
    x = wte[ids] + wpe[: len(ids)]  # [n_seq, n_embd]: a vector for the token, one for its position
    mask = causal_mask(len(ids))  # or row i could look up token i + 1, which it is to predict
    for block in blocks:  # {"ln_1": {g, b}, "attn": {"c_attn": {w, b}, "c_proj": {w, b}}, ...}
        h = layer_norm(x, **block["ln_1"])
        x = x + self_attention(h, mask, n_head, **block["attn"])  # brings in earlier tokens
        h = layer_norm(x, **block["ln_2"])
        x = x + feed_forward(h, **block["mlp"])  # works on each token by itself
    x = layer_norm(x, **ln_f)
    return x @ wte.T  # the logits: row i scores every token as a successor to ids[: i + 1]


def causal_mask(n_seq):  # -> [n_seq, n_seq]: True where token j is in the future of token i
    i, j = np.indices((n_seq, n_seq))  # the row and the column of each entry
    return j > i  # for 3 tokens: [[F, T, T], [F, F, T], [F, F, F]]


def self_attention(x, mask, n_head, c_attn, c_proj):  # [n_seq, n_embd] -> [n_seq, n_embd]
    qkv = linear(x, **c_attn)  # [n_seq, 3 n_embd]
    q, k, v = np.split(qkv, 3, axis=-1)  # queries, keys and values: [n_seq, n_embd] each
    h = multi_head(q, k, v, mask, n_head)
    return linear(h, **c_proj)


def multi_head(q, k, v, mask, n_head):  # 3 x [n_seq, n_embd] -> [n_seq, n_embd]
    qs, ks, vs = [np.split(part, n_head, axis=-1) for part in (q, k, v)]  # n_head parts of each
    heads = [attention(qs[i], ks[i], vs[i], mask) for i in range(n_head)]
    return np.hstack(heads)  # side by side again: each head made its own mixture


def attention(q, k, v, mask):  # 3 x [n_seq, d_head], [n_seq, n_seq] -> [n_seq, d_head]
    d_head = q.shape[-1]
    scores = q @ k.T / d_head**0.5  # [n_seq, n_seq]: how well query i matches key j
    scores[mask] = -np.inf  # softmax turns -inf into 0: no token sees its future
    weights = softmax(scores)  # row i: how much token i takes from each token j
    return weights @ v  # row i: the mean of all values, weighted by row i of weights


def feed_forward(x, c_fc, c_proj):  # [n_seq, n_embd] -> [n_seq, n_embd]
    h = gelu(linear(x, **c_fc))  # [n_seq, 4 n_embd]
    return linear(h, **c_proj)


def linear(x, w, b):  # [n_seq, n_in], [n_out, n_in], [n_out] -> [n_seq, n_out]
    return x @ w.T + b


def layer_norm(x, g, b):  # [n_seq, n_embd] -> same: mean 0 and variance 1, then times g, plus b
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * g + b


def gelu(x):  # about 0 for very negative x, about x for large x, smooth in between
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def softmax(x):  # each row becomes weights that sum to 1
    e = np.exp(x - x.max(-1, keepdims=True))  # minus the maximum, so that exp cannot overflow
    return e / e.sum(-1, keepdims=True)


if __name__ == "__main__":  # To try: in gpt2, x = wte[ids], without wpe. The story falls apart.
    prompt = given("Once upon a time")  # or what the command line says
    tokenizer, model = load("stories", gpt2)  # model(ids) is gpt2(ids, wte=..., wpe=..., ...)
    ids = tokenizer.encode(prompt)  # (the name "gpt2" instead of "stories" downloads GPT-2 itself)
    n = len(model.keywords["wpe"]) - len(ids)  # as many tokens as wpe still has rows for
    print(prompt, end="")
    for id in generate(model, ids, n):
        if id == tokenizer.end_of_text:  # it separates stories
            break
        print(tokenizer.decode([id]), end="", flush=True)
    print()
