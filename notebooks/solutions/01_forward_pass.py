# Each part replaces its exercise's cell, where all other names are defined.
# ruff: noqa: F821

# exercise 1
def n_parameters(n_vocab, n_ctx, n_embd, n_layer):  # four ints -> int
    norm = 2 * n_embd
    attention = (n_embd + 1) * 3 * n_embd + (n_embd + 1) * n_embd  # c_attn, c_proj
    mlp = (n_embd + 1) * 4 * n_embd + (4 * n_embd + 1) * n_embd  # c_fc, c_proj
    return (n_vocab + n_ctx) * n_embd + n_layer * (2 * norm + attention + mlp) + norm


# exercise 2
def without_head(block, h):  # -> a block of the same shapes
    c_proj = block["attn"]["c_proj"]
    d_head = c_proj["w"].shape[1] // n_head
    w = c_proj["w"].copy()
    w[:, h * d_head : (h + 1) * d_head] = 0  # the columns that read head h
    return {**block, "attn": {**block["attn"], "c_proj": {"w": w, "b": c_proj["b"]}}}


# exercise 3
def window_mask(n, w):  # -> [1, n, n], -1e10 where hidden
    query, key = np.arange(n)[:, None], np.arange(n)
    hidden = (key > query) | (key <= query - w)
    return np.where(hidden, np.float32(-1e10), np.float32(0))[None]


def reach(n_layer, w):  # -> positions back
    return n_layer * (w - 1)
