"""Checks: a grid with scales, rounding to a group's range, the largest model, bits of a float16."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/fewer_bytes.ipynb quantise restored]
rounded down: round to the nearest value
    np.round -> np.floor
[notebooks/fewer_bytes.ipynb quantise]
with one scale for all: each group has its own
    max(axis=1, keepdims=True) -> max() + 0 * parts[:, :1]
[notebooks/fewer_bytes.ipynb restored]
with one grid for the whole matrix: each group has its own
    w.reshape(-1, size) -> w.reshape(1, -1)
[notebooks/fewer_bytes.ipynb largest]
without the scales: each group needs 16 bits for its scale
    size * bits + 16 -> size * bits
    max(0, rest - 16) -> rest
without a scale for a last group of fewer weights
    return -> return int(left // (bits + 16 / size)) or
[notebooks/fewer_bytes.ipynb to_float16_bits]
of a bfloat16: a float16 has 5 bits for the exponent
    => return bits >> 16
without the sign, which is the first of the 16 bits
    sign << 15 | ->
with the fraction rounded: cut it off
    fraction >> 13 -> (fraction + 4096 >> 13)
""")


def see_quantise(m, seed):
    """Look at the scales and the whole numbers of five grids, and of zeros."""
    w = np.random.default_rng(0).normal(size=(6, 32)).astype(np.float32)
    for bits, size in (8, 32), (8, 4), (4, 16), (3, 8), (8, 192):
        q, scales = m.quantise(w, bits, size)
        case = f"with {bits} bits in groups of {size}"
        yield Seen(f"the scales {case}", scales, "group, one")
        yield Seen(f"the whole numbers {case}", q, "group, number")
        yield Seen(f"their type {case}", str(np.asarray(q).dtype))
    with np.errstate(all="raise"):  # so that 0 / 0 is an error
        yield Seen("the whole numbers for zeros", m.quantise(0 * w, 8, 32)[0], "group, number")


def see_restored(m, seed):
    """Look at weights whose mean is 5, restored from three grids."""
    w = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32) + 5
    for bits, size in (2, 64), (3, 16), (4, 32):
        yield Seen(f"{bits} bits, groups of {size}", m.restored(w, bits, size), "n_out, n_in")
    yield Seen("a group of equal numbers", m.restored(w[:1, :1].repeat(8, 1), 4, 8), "n_out, n_in")


def see_largest(m, seed):
    """Look at the largest models with and without caches, and where nothing fits."""
    for case in (1000, 8, 32, 0, 0), (10**10, 4, 64, 0, 0), (36, 8, 32, 0, 0), (1000, 8, 32, 3, 50):
        yield Seen(f"largest{case}", m.largest(*case))
    yield Seen("largest if not even the caches fit", m.largest(1000, 8, 32, 30, 50))


def see_float16(m, seed):
    """Look at the bits of whole numbers, powers, fractions and extremes."""
    for x in (1, 2, 0.5, -1, 100, 65504, 2.0**-14, -0.333251953125, 1 / 3, 0.9999):
        yield Seen(f"the bits of {x}", f"{int(m.to_float16_bits(np.float32(x))):016b}")


exercise_quantise = Part(("quantise",), see_quantise, WRONG)
exercise_1 = Part(("restored",), see_restored, WRONG)
exercise_2 = Part(("largest",), see_largest, WRONG)
exercise_3 = Part(("to_float16_bits",), see_float16, WRONG)
