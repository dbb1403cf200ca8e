# exercise 1
def n_parameters(n_vocab, n_ctx, n_embd, n_layer):  # -> int
    norm = 2 * n_embd
    c_attn = (n_embd + 1) * 3 * n_embd
    attention = c_attn + (n_embd + 1) * n_embd  # c_attn and c_proj
    mlp = (n_embd + 1) * 4 * n_embd + (4 * n_embd + 1) * n_embd  # c_fc, c_proj
    tables = (n_vocab + n_ctx) * n_embd
    return tables + n_layer * (2 * norm + attention + mlp) + norm


# exercise 2
# A product with the merged vector is a sum of products, one for each head and its columns of w. So
# heads do not mix here: each adds a part of its own to the stream.
def written_by_heads(mixed, w, b):  # -> [n_head, n, n_embd]
    written, d_head = [], mixed.shape[-1]
    for h, head in enumerate(mixed):
        part = w[:, h * d_head : (h + 1) * d_head]  # the columns for this head's result
        written.append(head @ part.T)
    return np.array(written)


# exercise 3
def window_mask(n, w):  # -> [1, n, n], -1e10 where a key is hidden
    query, key = np.arange(n)[:, None], np.arange(n)
    hidden = (key > query) | (key <= query - w)
    return np.where(hidden, np.float32(-1e10), np.float32(0))[None]


def reach(n_layer, w):  # -> a number of positions
    return n_layer * (w - 1)
