"""The matrix product of a layer, fast for a few rows too: batches, beams, drafts to verify.

For one row, BLAS reads the weight once, at the speed of the memory. For two rows or more OpenBLAS
first copies ("packs") the whole weight into another layout, which pays for hundreds of rows: 2 rows
take as long as 16. Its AVX-512 kernels do small products without that copy. So a product with a few
rows is made of small ones, each with a block of the weight's rows. Elsewhere this gains nothing, so
it is measured once, at the first product of a few rows.
"""

import functools
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

MOST_ROWS = 32  # with more, one large product is faster
LEAST = 8  # rows of the weight in a block
SMALL = 10**6  # the most multiplications of a product that OpenBLAS takes as small
SHARE = 2**20  # a thread has at least so many weights, or starting it (0.1 ms) outweighs its work

n_threads = os.cpu_count() or 1  # of the small products; the large ones have BLAS's own threads


def product(rows, w):  # [n_rows, n_in], [n_out, n_in] -> rows @ w.T [n_rows, n_out]
    if 1 < len(rows) <= MOST_ROWS and LEAST * rows.size <= SMALL and blocks_pay():
        return product_in_blocks(rows, w)
    return rows @ w.T


def product_in_blocks(rows, w):  # [n_rows, n_in], [n_out, n_in] -> rows @ w.T [n_rows, n_out]
    """Each thread takes a part of w."""
    y = np.empty((len(w), len(rows)), np.float32)
    n_parts = max(1, min(n_threads, w.size // SHARE))
    bounds = [len(w) * part // n_parts for part in range(n_parts + 1)]
    parts = [slice(*pair) for pair in zip(bounds, bounds[1:])]
    others = [pool().submit(in_thread, np.geterr(), rows, w[part], y[part]) for part in parts[1:]]
    small_products(rows, w[parts[0]], y[parts[0]])
    for other in others:
        other.result()
    return y.T


def small_products(rows, w, out):  # [n_rows, n_in], [n_out, n_in] -> w @ rows.T into out
    size = max(LEAST, min(32, SMALL // rows.size // 8 * 8))  # rows of w in a block
    n_full = len(w) // size * size
    blocks = w[:n_full].reshape(-1, size, w.shape[1])  # [n_blocks, size, n_in], a view
    np.matmul(blocks, rows.T, out=out[:n_full].reshape(-1, size, len(rows)))
    np.matmul(w[n_full:], rows.T, out=out[n_full:])


def in_thread(errors, rows, w, out):  # a thread has no np.errstate of its caller's
    with np.errstate(**errors):
        small_products(rows, w, out)


@functools.cache
def pool():
    return ThreadPoolExecutor(n_threads)


if hasattr(os, "register_at_fork"):  # the threads of a pool do not live on in a child process
    os.register_at_fork(after_in_child=lambda: pool.cache_clear())


@functools.cache
def blocks_pay():
    """Measured once, in some milliseconds: do blocks take less than 3/4 of the plain one's time?"""
    rows, w = np.ones((4, 768), np.float32), np.ones((1536, 768), np.float32)
    seconds = {product_in_blocks: [], np.matmul: []}
    for _ in range(5):
        for f, b in (product_in_blocks, w), (np.matmul, w.T):
            start = time.perf_counter()
            f(rows, b)
            seconds[f].append(time.perf_counter() - start)
    return min(seconds[product_in_blocks]) < 0.75 * min(seconds[np.matmul])
