"""Fast products with a weight, x @ w.T: blocks for a few rows, and one thread for a small model.

For two or more rows, OpenBLAS first copies ("packs") the weight into a different layout. The copy
pays off for hundreds of rows, but not for a few. OpenBLAS's kernels for AVX-512 compute small
products without a copy. Where these run, we multiply a few rows by small blocks of the weight. A
small product runs on one core, so n_threads() threads share a large weight.

BLAS's threads wait for each other after each product. In a small model, this takes longer than they
save, and much longer if another program keeps a core busy: see Table.
"""

import contextlib
import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

try:
    from threadpoolctl import ThreadpoolController
except ModuleNotFoundError:
    ThreadpoolController = None  # no library is known

MOST_ROWS = 32  # for more rows, one large product is faster
BLOCK = 32  # how many rows or columns of the weight a small product takes
SMALL = 10**6  # OpenBLAS treats a product of up to this many multiplications as small
AVX_512 = "SkylakeX", "Cooperlake", "SapphireRapids"  # the names of OpenBLAS's kernels
SHARE = 2**19  # for fewer weights per thread, another thread does not pay off
SMALL_MODEL = 2**24  # a model with fewer parameters runs faster with one thread than with two

one_thread = contextlib.ExitStack()  # open during a pass of a small model: BLAS has one thread
owner = threading.RLock()  # belongs to the Python thread that runs this pass


class Weight(np.ndarray):
    """A matrix w [n_out, n_in] for which `x @ w.T` calls `product`. Python calls __rmatmul__ first,
    because Weight is a subclass of the class of x. Indexing returns a plain array."""

    def __rmatmul__(self, x):  # self is w.T; x [..., n_in] -> [..., n_out]
        x = np.asanyarray(x)  # it may be a list
        if self.ndim != 2:  # such as w.mean(0), which is a Weight, too
            return x @ np.asarray(self)
        rows = x.reshape(-1, x.shape[-1])  # one product for the whole batch, not one per sequence
        return product(rows, np.asarray(self)).reshape(*x.shape[:-1], self.shape[1])

    def __getitem__(self, index):
        end_pass()  # of a small model, if an error has ended it
        return np.asarray(self)[index]


class Table(Weight):
    """The embedding or the head of a small model [n_vocab, n_embd]. A pass begins with wte[ids] and
    ends with the logits, x @ head.T. Between them, BLAS has one thread."""

    def __getitem__(self, index):
        rows = super().__getitem__(index)
        if isinstance(index, np.ndarray):
            begin_pass()
        return rows

    def __rmatmul__(self, x):
        logits = super().__rmatmul__(x)
        end_pass()
        return logits


def begin_pass():
    """Give BLAS one thread until end_pass, unless a pass in another Python thread has done so."""
    if blas() and owner.acquire(blocking=False):
        one_thread.callback(owner.release)
        one_thread.enter_context(blas().limit(limits=1))


def end_pass():
    """Give BLAS the number of threads that it had before begin_pass."""
    if owner.acquire(blocking=False):
        one_thread.close()
        owner.release()


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


@functools.cache
def blas():
    """Return threadpoolctl's controller of NumPy's BLAS. It is empty, or None, if unknown."""
    return ThreadpoolController and ThreadpoolController().select(user_api="blas")


def n_threads():
    """Return how many threads BLAS uses now, or 1 if unknown."""
    return max((library["num_threads"] for library in blas().info()), default=1) if blas() else 1


@functools.cache
def blocks_pay():
    """Return whether OpenBLAS runs its kernels for AVX-512, which need no copy of a small block."""
    return any(x.get("architecture") in AVX_512 for x in blas().info()) if blas() else False


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
