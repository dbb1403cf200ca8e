"""Checks: attention, counting parameters, what each head writes, sliding windows."""

import numpy as np

from gpt2 import causal_mask
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/forward_pass.ipynb my_attention]
with weights over the queries: the weights of each query must sum to 1
    softmax(scores + mask) -> softmax((scores + mask).swapaxes(-1, -2)).swapaxes(-1, -2)
with a causal mask of its own, not the mask that it is given
    + mask -> + causal_mask(np.arange(k.shape[-2]))[:, -q.shape[-2] :]
with the mask added after the softmax
    softmax(scores + mask) -> (softmax(scores) + mask)
with masked scores of 0, which still get a weight
    scores + mask -> scores * (mask == 0)
with the mask as a factor
    softmax(scores + mask) -> softmax(scores) * (mask == 0)
without the scale: divide the scores by sqrt(d_head)
    / math.sqrt(q.shape[-1]) ->
[notebooks/forward_pass.ipynb n_parameters]
without the biases
     + 1) -> )
with the output table counted, too: it is wte again
    n_vocab + n_ctx -> 2 * n_vocab + n_ctx
with one norm in each block: it has two
    (2 * norm -> (norm
with c_attn of one n_embd: it makes queries, keys and values
    (n_embd + 1) * 3 * -> (n_embd + 1) *
with the b of each norm left out, or its g
    norm = 2 * -> norm = 1 *
[notebooks/forward_pass.ipynb written_by_heads]
from rows of w: w is [n_out, n_in], so each head belongs to columns of w
    w[:, h * d_head : (h + 1) * d_head] -> w[h * d_head : (h + 1) * d_head].T
with the bias in each part: leave it out, because attention adds it only once
    head @ part.T -> head @ part.T + b
[notebooks/forward_pass.ipynb window_mask]
of shape [n, n]: the axis of the heads is missing
    [None] -> + 0
of a window that does not hide later tokens
    (key > query) | -> (key > n) |
in float64, which is slower: np.where returns it for Python numbers
    np.float32(0) -> np.float64(0)
[notebooks/forward_pass.ipynb reach]
with w positions in each block: a query itself is one of the w keys
    (w - 1) -> w
""")


def see_attention(m, seed):
    """Look at the results for a mask that also hides an earlier token."""
    for n_new, n_all, scale in (3, 5, 1), (5, 5, 2), (4, 6, 1):
        rng, shape = np.random.default_rng(n_all), [(2, n, 8) for n in (n_new, n_all, n_all)]
        q, k, v = (rng.normal(0, scale, one).astype(np.float32) for one in shape)
        mask = causal_mask(np.arange(n_all - n_new, n_all))
        mask[..., 1] = -1e10  # a mask need not be causal
        label = f"{n_new} queries and {n_all} keys"
        yield Seen(label, m.my_attention(q, k, v, mask), "n_head, n_new, d_head")


def see_parameters(m, seed):
    """Look at the number of parameters of two models."""
    for name, sizes in (
        ("the small GPT-2", (50257, 1024, 768, 12)),
        ("stories", (3329, 512, 224, 5)),
    ):
        yield Seen(f"the parameters of {name}", m.n_parameters(*sizes))


def see_writes(m, seed):
    """Look at what each head adds to the stream."""
    rng = np.random.default_rng(0)
    mixed, w, b = (rng.normal(size=s).astype(np.float32) for s in ((3, 4, 2), (6, 6), 6))
    parts = np.array(m.written_by_heads(mixed, w, b))
    yield Seen("what 3 heads of size 2 write", parts, "head, token, n_embd")


def see_window(m, seed):
    """Look at four masks, their shapes and type, and how far three models see."""
    for n, w in (5, 2), (5, 5), (4, 1), (7, 3):
        mask = m.window_mask(n, w)
        yield Seen(f"the shape of window_mask({n}, {w})", np.shape(mask))
        yield Seen(f"window_mask({n}, {w})", np.asarray(mask), "1, query, key")
    yield Seen("the type of the mask", str(np.asarray(mask).dtype))
    for n_layer, w in (5, 2), (5, 3), (2, 4):
        yield Seen(f"reach({n_layer}, {w})", m.reach(n_layer, w))


exercise_attention = Part(("my_attention",), see_attention, WRONG)
exercise_1 = Part(("n_parameters",), see_parameters, WRONG)
exercise_2 = Part(("written_by_heads",), see_writes, WRONG)
exercise_3 = Part(("window_mask", "reach"), see_window, WRONG)
