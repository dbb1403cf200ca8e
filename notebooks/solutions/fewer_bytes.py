# exercise 1
def restored(w, bits, size):  # [n_out, n_in], float32 -> the same weights, rounded
    parts = w.reshape(-1, size)  # [n_groups, size]
    low = parts.min(axis=1, keepdims=True)
    step = (parts.max(axis=1, keepdims=True) - low) / (2**bits - 1)
    step = np.maximum(step, 1e-12)  # avoids 0 / 0 in a group of equal numbers
    return (low + step * np.round((parts - low) / step)).reshape(w.shape)


# exercise 2
def largest(memory, bits, size, n_rows, cache):  # -> the largest number of weights that fits
    # 24 GB, 4 bits in groups of 32, eight texts with a cache of 1 GiB each: 27 billion weights.
    # With 16 bits, it is fewer than 8 billion.
    left = 8 * (memory - n_rows * cache)  # bits
    groups, rest = divmod(left, size * bits + 16)
    in_a_smaller_group = max(0, rest - 16) // bits
    return max(0, groups * size + in_a_smaller_group)


# exercise 3
def to_float16_bits(x):  # one np.float32 -> an int from 0 to 65535
    bits = int(x.view(np.uint32))
    sign = bits >> 31
    exponent = (bits >> 23 & 255) - 127
    fraction = bits & 0x7FFFFF
    return sign << 15 | (exponent + 15) << 10 | fraction >> 13
