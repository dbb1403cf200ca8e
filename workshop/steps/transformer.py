"""Steps 1 to 7: from softmax to the model."""

import contextlib
from functools import partial
from unittest import mock

import numpy as np

from gpt2 import causal_mask
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import block, numbers, parameters, tiny


def see_softmax(m, seed):
    x = 3 * numbers(2, 4)
    yield Seen("softmax of two rows", lambda: m.softmax(x), "row, n")
    yield Seen("the argument of softmax after the call", x, "row, n")
    large = x + np.array([[1000], [-1000]], np.float32)
    yield Seen("softmax of rows near 1000 and near -1000", lambda: m.softmax(large), "row, n")
    row = np.array([1000, 0, 1, 2], np.float32)
    yield Seen("softmax of 1000, 0, 1, 2", lambda: m.softmax(row), "n")
    yield Seen("softmax with more axes", lambda: m.softmax(3 * numbers(2, 3, 4)), "batch, row, n")


def see_layer_norm(m, seed):
    x, g, b = 2 * numbers(4, 6) + 3, numbers(6, seed=1), numbers(6, seed=2)
    x[0] *= 1e-3  # so small that eps matters
    yield Seen("layer_norm of a row", lambda: m.layer_norm(x[1], g, b), "n_embd")
    yield Seen("layer_norm of rows", lambda: m.layer_norm(x, g, b), "row, n_embd")
    yield Seen("the argument of layer_norm after the call", x, "row, n_embd")
    yield Seen("layer_norm with eps=0.5", lambda: m.layer_norm(x, g=g, b=b, eps=0.5), "row, n_embd")
    more = numbers(2, 4, 6)
    yield Seen("layer_norm with more axes", lambda: m.layer_norm(more, g, b), "batch, row, n_embd")


def see_gelu(m, seed):
    x = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)
    yield Seen("gelu of numbers from -4 to 4", lambda: m.gelu(x), "row, n")
    yield Seen("the argument of gelu after the call", x, "row, n")


def see_linear(m, seed):
    x, w, b = numbers(2, 3), numbers(4, 3), numbers(4)
    yield Seen("linear of two rows", lambda: m.linear(x, w=w, b=b), "row, n_out")
    yield Seen("linear without b", lambda: m.linear(x, w), "row, n_out")
    more, square = numbers(5, 2, 3), numbers(3, 3)
    yield Seen("linear from 3 to 3 numbers", lambda: m.linear(x, square, b[:3]), "row, n_out")
    yield Seen("linear with more axes", lambda: m.linear(more, w, b), "batch, row, n_out")
    yield Seen("the argument of linear after the call", x, "row, n_in")


def see_attention(m, seed):
    q, k, v = 2 * numbers(3, 4, seed=1), numbers(5, 4, seed=2), numbers(5, 4, seed=3)
    visible = np.zeros((3, 5), np.float32)
    found = partial(m.attention, q, k, v, visible)
    yield Seen("attention with no key hidden", found, "n_new, d")
    some = np.where(numbers(3, 5) > 0.5, np.float32(-1e10), visible)
    yield Seen("attention with some keys hidden", partial(m.attention, q, k, v, some), "n_new, d")
    yield Seen("the q of attention after the call", q, "n_new, d")
    found = partial(m.attention, *2 * numbers(3, 2, 6, 4), causal_mask(np.arange(6)))
    yield Seen("attention of two heads", found, "n_head, n_new, d")
    found = partial(m.attention, *numbers(3, 7, 2, 3, 4), causal_mask(np.arange(3)))
    yield Seen("attention of seven texts", found, "batch, n_head, n_new, d")


def see_mask(m, seed):
    for positions in [0, 1, 2], [3, 4], [[2, 3], [4, 5], [0, 1]]:
        axes = "n_rows, " * np.ndim(positions[0]) + "heads, n_new, n_all"
        yield Seen(f"causal_mask({positions})", partial(m.causal_mask, np.array(positions)), axes)


def see_split(m, seed):
    for *shape, n_head in (4, 6, 2), (5, 4, 6, 3):
        name = f"split_heads({shape}, {n_head})"
        axes = "batch, " * (len(shape) - 2) + "n_head, n, d_head"
        yield Seen(name, partial(m.split_heads, numbers(*shape), n_head), axes)


def see_merge(m, seed):
    for shape in (2, 4, 3), (5, 2, 4, 3):
        axes = "batch, " * (len(shape) - 3) + "n, n_embd"
        yield Seen(f"merge_heads({[*shape]})", partial(m.merge_heads, numbers(*shape)), axes)


WITHOUT_CACHE = {"mask": causal_mask(np.arange(5)), "cache": None, "layer": 0}


def see_self_attention(m, seed):
    x, call = numbers(5, 12), {**block(12, 1)["attn"], "n_head": 3, **WITHOUT_CACHE}
    yield Seen("self_attention", lambda: m.self_attention(x, **call), "n_new, n_embd")
    yield Seen("the x of self_attention after the call", x, "n_new, n_embd")
    found = partial(m.self_attention, numbers(2, 5, 12), **call)
    yield Seen("self_attention of two texts", found, "batch, n_new, n_embd")


def see_feed_forward(m, seed):
    x, mlp = numbers(4, 6), block(6, 1)["mlp"]
    for name, activation in ("", m.gelu), (" with tanh as the activation", np.tanh):
        found = partial(m.feed_forward, x, **mlp, activation=activation)
        yield Seen(f"feed_forward{name}", found, "n_new, n_embd")
    yield Seen("the x of feed_forward after the call", x, "n_new, n_embd")


def see_block(m, seed):
    x, call = numbers(5, 12, seed=3), {**block(12, 1), **WITHOUT_CACHE}
    model = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1)
    yield Seen("block", lambda: model.block(x, **call), "n_new, n_embd")
    yield Seen("the x of block after the call", x, "n_new, n_embd")


def see_model(m, seed):
    model, tied = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1), tiny(m, tied=True)
    ids = [3, 1, 4, 1, 5, 9, 2]
    yield Seen("model(ids)", lambda: model(ids), "n_new, n_vocab")
    yield Seen("model(ids, last=2)", lambda: model(ids, last=2), "n_new, n_vocab")
    three = np.array([ids[:5], ids[2:], ids[1:6]])
    for n, name in (1, "one text in a batch"), (3, "three texts"):
        label, found = f"model(ids, last=2) of {name}", partial(model, three[:n], last=2)
        yield Seen(label, found, "batch, n_new, n_vocab")
    heads, linear = [0], m.linear

    def counted(x, w, b=0):
        heads.append((len(w) == model.n_vocab) * np.size(x) // np.shape(x)[-1])
        return linear(x, w, b)

    with mock.patch.object(m, "linear", counted), contextlib.suppress(Exception):  # as above
        model(ids, last=1)
    yield Seen("rows of logits that model(ids, last=1) computes", max(heads), "<=")
    yield Seen("model(ids) without lm_head", lambda: tied(ids), "n_new, n_vocab")


WRONG = mistakes(r"""
[gpt2.py softmax]
with the maximum of the whole array: every e^x of a low row is 0
    x.max(-1, keepdims=True) -> x.max()
[gpt2.py layer_norm]
with eps added to the standard deviation instead of the variance
    keepdims=True) + eps) -> keepdims=True)) + eps)
    x / np.sqrt -> x / (np.sqrt
with the mean and variance over the first axis instead of the last
    .mean(-1 -> .mean(0
with b added before the product with g
    x / -> (x /
    * g + b -> + b) * g
[gpt2.py gelu]
of x * sigmoid(1.702 x), a different approximation
    => return x / (1 + np.exp(-1.702 * x))
of ReLU, max(x, 0)
    => return np.maximum(x, 0)
[gpt2.py linear]
of x * w, which multiplies number by number
    x @ w.T -> x * w
[gpt2.py attention]
with the mask added after the softmax
    softmax(scores + mask) -> (softmax(scores) + mask)
with hidden weights set to 0 after the softmax, so that rows no longer sum to 1
    softmax(scores + mask) -> (softmax(scores) * (mask > -1))
of a softmax over the queries (axis -2) instead of the keys
    softmax(scores + mask) -> softmax((scores + mask).swapaxes(-1, -2)).swapaxes(-1, -2)
[gpt2.py causal_mask]
with queries at 0, 1, 2, ..., whatever positions are
    positions[..., None, :, None] -> np.arange(positions.shape[-1])[..., None, :, None]
with n_new keys, so that earlier tokens are missing
    positions.max() + 1 -> positions.shape[-1]
with the product of True or False and -inf: 0 * -inf is nan
    => return (j > i) * np.float32(-np.inf)
[gpt2.py split_heads]
of a reshape to [n_head, n, d_head], which tears rows apart: swap axes
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-2], n_head, x.shape[-2], x.shape[-1] // n_head)
with every n_head-th number in a head: head 0 gets 0, n_head, 2 n_head, ...
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-1], x.shape[-1] // n_head, n_head).swapaxes(-1, -3).swapaxes(-1, -2)
[gpt2.py merge_heads]
of only a reshape, but the axes of heads and rows must be swapped first
    x = x.swapaxes(-2, -3) -> x = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
[workshop/reference.py self_attention]
with each head cut into query, key and value: c_attn gives all queries first
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    -> qkv = split_heads(linear(x, **c_attn), n_head)
    q, k, v = (split_heads(part, n_head) for part in qkv) -> q, k, v = np.split(qkv, 3, axis=-1)
[gpt2.py feed_forward]
with gelu, whatever the activation is
    activation(linear -> gelu(linear
[workshop/reference.py GPT2.block]
with the norms after attention and after the feed-forward (post-norm)
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
    -> x = layer_norm(x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache,
        layer=layer), **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
    => return layer_norm(x + feed_forward(h, **mlp, activation=self.activation), **ln_2,
        eps=self.eps)
with the feed-forward computed from the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    h = layer_norm(x, **ln_2 -> h = layer_norm(first, **ln_2
with gelu instead of the model's activation
    activation=self.activation -> activation=gelu
[workshop/reference.py GPT2.__call__]
without ln_f after the last block
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
""")


def part(names, observe, lesson="One block, line by line."):
    return Part((names,), observe, WRONG, f'"The forward pass": {lesson}')


SOFTMAX = part("softmax", see_softmax, "From the stream to logits.")
LAYERS = part("layer_norm", see_layer_norm), part("gelu", see_gelu), part("linear", see_linear)
ATTENTION = part("attention", see_attention)
MASK = part("causal_mask", see_mask, "What row i depends on.")
HEADS = part("split_heads", see_split), part("merge_heads", see_merge)
SELF_ATTENTION = part("self_attention", see_self_attention)
BLOCK = SELF_ATTENTION, part("feed_forward", see_feed_forward), part("GPT2.block", see_block)
MODEL = part("GPT2.__call__", see_model, "From an id to a vector.")
