"""Fast products with a weight, x @ w.T: of a few rows, and in small models.

For two or more rows, OpenBLAS first copies ("packs") the weight into a different layout. The copy
pays off for hundreds of rows, but not for a few. OpenBLAS's kernels for AVX-512 compute small
products without a copy. Where these run, we multiply a few rows by small blocks of the weight. A
small product runs on one core, so n_threads() threads share a large weight.
"""

import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import ThreadpoolController

BLAS = ThreadpoolController().select(user_api="blas")  # the libraries that NumPy has loaded
MOST_ROWS = 32  # for more rows, one large product is faster
BLOCK = 32  # how many rows or columns of the weight a small product takes
SMALL = 10**6  # OpenBLAS treats a product of up to this many multiplications as small
AVX_512 = "SkylakeX", "Cooperlake", "SapphireRapids"  # the names of OpenBLAS's kernels
SHARE = 2**19  # for fewer weights per thread, another thread does not pay off
SMALL_MODEL = 2**9, 2**22  # n_embd and n_vocab * n_embd are below these numbers


class Pass(threading.local):
    """A pass of a small model: it begins with wte[ids] and ends with n_vocab logits. Meanwhile BLAS
    has one thread. More are slower, and much slower if another program keeps a core busy."""

    n_vocab = n_before = 0  # n_before: BLAS's threads before the pass; 0: there is no pass

    def begin(self, n_vocab):
        """Give BLAS one thread until `end`."""
        self.n_vocab, self.n_before = n_vocab, n_threads()
        set_threads(1)

    def end(self):
        """Give BLAS back the threads that it had before the pass, if there is one."""
        if self.n_before:
            set_threads(self.n_before)
        self.n_vocab = self.n_before = 0


small_pass = Pass()


class Weight(np.ndarray):
    """A matrix w [n_out, n_in] for which `x @ w.T` calls `product`. Python calls __rmatmul__ first,
    because Weight is a subclass of the class of x. Indexing returns a plain array."""

    def __rmatmul__(self, x):  # self is w.T; x [..., n_in] -> [..., n_out]
        x = np.asanyarray(x)  # it may be a list
        if self.ndim != 2:  # such as w.mean(0), which is a Weight, too
            return x @ np.asarray(self)
        rows = x.reshape(-1, x.shape[-1])  # one product for the whole batch, not one per sequence
        y = product(rows, np.asarray(self)).reshape(*x.shape[:-1], self.shape[1])
        if self.shape[1] == small_pass.n_vocab:  # y are the logits
            small_pass.end()
        return y

    def __getitem__(self, index):
        small_pass.end()  # if an error has left it
        is_small = self.shape[-1] < SMALL_MODEL[0] and self.size < SMALL_MODEL[1]
        if isinstance(index, np.ndarray) and is_small and n_threads() > 1:  # wte[ids]
            small_pass.begin(len(self))
        return np.asarray(self)[index]


def product(rows, w):  # [n_rows, n_in], [n_in, n_out] -> rows @ w [n_rows, n_out]
    if 1 < len(rows) <= MOST_ROWS and blocks_pay():
        if w.T.flags.c_contiguous and 8 * rows.size <= SMALL:
            return in_parts(blocks_of_outputs, rows, w)
        if w.flags.c_contiguous and len(w) % BLOCK == 0:
            return in_parts(blocks_of_inputs, rows, w)
    return rows @ w


def in_parts(blocks, rows, w):  # [n_rows, n_in], [n_in, n_out] -> [n_rows, n_out]
    n_parts = min(n_threads(), w.size // SHARE)
    if n_parts < 2:
        return blocks(rows, w)
    first, *others = np.array_split(w, n_parts, axis=1)  # n_parts x [n_in, a part of n_out]
    in_thread = np.errstate(**np.geterr())(blocks)  # a new thread begins with the default settings
    try:
        results = pool(os.getpid()).map(lambda w: in_thread(rows, w), others)
    except RuntimeError:  # no threads can start, for example because the program is ending
        return blocks(rows, w)
    return np.concatenate([blocks(rows, first), *results], axis=1)


def n_threads():
    """Return how many threads BLAS uses now, or 1 if unknown."""
    return max((x.num_threads for x in BLAS.lib_controllers), default=1)


def set_threads(n):
    for library in BLAS.lib_controllers:
        library.set_num_threads(n)


@functools.cache
def blocks_pay():
    """Return whether OpenBLAS runs its kernels for AVX-512, which need no copy of a small block."""
    return any(x.get("architecture") in AVX_512 for x in BLAS.info())


@functools.cache
def pool(process):  # of this process: a child inherits its parent's pool, but not the threads
    return ThreadPoolExecutor()


def blocks_of_outputs(rows, w):  # [n_rows, n_in], [n_in, n_out] -> rows @ w [n_rows, n_out]
    w = w.T  # its rows are contiguous
    size = max(8, min(BLOCK, SMALL // rows.size // 8 * 8))
    n_full = len(w) // size * size
    y = w[:n_full].reshape(-1, size, w.shape[1]) @ rows.T  # [n_blocks, size, n_rows]
    return np.concatenate([y.reshape(-1, len(rows)), w[n_full:] @ rows.T]).T


def blocks_of_inputs(rows, w):  # [n_rows, n_in], [n_in, n_out] -> rows @ w [n_rows, n_out]
    n_blocks = len(w) // BLOCK
    parts = rows.reshape(len(rows), n_blocks, BLOCK).swapaxes(0, 1)  # [n_blocks, n_rows, BLOCK]
    return (parts @ w.reshape(n_blocks, BLOCK, -1)).sum(0)
