"""Steps 3 to 7: attention, the mask, heads, the block and the model."""

import contextlib
from functools import partial

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes, of
from workshop.steps.inputs import block, heard, numbers, parameters, tiny

ONE_BLOCK = '"The forward pass": One block, line by line.'

HIDDEN = np.float32(-1e10)


def hidden(n):  # -> a causal mask [n, n]
    return np.where(np.tri(n) > 0, np.float32(0), HIDDEN)


def see_attention(m, seed):
    def see(name, q, k, v, mask, axes="n_new, d"):
        yield Seen(f"attention {name}", lambda: m.attention(q, k, v, mask), axes)

    q, k, v = 2 * numbers(3, 4, seed=1), numbers(5, 4, seed=2), numbers(5, 4, seed=3)
    some = np.where(numbers(3, 5) > 0.5, HIDDEN, np.float32(0))
    yield from see("with no key hidden", q, k, v, np.zeros((3, 5), np.float32))
    yield from see("if all sizes are 4", *numbers(3, 4, 4, 4), hidden(1), "n_head, n_new, d")
    yield from see("with some keys hidden", q, k, v, some)
    q, k, v, mask = *(2 * numbers(3, 2, 6, 4)), hidden(6)[None]
    yield from see("of two heads", q, k, v, mask, "n_head, n_new, d")
    yield Seen("the q of attention after the call", q, "n_head, n_new, d")
    yield from see("of seven texts", *numbers(3, 7, 2, 3, 4), hidden(3), "batch, n_head, n_new, d")


ATTENTION_WRONG = mistakes(r"""
[gpt2.py attention]
with the mask added after the softmax
    -2) + mask) @ v -> -2)) + mask) @ v
    return softmax -> return (softmax
with hidden weights set to 0 after the softmax, so that rows no longer sum to 1
    -2) + mask) @ v -> -2)) * (mask > -1)) @ v
    return softmax -> return (softmax
with visible keys hidden, and hidden keys visible
    + mask) -> + np.where(mask == 0, np.float32(-np.inf), np.float32(0)))
of a softmax over the queries (axis -2) instead of the keys
    softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask)
    -> softmax((q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask).swapaxes(-1,
        -2)).swapaxes(-1, -2)
of one softmax over all scores together
    return softmax(q -> e = np.exp(q
    + mask) @ v -> + mask); return e / e.sum() @ v
with the division by sqrt(d) after the softmax
    softmax(q / math.sqrt(q.shape[-1]) -> softmax(q
    + mask) -> + mask) / math.sqrt(q.shape[-1])
of the weights alone, without the values
    @ v ->
of an attention that scales q in place
    return softmax(q / math.sqrt(q.shape[-1]) -> q /= math.sqrt(q.shape[-1]); return softmax(q
""")
ATTENTION = Part(("attention",), see_attention, ATTENTION_WRONG, ONE_BLOCK)


def see_mask(m, seed):
    for positions in [0, 1, 2], [3, 4], [[2, 3], [4, 5], [0, 1]]:
        axes = "n_rows, " * np.ndim(positions[0]) + "heads, n_new, n_all"
        yield Seen(f"causal_mask({positions})", partial(m.causal_mask, np.array(positions)), axes)


MASK_WRONG = mistakes(r"""
[gpt2.py causal_mask]
with queries at 0, 1, 2, ..., whatever positions are
    positions[..., None, :, None] -> np.arange(positions.shape[-1])[..., None, :, None]
with n_new keys, so that earlier tokens are missing
    positions.max() + 1 -> positions.shape[-1]
of a triangle [n_new, n_new] that does not depend on positions
    positions.max() + 1 -> positions.shape[-1]
    > positions[..., None, :, None]
    -> > (0 * positions + np.arange(positions.shape[-1]))[..., None, :, None]
with queries and keys swapped
    positions[..., None, :, None] -> positions[..., None, :, None]; later = later.swapaxes(-1, -2)
with 1 for visible keys and 0 for hidden ones
    np.float32(-1e10), np.float32(0) -> np.float32(0), np.float32(1)
without the axis for the heads
    positions[..., None, :, None] -> positions[..., :, None]
with the axis for the heads before that for the texts
    positions[..., None, :, None] -> positions[None, ..., :, None]
""")
MASK = Part(("causal_mask",), see_mask, MASK_WRONG, '"The forward pass": What row $i$ depends on.')


def see_split(m, seed):
    for *shape, n_head in (4, 6, 2), (5, 4, 6, 3), (3, 9, 3), (3, 4, 1):
        name = f"split_heads({shape}, {n_head})"
        axes = "batch, " * (len(shape) - 2) + "n_head, n, d_head"
        yield Seen(name, partial(m.split_heads, numbers(*shape), n_head), axes)


def see_merge(m, seed):
    for shape in (2, 4, 3), (5, 2, 4, 3), (3, 3, 3):
        axes = "batch, " * (len(shape) - 3) + "n, n_embd"
        yield Seen(f"merge_heads({[*shape]})", partial(m.merge_heads, numbers(*shape)), axes)


HEADS_WRONG = mistakes(r"""
[gpt2.py split_heads]
of a reshape to [n_head, n, d_head], which tears rows apart: swap axes
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-2], n_head, x.shape[-2], x.shape[-1] // n_head)
with every n_head-th number in a head: head 0 gets 0, n_head, 2 n_head, ...
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-1], x.shape[-1] // n_head, n_head).swapaxes(-1, -3).swapaxes(-1, -2)
with the heads before all other axes instead of before n
    => return np.stack(np.split(x, n_head, axis=-1))
[gpt2.py merge_heads]
with the first axis as that of the heads, but in a batch it is that of the texts
    x = x.swapaxes(-2, -3) -> x = np.moveaxis(x, 0, -2)
of only a reshape, but the axes of heads and rows must be swapped first
    x = x.swapaxes(-2, -3) -> x = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
""")
SPLIT_HEADS = Part(("split_heads",), see_split, of("split_heads", HEADS_WRONG), ONE_BLOCK)
MERGE_HEADS = Part(("merge_heads",), see_merge, of("merge_heads", HEADS_WRONG), ONE_BLOCK)

CAUSAL = hidden(5)[None]


def see_self_attention(m, seed):
    def see(name, x, n_head, axes="n_new, n_embd"):
        call = {**block(12, 1)["attn"], "mask": CAUSAL, "cache": None, "layer": 0}
        yield Seen(name, lambda: m.self_attention(x, n_head=n_head, **call), axes)

    x = numbers(5, 12)
    yield from see("self_attention", x, 3)
    yield Seen("the x of self_attention after the call", x, "n_new, n_embd")
    yield from see("self_attention of two texts", numbers(2, 5, 12), 3, "batch, n_new, n_embd")
    yield from see("self_attention, one head", x, 1)


SELF_ATTENTION_WRONG = mistakes(r"""
[workshop/reference.py self_attention]
without the mask
    v, mask) -> v, np.float32(0))
with the keys and values of head 0 for all heads
    q, k, v, mask -> q, k[..., :1, :, :], v[..., :1, :, :], mask
with each head cut into query, key and value: c_attn gives all queries first
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    -> qkv = split_heads(linear(x, **c_attn), n_head)
    q, k, v = (split_heads(part, n_head) for part in qkv) -> q, k, v = np.split(qkv, 3, axis=-1)
with numbers 0, 3, 6, ... as the query, but c_attn gives all queries first
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    -> qkv = [linear(x, **c_attn)[..., i::3] for i in range(3)]
without the biases
    **c_attn -> c_attn["w"]
    **c_proj -> c_proj["w"]
""")
SELF_ATTENTION = Part(("self_attention",), see_self_attention, SELF_ATTENTION_WRONG, ONE_BLOCK)


def see_feed_forward(m, seed):
    def see(name, x, activation, axes="n_new, n_embd"):
        mlp = block(6, 1)["mlp"]
        yield Seen(name, lambda: m.feed_forward(x, **mlp, activation=activation), axes)

    x = numbers(4, 6)
    yield from see("feed_forward", x, m.gelu)
    yield from see("feed_forward with tanh as the activation", x, np.tanh)
    yield Seen("the x of feed_forward after the call", x, "n_new, n_embd")
    more = numbers(3, 4, 6)
    yield from see("feed_forward of three texts", more, m.gelu, "batch, n_new, n_embd")


FEED_FORWARD_WRONG = mistakes(r"""
[gpt2.py feed_forward]
with the activation after c_proj instead of before
    => return activation(linear(linear(x, **c_fc), **c_proj))
with the activation before c_fc
    activation(linear(x, **c_fc)) -> linear(activation(x), **c_fc)
with gelu, whatever the activation is
    activation(linear -> gelu(linear
without the biases
    **c_fc -> c_fc["w"]
    **c_proj -> c_proj["w"]
""")
FEED_FORWARD = Part(("feed_forward",), see_feed_forward, FEED_FORWARD_WRONG, ONE_BLOCK)


def see_block(m, seed):
    x, call = numbers(5, 12, seed=3), {**block(12, 1), "mask": CAUSAL, "cache": None, "layer": 0}
    model = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1)
    yield Seen("block", lambda: model.block(x, **call), "n_new, n_embd")
    yield Seen("the x of block after the call", x, "n_new, n_embd")


BLOCK_WRONG = mistakes(r"""
[workshop/reference.py GPT2.block]
without x added to either result
    x = x + self_attention -> x = self_attention
    return x + -> return
with the norms after attention and after the feed-forward (post-norm)
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
    -> x = layer_norm(x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache,
        layer=layer), **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
    => return layer_norm(x + feed_forward(h, **mlp, activation=self.activation), **ln_2,
        eps=self.eps)
with ln_1 and ln_2 swapped
    **ln_1 -> **ln_0
    **ln_2 -> **ln_1
    **ln_0 -> **ln_2
with ln_1 after attention is added instead of before it
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    h = layer_norm(x, **ln_2 -> x = layer_norm(x, **ln_1, eps=self.eps); h = layer_norm(x, **ln_2
with the feed-forward computed from attention's result without x
    x = x + self_attention -> first = x; x = x + self_attention
    h = layer_norm(x, **ln_2 -> h = layer_norm(x - first, **ln_2
with the feed-forward computed from the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    h = layer_norm(x, **ln_2 -> h = layer_norm(first, **ln_2
with the feed-forward added to the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    return x + -> return first +
with the feed-forward before attention
    h = layer_norm(x, **ln_1, eps=self.eps)
    -> x = x + feed_forward(layer_norm(x, **ln_2, eps=self.eps), **mlp,
        activation=self.activation); h = layer_norm(x, **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> return x
with 1e-5 in the norms instead of the model's eps
    (x, **ln_1, eps=self.eps) -> (x, **ln_1)
    (x, **ln_2, eps=self.eps) -> (x, **ln_2)
with gelu instead of the model's activation
    activation=self.activation -> activation=gelu
""")
BLOCK = Part(("GPT2.block",), see_block, BLOCK_WRONG, ONE_BLOCK)


def see_model(m, seed):
    model, tied = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1), tiny(m, tied=True)
    ids = [3, 1, 4, 1, 5, 9, 2]
    three = np.array([ids[:5], ids[2:], ids[1:6]])
    yield Seen("model(ids)", lambda: model(ids), "n_new, n_vocab")
    yield Seen("model(ids, last=2)", lambda: model(ids, last=2), "n_new, n_vocab")
    for n, name in (1, "one text in a batch"), (3, "three texts"):
        label, found = f"model(ids, last=2) of {name}", partial(model, three[:n], last=2)
        yield Seen(label, found, "batch, n_new, n_vocab")
    heads = [0]
    with heard(m, "linear", lambda rows, x, w, b=0: heads.append((len(w) == 11) * len(rows))):
        with contextlib.suppress(Exception):  # the same error as above
            model(ids, last=1)
    yield Seen("rows of logits that model(ids, last=1) computes", max(heads), "<=")
    yield Seen("model(ids) without lm_head", lambda: tied(ids), "n_new, n_vocab")


MODEL_WRONG = mistakes(r"""
[workshop/reference.py GPT2.__call__]
with the rows of wpe for the ids instead of the positions
    ["wpe"][positions] -> ["wpe"][ids]
with the tokens' embeddings times sqrt(n_embd), as in some other models
    [ids] + self -> [ids] * math.sqrt(self.n_embd) + self
with ln_f after every block instead of once
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
    cache=cache, layer=layer)
    -> cache=cache, layer=layer); x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
without the causal mask
    mask=mask -> mask=np.float32(0)
with ln_f after every block, and once more at the end
    cache=cache, layer=layer)
    -> cache=cache, layer=layer); x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
with wte as the head, even if there is an lm_head
    self.params.get("lm_head", self.params["wte"]) -> self.params["wte"]
with lm_head as the head, even if there is none
    self.params.get("lm_head", self.params["wte"]) -> self.params["lm_head"]
of probabilities instead of logits: logits need no softmax
    => return softmax(linear(x, self.params.get("lm_head", self.params["wte"])))
of a model that computes all logits, and then cuts those that it was not asked for
    x = x if last is None else x[..., -last:, :] -> pass
    => x = linear(x, self.params.get("lm_head", self.params["wte"])); return x if last is None else
        x[..., -last:, :]
with the first positions instead of the last ones
    x[..., -last:, :] -> x[..., :last, :]
with only position -last
    x[..., -last:, :] -> x[..., -last, :]
with only the last position for any `last`
    x[..., -last:, :] -> x[..., -1:, :]
of only the last position, even if `last` is None
    x = x if last is None else x[..., -last:, :] -> x = x[..., -1:, :]
""")
MODEL = Part(
    ("GPT2.__call__",), see_model, MODEL_WRONG, '"The forward pass": From an id to a vector.'
)
