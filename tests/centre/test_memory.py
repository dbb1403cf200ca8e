"""Each step of a loop retains only a few bytes."""

import tracemalloc

import pytest

from decoding.drafters import NGramStore
from generate import cached, generate
from samplers import Sampler, temperature, top_k, top_p
from tests.support.tiny import drafted_by, tiny_gpt2

N_VOCAB = 3000
SAMPLER = Sampler(temperature(1.0), top_k(50), top_p(0.9))


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop, bytes_per_token",
    # Each token may add its id, its keys and values (128 bytes), as many bytes for free slots in
    # the cache, and the counts in an NGramStore. Its logits (12 kB) must not be kept.
    [(cached, 600), (drafted_by(NGramStore(N_VOCAB)), 3000)],
    ids=["cached", "n-grams"],
)
def test_900_more_steps_keep_few_bytes(traced, loop, bytes_per_token):
    model = tiny_gpt2(n_vocab=N_VOCAB, n_ctx=1200)
    tokens = generate(model, [1], 1100, SAMPLER, loop=loop)
    held = {}
    for n, _ in enumerate(tokens, 1):
        if n in (100, 1000):
            held[n] = tracemalloc.get_traced_memory()[0]
        if n == 1000:
            break
    assert held[1000] - held[100] < 900 * bytes_per_token
