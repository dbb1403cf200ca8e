"""examples/wavefront.py: chunks of a prompt give the logits of one pass. An error or Ctrl-C in a
chunk leaves the cache as it was."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from examples import wavefront
from examples.wavefront import Chunk, on_all_cores, prefill
from generate import begin, cached, generate
from tests.support.tiny import checkpoint, close, tiny_gpt2

FAMILIES = ["gpt2/plain", "llama/qwen2-window", "llama/gemma3", "seq2seq/t5", "seq2seq/bart"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(wavefront, "CHUNK", 2)


@pytest.fixture
def ended():
    """After the test, its threads have ended, and BLAS has as many threads as before."""
    before, limits = threading.enumerate(), blas_threads()
    yield
    for thread in {*threading.enumerate()} - {*before}:
        thread.join(60)
        assert not thread.is_alive()
    assert blas_threads() == limits


def blas_threads():
    return [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one text", "batch"])
def test_chunks_give_the_logits_of_one_pass(ended, name, batch):
    model, _ = begin(checkpoint(name), [3, 1, 4])
    ids = np.random.default_rng(0).integers(0, model.n_vocab, (*batch, 15))
    cache = model.new_cache(*batch)
    model(ids[..., :2], cache)
    prefill(model, ids[..., 2:-1], cache)
    assert cache.length == 14
    close(model(ids[..., -1:], cache), model(ids, last=1))


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("start", [1, 5, 11])
def test_an_error_in_a_chunk_leaves_the_cache_as_it_was(ended, monkeypatch, start, layer, error):
    """And the chunks after it end in its layer, although they wait for it."""
    model, ids, append, seen = tiny_gpt2(n_layer=3), np.arange(14) % 11, Chunk.append, []

    def fails(chunk, at, k, v):
        seen.append((chunk.length, at))
        if (chunk.length, at) == (start, layer):
            raise error
        return append(chunk, at, k, v)

    cache = model.new_cache()
    model(ids[:1], cache)
    with monkeypatch.context() as patch, pytest.raises(error):
        patch.setattr(Chunk, "append", fails)
        prefill(model, ids[1:13], cache)
    assert cache.length == 1 and all(at <= layer for place, at in seen if place >= start)
    close(model(ids[1:], cache, last=1), model(ids, last=1))


def test_a_chunk_waits_for_the_chunk_before_it(monkeypatch):
    model, ids, append, second = tiny_gpt2(), np.arange(5), Chunk.append, threading.Event()

    def late(chunk, layer, k, v):  # the first chunk stores its first layer after the second chunk
        if chunk.length:
            second.set()
        assert second.wait(60) and {*blas_threads()} <= {1}
        assert np.geterr()["divide"] == "ignore"  # as in the thread that called prefill
        return append(chunk, layer, k, v)

    monkeypatch.setattr(Chunk, "append", late)
    cache = model.new_cache()
    with np.errstate(divide="ignore"):
        prefill(model, ids[:4], cache)
    close(model(ids[4:], cache), model(ids, last=1))


@pytest.mark.parametrize("n", [1, 4, 5, 20])
def test_only_a_long_prompt_is_cut(passes, n):
    model, prompt = tiny_gpt2(), [i % 11 for i in range(n)]
    texts = [list(generate(model, prompt, 3, loop=loop)) for loop in (cached, on_all_cores)]
    assert texts[0] == texts[1]
    lengths = [len(ids) for ids in passes[3:]]
    assert lengths[-3:] == ([n, 1, 1] if n < 5 else [1, 1, 1])
    assert sum(lengths[:-3]) == (0 if n < 5 else n - 1)
    passes.clear()
    assert not list(generate(model, prompt, 0, loop=on_all_cores)) and not passes
