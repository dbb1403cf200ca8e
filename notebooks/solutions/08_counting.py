# exercise 1
def wasted(lengths):  # a list of ints -> 0 to 1, for the shape STORIES
    longest = max(lengths)
    padded = len(lengths) * pass_flops(STORIES, longest, longest)
    return 1 - sum(pass_flops(STORIES, n, n) for n in lengths) / padded


# exercise 2
def chunked(model, ids, size):  # ids [n_seq], the tokens of a chunk -> logits [n_vocab] of the last
    cache = model.new_cache()
    for start in range(0, len(ids), size):
        logits = model(ids[start : start + size], cache, last=1)
    return logits[-1]  # in chunks of 1 every token would read all weights: decoding, 200 times


# exercise 3
def step_seconds(shape, n_rows, n, bandwidth, peak):  # FLOP/s, bytes/s -> seconds
    # Some 30 rows at 16 tokens. At 1024 none: each row brings 8 b d n bytes of its own for its
    # 24 b d^2 + 4 b d n + 2 d V FLOPs; no number of rows exceeds that quotient, about 5 here, and
    # the GPU's roof bends at 14.
    work = n_rows * pass_flops(shape, 1, n)
    return max(pass_bytes(shape, n, n_rows) / bandwidth, work / peak)
