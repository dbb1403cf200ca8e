"""GPT-2: token ids -> logits, the whole forward pass in one file, and the cache of keys and values.

    ids [..., n_seq] -> wte + wpe -> n_layer x (attention, mlp) -> logits [..., n_seq, n_vocab]

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners". Any batch shape may
stand before n_seq. `n_new` counts the tokens of this call, `n_all` those and the cached ones.
Parameters are a nested dict that mirrors the checkpoint and is splatted into the calls. Matrices
are stored [n_out, n_in], so that `x @ w.T` reads a weight straight through, row by row.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def gelu(x):  # [...] -> [...]: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
    y = x * x  # never x**3, which takes as long as the matrix product; in place: one pass each
    y *= 0.044715
    y += 1
    y *= x
    y *= math.sqrt(2 / math.pi)  # a Python float: np.sqrt of one would turn all into float64
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def softmax(x):  # [..., n] -> [..., n], each row sums to 1
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd] -> [..., n_embd]: mean 0, variance 1, then g, b
    n = x.shape[-1]  # sum / n: of a single row np.mean takes twice as long
    x = x - x.sum(-1, keepdims=True) / n
    x /= np.sqrt((x * x).sum(-1, keepdims=True) / n + eps)
    x *= g
    x += b
    return x


def linear(x, w, b=None):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    rows = x.reshape(-1, x.shape[-1])  # one product for a whole batch, not one for each row of it
    y = rows @ w.T
    if b is not None:
        y += b
    return y.reshape(*x.shape[:-1], len(w))


def split_heads(x, n_head):  # [..., n_seq, n_embd] -> [..., n_head, n_seq, d_head]
    return np.swapaxes(x.reshape(*x.shape[:-1], n_head, -1), -2, -3)


def merge_heads(x):  # [..., n_head, n_seq, d_head] -> [..., n_seq, n_embd]
    x = np.swapaxes(x, -2, -3)
    return x.reshape(*x.shape[:-2], -1)


def attention(q, k, v, mask):  # [..., n_new, d], [..., n_all, d] x 2 -> [..., n_new, d]
    # q comes divided by sqrt(d) where a model does so: GPT-2 and BART do, T5 does not
    scores = q @ np.swapaxes(k, -1, -2)  # [..., n_new, n_all]
    if mask is not None:
        scores += mask
    return softmax(scores) @ v


def causal_mask(n_new, n_all, pad):  # -> [..., 1, n_new, n_all], or None where all may be seen
    """-1e10 where a query must not look: at a later key, or at padding (`pad` [...] slots)."""
    if n_new == 1 and not pad.any():
        return None
    query, key = np.arange(n_all - n_new, n_all)[:, None], np.arange(n_all)
    hidden = (key > query) | (key < pad[..., None, None, None])
    return np.where(hidden, np.float32(-1e10), np.float32(0))


def positions_and_mask(ids, cache, n_ctx):
    """ids [..., n_new] after those in the cache -> the position of each in its row [..., n_new],
    the padding slots that each row begins with [...], and the causal mask. ValueError past n_ctx,
    and for padding that is not on the left."""
    n_new, n_all = ids.shape[-1], cache.length + ids.shape[-1]
    if n_all > n_ctx:
        raise ValueError(f"{n_all} tokens do not fit the context of {n_ctx}")
    padding = ids < 0
    pad = cache.pad + padding.sum(-1)
    late = (cache.pad < cache.length)[..., None] & padding  # a token is in the cache already
    if late.any() or (padding[..., 1:] > padding[..., :-1]).any():
        raise ValueError("padding (-1) comes before the first token of a row, not after it")
    positions = np.maximum(np.arange(cache.length, n_all) - pad[..., None], 0)
    return positions, pad, causal_mask(n_new, n_all, pad)


def check_ids(ids: ArrayLike, n_vocab: int) -> np.ndarray:  # [..., n] -> same, an array of ints
    """ValueError unless all are token ids, 0 to n_vocab - 1, or -1 for padding."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu" and ids.size:
        raise ValueError(f"token ids are whole numbers, not {ids.dtype}: encode a text first")
    if ids.size and not -1 <= ids.min() <= ids.max() < n_vocab:
        raise ValueError(f"token ids are 0 to {n_vocab - 1}, not {ids.min()} to {ids.max()}")
    return ids.astype(int)


def self_attention(x, c_attn, c_proj, n_head, mask, cache, layer):  # [..., n_new, n_embd] -> same
    q, k, v = (split_heads(t, n_head) for t in np.split(linear(x, **c_attn), 3, axis=-1))
    k, v = cache.append(layer, k, v)  # those of all tokens so far
    return linear(merge_heads(attention(q / math.sqrt(q.shape[-1]), k, v, mask)), **c_proj)


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> [..., n_embd]
    return linear(activation(linear(x, **c_fc)), **c_proj)


class Cache:
    """The keys and values of every token so far: for each layer [*batch, n_head, n_room, d_head],
    filled up to `length`; n_room grows, to n_slots at most. Row i's first `pad[i]` slots are
    padding. The caller holds it."""

    def __init__(self, n_layer, batch, n_head, n_slots, d_head):
        nothing = np.empty((*batch, n_head, 0, d_head), np.float32)
        self.keys, self.values = [nothing] * n_layer, [nothing] * n_layer
        self.n_slots, self.length, self.pad = n_slots, 0, np.zeros(batch, int)

    def append(self, layer, k, v):  # [..., n_new, d_head] x 2 -> [..., n_all, d_head] x 2
        """Write behind `length` and return all so far; the model moves `length` after all layers"""
        end = self.length + k.shape[-2]
        for arrays, new in ((self.keys, k), (self.values, v)):
            if end > arrays[layer].shape[-2]:
                arrays[layer] = self.with_room(arrays[layer], end)
            arrays[layer][..., self.length : end, :] = new
        return self.keys[layer][..., :end, :], self.values[layer][..., :end, :]

    def with_room(self, old, end):  # [..., n_room, d_head] -> [..., n_room of at least end, d_head]
        # Twice what is needed, so that a long text is copied a few times, not at each token.
        n_room = min(2 * end, self.n_slots)
        larger = np.empty((*old.shape[:-2], n_room, old.shape[-1]), np.float32)
        larger[..., : self.length, :] = old[..., : self.length, :]
        return larger

    def cut(self, length: int) -> None:
        """Forget every slot from `length` on: tokens that were tried and rejected."""
        self.length, self.pad = length, np.minimum(self.pad, length)

    def select(self, rows: list[int]) -> None:
        """Keep these rows of the batch, in this order, repeated if named twice (beams), and drop
        the leading slots that are padding in all of them: finished rows cost nothing more."""
        skip = self.pad[rows].min(initial=self.length)
        if skip == 0 and list(rows) == list(range(len(self.pad))):
            return
        for arrays in (self.keys, self.values):
            for layer, old in enumerate(arrays):
                arrays[layer] = np.empty((len(rows), *old.shape[1:]), np.float32)
                filled = old[..., skip : self.length, :][rows]
                arrays[layer][..., : self.length - skip, :] = filled
        self.length, self.pad = self.length - skip, self.pad[rows] - skip

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values held now."""
        return sum(a[..., : self.length, :].nbytes for a in (*self.keys, *self.values))


class GPT2:
    """`model(ids, cache)` -> logits. params: {"wte": [n_vocab, n_embd], "wpe": [n_ctx, n_embd],
    "blocks": [{"ln_1": {"g", "b"}, "attn": {"c_attn": {"w", "b"}, "c_proj": {"w", "b"}},
    "ln_2": {"g", "b"}, "mlp": {"c_fc": {"w", "b"}, "c_proj": {"w", "b"}}}, ...],
    "ln_f": {"g", "b"}}, and "lm_head" [n_vocab, n_embd] where the output is not tied to wte.
    stop_ids: tokens that end a text; eps: of the norms; defaults: how the checkpoint suggests to
    generate, by the names of its generation_config.json."""

    def __init__(
        self, params: dict, n_head: int, stop_ids: Sequence[int] = (),
        activation: Callable[[np.ndarray], np.ndarray] = gelu, eps: float = 1e-5,
    ):  # fmt: skip
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.defaults: dict = {}
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def new_cache(self, *batch: int) -> Cache:
        """An empty cache: new_cache() for one sequence [n_seq], new_cache(8) for ids [8, n_seq]."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)

    def select(self, rows: list[int]) -> "GPT2":
        """The model for these rows of a batch: itself (an encoder-decoder has a source a row)"""
        return self

    def __call__(
        self, ids: ArrayLike, cache: Cache | None = None, last: int | None = None
    ) -> np.ndarray:
        """ids [..., n_new], -1 for padding on the left -> float32 logits [..., n_new, n_vocab].

        With a cache, ids are the tokens after those it holds, and join them. `last`: compute the
        logits of only the last positions, [..., last, n_vocab]. ValueError past n_ctx, and for ids
        that are not tokens.
        """
        ids = check_ids(ids, self.n_vocab)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])  # one that is forgotten after this call
        positions, pad, mask = positions_and_mask(ids, cache, self.n_ctx)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]; what
        # stands where padding is does not matter: the mask keeps all others from looking there
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        cache.length, cache.pad = cache.length + ids.shape[-1], pad
        if last is not None:
            x = x[..., max(0, ids.shape[-1] - last) :, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):  # [..., n_new, n_embd] -> same
        """Two steps along the residual stream: look at other tokens, then think each alone."""
        normed = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(normed, **attn, n_head=self.n_head, mask=mask, cache=cache,
                               layer=layer)  # fmt: skip
        normed = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(normed, **mlp, activation=self.activation)
