"""GPT-2: for each token id that it reads, the model scores every token as the next one.

    ids [..., n_new] -> wte + wpe -> n_layer x (attention, MLP) -> logits [..., n_new, n_vocab]
    n_new is the number of tokens in this pass. The dots stand for batch dimensions, or for none.

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> logits = model(tokenizer.encode("Once upon a"))  # [3, n_vocab]
    >>> tokenizer.decode([logits[-1].argmax()])  # row i scores what may follow token i
    ' time'

pico/forward.py says what each line is for; this file adds a cache and batches. Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners".
"""

import math

import numpy as np


class GPT2:
    """model(ids) -> logits. In params, a dict's keys are the names of a function's arguments."""

    def __init__(self, params, n_head):
        self.params, self.n_head = params, n_head
        self.n_vocab, self.n_embd = params["wte"].shape  # wte: a vector for each token
        self.n_ctx = len(params["wpe"])  # wpe: one for each position; n_ctx: the longest text
        self.activation, self.eps, self.stop_ids = gelu, 1e-5, ()  # a loader may set others

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        """Return float32 logits: row i scores every token as the one after ids[: i + 1].

        cache: the keys and values of the tokens before ids; the call appends those of ids.
        last: return only this many rows, the last ones: [..., last, n_vocab]. None: all.
        """
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = new_positions(n_new, self.n_ctx, cache)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        mask = causal_mask(positions)
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        x = x if last is None else x[..., max(n_new - last, 0) :, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))  # GPT-2 has no lm_head
        if cache is not None:
            cache.commit(n_new)  # only now: the tokens of an interrupted pass do not count
        return logits

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):  # [..., n_new, n_embd] -> same
        """Attention brings in earlier tokens; the MLP then works on each token by itself."""
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self.self_attention(h, **attn, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    def self_attention(self, x, c_attn, c_proj, mask, cache, layer):  # [..., n_new, n_embd] -> same
        qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # queries, keys, values
        q, k, v = [split_heads(part, self.n_head) for part in qkv]  # [..., n_head, n_new, d_head]
        if cache is not None:
            k, v = cache.append(layer, k, v)  # 2 x [..., n_head, n_all, d_head]: old and new
        return linear(merge_heads(attention(q, k, v, mask)), **c_proj)

    def new_cache(self, *batch):
        """Return an empty cache: new_cache() for ids [n_new], new_cache(8) for ids [8, n_new]."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


def new_positions(n_new, n_ctx, cache=None):  # -> [n_new], for a batch [n_new] or [n_rows, n_new]
    n_old = np.asarray(0 if cache is None else cache.length)  # a batch may have one for each row
    if (n_all := n_old.max() + n_new) > n_ctx:
        raise ValueError(f"{n_all} tokens do not fit the context of {n_ctx}")
    return n_old[..., None] + np.arange(n_new)


def causal_mask(positions):  # [..., n_new] -> [..., 1, n_new, n_all], n_all = the last position + 1
    """Return 0; or -1e10, which softmax turns into 0, where token j is in the future of token i."""
    i, j = positions[..., None, :, None], np.arange(positions.max() + 1)
    return np.where(j > i, np.float32(-1e10), np.float32(0))


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd] -> same: mean 0, variance 1, times g, plus b
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g + b


def linear(x, w, b=0):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    return x @ w.T + b


def split_heads(x, n_head):  # [..., n, n_head * d_head] -> [..., n_head, n, d_head]
    return x.reshape(*x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)


def attention(q, k, v, mask):  # [..., n_new, d_head], 2 x [..., n_all, d_head] -> as q
    scores = q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2)  # how well query i matches key j
    return softmax(scores + mask) @ v  # each query's mean of the values, weighted by its scores


def softmax(x):  # [..., n] -> same, each row sums to 1
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def merge_heads(x):  # [..., n_head, n, d_head] -> [..., n, n_head * d_head]
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> same
    return linear(activation(linear(x, **c_fc)), **c_proj)


def gelu(x):  # [...] -> same. We write x * x * x because NumPy's x**3 is many times slower.
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def log_softmax(x):  # [..., n] -> same: log(softmax(x)) without underflow
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Cache:
    """The keys kv[0] and values kv[1] of the tokens so far. They stay the same, because no token
    sees its future. kv is [2, n_layer, *batch, n_head, n_slots, d_head]; slot i is for position i.
    A pass calls `append` in each layer and `commit` at its end."""

    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.kv = np.zeros((2, n_layer, *batch, n_head, 0, d_head), np.float32)
        self.n_ctx, self.length = n_ctx, 0  # length: how many slots are filled

    def append(self, layer, k, v):  # 2 x [..., n_head, n_new, d_head]
        """Store a layer's new keys and values; return all of them: [2, ..., n_all, d_head]."""
        n_all = self.length + k.shape[-2]
        self.make_room(n_all)
        self.kv[:, layer, ..., self.length : n_all, :] = k, v
        return self.kv[:, layer, ..., :n_all, :]

    def make_room(self, n_all):  # have a slot for each of n_all tokens
        *shape, n_slots, d_head = self.kv.shape
        if n_all > n_slots:  # take twice as many as needed: then a growing text is rarely copied
            more = np.zeros((*shape, min(2 * n_all, self.n_ctx) - n_slots, d_head), np.float32)
            self.kv = np.concatenate([self.kv, more], axis=-2)

    def commit(self, n_new):  # every layer has appended n_new tokens
        self.length = self.length + n_new

    def cut(self, length):  # keep only the first tokens: this removes rejected drafts, for example
        self.length = min(self.length, length)

    def select(self, rows):  # new row i is the old row rows[i]: beam search drops and repeats rows
        if self.kv.ndim < 6:
            raise ValueError("this cache has no rows: new_cache(1) makes one with a row")
        self.kv = self.kv[:, :, rows]
