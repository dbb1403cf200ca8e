"""Steps 3 to 7: attention, the mask, heads, the block and the model."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes, of
from workshop.steps.inputs import block, heard, numbers, parameters, tiny

ONE_BLOCK = '"The forward pass": One block, line by line.'

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
without the division by sqrt(d)
    q / math.sqrt(q.shape[-1]) -> q
with the scores divided by d instead of sqrt(d)
    math.sqrt(q.shape[-1]) -> q.shape[-1]
with the scores divided by the root of the number of queries
    q.shape[-1] -> q.shape[-2]
without the mask
    swapaxes(-1, -2) + mask -> swapaxes(-1, -2)
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
with the keys instead of the values
    @ v -> @ k
with the values instead of the keys
    k.swap -> v.swap
of k q^T instead of q k^T, so that rows are keys and columns are queries
    q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2)
    -> k / math.sqrt(q.shape[-1]) @ q.swapaxes(-1, -2)
of the weights alone, without the values
    @ v ->
with k.T, which reverses all axes, even that of the heads: use k.swapaxes(-1, -2)
    k.swapaxes(-1, -2) -> k.T
of an attention that scales q in place
    return softmax(q / math.sqrt(q.shape[-1]) -> q /= math.sqrt(q.shape[-1]); return softmax(q
""")
ATTENTION = Part(("attention",), see_attention, ATTENTION_WRONG, ONE_BLOCK)


def see_mask(m, seed):
    yield Seen("causal_mask([0 1 2])", m.causal_mask(np.arange(3)), "heads, n_new, n_all")
    yield Seen("causal_mask([3 4])", m.causal_mask(np.array([3, 4])), "heads, n_new, n_all")
    yield Seen("causal_mask([5])", m.causal_mask(np.array([5])), "heads, n_new, n_all")
    rows = np.array([[2, 3], [0, 1], [4, 5]])
    yield Seen("causal_mask of three texts", m.causal_mask(rows), "n_rows, heads, n_new, n_all")


MASK_WRONG = mistakes(r"""
[gpt2.py causal_mask]
with each token hidden from itself, as by >= instead of >
    ) > positions -> ) >= positions
with the earlier keys hidden instead of the later ones
    + 1) > positions -> + 1) < positions
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
with -1e4 instead of -1e10
    -1e10 -> -1e4
without the axis for the heads
    positions[..., None, :, None] -> positions[..., :, None]
""")
MASK = Part(("causal_mask",), see_mask, MASK_WRONG, '"The forward pass": What row $i$ depends on.')


def see_split(m, seed):
    yield Seen("split_heads", m.split_heads(numbers(4, 6), 2), "n_head, n, d_head")
    x = numbers(5, 4, 6)
    yield Seen("split_heads of five texts", m.split_heads(x, 3), "batch, n_head, n, d_head")
    yield Seen("split_heads of one row", m.split_heads(numbers(1, 6), 2), "n_head, n, d_head")
    square = m.split_heads(numbers(3, 9), 3)
    yield Seen("split_heads, n_head = n = d_head = 3", square, "n_head, n, d_head")
    yield Seen("one head", m.split_heads(numbers(3, 4), 1), "n_head, n, d_head")


def see_merge(m, seed):
    yield Seen("merge_heads", m.merge_heads(numbers(2, 4, 3)), "n, n_embd")
    yield Seen("merge_heads of five texts", m.merge_heads(numbers(5, 2, 4, 3)), "batch, n, n_embd")
    square = m.merge_heads(numbers(3, 3, 3))
    yield Seen("merge_heads, n_head = n = d_head = 3", square, "n, n_embd")


HEADS_WRONG = mistakes(r"""
[gpt2.py split_heads merge_heads]
with the last two axes swapped instead of heads and rows
    swapaxes(-2, -3) -> swapaxes(-1, -2)
[gpt2.py split_heads]
of a reshape to [n_head, n, d_head], which tears rows apart: swap axes
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-2], n_head, x.shape[-2], x.shape[-1] // n_head)
of [n, n_head, d_head], whose axes are not swapped
    .swapaxes(-2, -3) ->
with every n_head-th number in a head: head 0 gets 0, n_head, 2 n_head, ...
    x.shape[:-1], n_head, x.shape[-1] // n_head).swapaxes(-2, -3)
    -> x.shape[:-1], x.shape[-1] // n_head, n_head).swapaxes(-1, -3).swapaxes(-1, -2)
with n_head and d_head swapped: d_head heads of n_head numbers
    n_head, x.shape[-1] // n_head) -> x.shape[-1] // n_head, n_head)
with the heads before all other axes instead of before n
    => return np.stack(np.split(x, n_head, axis=-1))
[gpt2.py merge_heads]
of only a reshape, but the axes of heads and rows must be swapped first
    x = x.swapaxes(-2, -3) -> x = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
with the last two axes swapped instead of heads and rows, and then a reshape to [n, n_embd]
    x = x.swapaxes(-2, -3)
    -> x = x.swapaxes(-1, -2).reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])
""")
SPLIT_HEADS = Part(("split_heads",), see_split, of("split_heads", HEADS_WRONG), ONE_BLOCK)
MERGE_HEADS = Part(("merge_heads",), see_merge, of("merge_heads", HEADS_WRONG), ONE_BLOCK)

CAUSAL = np.where(np.tri(5) > 0, np.float32(0), HIDDEN)[None]


def see_self_attention(m, seed):
    x, attn = numbers(5, 12), block(12, 1)["attn"]
    call = {"n_head": 3, "mask": CAUSAL, "cache": None, "layer": 0}
    yield Seen("self_attention", m.self_attention(x, **attn, **call), "n_new, n_embd")
    yield Seen("the x of self_attention after the call", x, "n_new, n_embd")
    two = m.self_attention(numbers(2, 5, 12), **attn, **call)
    yield Seen("self_attention of two texts", two, "batch, n_new, n_embd")
    one = m.self_attention(x, **attn, **{**call, "n_head": 1})
    yield Seen("self_attention, one head", one, "n_new, n_embd")


SELF_ATTENTION_WRONG = mistakes(r"""
[workshop/reference.py self_attention]
with the order value, query, key
    q, k, v = -> v, q, k =
without c_proj
    => return merge_heads(attention(q, k, v, mask))
without the mask
    v, mask) -> v, np.float32(0))
of a single head
    split_heads(part, n_head) -> split_heads(part, 1)
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
with the activation after c_proj instead of before
    => return activation(linear(linear(x, **c_fc), **c_proj))
with the activation before c_fc
    activation(linear(x, **c_fc)) -> linear(activation(x), **c_fc)
with gelu, whatever the activation is
    activation(linear -> gelu(linear
without the biases
    **c_fc -> c_fc["w"]
    **c_proj -> c_proj["w"]
with c_fc and c_proj swapped
    **c_fc -> **c_proj
    **c_proj) -> **c_fc)
""")
FEED_FORWARD = Part(("feed_forward",), see_feed_forward, FEED_FORWARD_WRONG, ONE_BLOCK)


def see_block(m, seed):
    model, params = m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1), block(12, 1)
    x, call = numbers(5, 12, seed=3), {"mask": CAUSAL, "cache": None, "layer": 0}
    yield Seen("block", model.block(x, **params, **call), "n_new, n_embd")
    yield Seen("the x of block after the call", x, "n_new, n_embd")
    plain = tiny(m, 2).block(x, **params, **call)
    yield Seen("block of a model with gelu and two heads", plain, "n_new, n_embd")


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
with ln_1 before the feed-forward, too
    **ln_2, -> **ln_1,
with the feed-forward computed from the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    h = layer_norm(x, **ln_2 -> h = layer_norm(first, **ln_2
with the feed-forward added to the x before attention
    x = x + self_attention -> first = x; x = x + self_attention
    return x + -> return first +
with attention added to the norm of x instead of x
    x = x + self_attention -> x = h + self_attention
with the feed-forward added to the norm of x instead of x
    return x + -> return h +
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
without the mask
    mask=mask -> mask=np.float32(0)
of a block that adds to its argument in place
    x = x + self_attention -> x += self_attention
with one head
    n_head=self.n_head -> n_head=1
""")
BLOCK = Part(("GPT2.block",), see_block, BLOCK_WRONG, ONE_BLOCK)


def see_model(m, seed):
    ids, model = [3, 1, 4, 1, 5, 9, 2], m.GPT2(parameters(), 3, activation=np.tanh, eps=0.1)
    yield Seen("model(ids)", model(ids), "n_new, n_vocab")
    yield Seen("model(ids) of an array", model(np.array(ids)), "n_new, n_vocab")
    yield Seen("model(ids, last=2)", model(ids, last=2), "n_new, n_vocab")
    yield Seen("model(ids, last=1)", model(ids, last=1), "n_new, n_vocab")
    two = model(np.array([ids[:5], ids[2:]]))
    yield Seen("model(ids) of two texts", two, "batch, n_new, n_vocab")
    one = model(np.array([ids[:5], ids[2:], ids[1:6]]), last=1)
    yield Seen("model(ids, last=1) of three texts", one, "batch, n_new, n_vocab")
    heads = []
    with heard(m, "linear", lambda rows, x, w, b=0: heads.append((len(w) == 11) * len(rows))):
        model(ids, last=1)
    yield Seen("rows of logits that model(ids, last=1) computes", max(heads), "<=")
    tied = tiny(m, tied=True)
    yield Seen("model(ids) without lm_head", tied(ids), "n_new, n_vocab")
    yield Seen("model(ids) again", tied(ids), "n_new, n_vocab")


MODEL_WRONG = mistakes(r"""
[workshop/reference.py GPT2.__call__]
without the positions' embeddings (wpe)
    ["wte"][ids] + self.params["wpe"][positions] -> ["wte"][ids]
with positions from 1 instead of 0
    ["wpe"][positions] -> ["wpe"][positions + 1]
with the rows of wpe for the ids instead of the positions
    ["wpe"][positions] -> ["wpe"][ids]
with the tokens' embeddings times sqrt(n_embd), as in some other models
    [ids] + self -> [ids] * math.sqrt(self.n_embd) + self
without the last layer norm (ln_f)
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
with ln_f after every block instead of once
    x = layer_norm(x, **self.params["ln_f"], eps=self.eps) -> pass
    cache=cache, layer=layer)
    -> cache=cache, layer=layer); x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
without the causal mask
    mask=mask -> mask=np.float32(0)
with wte as the head, even if there is an lm_head
    self.params.get("lm_head", self.params["wte"]) -> self.params["wte"]
with lm_head as the head, even if there is none
    self.params.get("lm_head", self.params["wte"]) -> self.params["lm_head"]
of probabilities instead of logits: logits need no softmax
    => return softmax(linear(x, self.params.get("lm_head", self.params["wte"])))
of all positions, because `last` is not used
    x = x if last is None else x[..., -last:, :] -> pass
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
with len(ids) as the number of tokens, but in a batch it is the number of texts
    ids = np.asarray(ids) -> n = len(ids); ids = np.asarray(ids)
    np.arange(n_new) -> np.arange(n)
""")
MODEL = Part(
    ("GPT2.__call__",), see_model, MODEL_WRONG, '"The forward pass": From an id to a vector.'
)
