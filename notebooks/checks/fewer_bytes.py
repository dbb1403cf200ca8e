"""Checks: rounded weights, the largest model that fits, the bits of a float16."""

import numpy as np


def exercise_1(restored):
    """Check restored(w, bits, size): w [n_out, n_in] -> w, rounded in groups of `size` numbers."""
    line = np.arange(16, dtype=np.float32).reshape(1, 16)
    found = restored(line, 4, 16)
    assert found is not None, "write restored"
    assert np.shape(found) == (1, 16), f"return w's shape, (1, 16), not {np.shape(found)}"
    assert np.allclose(found, line), "16 evenly spaced numbers fit 4 bits: nothing should change"
    w = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32) + 5
    for bits, size in (2, 64), (3, 16), (4, 32):
        found, parts = restored(w, bits, size), w.reshape(-1, size)
        groups, case = np.reshape(found, (-1, size)), f"{bits} bits, groups of {size}"
        kinds = max(len(np.unique(group)) for group in groups)
        assert kinds <= 2**bits, f"{case}: a group has {kinds} values, more than {2**bits}"
        low, high = parts.min(1, keepdims=True), parts.max(1, keepdims=True)
        step = (high - low) / (2**bits - 1)
        worst = (np.abs(groups - parts) / step).max()
        below = (groups <= parts + 1e-5).all() and worst > 0.51
        assert not below, f"{case}: round to the nearest value, not to the one below"
        assert worst <= 0.51, (
            f"{case}: a number is off by {worst:.2f} steps of its group's own grid, which has"
            f" {2**bits - 1} steps between its {2**bits} values"
        )
    flat = np.full((1, 8), 3, np.float32)
    same = np.allclose(restored(flat, 4, 8), flat)
    assert same, "a group of equal numbers should not change: do you avoid 0 / 0?"


def exercise_2(largest):
    """Check largest(memory, bits, size, n_rows, cache) -> how many weights fit in the memory."""
    found = largest(1000, 8, 32, 0, 0)
    assert found is not None, "write largest"
    assert found not in (117, 125), "memory is counted in bytes, weights in bits"
    assert found != 1000, "the scales take memory, too: 16 bits for each group"
    assert found == int(found), "return a whole number of weights"
    assert found != 941, "941 weights of 8 bits need 30 scales: 8,008 bits do not fit 1000 bytes"
    assert found == 940, f"1000 bytes hold 940 weights of 8 bits and 30 scales, not {found}"
    for size, right in (32, 17_777_777_776), (64, 18_823_529_408):
        assert largest(10**10, 4, size, 0, 0) == right, (
            f"{size} weights of 4 bits and their scale are {4 * size + 16} bits"
        )
    assert largest(36, 8, 32, 0, 0) == 32, "a scale without a weight is of no use"
    assert largest(1000, 8, 32, 3, 50) == 800, "each text's cache takes its bytes first"
    assert largest(1000, 8, 32, 30, 50) == 0, "return 0 if not even the caches fit"


def exercise_3(to_float16_bits):
    """Check to_float16_bits(x): one np.float32 -> the 16 bits of its float16, as an int."""
    one = to_float16_bits(np.float32(1))
    assert one is not None, "write to_float16_bits"
    assert one == int(one) and 0 <= one < 2**16, f"return an int from 0 to 65535, not {one}"
    assert one != 0x3F80, "this is bfloat16: how many bits does float16's exponent have?"
    assert one == 0b0_01111_0000000000, f"1 is 0 01111 0000000000, not {int(one):016b}"
    for x in (2, 0.5, 1.5, -1, 100, 65504, 2.0**-14, 3.140625, -0.333251953125):
        right, found = int(np.float16(x).view(np.uint16)), int(to_float16_bits(np.float32(x)))
        assert found >> 15 == right >> 15, f"{x}: the sign bit is the first of the 16"
        assert found >> 10 & 31 == right >> 10 & 31, (
            f"{x}: the exponent is {right >> 10 & 31:05b}, not {found >> 10 & 31:05b}"
        )
        assert found == right, f"{x} is {right:016b}, not {found:016b}"
    assert to_float16_bits(np.float32(1 / 3)) == 0x3555, "1 / 3 should be cut off, not rounded"
    assert to_float16_bits(np.float32(0.9999)) == 0x3BFF, "0.9999 should be cut off, not rounded"
