# Each part replaces its exercise's cell, where all other names are defined.


# exercise 1
def step_seconds(shape, n_rows, n, bandwidth, peak):  # FLOP/s, bytes/s -> s
    # Some 30 rows at 16 tokens. At 1024 none: each row brings 8 b d n bytes of its own for its
    # 24 b d^2 + 4 b d n + 2 d V FLOPs; no number of rows exceeds that quotient, about 5 here, and
    # the GPU's ridge point is at 14.
    work = n_rows * pass_flops(shape, 1, n)
    return max(pass_bytes(shape, n, n_rows) / bandwidth, work / peak)


# exercise 2
def prefill_seconds(shape, n, size, bandwidth, peak):  # -> seconds
    seconds = 0
    for start in range(0, n, size):
        end = min(start + size, n)
        reading = pass_bytes(shape, end) / bandwidth
        computing = pass_flops(shape, end - start, end) / peak
        seconds += max(reading, computing)
    return seconds


# exercise 3
def blocked(rows, w, size):  # [n_rows, n_in], [n_out, n_in] -> [n_rows, n_out]
    n_full = len(w) // size * size
    blocks = w[:n_full].reshape(-1, size, w.shape[1])  # a view
    y = (blocks @ rows.T).reshape(n_full, len(rows))
    return np.concatenate([y, w[n_full:] @ rows.T]).T  # the rest is a smaller block
