"""Steps 3 to 7: attention, the mask, heads, the block and the model."""

import contextlib
import functools

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import block, heard, numbers, parameters, tiny

HIDDEN = np.float32(-1e10)


def see_attention(m, seed):
    q, k, v = numbers(3, 4, seed=1), numbers(5, 4, seed=2), numbers(5, 4, seed=3)
    nothing = np.zeros((3, 5), np.float32)
    some = np.where(numbers(3, 5) > 0.5, HIDDEN, np.float32(0))
    yield Seen("attention, no key hidden", m.attention(2 * q, k, v, nothing), "n_new, d")
    yield Seen("attention, some keys hidden", m.attention(2 * q, k, v, some), "n_new, d")
    causal = np.where(np.tri(3, 5, 2) > 0, np.float32(0), HIDDEN)
    yield Seen("attention with a causal mask", m.attention(2 * q, k, v, causal), "n_new, d")
    q, k, v = (2 * numbers(2, 6, 4, seed=i) for i in (5, 6, 7))
    mask = np.where(np.tri(6) > 0, np.float32(0), HIDDEN)[None]
    yield Seen("attention of two heads", m.attention(q, k, v, mask), "n_head, n_new, d")
    yield Seen("the q of attention after the call", q, "n_head, n_new, d")
    yield Seen("the mask of attention after the call", mask, "1, n_new, n_all")
    q, k, v = (numbers(7, 2, 3, 4, seed=i) for i in (8, 9, 10))
    mask = np.where(np.tri(3) > 0, np.float32(0), HIDDEN)
    found = m.attention(q, k, v, mask)
    yield Seen("attention of seven texts", found, "batch, n_head, n_new, d")


ATTENTION_WRONG = mistakes(r"""
[gpt2.py attention]
no scale: without the division by sqrt(d)
    q / math.sqrt(q.shape[-1]) -> q
divided by d: with the scores divided by d instead of sqrt(d)
    math.sqrt(q.shape[-1]) -> q.shape[-1]
multiplied: with the scores multiplied by sqrt(d) instead of divided
    q / math -> q * math
sqrt(n_all): with the scores divided by the root of the number of keys
    q.shape[-1] -> k.shape[-2]
sqrt(n_new): with the scores divided by the root of the number of queries
    q.shape[-1] -> q.shape[-2]
sqrt of axis 0: with the scores divided by the root of the length of the first axis
    q.shape[-1] -> q.shape[0]
len(q): with the scores divided by the length of the first axis
    math.sqrt(q.shape[-1]) -> len(q)
d^2: with the scores divided by d^2 instead of sqrt(d)
    math.sqrt(q.shape[-1]) -> q.shape[-1] ** 2
no mask: without the mask
    swapaxes(-1, -2) + mask -> swapaxes(-1, -2)
mask multiplied: with the mask as a factor
    -2) + mask -> -2) * mask
mask subtracted: with the mask subtracted instead of added
    -2) + mask -> -2) - mask
mask after softmax: with the mask added after the softmax
    -2) + mask) @ v -> -2)) + mask) @ v
    return softmax -> return (softmax
zeros after softmax: with hidden weights set to 0 after the softmax, so that rows no longer sum to 1
    -2) + mask) @ v -> -2)) * (mask > -1)) @ v
    return softmax -> return (softmax
own mask: with a fixed triangle instead of mask, but queries are not always the first tokens
    + mask -> + np.where(np.tri(*mask.shape[-2:]) > 0, 0, -1e10).astype("f")
softmax over the queries: of a softmax over the queries (axis -2) instead of the keys
    softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask)
    -> softmax((q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask).swapaxes(-1,
        -2)).swapaxes(-1, -2)
softmax over axis 0: of a softmax over the first axis instead of the keys
    softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask)
    -> np.moveaxis(softmax(np.moveaxis(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask, 0,
        -1)), -1, 0)
softmax of everything: of one softmax over all scores together
    return softmax(q -> e = np.exp(q
    + mask) @ v -> + mask); return e / e.sum() @ v
no softmax: without softmax
    softmax ->
scale after softmax, too: with the division by sqrt(d) again after the softmax
    return softmax -> return 1 / math.sqrt(q.shape[-1]) * softmax
scale after softmax: with the division by sqrt(d) after the softmax
    softmax(q / math.sqrt(q.shape[-1]) -> softmax(q
    + mask) -> + mask) / math.sqrt(q.shape[-1])
keys as values: with the keys instead of the values
    @ v -> @ k
values as keys: with the values instead of the keys
    k.swap -> v.swap
queries as keys: with the queries instead of the keys, so that every token likes itself best
    k.swap -> q.swap
k first: of k q^T instead of q k^T, so that rows are keys and columns are queries
    q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2)
    -> k / math.sqrt(q.shape[-1]) @ q.swapaxes(-1, -2)
weights: of the weights alone, without the values
    @ v ->
weights transposed: with the weights transposed before the product with the values
    softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask)
    -> softmax(q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2) + mask).swapaxes(-1, -2)
k.T: with k.T, which reverses all axes, even that of the heads: use k.swapaxes(-1, -2)
    k.swapaxes(-1, -2) -> k.T
k not transposed: with k not transposed
    k.swapaxes(-1, -2) -> k
k reshaped: with k reshaped to [d, n_all], which does not transpose it
    k.swapaxes(-1, -2) -> k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
negative: with the sign of the scores changed
    softmax(q -> softmax(-q
best key: with only the best key (argmax) instead of a mean
    softmax(q -> np.equal(*(lambda s: (s, s.max(-1, keepdims=True)))(q
    + mask) -> + mask)).astype("f")
distance: with the cosine of q and k instead of their product
    q / math.sqrt(q.shape[-1]) @ k
    -> q / np.linalg.norm(q, axis=-1, keepdims=True) @ (k / np.linalg.norm(k, axis=-1,
        keepdims=True))
plain mean: of the plain mean of the values
    q / math -> 0 * q / math
q overwritten: of an attention that scales q in place
    return softmax(q / math.sqrt(q.shape[-1]) -> q /= math.sqrt(q.shape[-1]); return softmax(q
""")
ATTENTION = Part(("attention",), "gpt2.py", see_attention, ATTENTION_WRONG)


def see_mask(m, seed):
    yield Seen("causal_mask([0 1 2])", m.causal_mask(np.arange(3)), "heads, n_new, n_all")
    yield Seen("causal_mask([3 4])", m.causal_mask(np.array([3, 4])), "heads, n_new, n_all")
    yield Seen("causal_mask([5])", m.causal_mask(np.array([5])), "heads, n_new, n_all")
    rows = np.array([[2, 3], [0, 1], [4, 5]])
    yield Seen("causal_mask of three texts", m.causal_mask(rows), "n_rows, heads, n_new, n_all")


MASK_WRONG = mistakes(r"""
[gpt2.py causal_mask]
itself hidden: with each token hidden from itself, as by >= instead of >
    ) > positions -> ) >= positions
one too many: with one later token visible
    > positions -> - 1 > positions
turned round: with the earlier keys hidden instead of the later ones
    + 1) > positions -> + 1) < positions
visible hidden: with -1e10 for visible keys and 0 for hidden ones
    np.float32(-1e10), np.float32(0) -> np.float32(0), np.float32(-1e10)
positions from 0: with queries at 0, 1, 2, ..., whatever positions are
    positions[..., None, :, None] -> np.arange(positions.shape[-1])[..., None, :, None]
square: with n_new keys, so that earlier tokens are missing
    positions.max() + 1 -> positions.shape[-1]
square, from 0: of a triangle [n_new, n_new] that does not depend on positions
    positions.max() + 1 -> positions.shape[-1]
    > positions[..., None, :, None]
    -> > (0 * positions + np.arange(positions.shape[-1]))[..., None, :, None]
square, len(positions): of a triangle of len(positions) rows and keys, whatever the positions are
    later = -> n = len(positions); return np.triu(np.full((n, n), -1e10, np.float32), 1)[None]
        \n    later =
len(positions): with len(positions) keys
    positions.max() + 1 -> len(positions)
n_all - 1: with one key too few: n_all is the largest position + 1
    positions.max() + 1 -> positions.max()
one key more: with one key too many
    positions.max() + 1 -> positions.max() + 2
last position: with the last position + 1 of the first text as n_all
    positions.max() + 1 -> positions.reshape(-1, positions.shape[-1])[0, -1] + 1
transposed: with queries and keys swapped
    positions[..., None, :, None] -> positions[..., None, :, None]; later = later.swapaxes(-1, -2)
bools: of bools instead of -1e10 and 0
    => return later
1 and 0: with 1 for hidden keys instead of -1e10
    np.float32(-1e10) -> np.float32(1)
1 for visible: with 1 for visible keys and 0 for hidden ones
    np.float32(-1e10), np.float32(0) -> np.float32(0), np.float32(1)
1 for visible, -1e10 for hidden: with 1 instead of 0 for visible keys
    np.float32(0) -> np.float32(1)
-inf: with -inf instead of -1e10
    -1e10 -> -np.inf
-1e9: with -1e9 instead of -1e10
    -1e10 -> -1e9
-10: with -10 instead of -1e10, but e^-10 is not 0
    -1e10 -> -10
-1: with -1 instead of -1e10
    -1e10 -> -1
+1e10: with +1e10 instead of -1e10
    -1e10 -> 1e10
itself only: with every key hidden except the token itself
    ) > positions -> ) != positions
nothing hidden: with 0, or almost 0, instead of -1e10, which hides no key
    np.float32(-1e10) -> np.float32(0)
no axis for the heads: without the axis for the heads
    positions[..., None, :, None] -> positions[..., :, None]
heads first: with the axis for the heads first, before the texts
    => return np.where(later, np.float32(-1e10), np.float32(0)).swapaxes(0, -3)
""")
MASK = Part(("causal_mask",), "gpt2.py", see_mask, MASK_WRONG)


def see_split(m, seed):
    yield Seen("split_heads", m.split_heads(numbers(4, 6), 2), "n_head, n, d_head")
    x = numbers(5, 4, 6)
    yield Seen("split_heads of five texts", m.split_heads(x, 3), "batch, n_head, n, d_head")
    yield Seen("split_heads of one row", m.split_heads(numbers(1, 6), 2), "n_head, n, d_head")
    square = m.split_heads(numbers(3, 9), 3)
    yield Seen("split_heads, n_head = n = d_head = 3", square, "n_head, n, d_head")
    yield Seen("one head", m.split_heads(numbers(3, 4), 1), "n_head, n, d_head")


SPLIT_HEADS_WRONG = mistakes(r"""
[gpt2.py split_heads]
reshaped to [n_head, n, d_head]: of a reshape to [n_head, n, d_head], which tears rows apart: swap
        axes
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-2], n_head, x.shape[-2], x.shape[-1] // n_head)
not swapped: of [n, n_head, d_head], whose axes are not swapped
    .swapaxes(-2, -3) ->
swapped wrongly: with the last two axes swapped
    .swapaxes(-2, -3) -> .swapaxes(-1, -2)
first axes swapped: with axes 0 and 1 swapped, which is right only without a batch
    .swapaxes(-2, -3) -> .swapaxes(0, 1)
axes 1 and 2 swapped: with axes 1 and 2 swapped, which is right only for one batch axis
    .swapaxes(-2, -3) -> .swapaxes(1, 2)
transposed: of a transpose of all axes
    .swapaxes(-2, -3) -> .T
heads interleaved: with every n_head-th number in a head: head 0 gets 0, n_head, 2 n_head, ...
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-1], x.shape[-1] // n_head, n_head).swapaxes(-1, -3).swapaxes(-1, -2)
d_head parts: with n_head and d_head swapped: d_head heads of n_head numbers
    n_head, x.shape[-1] // n_head) -> x.shape[-1] // n_head, n_head)
heads in rows: with the rows cut into heads instead of the columns
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-2], n_head, x.shape[-2] // n_head, x.shape[-1])
stacked in front: with the heads before all other axes instead of before n
    => return np.stack(np.split(x, n_head, axis=-1))
list: of a list of heads instead of an array
    => return np.split(x, n_head, axis=-1)
two axes only: of x as [n, n_head * d_head], but x may have more axes
    => return x.reshape(x.shape[0], n_head, -1).swapaxes(0, 1)
heads reversed: with the heads in reverse order
    -3) -> -3)[..., ::-1, :, :]
""")
SPLIT_HEADS = Part(("split_heads",), "gpt2.py", see_split, SPLIT_HEADS_WRONG)


def see_merge(m, seed):
    yield Seen("merge_heads", m.merge_heads(numbers(2, 4, 3)), "n, n_embd")
    yield Seen("merge_heads of five texts", m.merge_heads(numbers(5, 2, 4, 3)), "batch, n, n_embd")
    square = m.merge_heads(numbers(3, 3, 3))
    yield Seen("merge_heads, n_head = n = d_head = 3", square, "n, n_embd")


MERGE_HEADS_WRONG = mistakes(r"""
[gpt2.py merge_heads]
reshaped only: of only a reshape, but the axes of heads and rows must be swapped first
    x = x.swapaxes(-2, -3) -> x = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
swapped wrongly: with the last two axes swapped before the reshape
    x = x.swapaxes(-2, -3) -> x = x.swapaxes(-2, -3).swapaxes(-1, -2)
last two swapped: with the last two axes swapped instead of heads and rows
    x = x.swapaxes(-2, -3) -> x = x.swapaxes(-1, -2)
not swapped: without the swap, so that rows are joined, not heads
    x = x.swapaxes(-2, -3) ->
first axes swapped: with axes 0 and 1 swapped, which is right only without a batch
    x = x.swapaxes(-2, -3) -> x = x.swapaxes(0, 1)
axes 1 and 2 swapped: with axes 1 and 2 swapped, which is right only for one batch axis
    x = x.swapaxes(-2, -3) -> x = x.swapaxes(1, 2)
summed: with the heads summed
    x = x.swapaxes(-2, -3) -> return x.sum(-3)
mean: with the mean of the heads
    x = x.swapaxes(-2, -3) -> return x.mean(-3)
first axis only: of x as [n_head, n, d_head], but x may have more axes
    => return x.reshape(x.shape[0], -1)
heads below each other: with the heads one below the other instead of side by side
    x = x.swapaxes(-2, -3) -> return x.reshape(*x.shape[:-3], -1, x.shape[-1])
heads reversed: with the heads in reverse order
    x = x.swapaxes(-2, -3) -> x = x[..., ::-1, :, :].swapaxes(-2, -3)
""")
MERGE_HEADS = Part(("merge_heads",), "gpt2.py", see_merge, MERGE_HEADS_WRONG)

STAGES = "linear", "split_heads", "attention", "merge_heads", "layer_norm", "feed_forward"


def stages(m, names, call):
    """Return call(), and what the functions `names` return during it: [(label, array, axes)]."""
    seen = []

    def note(name, result, *args, **more):
        if isinstance(result, np.ndarray):
            axes = ("batch, head, " * 2 + "row, number").split(", ")[-result.ndim :]
            seen.append((name, result.copy(), ", ".join(axes)))

    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(heard(m, name, functools.partial(note, name)))
        return call(), seen


CAUSAL = np.where(np.tri(5) > 0, np.float32(0), HIDDEN)[None]


def see_self_attention(m, seed):
    x, attn = numbers(5, 12), block(12, 1)["attn"]
    call = {"n_head": 3, "mask": CAUSAL, "cache": None, "layer": 0}
    found, seen = stages(m, STAGES[:4], lambda: m.self_attention(x, **attn, **call))
    yield Seen("intermediate results", seen, "stages")
    yield Seen("self_attention", found, "n_new, n_embd")
    yield Seen("the x of self_attention after the call", x, "n_new, n_embd")
    two = m.self_attention(numbers(2, 5, 12), **attn, **call)
    yield Seen("self_attention of two texts", two, "batch, n_new, n_embd")
    one = m.self_attention(x, **attn, **{**call, "n_head": 1})
    yield Seen("self_attention, one head", one, "n_new, n_embd")


SELF_ATTENTION_WRONG = mistakes(r"""
[workshop/model.py self_attention]
q and k exchanged: with queries and keys swapped
    q, k, v = -> k, q, v =
k and v exchanged: with keys and values swapped
    q, k, v = -> q, v, k =
q and v exchanged: with queries and values swapped
    q, k, v = -> v, k, q =
k, v, q: with the order key, value, query
    q, k, v = -> k, v, q =
v, q, k: with the order value, query, key
    q, k, v = -> v, q, k =
no c_proj: without c_proj
    => return merge_heads(attention(q, k, v, mask))
no mask: without the mask
    v, mask) -> v, np.float32(0))
one head: of a single head
    split_heads(part, n_head) -> split_heads(part, 1)
heads before q, k, v: with each head cut into query, key and value: c_attn gives all queries first
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    -> qkv = split_heads(linear(x, **c_attn), n_head)
    q, k, v = (split_heads(part, n_head) for part in qkv) -> q, k, v = np.split(qkv, 3, axis=-1)
q, k, v in turn: with numbers 0, 3, 6, ... as the query, but c_attn gives all queries first
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)
    -> qkv = [linear(x, **c_attn)[..., i::3] for i in range(3)]
no bias in c_attn: without the bias of c_attn
    **c_attn -> c_attn["w"]
no bias in c_proj: without the bias of c_proj
    **c_proj -> c_proj["w"]
neither bias: without the biases
    **c_attn -> c_attn["w"]
    **c_proj -> c_proj["w"]
residual inside: with x added here, although the block adds it
    return linear -> return x + linear
heads not merged: with the heads reshaped instead of merged
    merge_heads(attention(q, k, v, mask)) -> attention(q, k, v, mask).reshape(x.shape)
heads reshaped: with the heads cut by a reshape instead of split_heads
    split_heads(part, n_head) -> part.reshape(*part.shape[:-2], n_head, part.shape[-2], -1)
c_proj twice: with c_proj applied twice
    return linear(merge_heads -> return linear(linear(merge_heads
    **c_proj) -> **c_proj), **c_proj)
merged heads twice: with only the values of c_attn, without attention
    attention(q, k, v, mask) -> v
no attention weights for the values: with x as the values
    attention(q, k, v, mask) -> attention(q, k, split_heads(x, n_head), mask)
queries from x: with x itself as the queries
    attention(q, -> attention(split_heads(x, n_head),
keys from x: with x itself as the keys
    attention(q, k, -> attention(q, split_heads(x, n_head),
scaled again: with the scores scaled here, although attention scales them already
    attention(q, -> attention(q / math.sqrt(q.shape[-1]),
scaled by n_embd: with the scores scaled by sqrt(n_embd) instead of sqrt(d_head)
    attention(q, -> attention(q / math.sqrt(n_head),
softmax again: of a second softmax, of the result of attention
    attention(q, k, v, mask) -> softmax(attention(q, k, v, mask))
norm inside: with a layer norm here, although the block applies it
    linear(x, **c_attn) -> linear(layer_norm(x, 1, 0), **c_attn)
""")
SELF_ATTENTION = Part(
    ("self_attention",), "workshop/model.py", see_self_attention, SELF_ATTENTION_WRONG
)


def see_feed_forward(m, seed):
    x, mlp = numbers(4, 6), block(6, 1)["mlp"]
    gelu = m.feed_forward(x, **mlp, activation=m.gelu)
    yield Seen("feed_forward", gelu, "n_new, n_embd")
    tanh = m.feed_forward(x, **mlp, activation=np.tanh)
    yield Seen("feed_forward with tanh as the activation", tanh, "n_new, n_embd")
    yield Seen("the x of feed_forward after the call", x, "n_new, n_embd")
    more = m.feed_forward(numbers(3, 4, 6), **mlp, activation=m.gelu)
    yield Seen("feed_forward of three texts", more, "batch, n_new, n_embd")


FEED_FORWARD_WRONG = mistakes(r"""
[gpt2.py feed_forward]
no activation: without the activation
    activation(linear(x, **c_fc)) -> linear(x, **c_fc)
activation last: with the activation after c_proj instead of before
    => return activation(linear(linear(x, **c_fc), **c_proj))
activation twice: with the activation after c_proj, too
    => return activation(linear(activation(linear(x, **c_fc)), **c_proj))
activation doubled: with the activation applied twice
    activation(linear(x, **c_fc)) -> activation(activation(linear(x, **c_fc)))
activation first: with the activation before c_fc
    activation(linear(x, **c_fc)) -> linear(activation(x), **c_fc)
activation before, too: with the activation before c_fc, too
    linear(x, **c_fc) -> linear(activation(x), **c_fc)
always gelu: with gelu, whatever the activation is
    activation(linear -> gelu(linear
no bias in c_fc: without the bias of c_fc
    **c_fc -> c_fc["w"]
no bias in c_proj: without the bias of c_proj
    **c_proj -> c_proj["w"]
neither bias: without the biases
    **c_fc -> c_fc["w"]
    **c_proj -> c_proj["w"]
residual inside: with x added here, although the block adds it
    return -> return x +
norm inside: with a layer norm here, although the block applies it
    linear(x, -> linear(layer_norm(x, 1, 0),
exchanged: with c_fc and c_proj swapped
    **c_fc -> **c_proj
    **c_proj) -> **c_fc)
no c_proj: without c_proj
    => return activation(linear(x, **c_fc))
""")
FEED_FORWARD = Part(("feed_forward",), "gpt2.py", see_feed_forward, FEED_FORWARD_WRONG)


def see_block(m, seed):
    model, params = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1), block(12, 1)
    x, call = numbers(5, 12, seed=3), {"mask": CAUSAL, "cache": None, "layer": 0}
    watched = "layer_norm", "self_attention", "feed_forward"
    found, seen = stages(m, watched, lambda: model.block(x, **params, **call))
    yield Seen("intermediate results", seen, "stages")
    yield Seen("block", found, "n_new, n_embd")
    yield Seen("the x of block after the call", x, "n_new, n_embd")
    plain = tiny(m, 2).block(x, **params, **call)
    yield Seen("block of a model with gelu and two heads", plain, "n_new, n_embd")


BLOCK_WRONG = mistakes(r"""
[workshop/model.py block]
no residual for attention: without x added to the result of attention
    x = x + self_attention -> x = self_attention
no residual for the feed-forward: without x added to the result of the feed-forward
    return x + -> return
no residuals: without x added to either result
    x = x + self_attention -> x = self_attention
    return x + -> return
norm after attention: with the norms after attention and after the feed-forward (post-norm)
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
    -> x = layer_norm(x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache,
        layer=layer), **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
    => return layer_norm(x + feed_forward(h, **mlp, activation=self.activation), **ln_2,
        eps=self.eps)
norm of the results: with the norms after attention and the feed-forward, before x is added
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
    -> layer_norm(self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache,
        layer=layer), **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
    feed_forward(h, **mlp, activation=self.activation)
    -> layer_norm(feed_forward(h, **mlp, activation=self.activation), **ln_2, eps=self.eps)
norms exchanged: with ln_1 and ln_2 swapped
    **ln_1 -> **ln_0
    **ln_2 -> **ln_1
    **ln_0 -> **ln_2
ln_1 twice: with ln_1 before the feed-forward, too
    **ln_2, -> **ln_1,
ln_2 twice: with ln_2 before attention, too
    **ln_1, -> **ln_2,
no norm before attention: without the norm before attention
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
no norm before the feed-forward: without the norm before the feed-forward
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
no norms: without the norms
    h = layer_norm(x, **ln_1, eps=self.eps) -> h = x
    h = layer_norm(x, **ln_2, eps=self.eps) -> h = x
parallel: with the feed-forward computed from the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    h = layer_norm(x, **ln_2 -> h = layer_norm(first, **ln_2
attention forgotten: with the feed-forward added to the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    return x + -> return first +
residual of the norm: with attention added to the norm of x instead of x
    x = x + self_attention -> x = h + self_attention
second residual of the norm: with the feed-forward added to the norm of x instead of x
    return x + -> return h +
residuals of the norms: with attention and feed-forward added to the norms of x instead of x
    x = x + self_attention -> x = h + self_attention
    return x + -> return h +
x added twice: with x added again after the feed-forward
    x = x + self_attention -> first = x; x = x + self_attention
    return x + -> return first + x +
feed-forward of the first norm: with the feed-forward of the norm before attention (ln_1)
    h = layer_norm(x, **ln_2, eps=self.eps) -> pass
norm of the norm: with ln_2 of the result of ln_1 instead of ln_2 of x
    layer_norm(x, **ln_2 -> layer_norm(h, **ln_2
feed-forward first: with the feed-forward before attention
    h = layer_norm(x, **ln_1, eps=self.eps)
    -> x = x + feed_forward(layer_norm(x, **ln_2, eps=self.eps), **mlp,
        activation=self.activation); h = layer_norm(x, **ln_1, eps=self.eps)
    h = layer_norm(x, **ln_2, eps=self.eps) -> return x
eps not passed on: with 1e-5 in the norms instead of the model's eps
    (x, **ln_1, eps=self.eps) -> (x, **ln_1)
    (x, **ln_2, eps=self.eps) -> (x, **ln_2)
eps not passed to ln_1: with 1e-5 in the first norm instead of the model's eps
    (x, **ln_1, eps=self.eps) -> (x, **ln_1)
eps not passed to ln_2: with 1e-5 in the second norm instead of the model's eps
    (x, **ln_2, eps=self.eps) -> (x, **ln_2)
always gelu: with gelu instead of the model's activation
    activation=self.activation -> activation=gelu
no mask: without the mask
    mask=mask -> mask=np.float32(0)
no attention: without attention
    x = x + self_attention -> self_attention
no feed-forward: without the feed-forward
    => return x
residual in place: of a block that adds to its argument in place
    x = x + self_attention -> x += self_attention
one head: with one head
    n_head=self.n_head -> n_head=1
""")
BLOCK = Part(("GPT2.block",), "workshop/model.py", see_block, BLOCK_WRONG)


def see_model(m, seed):
    ids, model = [3, 1, 4, 1, 5, 9, 2], m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1)
    stream = []

    def note(result, model, x, *args, **more):
        if not stream:
            stream.append(("the sum of the embeddings", np.array(x), "row, number"))
        stream.append((f"x after block {len(stream) - 1}", np.array(result), "row, number"))

    with heard(m.GPT2, "block", note):
        logits = model(ids)
    yield Seen("intermediate results", stream, "stages")
    yield Seen("model(ids)", logits, "n_new, n_vocab")
    yield Seen("model(ids) of an array", model(np.array(ids)), "n_new, n_vocab")
    yield Seen("model(ids, last=2)", model(ids, last=2), "n_new, n_vocab")
    yield Seen("model(ids, last=1)", model(ids, last=1), "n_new, n_vocab")
    two = model(np.array([ids[:5], ids[2:]]))
    yield Seen("model(ids) of two texts", two, "batch, n_new, n_vocab")
    one = model(np.array([ids[:5], ids[2:], ids[1:6]]), last=1)
    yield Seen("model(ids, last=1) of three texts", one, "batch, n_new, n_vocab")
    tied = tiny(m, tied=True)
    yield Seen("model(ids) without lm_head", tied(ids), "n_new, n_vocab")
    yield Seen("model(ids) again", tied(ids), "n_new, n_vocab")


MODEL_WRONG = mistakes(r"""
[workshop/model.py __call__]
no wpe: without the positions' embeddings (wpe)
    ["wte"][ids] + self.params["wpe"][positions] -> ["wte"][ids]
no wte: without the tokens' embeddings (wte)
    self.params["wte"][ids] + self -> self
positions from 1: with positions from 1 instead of 0
    ["wpe"][positions] -> ["wpe"][positions + 1]
positions from 1, in the mask, too: with positions from 1 instead of 0, in the mask, too
    np.arange(ids.shape[-1]) -> np.arange(1, ids.shape[-1] + 1)
positions - 1: with positions that are one too small
    ["wpe"][positions] -> ["wpe"][positions - 1]
wpe by id: with the rows of wpe for the ids instead of the positions
    ["wpe"][positions] -> ["wpe"][ids]
wpe of the last position: with the last position for every token
    ["wpe"][positions] -> ["wpe"][ids.shape[-1] - 1]
wpe of position 0: with position 0 for every token
    ["wpe"][positions] -> ["wpe"][0 * positions]
embeddings multiplied: with the two embeddings multiplied
    [ids] + self -> [ids] * self
embeddings scaled: with the tokens' embeddings times sqrt(n_embd), as in some other models
    [ids] + self -> [ids] * math.sqrt(self.n_embd) + self
no final norm: without the last layer norm (ln_f)
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
norm before the blocks: with ln_f before the blocks instead of after them
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
    [positions]  # -> [positions]; x = layer_norm(x, **self.params["ln_f"], eps=self.eps)  #
norm in every block: with ln_f after every block, and at the end
    mask=mask, cache=cache, layer=layer)
    -> mask=mask, cache=cache, layer=layer); x = layer_norm(x, **self.params["ln_f"],
        eps=self.eps)
ln_f after every block: with ln_f after every block instead of once
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
    cache=cache, layer=layer)
    -> cache=cache, layer=layer); x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
eps not passed on: with 1e-5 in ln_f instead of the model's eps
    , eps=self.eps) -> )
first block only: with the first block only
    (self.params["blocks"]) -> (self.params["blocks"][:1])
last block left out: without the last block
    (self.params["blocks"]) -> (self.params["blocks"][:-1])
first block left out: without the first block
    (self.params["blocks"]) -> (self.params["blocks"][1:])
last block only: with the last block only, as if each block got the first x
    (self.params["blocks"]) -> (self.params["blocks"][-1:])
same block: with the first block each time
    (self.params["blocks"]) -> ([self.params["blocks"][0]] * len(self.params["blocks"]))
blocks reversed: with the blocks in reverse order
    (self.params["blocks"]) -> (self.params["blocks"][::-1])
blocks twice: with x added again to the result of each block
    x = self.block -> x = x + self.block
no blocks: without the blocks
    (self.params["blocks"]) -> ([])
no mask: without the causal mask
    mask=mask -> mask=np.float32(0)
mask reversed: with the earlier tokens hidden instead of the later ones
    mask=mask -> mask=mask.swapaxes(-1, -2)
head is always wte: with wte as the head, even if there is an lm_head
    self.params.get("lm_head", self.params["wte"]) -> self.params["wte"]
head is always lm_head: with lm_head as the head, even if there is none
    self.params.get("lm_head", self.params["wte"]) -> self.params["lm_head"]
no head: of the vectors after the last norm, without the head
    => return x
probabilities: of probabilities instead of logits: logits need no softmax
    => return softmax(linear(x, self.params.get("lm_head", self.params["wte"])))
log probabilities: of log probabilities instead of logits
    => return log_softmax(linear(x, self.params.get("lm_head", self.params["wte"])))
last ignored: of all positions, because `last` is not used
    x = x if last is None else x[..., -last:, :] -> pass
first instead of last: with the first positions instead of the last ones
    x[..., -last:, :] -> x[..., :last, :]
position last only: with only position -last
    x[..., -last:, :] -> x[..., -last, :]
position last only, axis kept: with only position -last
    x[..., -last:, :] -> x[..., -last, None, :]
from position last: with the positions from `last` on instead of the last ones
    x[..., -last:, :] -> x[..., last:, :]
one too many: with one position too many
    x[..., -last:, :] -> x[..., -last - 1 :, :]
without the last: without the last positions
    x[..., -last:, :] -> x[..., :-last, :]
first axis: with the last texts instead of the last positions
    x[..., -last:, :] -> x[-last:]
last position alone: with only the last position for any `last`, and without its axis
    x[..., -last:, :] -> x[..., -1, :]
last position alone, axis kept: with only the last position for any `last`
    x[..., -last:, :] -> x[..., -1:, :]
last position always: of only the last position, even if `last` is None
    x = x if last is None else x[..., -last:, :] -> x = x[..., -1:, :]
len(ids): with len(ids) as the number of tokens, but in a batch it is the number of texts
    ids = np.asarray(ids) -> n = len(ids); ids = np.asarray(ids)
    np.arange(ids.shape[-1]) -> np.arange(n)
ids.shape: of ids.shape, but a list has no shape: use np.asarray(ids)
    ids = np.asarray(ids) -> pass
embeddings changed: of a model that adds wpe to wte in place
    x = self.params["wte"][ids] + self.params["wpe"][positions]
    -> w = self.params["wte"]; w[ids] += self.params["wpe"][positions] if w[ids].ndim == 2 else
        0; x = w[ids]
""")
MODEL = Part(("GPT2.__call__",), "workshop/model.py", see_model, MODEL_WRONG)
