# exercise 1
def prefill(ids, keys, values):  # -> logits [len(ids), n_vocab]
    n_old = keys[0].shape[1]
    positions = np.arange(n_old, n_old + len(ids))
    mask = causal_mask(positions)  # [1, len(ids), all]
    x = wte[ids] + wpe[positions]
    for i, block in enumerate(params["blocks"]):
        qkv = linear(layer_norm(x, **block["ln_1"]), **block["attn"]["c_attn"])
        q, k, v = (split_heads(part, n_head) for part in np.split(qkv, 3, axis=-1))
        keys[i] = np.concatenate([keys[i], k], axis=1)
        values[i] = np.concatenate([values[i], v], axis=1)
        mixed = attention(q, keys[i], values[i], mask)
        x = x + linear(merge_heads(mixed), **block["attn"]["c_proj"])
        x = x + feed_forward(layer_norm(x, **block["ln_2"]), **block["mlp"], activation=gelu)
    return linear(layer_norm(x, **params["ln_f"]), wte)


# exercise 2
def naive_tokens(m, n):  # m + (m + 1) + ... + (m + n - 1): 523,500 for m = 24, n = 1000
    return n * m + n * (n - 1) // 2


def cached_tokens(m, n):  # every token except the last: 1,023 for m = 24, n = 1000
    return m + n - 1


# exercise 3
def log_p_endings(model, beginning, endings):  # -> a list with log P of each ending
    # The last row of the beginning is about the first token of every ending.
    cache, found = model.new_cache(), []
    first = log_softmax(model(beginning, cache, last=1))  # [1, n_vocab], shared by all endings
    for ending in endings:
        rows = first
        if len(ending) > 1:  # the model need not read the last token
            later = log_softmax(model(ending[:-1], cache))
            rows = np.vstack([first, later])
        found.append(rows[range(len(ending)), ending].sum())
        cache.cut(len(beginning))
    return found
