"""GPT-2: token ids -> logits, the whole forward pass in one file, and its cache of keys and values.

    ids [..., n_new] -> wte + wpe -> n_layer x (attention, MLP) -> logits [..., n_new, n_vocab]

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners". Any batch dimensions may
precede n_new, the tokens of this call; n_all: those plus the cached ones. Parameters are a nested
dict that mirrors the checkpoint, see `gpt2_shapes`, and is splatted into the calls. Matrices
are stored [n_out, n_in], so that `x @ w.T` reads each weight contiguously.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class GPT2:
    """model(ids) -> logits. stop_ids: the tokens that end a text; eps: of the norms."""

    has_source = False  # decoder-only: a prompt is the beginning of the text

    def __init__(
        self, params: dict, n_head: int, stop_ids: Iterable[int] = (),
        activation: Callable[[np.ndarray], np.ndarray] | None = None, eps: float = 1e-5,
    ):  # fmt: skip
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation or gelu, eps
        self.generation_config: dict = {}  # the checkpoint's own settings for generation
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def __call__(
        self, ids: ArrayLike, cache: "Cache | None" = None, last: int | None = None
    ) -> np.ndarray:
        """ids [..., n_new], -1 for padding on the left -> float32 logits [..., n_new, n_vocab].

        cache: the keys and values of the tokens before ids; it takes in those of ids. last: compute
        the logits of only the last positions, [..., last, n_vocab]. ValueError past n_ctx, and for
        ids that are not tokens.
        """
        ids = check_ids(ids, self.n_vocab)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])
        positions, mask = cache.extend(ids)
        # Padding (-1) gets the last embedding; the mask hides it from all other tokens.
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        if last is not None:
            x = x[..., max(0, ids.shape[-1] - last) :, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):  # [..., n_new, n_embd] -> same
        """Attention mixes tokens; the MLP then works on each token separately."""
        normed = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(normed, **attn, n_head=self.n_head, mask=mask, cache=cache,
                               layer=layer)  # fmt: skip
        normed = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(normed, **mlp, activation=self.activation)

    def new_cache(self, *batch: int) -> "Cache":
        """An empty cache: new_cache() for one sequence [n_seq], new_cache(8) for ids [8, n_seq]."""
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)

    def begin(self, prompts: list[list[int]]) -> "tuple[GPT2, list[list[int]]]":
        """The model that continues these prompts, and the first ids of each sequence."""
        return self, prompts

    def __repr__(self):
        return info(self)


def gpt2_shapes(
    n_vocab: int, n_ctx: int, n_embd: int, n_layer: int, n_inner: int, tied: bool = True
) -> Any:
    """The tree of parameters, with a shape in the place of each array."""

    def dense(n_in, n_out):  # x [..., n_in] -> x @ w.T + b [..., n_out]
        return {"w": (n_out, n_in), "b": (n_out,)}

    norm = {"g": (n_embd,), "b": (n_embd,)}
    block = {
        "ln_1": norm,
        "attn": {"c_attn": dense(n_embd, 3 * n_embd), "c_proj": dense(n_embd, n_embd)},
        "ln_2": norm,
        "mlp": {"c_fc": dense(n_embd, n_inner), "c_proj": dense(n_inner, n_embd)},
    }
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    embeddings = {"wte": (n_vocab, n_embd), "wpe": (n_ctx, n_embd)}
    return {**embeddings, "blocks": [block] * n_layer, "ln_f": norm, **head}


# --- layers ---------------------------------------------------------------------------------------


def self_attention(x, c_attn, c_proj, n_head, mask, cache, layer):  # [..., n_new, n_embd] -> same
    heads = split_heads(linear(x, **c_attn), 3 * n_head)  # [..., 3 * n_head, n_new, d_head]
    q, k, v = (heads[..., i * n_head : (i + 1) * n_head, :, :] for i in range(3))
    k, v = cache.append(layer, k, v)  # [..., n_head, n_all, d_head]
    scale = 1 / math.sqrt(q.shape[-1])  # not np.sqrt: an np.float64 would promote all to float64
    return linear(merge_heads(causal_attention(q, k, v, mask, scale)), **c_proj)


def attention(q, k, v, mask, scale):  # [..., n_new, d], [..., n_all, d] x 2 -> [..., n_new, d]
    """softmax(q k^T * scale + mask) v"""
    scores = (q * scale) @ k.swapaxes(-1, -2)  # [..., n_new, n_all]
    if mask is not None:
        scores += mask
    weights = softmax(scores)  # [..., n_new, n_all]: how much each query attends to each key
    return weights @ v


def causal_attention(q, k, v, mask, *settings, attention=attention, n=128):  # as attention
    """attention for n queries at a time, each time without the keys that come after all of
    them, which saves up to half of a long prompt's work."""
    n_new, n_all = q.shape[-2], k.shape[-2]
    if n_new <= n or mask is None:
        return attention(q, k, v, mask, *settings)
    blocks = []
    for begin in range(0, n_new, n):
        queries, keys = slice(begin, begin + n), slice(max(n_all - n_new + begin + n, 1))
        blocks.append(attention(q[..., queries, :], k[..., keys, :], v[..., keys, :],
                                mask[..., queries, keys], *settings))  # fmt: skip
    return np.concatenate(blocks, axis=-2)


def causal_mask(positions, n_all):  # [..., n_new] -> [..., 1, n_new, n_all]
    """-1e10 where a key comes after the query, else 0; None if no key does."""
    if (positions == n_all - 1).all():
        return None
    later = np.arange(n_all) > positions[..., None, :, None]
    return np.where(later, np.float32(-1e10), np.float32(0))


def split_heads(x, n_head):  # [..., n, n_head * d_head] -> [..., n_head, n, d_head]
    return x.reshape(*x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)


def merge_heads(x):  # [..., n_head, n, d_head] -> [..., n, n_head * d_head]
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def feed_forward(x, c_fc, c_proj, activation):  # [..., n_embd] -> [..., n_embd]
    return linear(activation(linear(x, **c_fc)), **c_proj)


def linear(x, w, b=None):  # [..., n_in], [n_out, n_in], [n_out] -> [..., n_out]
    rows = x.reshape(-1, x.shape[-1])  # one matrix product for the whole batch, not one per row
    y = rows @ w.T
    if b is not None:
        y += b
    return y.reshape(*x.shape[:-1], len(w))


def layer_norm(x, g, b, eps=1e-5):  # [..., n_embd] -> same: mean 0 and variance 1, then g and b
    n = x.shape[-1]  # sum / n, because np.mean is twice as slow on a single row
    x = x - x.sum(-1, keepdims=True) / n
    x /= np.sqrt((x * x).sum(-1, keepdims=True) / n + eps)
    x *= g
    x += b
    return x


def gelu(x):  # [...] -> same: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
    y = x * x  # not x**3: NumPy's power costs more than the matrix product
    y *= 0.044715  # in place, to avoid temporaries
    y += 1
    y *= x
    y *= math.sqrt(2 / math.pi)
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def softmax(x):  # [..., n] -> same, each row sums to 1
    x = x - x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


def log_softmax(x):  # [..., n] -> same: log(softmax(x)), without its underflow
    x = x - x.max(-1, keepdims=True)
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    return x


def check_ids(ids: ArrayLike, n_vocab: int) -> np.ndarray:  # [..., n] -> same, an array of ints
    """ValueError unless all are token ids, 0 to n_vocab - 1, or -1 for padding."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu" and ids.size:
        raise ValueError(f"token ids are whole numbers, not {ids.dtype}: encode a text first")
    if ids.size and not -1 <= ids.min() <= ids.max() < n_vocab:
        raise ValueError(f"token ids are 0 to {n_vocab - 1}, not {ids.min()} to {ids.max()}")
    return ids.astype(int)


def info(model: Any) -> str:
    """GPT2(n_vocab=50257, n_ctx=1024, n_embd=768, n_layer=12, n_head=12, 124,439,808 parameters)"""
    params, n_layer = model.params, len(model.params.get("decoder", model.params)["blocks"])
    return (
        f"{type(model).__name__}(n_vocab={model.n_vocab}, n_ctx={model.n_ctx},"
        f" n_embd={params['wte'].shape[1]}, n_layer={n_layer}, n_head={model.n_head},"
        f" {n_parameters(params):,} parameters)"
    )


def n_parameters(tree: Any) -> int:
    """How many numbers a tree of parameters holds."""
    if isinstance(tree, dict | list | tuple):
        return sum(map(n_parameters, tree.values() if isinstance(tree, dict) else tree))
    return np.size(tree)


# --- the cache ------------------------------------------------------------------------------------


class Cache:
    """The keys and values of every token so far: kv [2, n_layer, *batch, n_head, n_slots, d_head].

    Slot i of a row holds its token at position i. `lengths` [*batch] slots are filled; the rows of
    a batch may have different lengths. n_slots grows up to n_ctx. The caller holds the cache. A
    model only calls `extend`, then `append` in each layer."""

    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.kv = np.zeros((2, n_layer, *batch, n_head, 0, d_head), np.float32)
        self.n_ctx, self.lengths = n_ctx, np.zeros(batch, int)

    @property
    def length(self) -> int:
        """The tokens of the longest row."""
        return int(self.lengths.max(initial=0))

    def extend(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Take in new tokens, ids [..., n_new] -> their positions [..., n_new], and the causal mask
        [..., 1, n_new, n_all] or None. Padding (-1) stands before a row's tokens, so that the last
        column is the newest token of each row. ValueError past n_ctx, or for padding elsewhere."""
        is_token = ids >= 0
        if (is_token[..., :-1] > is_token[..., 1:]).any():
            raise ValueError("padding (-1) comes before the tokens of a row, not after them")
        lengths = self.lengths + is_token.sum(-1)
        # At least 1: softmax over no keys is undefined, even for a row of padding.
        n_all, n_new = int(lengths.max(initial=1)), ids.shape[-1]
        if n_all > self.n_ctx:
            raise ValueError(f"{n_all} tokens do not fit the context of {self.n_ctx}")
        if n_all > self.kv.shape[-2]:
            # Double the capacity: a long text is copied a few times, not at every token.
            self.kv = self._copy(self.kv, min(2 * n_all, self.n_ctx))
        self.lengths, self.n_all = lengths, n_all
        positions = np.maximum(lengths[..., None] - np.arange(n_new, 0, -1), 0)
        self.new: tuple = (...,)  # where append finds the tokens, and where it stores them
        self.slots: tuple = (..., slice(n_all - n_new, n_all), slice(None))
        if not (lengths.size and is_token.all() and (lengths == n_all).all()):
            # Each row has its own slots.
            *rows, columns = np.nonzero(is_token)
            self.new = (*rows, slice(None), columns)
            self.slots = (*rows, slice(None), positions[is_token])
        return positions, causal_mask(positions, n_all)

    def append(self, layer, k, v):  # 2 x [..., n_head, n_new, d_head]
        """Store one layer's new keys and values; return all, 2 x [..., n_head, n_all, d_head]."""
        self.kv[0, layer][self.slots] = k[self.new]
        self.kv[1, layer][self.slots] = v[self.new]
        return self.kv[:, layer, ..., : self.n_all, :]

    def cut(self, lengths: ArrayLike) -> None:
        """Forget each row's tokens from lengths [*batch] on, such as rejected drafts."""
        self.lengths = np.minimum(self.lengths, np.asarray(lengths, int))

    def select(self, rows: list[int]) -> None:
        """Keep these rows of the batch, in this order, repeated if named twice (beams)."""
        if list(rows) != list(range(len(self.lengths))):
            self.lengths = self.lengths[rows]
            self.kv = self._copy(self.kv[:, :, rows, :, : self.length], self.kv.shape[-2])

    def join(self, other: "Cache") -> None:
        """Add the rows of another cache."""
        n_rows, shape = len(self.lengths), list(self.kv.shape)
        shape[2] += len(other.lengths)
        shape[-2] = max(shape[-2], other.kv.shape[-2])
        kv = np.zeros(shape, np.float32)
        for cache, rows in (self, slice(n_rows)), (other, slice(n_rows, None)):
            kv[:, :, rows, :, : cache.length] = cache.kv[..., : cache.length, :]
        self.kv, self.lengths = kv, np.concatenate([self.lengths, other.lengths])

    def _copy(self, kv, n_slots):  # kv, of which `length` slots are filled -> with n_slots slots
        copy = np.zeros((*kv.shape[:-2], n_slots, kv.shape[-1]), np.float32)
        copy[..., : self.length, :] = kv[..., : self.length, :]
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values held now."""
        return self.kv[..., : self.length, :].nbytes
