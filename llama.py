"""Llama and its relatives: today's decoders, which are GPT-2 with eight changes.

    ids [..., n_new] -> wte -> n_layer x (attention, MLP) -> logits [..., n_new, n_vocab]

1. RMS norms take the place of layer norms.
2. Positions are rotations of queries and keys, in each layer; there is no wpe.
3. Several heads of queries share one head of keys and values, which makes the cache smaller.
4. The MLP is gated: activation(c_fc x) * gate x.
5. Matrices have no biases (but those of Qwen2's queries, keys and values).
6. More norms: of queries and keys (Qwen3, OLMo 2, Gemma 3), after a sublayer (OLMo 2, Gemma).
7. A layer may see no more than a window of the last tokens (Mistral, Gemma).
8. Soft caps bound the attention scores and the logits (Gemma 2).

Touvron et al. 2023, "Llama 2: Open Foundation and Fine-Tuned Chat Models". Read it beside gpt2.py:
shapes are written as there, and parts have the same order. The parameters that are there decide
which of the changes a model has.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpt2 import Cache, causal_attention, check_ids, info, linear, merge_heads, softmax, split_heads
from layers import ACTIVATIONS, feed_forward, rms_norm


class Llama:
    """model(ids) -> logits. n_head: of the queries; stop_ids, activation, eps: as for GPT2.

    frequencies: for each layer, those of its rotary positions [d_head / 2], or None without
    positions; windows: for each layer, how many tokens a query sees, itself included, or None for
    all. Gemma's: scale of the scores (1 / sqrt(d_head) by default) and of the embeddings; caps of
    the scores and of the logits.
    """

    has_source = False  # decoder-only: a prompt is the beginning of the text

    def __init__(
        self, params: dict, n_head: int, n_ctx: int, frequencies: Sequence[np.ndarray | None],
        windows: Sequence[int | None] | None = None, stop_ids: Iterable[int] = (),
        activation: Callable[[np.ndarray], np.ndarray] = ACTIVATIONS["silu"], eps: float = 1e-6,
        scale: float | None = None, embed_scale: float = 1,
        caps: tuple[float | None, float | None] = (None, None),
    ):  # fmt: skip
        self.params, self.n_head, self.n_ctx, self.stop_ids = params, n_head, n_ctx, tuple(stop_ids)
        self.frequencies, self.windows = frequencies, windows or [None] * len(frequencies)
        self.activation, self.eps = activation, eps
        self.generation_config: dict = {}  # the checkpoint's own settings for generation
        self.n_vocab, self.n_embd = params["wte"].shape
        attn = params["blocks"][0]["attn"]
        self.d_head = len(attn["q"]["w"]) // n_head
        self.n_kv_head = len(attn["k"]["w"]) // self.d_head
        self.scale, self.embed_scale = scale or 1 / math.sqrt(self.d_head), embed_scale
        self.score_cap, self.logit_cap = caps

    def __call__(
        self, ids: ArrayLike, cache: Cache | None = None, last: int | None = None
    ) -> np.ndarray:
        """ids [..., n_new], -1 for padding on the left -> float32 logits [..., n_new, n_vocab].
        cache, last, and the errors: as for GPT2."""
        ids = check_ids(ids, self.n_vocab)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])
        positions, mask = cache.extend(ids)
        x = self.params["wte"][ids] * self.embed_scale  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, positions=positions, mask=mask, cache=cache, layer=layer)
        if last is not None:
            x = x[..., max(0, ids.shape[-1] - last) :, :]
        x = self.norm(x, self.params["norm"])
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))
        return soft_cap(logits, self.logit_cap)

    def block(self, x, attn, mlp, positions, mask, cache, layer, attn_norm=None, mlp_norm=None,
              attn_post_norm=None, mlp_post_norm=None):  # [..., n_new, n_embd] -> same  # fmt: skip
        """Attention mixes tokens; the MLP then works on each token separately."""
        h = self.self_attention(self.norm(x, attn_norm), **attn, positions=positions, mask=mask,
                                cache=cache, layer=layer)  # fmt: skip
        x = x + self.norm(h, attn_post_norm)
        h = feed_forward(self.norm(x, mlp_norm), **mlp, activation=self.activation)
        return x + self.norm(h, mlp_post_norm)

    def self_attention(self, x, q, k, v, o, positions, mask, cache, layer, q_norm=None,
                       k_norm=None):  # fmt: skip
        """[..., n_new, n_embd] -> same. A group of heads of q shares each head of k and v."""
        q = split_heads(self.norm(linear(x, **q), q_norm), self.n_head)
        k = split_heads(self.norm(linear(x, **k), k_norm), self.n_kv_head)
        v = split_heads(linear(x, **v), self.n_kv_head)
        q, k = (rotate(heads, positions, self.frequencies[layer]) for heads in (q, k))
        k, v = cache.append(layer, k, v)  # [..., n_kv_head, n_all, d_head]
        mask = window_mask(mask, self.windows[layer], positions, k.shape[-2])
        mixed = causal_attention(q, k, v, mask, self.scale, self.score_cap, attention=attention)
        return linear(merge_heads(mixed), **o)

    def norm(self, x, norm):  # [..., n] -> same
        """The RMS norm of each len(g) numbers, such as each head's, or x if there is no norm."""
        if norm is None:
            return x
        n = len(norm["g"])
        parts = x.reshape(*x.shape[:-1], x.shape[-1] // n, n)
        return rms_norm(parts, **norm, eps=self.eps).reshape(x.shape)

    def new_cache(self, *batch: int) -> Cache:
        """An empty cache: new_cache() for one sequence [n_seq], new_cache(8) for ids [8, n_seq]."""
        return Cache(len(self.params["blocks"]), batch, self.n_kv_head, self.n_ctx, self.d_head)

    def begin(self, prompts: list[list[int]]) -> "tuple[Llama, list[list[int]]]":
        """The model that continues these prompts, and the first ids of each sequence."""
        return self, prompts

    def __repr__(self):
        return info(self)


def llama_shapes(
    n_vocab: int, n_embd: int, n_layer: int, n_inner: int, n_head: int, n_kv_head: int, d_head: int,
    tied: bool = False, biases: str = "", norms: Iterable[str] = ("attn_norm", "mlp_norm"),
    qk_norm: str = "",
) -> Any:  # fmt: skip
    """The tree of parameters, with a shape in the place of each array.

    biases: which of the matrices "qkvo" have one, and with "m" those of the MLP; norms: of a block;
    qk_norm: queries and keys have a norm, "head" for each head, "all" for all heads together.
    """

    def dense(n_in, n_out, name):  # x [..., n_in] -> x @ w.T (+ b) [..., n_out]
        return {"w": (n_out, n_in)} | ({"b": (n_out,)} if name in biases else {})

    n_q, n_kv, norm = n_head * d_head, n_kv_head * d_head, {"g": (n_embd,)}
    attn = {"q": dense(n_embd, n_q, "q"), "k": dense(n_embd, n_kv, "k"),
            "v": dense(n_embd, n_kv, "v"), "o": dense(n_q, n_embd, "o")}  # fmt: skip
    if qk_norm:
        q_size, k_size = (n_q, n_kv) if qk_norm == "all" else (d_head, d_head)
        attn |= {"q_norm": {"g": (q_size,)}, "k_norm": {"g": (k_size,)}}
    mlp = {"c_fc": dense(n_embd, n_inner, "m"), "gate": dense(n_embd, n_inner, "m"),
           "c_proj": dense(n_inner, n_embd, "m")}  # fmt: skip
    block = {"attn": attn, "mlp": mlp} | dict.fromkeys(norms, norm)
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    return {"wte": (n_vocab, n_embd), "blocks": [block] * n_layer, "norm": norm, **head}


# --- layers ---------------------------------------------------------------------------------------


def attention(q, k, v, mask, scale, cap):
    """softmax(cap(q k^T * scale) + mask) v. q [..., n_head, n_new, d] -> same. k and v [...,
    n_kv_head, n_all, d]: a group of n_head / n_kv_head heads of q shares each of their heads."""
    n_group = q.shape[-3] // k.shape[-3]
    grouped = q.reshape(*k.shape[:-2], n_group * q.shape[-2], q.shape[-1])
    scores = soft_cap((grouped * scale) @ k.swapaxes(-1, -2), cap)
    if mask is not None:
        scores += np.tile(mask, (n_group, 1))  # [..., n_kv_head, n_group * n_new, n_all]
    return (softmax(scores) @ v).reshape(q.shape)


def soft_cap(x, cap):  # [...] -> same, between -cap and cap
    return x if cap is None else cap * np.tanh(x / cap)


def window_mask(mask, window, positions, n_all):  # [..., n_new, n_all] or None -> same
    """The mask, with -1e10 also where the key is `window` or more tokens before the query."""
    if window is None or n_all <= window:
        return mask
    is_far = np.arange(n_all) <= positions[..., None, :, None] - window
    far = np.where(is_far, np.float32(-1e10), np.float32(0))
    return far if mask is None else mask + far


# --- rotary positions -----------------------------------------------------------------------------


def rotate(x, positions, frequencies):  # [..., n_head, n_new, d], [..., n_new], [d / 2] or None
    """Turn each pair x[i], x[i + d / 2] by the angle position * frequencies[i]: the product of q
    and k then depends on the distance of their tokens alone. Without frequencies, x.
    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding"."""
    if frequencies is None:
        return x
    angles = positions[..., None, :, None].astype(np.float32) * frequencies
    cos, sin = np.cos(angles), np.sin(angles)  # [..., 1, n_new, d / 2]
    x1, x2 = x[..., : len(frequencies)], x[..., len(frequencies) :]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def rotary_frequencies(d_head: int, theta: float, factor: float = 1) -> np.ndarray:
    """theta^(-2i / d_head) for i < d_head / 2 -> [d_head / 2], in radians per token. factor: of
    "linear" scaling, for a context that is so many times longer."""
    return 1 / (theta ** (np.arange(0, d_head, 2, dtype=np.float32) / d_head) * factor)


def llama3_frequencies(frequencies, factor, low, high, n_old):  # [d_head / 2] -> same
    """Llama 3.1's scaling for a longer context than the n_old tokens of its first training: what
    turns fewer than `low` times in n_old tokens becomes `factor` times slower, what turns more than
    `high` times is kept, and between the two the change is gradual."""
    turns = frequencies * (n_old / (2 * math.pi))
    keep = np.clip((turns - low) / (high - low), 0, 1)
    return frequencies * (keep + (1 - keep) / factor)
