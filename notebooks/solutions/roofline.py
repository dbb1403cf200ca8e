# Each solution replaces the cell of its exercise. It uses names that the notebook defines.


# exercise 1
def step_seconds(shape, n_rows, n, bandwidth, peak, n_bytes=4):  # -> seconds
    # With texts of 16 tokens on this GPU, computing takes longer than reading for at least 306 rows
    # with 16 bits, and for at least 30 rows with 32 bits. With texts of 1024 tokens, reading always
    # takes longer: each row adds 24 b d^2 + 4 b d n + 2 d V FLOPs, and reads 2 b d n numbers of its
    # own cache. For any number of rows, the FLOPs per number stay below the quotient of these, 22.
    work = n_rows * pass_flops(shape, 1, n)
    read = pass_bytes(shape, n, n_rows) * n_bytes / 4
    return max(read / bandwidth, work / peak)


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
    return np.concatenate([y, w[n_full:] @ rows.T]).T  # the last rows of w are a smaller block
