"""The cache: it writes the same story as pico/forward.py, but reads each token only once.

No token sees its future, so the keys and values of the old tokens stay as they are when the text
grows. We keep them, and run the model only over the new token. Pope et al. 2022, "Efficiently
Scaling Transformer Inference". Full files: generate.py; Cache in gpt2.py. Next: choices.py.
"""

from collections import defaultdict

import numpy as np

from pico import given, load
from pico.forward import causal_mask, feed_forward, generate, layer_norm, linear, multi_head

shapes = []  # [n_new, n_all] of each pass


def cached(model, ids, n):  # yields the same ids as `generate`
    cache = defaultdict(list)  # ("keys", layer) and ("values", layer): a row [n_embd] per token
    unread = ids  # the first pass reads the prompt
    for _ in range(n):
        logits = model(unread, cache)  # [n_new, n_vocab]
        next_id = int(logits[-1].argmax())
        unread = [next_id]  # each later pass reads one token
        yield next_id


def gpt2(ids, cache, wte, wpe, blocks, ln_f, n_head):  # the new ids [n_new] -> [n_new, n_vocab]
    n_old = len(cache["keys", 0])  # 0 at first: defaultdict adds a []
    n_all = n_old + len(ids)
    x = wte[ids] + wpe[n_old:n_all]  # [n_new, n_embd]: the new tokens follow the old ones
    mask = causal_mask(n_all)[n_old:]  # [n_new, n_all]: the rows of the new tokens
    shapes.append(mask.shape)
    for layer, block in enumerate(blocks):
        keys, values = cache["keys", layer], cache["values", layer]
        h = layer_norm(x, **block["ln_1"])
        x = x + self_attention(h, mask, n_head, keys, values, **block["attn"])
        h = layer_norm(x, **block["ln_2"])
        x = x + feed_forward(h, **block["mlp"])
    x = layer_norm(x, **ln_f)
    return x @ wte.T


def self_attention(x, mask, n_head, keys, values, c_attn, c_proj):  # -> [n_new, n_embd]
    qkv = linear(x, **c_attn)  # for the new tokens only
    q, k, v = np.split(qkv, 3, axis=-1)  # [n_new, n_embd] each; an old q is never needed again
    keys.extend(k)  # these lists are in the cache, and grow to n_all rows
    values.extend(v)
    h = multi_head(q, np.array(keys), np.array(values), mask, n_head)  # new queries, all keys
    return linear(h, **c_proj)


if __name__ == "__main__":  # To try: n = 120. Tokens read: 7620 without a cache, 123 with one.
    prompt, n = given("Once upon a time"), 60
    tokenizer, model = load("stories", gpt2)  # model(ids, cache)
    ids, found = tokenizer.encode(prompt), []
    without = generate(lambda text: model(text, defaultdict(list)), ids, n)  # always an empty cache
    for loop in (without, cached(model, ids, n)):
        shapes.clear()
        found.append(list(loop))
        print("passes:", *shapes[:4], "...")
        print("tokens read:", sum(n_new for n_new, n_all in shapes))
        print("pairs of a query and a key:", sum(n_new * n_all for n_new, n_all in shapes))
    print("the same ids:", found[0] == found[1])
    print(prompt + tokenizer.decode(found[1]))
