"""The model and the cache that the workshop's steps ask for, in the skeleton's form.

They compute what gpt2.py computes. But self_attention is a function, and the cache's `append`
counts the new tokens. A reader's file may count them in `extend` or in GPT2.__call__ instead.
"""

import math  # noqa: F401, known mistakes use it

import numpy as np

import gpt2
from gpt2 import (  # noqa: F401, the checks call them all by this module's name
    attention,
    causal_mask,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    merge_heads,
    softmax,
    split_heads,
)


class GPT2(gpt2.GPT2):
    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        ids = np.asarray(ids)
        positions = np.arange(ids.shape[-1]) if cache is None else cache.extend(ids.shape[-1])
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        x = x if last is None else x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):  # [..., n_new, n_embd] -> same
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    def new_cache(self, *batch):
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


def self_attention(x, c_attn, c_proj, n_head, mask, cache, layer):  # [..., n_new, n_embd] -> same
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 x [..., n_new, n_embd]
    q, k, v = (split_heads(part, n_head) for part in qkv)  # 3 x [..., n_head, n_new, d_head]
    if cache is not None:
        k, v = cache.append(layer, k, v)  # 2 x [..., n_head, n_all, d_head]
    return linear(merge_heads(attention(q, k, v, mask)), **c_proj)


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.kv = np.zeros((2, n_layer, *batch, n_head, 0, d_head), np.float32)
        self.n_ctx, self.length = n_ctx, 0

    def extend(self, n_new):  # -> [n_new]
        n_all, (*shape, n_slots, d_head) = self.length + n_new, self.kv.shape
        if n_all > self.n_ctx:
            raise ValueError(f"{n_all} tokens do not fit the context of {self.n_ctx}")
        if n_all > n_slots:  # double the slots: a growing text is copied only a few times
            more = np.zeros((*shape, min(n_all, self.n_ctx - n_slots), d_head), np.float32)
            self.kv = np.concatenate([self.kv, more], axis=-2)
        return np.arange(self.length, n_all)

    def append(self, layer, k, v):  # 2 x [..., n_head, n_new, d_head]
        n_all = self.length + k.shape[-2]
        self.kv[:, layer, ..., self.length : n_all, :] = k, v
        if layer == self.kv.shape[1] - 1:  # the last layer: now all layers have stored the tokens
            self.length = n_all
        return self.kv[:, layer, ..., :n_all, :]

    def cut(self, length):
        self.length = min(self.length, length)

    def select(self, rows):
        self.kv = self.kv[:, :, rows]
