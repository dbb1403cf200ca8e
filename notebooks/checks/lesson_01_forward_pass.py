"""The exercises of lesson 1: parameters, what each head writes, a window."""

import numpy as np

import utils
from gpt2 import causal_mask, linear, merge_heads
from gpt2 import n_parameters as count

tokenizer, model = utils.load("stories")
BLOCKS, N_HEAD = model.params["blocks"], model.n_head
IDS = np.array(tokenizer.encode("Tom had a big dog named Max. One day, Tom and Max ran to"))


def exercise_1(n_parameters):
    """The answer: n_parameters(n_vocab, n_ctx, n_embd, n_layer)."""
    answer = n_parameters(model.n_vocab, model.n_ctx, model.n_embd, len(BLOCKS))
    assert answer is not None, "write n_parameters"
    right = count(model.params)
    assert answer == right, f"here are {right:,} parameters, your formula says {answer:,}"
    assert n_parameters(50257, 1024, 768, 12) == 124_439_808, "the small GPT-2 has 124,439,808"


def exercise_2(written_by_heads):
    """The answer: written_by_heads(mixed, w, b) -> [n_head, n, n_embd]."""
    rng, d_head = np.random.default_rng(0), model.n_embd // N_HEAD
    mixed = rng.normal(size=(N_HEAD, 4, d_head)).astype(np.float32)
    c_proj = BLOCKS[1]["attn"]["c_proj"]
    answer = written_by_heads(mixed, **c_proj)
    assert answer is not None, "write written_by_heads"
    assert np.shape(answer) == (N_HEAD, 4, model.n_embd), "[n_head, n, n_embd]: one part per head"
    whole = linear(merge_heads(mixed), **c_proj)
    assert np.allclose(np.sum(answer, axis=0) + c_proj["b"], whole, atol=1e-3), (
        "the parts and one bias should sum to what attention adds"
    )
    for head in range(N_HEAD):
        alone = np.zeros_like(mixed)
        alone[head] = mixed[head]
        part = linear(merge_heads(alone), **c_proj) - c_proj["b"]
        assert np.allclose(answer[head], part, atol=1e-3), f"part {head} has something of others"


def change(mask, position):  # -> how far the stream moves at each position, after the last block
    ends = []
    for token in (" Max", " Lily"):
        ids = IDS.copy()
        [ids[position]] = tokenizer.encode(token)
        cache = model.new_cache()
        cache.extend(ids)
        x = model.params["wte"][ids] + model.params["wpe"][np.arange(len(ids))]
        for layer, block in enumerate(BLOCKS):
            x = model.block(x, **block, mask=mask, cache=cache, layer=layer)
        ends.append(x)
    return np.linalg.norm(ends[0] - ends[1], axis=-1)


def exercise_3(window_mask, reach):
    """The answers: window_mask(n, w) -> float32 [1, n, n]; reach(n_layer, w) -> positions back."""
    n, position = len(IDS), 4
    assert window_mask(n, 2) is not None, "write window_mask"
    assert np.shape(window_mask(n, 2)) == (1, n, n), "the shape is [1, n, n]"
    causal = causal_mask(np.arange(n), n)
    assert np.array_equal(window_mask(n, n), causal), "a window of n tokens is the causal mask"
    assert (window_mask(n, 1)[0] == 0).sum() == n, "with w = 1 a query sees only itself"
    assert (window_mask(n, 3)[0] == 0).sum() == 3 * n - 3, "with w = 3 a query sees three keys"
    changed = change(window_mask(n, 2), position)
    assert not changed[:position].any(), "a later token changed an earlier position"
    assert reach(len(BLOCKS), 2) is not None, "now write reach"
    for w in (2, 3):
        seen = np.flatnonzero(change(window_mask(n, w), position))[-1] - position
        assert reach(len(BLOCKS), w) == seen, f"w = {w}: the change reached {seen} positions on"
    assert reach(2, 4) == 6, "two blocks with w = 4: count once more"
