"""Llama and its relatives: decoders of today, which are GPT-2 with five to nine changes.

    ids [..., n_new] -> wte -> n_layer x (attention, MLP) -> logits [..., n_new, n_vocab]

Llama makes five, in the order of pico/llama.py:
1. RMS norms replace layer norms.
2. The linear layers have no biases. In Qwen2, those for queries, keys and values have them.
3. Several query heads share one head of keys and values, which makes the cache smaller.
4. Each layer rotates queries and keys by angles that depend on their positions; there is no wpe. In
   SmolLM3, every fourth layer does not rotate them.
5. The MLP is gated: c_proj(silu(gate(x)) * c_fc(x)). Gemma 2 and 3 use GELU instead of SiLU.
Its relatives add some of these four:
6. Queries and keys have norms (Qwen3, OLMo 2, Gemma 3). The results of attention and MLP have a
   norm, too (Gemma), or instead of their inputs (OLMo 2).
7. A layer may see only a window of the last tokens (Mistral, Gemma and others).
8. Soft caps limit the attention scores and the logits (Gemma 2).
9. Gemma multiplies the embeddings by sqrt(n_embd), and some sizes have a scale of their own for the
   scores.

Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models". The file follows the
order of gpt2.py.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

import gpt2
from families.layers import feed_forward, rms_norm, silu


class Llama:
    """model(ids) -> logits."""

    def __init__(
        self,
        params: dict,  # "wte", "blocks", "norm" and perhaps "lm_head"
        n_head: int,  # the number of query heads
        n_ctx: int,  # the maximum length of a text, in tokens
        frequencies: Sequence[np.ndarray | None],  # per layer: [d_head / 2], or None: no rotation
        windows: Sequence[int | None] | None = None,  # per layer: size in tokens, or None: no limit
        activation: Callable = silu,
        eps: float = 1e-6,  # the epsilon of the norms
        scale: float | None = None,  # a factor for the attention scores; None: 1 / sqrt(d_head)
        embed_scale: float = 1,  # a factor for the embeddings
        caps: tuple[float | None, float | None] = (None, None),  # soft caps: scores, logits
    ):
        self.params, self.n_head, self.n_ctx, self.stop_ids = params, n_head, n_ctx, ()
        self.frequencies, self.windows = frequencies, windows or [None] * len(frequencies)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        attn = params["blocks"][0]["attn"]
        self.d_head = len(attn["q"]["w"]) // n_head
        self.n_kv_head = len(attn["k"]["w"]) // self.d_head
        self.scale, self.embed_scale = scale or 1 / math.sqrt(self.d_head), embed_scale
        self.score_cap, self.logit_cap = caps

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """Return float32 logits. cache and last are the same as in GPT2.__call__."""
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = gpt2.new_positions(n_new, self.n_ctx, cache)
        cos_sin = rotations(positions, self.frequencies)  # one pair for each layer
        mask = gpt2.causal_mask(positions)
        x = self.params["wte"][ids] * self.embed_scale  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            here = {"cos_sin": cos_sin[layer], "cache": cache, "layer": layer}
            here["mask"] = window_mask(mask, self.windows[layer], positions)
            x = self.block(x, **block, **here)
        x = x if last is None else x[..., max(n_new - last, 0) :, :]
        x = norm(x, self.params["norm"], self.eps)
        logits = gpt2.linear(x, self.params.get("lm_head", self.params["wte"]))
        logits = soft_cap(logits, self.logit_cap)
        if cache is not None:
            cache.commit(n_new)
        return logits

    def block(self, x, attn, mlp, cos_sin, mask, cache, layer, **norms):
        """Attention brings in earlier tokens; the MLP then works on each token by itself. There is
        a norm before each of the two, or after it (OLMo 2), or both (Gemma)."""
        h = norm(x, norms.get("attn_norm"), self.eps)
        h = self.self_attention(h, **attn, cos_sin=cos_sin, mask=mask, cache=cache, layer=layer)
        x = x + norm(h, norms.get("attn_post_norm"), self.eps)
        h = norm(x, norms.get("mlp_norm"), self.eps)
        h = feed_forward(h, **mlp, activation=self.activation)
        return x + norm(h, norms.get("mlp_post_norm"), self.eps)

    def self_attention(
        self, x, q, k, v, o, cos_sin, mask, cache, layer, q_norm=None, k_norm=None
    ):  # [..., n_new, n_embd] -> same
        """Mix the tokens. Several query heads share one head of keys and values."""
        queries = norm(gpt2.linear(x, **q), q_norm, self.eps)
        keys = norm(gpt2.linear(x, **k), k_norm, self.eps)
        values = gpt2.linear(x, **v)
        queries = rotate(gpt2.split_heads(queries, self.n_head), cos_sin)
        keys = rotate(gpt2.split_heads(keys, self.n_kv_head), cos_sin)
        values = gpt2.split_heads(values, self.n_kv_head)  # [..., n_kv_head, n_new, d_head]
        if cache is not None:
            keys, values = cache.append(layer, keys, values)  # [..., n_kv_head, n_all, d_head]
        heads = attention(queries, keys, values, mask, self.scale, self.score_cap)
        return gpt2.linear(gpt2.merge_heads(heads), **o)

    def new_cache(self, *batch: int) -> gpt2.Cache:
        """Return an empty cache: new_cache() for ids [n_new], new_cache(8) for ids [8, n_new]."""
        n_layer = len(self.params["blocks"])
        return gpt2.Cache(n_layer, batch, self.n_kv_head, self.n_ctx, self.d_head)


def norm(x, params, eps):  # [..., n] -> same
    """Normalise x in groups of len(g) numbers, such as heads. If params is None, return x."""
    if params is None:
        return x
    n = len(params["g"])
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // n, n)
    return rms_norm(parts, **params, eps=eps).reshape(x.shape)


def attention(q, k, v, mask, scale, cap):  # [..., n_head, n_new, d], 2 x [..., n_kv_head, n_all, d]
    """Return softmax(cap(q k^T * scale) + mask) v, with the shape of q. n_group heads of q share a
    head of k and v. Their rows are stacked, so that one product computes them all."""
    *batch, n_head, n_new, d = q.shape
    n_kv_head = k.shape[-3]
    n_group = n_head // n_kv_head
    rows = q.reshape(*batch, n_kv_head, n_group * n_new, d)
    scores = soft_cap(rows * scale @ k.swapaxes(-1, -2), cap)  # [..., n_group * n_new, n_all]
    scores = scores + np.tile(mask, (n_group, 1))  # each head of a group has the same mask
    mixed = gpt2.softmax(scores) @ v
    return mixed.reshape(q.shape)


def soft_cap(x, cap):  # [...] -> same, between -cap and cap
    return x if cap is None else cap * np.tanh(x / cap)


def window_mask(mask, window, positions):  # [..., 1, n_new, n_all] -> same
    """Also mask, with -1e10, the keys that are `window` or more tokens before the query."""
    n_all = mask.shape[-1]
    if window is None or n_all <= window:
        return mask
    is_far = np.arange(n_all) <= positions[..., None, :, None] - window
    return np.where(is_far, np.float32(-1e10), mask)


def rotations(positions, frequencies):  # [..., n_new], for each layer [d / 2] or None
    """Return for each layer cos and sin of the angles position * frequency, [..., 1, n_new, d / 2]
    each, or None. Layers with the same array of frequencies share them."""
    found = {}
    for array in frequencies:
        if array is not None and id(array) not in found:
            angles = positions[..., None, :, None].astype(np.float32) * array
            found[id(array)] = np.cos(angles), np.sin(angles)
    return [found.get(id(array)) for array in frequencies]


def rotate(x, cos_sin):  # [..., n_head, n_new, d] -> same. None: no rotation
    """Rotate each pair x[i], x[i + d / 2] by its angle. As a result, positions affect q k^T only
    through their difference (Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position
    Embedding"). A trap: the paper and Meta's files pair the neighbours x[2 i] and x[2 i + 1]. In
    Hugging Face's files, the rows of q and k have a different order, so that our pairs are right.
    """
    if cos_sin is None:
        return x
    cos, sin = cos_sin
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def rotary_frequencies(d_head: int, theta: float, factor: float = 1) -> np.ndarray:
    """Return the frequencies theta^(-2i / d_head), i < d_head / 2, in radians per token. "Linear"
    scaling divides them all by `factor`, for a context that is `factor` times longer."""
    return 1 / (theta ** (np.arange(0, d_head, 2, dtype=np.float32) / d_head) * factor)


def llama3_frequencies(frequencies, factor, low, high, n_old):  # [d_head / 2] -> same
    """Scale frequencies for a longer context than the original one of n_old tokens (Llama 3.1). A
    frequency with fewer than `low` full turns in n_old tokens is divided by `factor`; one with more
    than `high` turns is kept. In between, the change is gradual."""
    turns = frequencies * (n_old / (2 * math.pi))
    keep = np.clip((turns - low) / (high - low), 0, 1)
    return frequencies * (keep + (1 - keep) / factor)
