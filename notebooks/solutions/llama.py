# exercise 1
def cache_size(config, n_tokens, n_bytes):  # -> bytes; n_bytes: the bytes per number
    n_head = config["num_attention_heads"]
    n_kv_head = config.get("num_key_value_heads", n_head)
    d_head = config.get("head_dim", config["hidden_size"] // n_head)
    n_numbers = 2 * config["num_hidden_layers"] * n_kv_head * d_head  # of one token
    return n_numbers * n_bytes * n_tokens


# exercise 2
def rotate_complex(x, positions, frequencies):  # [n, d], [n], [d / 2] -> [n, d]
    half = x.shape[-1] // 2
    z = x[:, :half] + 1j * x[:, half:]
    angles = positions[:, None] * frequencies
    z = z * np.exp(1j * angles)
    return np.concatenate([z.real, z.imag], axis=-1)


# exercise 3
def shared(w, n_head, n_kv_head):  # [n_head * d_head, n] -> [n_kv_head * d_head, n]
    heads = w.reshape(n_kv_head, n_head // n_kv_head, len(w) // n_head, -1)
    return heads.mean(axis=1).reshape(-1, w.shape[1])
