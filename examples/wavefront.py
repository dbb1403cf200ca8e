"""Read a prompt on all cores, as a wavefront: chunks run one behind the other, layer by layer.

NumPy computes norms, activations and softmaxes on one core. So we cut a long prompt into chunks,
and run each in its own thread. In each layer, a chunk needs the keys and values of the chunks
before it, but only those of this layer: the `append` of its cache waits for them.
(Li et al. 2021, "TeraPipe: Token-Level Pipeline Parallelism".)

    chunk 1: layer 1, layer 2, layer 3, ...
    chunk 2:    layer 1, layer 2, layer 3, ...
    chunk 3:       layer 1, layer 2, layer 3, ...

    python generate.py "Once upon a time" --loop examples/wavefront.py:on_all_cores
"""

from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from threading import Semaphore

import numpy as np
from threadpoolctl import threadpool_limits

from generate import cached
from gpt2 import Cache

CHUNK = 192  # the least tokens in a chunk; a prompt that is too short for two chunks is not cut


def on_all_cores(model, sequence):
    """Yield the same tokens as `cached`, but read a long prompt on all cores."""
    cache = model.new_cache()
    if sequence.running and isinstance(cache, Cache):
        prefill(model, sequence.ids[:-1], cache)
    yield from cached(model, sequence, cache)  # it reads what the cache lacks: at least one token


def prefill(model, ids, cache):  # [..., n_new]
    """Store the keys and values of many ids. An error or Ctrl-C leaves the cache as it was."""
    n_new = np.shape(ids)[-1]
    n_chunks = n_new // CHUNK
    if n_chunks < 2:
        return
    cache.make_room(cache.length + n_new)
    ends = np.linspace(0, n_new, n_chunks + 1).astype(int)
    stored = [Semaphore(len(cache.kv[0])), *(Semaphore(0) for _ in range(n_chunks))]
    chunks = [Chunk(cache, *its) for its in zip(cache.length + ends, stored, stored[1:])]

    @np.errstate(**np.geterr())  # a new thread begins with the default settings
    def run(ids, chunk):
        with suppress(CancelledError):
            model(ids, chunk, last=1)

    with threadpool_limits(1, "blas"), ThreadPoolExecutor() as pool:
        try:
            list(pool.map(run, np.split(ids, ends[1:-1], axis=-1), chunks))
        finally:  # after an error or Ctrl-C, each chunk ends in its layer, even if it waits
            for chunk in reversed(chunks):  # a release wakes the next chunk
                chunk.last_layer = 0
                chunk.stored.release()
    cache.commit(n_new)


class Chunk(Cache):
    """The cache as a chunk sees it. `stored` counts the layers that are stored up to its end."""

    def __init__(self, cache, length, before, stored):
        vars(self).update(vars(cache), length=length)
        self.before, self.stored, self.last_layer = before, stored, len(cache.kv[0]) - 1

    def append(self, layer, k, v):  # 2 x [..., n_head, n_chunk, d_head] -> 2 x [..., n_all, d_head]
        kv = super().append(layer, k, v)
        self.before.acquire()
        self.stored.release()
        if layer >= self.last_layer:  # all is stored, and nobody needs the logits
            raise CancelledError
        return kv
