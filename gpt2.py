"""GPT-2: from token ids to logits, with a cache of keys and values. Read pico/forward.py first.

    ids [..., n_new] -> wte + wpe -> n_layer x (attention, MLP) -> logits [..., n_new, n_vocab]

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> logits = model(tokenizer.encode("Once upon a"))  # [3, n_vocab]: scores for the next token
    >>> tokenizer.decode(logits.argmax(-1))
    ' upon a time'

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners". Each block is a dict
of parameters; its keys are the arguments of functions. Matrices are [n_out, n_in]. n_new counts the
tokens of this call; n_all also counts those in the cache. Shapes may begin with batch dimensions.
"""

import math

import numpy as np


class GPT2:
    """model(ids) -> logits. stop_ids end a text. config: generation_config, see generate.Model."""

    def __init__(self, params, n_head, stop_ids=(), activation=None, eps=1e-5, config=None):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps, self.generation_config = activation or gelu, eps, config or {}
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """Return float32 logits: for each id, one logit for every token that may follow it.

        cache: the keys and values of the tokens before ids; the call appends those of ids.
        last: return logits only for this many ids at the end, [..., last, n_vocab]. None: for all.
        """
        if last is not None and last < 1:
            raise ValueError(f"last={last}: at least one position has logits")
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = new_positions(n_new, self.n_ctx) if cache is None else cache.reserve(n_new)
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        x = x if last is None else x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))
        if cache is not None:
            cache.length = cache.length + n_new  # last: each layer appends from the old length on
        return logits

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):  # [..., n_new, n_embd] -> same
        """Attention mixes tokens; the MLP then works on each token separately."""
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self.self_attention(h, **attn, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    def self_attention(self, x, c_attn, c_proj, mask, cache, layer):  # [..., n_new, n_embd] -> same
        qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 x [..., n_new, n_embd]
        q, k, v = (split_heads(part, self.n_head) for part in qkv)  # [..., n_head, n_new, d_head]
        if cache is not None:
            k, v = cache.append(layer, k, v)  # 2 x [..., n_head, n_all, d_head]
        return linear(merge_heads(attention(q, k, v, mask)), **c_proj)

    def new_cache(self, *batch):
        """Return an empty cache: new_cache() for ids [n_new], new_cache(8) for ids [8, n_new]."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


def new_positions(n_new, n_ctx, length=0):  # -> [n_new], after `length` other tokens
    if length + n_new > n_ctx:
        raise ValueError(f"{length + n_new} tokens do not fit the context of {n_ctx}")
    return np.arange(length, length + n_new)


def attention(q, k, v, mask):  # [..., n_new, d], 2 x [..., n_all, d], mask -> [..., n_new, d]
    return softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask) @ v


def causal_mask(positions):  # [..., n_new] -> [..., 1, n_new, n_all]: 1 mask for all heads
    """Return -1e10 where a key is later than the query, else 0. Rows of a batch may differ."""
    later = np.arange(positions.max() + 1) > positions[..., None, :, None]
    return np.where(later, np.float32(-1e10), np.float32(0))


def split_heads(x, n_head):  # [..., n, n_head * d_head] -> [..., n_head, n, d_head]
    return x.reshape(*x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)


def merge_heads(x):  # [..., n_head, n, d_head] -> [..., n, n_head * d_head]
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> same
    return linear(activation(linear(x, **c_fc)), **c_proj)


def linear(x, w, b=0):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    return x @ w.T + b  # a loaded model may do this faster if x has few rows: families/few_rows.py


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd] -> same: mean 0, variance 1, times g, plus b
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g + b


def gelu(x):  # [...] -> same. We write x * x * x because NumPy's x**3 is many times slower.
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def softmax(x):  # [..., n] -> same, each row sums to 1
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):  # [..., n] -> same: log(softmax(x)) without underflow
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Cache:
    """The keys and values of the tokens so far: kv [2, n_layer, *batch, n_head, n_slots, d_head].
    They never change, because x at position i depends on no later token. Slot i belongs to position
    i. A pass calls `reserve` once, `append` in each layer, and then adds n_new to `length`."""

    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.kv = np.zeros((2, n_layer, *batch, n_head, 0, d_head), np.float32)
        self.n_ctx, self.length = n_ctx, 0  # length: how many slots are filled

    def reserve(self, n_new):  # -> [n_new]
        """Make room for n_new tokens; return their positions. ValueError if n_ctx is too small."""
        positions = new_positions(n_new, self.n_ctx, self.length)
        *shape, n_slots, d_head = self.kv.shape
        if self.length + n_new > n_slots:  # double them, so that a growing text is rarely copied
            n_more = min(self.length + n_new, self.n_ctx - n_slots)
            more = np.zeros((*shape, n_more, d_head), np.float32)
            self.kv = np.concatenate([self.kv, more], axis=-2)
        return positions

    def append(self, layer, k, v):  # 2 x [..., n_head, n_new, d_head]
        """Store a layer's new k and v. Return all its k and v: [2, ..., n_head, n_all, d_head]."""
        n_all = self.length + k.shape[-2]
        self.kv[:, layer, ..., self.length : n_all, :] = k, v  # kv[0] gets k, kv[1] v
        return self.kv[:, layer, ..., :n_all, :]

    def cut(self, length):
        """Keep only the first `length` tokens. This removes rejected drafts, for example."""
        self.length = min(self.length, length)

    def select(self, rows):
        """Keep only these rows of a batch [n_rows], in this order. Beam search may repeat a row."""
        if self.kv.ndim < 6:
            raise ValueError("this cache has no rows: new_cache(1) makes one with a row")
        self.kv = self.kv[:, :, rows]
