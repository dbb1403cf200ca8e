# exercise 1
def rows_at_ridge(numbers, machine, n, n_bytes=4):  # -> a number of rows
    # Llama 3.1 8B on the H100: 441 rows for texts of 128 tokens. From 388 tokens on, there is no
    # such number: a row then adds more time for reading its cache than for computing.
    (weights, kv), (bandwidth, peak) = numbers, machine
    once = n_bytes * weights / bandwidth  # seconds of reading that all rows share
    more = 2 * weights / peak - n_bytes * n * kv / bandwidth  # computing less reading, per row
    return once / more if more > 0 else np.inf


# exercise 2
def prefill_seconds(numbers, machine, n, chunk):  # -> seconds
    # Up to the ridge point, at about 22 tokens here, a chunk takes as long as reading: half the
    # size takes twice the time in all. From there on, the size hardly matters.
    ends = [*range(chunk, n, chunk), n]
    spans = zip([0, *ends], ends)
    return sum(least_time(numbers, machine, 1, end - start, end) for start, end in spans)


# exercise 3
def most_rows(numbers, machine, n, memory, seconds, n_bytes=4):  # -> a number of rows
    # 100 tokens per second: with texts of 1024 tokens, 137 rows on the H100. Together they get
    # 13,700 tokens per second: at 3 dollars an hour, 6 cents for a million.
    weights, kv = numbers
    rows = int((memory / n_bytes - weights) // (n * kv))
    while rows > 0 and least_time(numbers, machine, rows, 1, n, n_bytes) > seconds:
        rows -= 1
    return max(rows, 0)
