"""Checks: attention, counting parameters, what each head writes, sliding windows."""

from types import SimpleNamespace

import numpy as np

import utils
from gpt2 import causal_mask, linear, merge_heads
from workshop.compare import Seen
from workshop.engine import Part, judge
from workshop.steps.transformer import ATTENTION_WRONG

tokenizer, model = utils.load("stories")
BLOCKS, N_HEAD = model.params["blocks"], model.n_head
IDS = np.array(tokenizer.encode("Tom had a big dog named Max. One day, Tom and Max ran to"))


def see_attention(m, seed):
    """Yield what m.attention returns for three inputs with two heads. `judge` compares it."""
    for n_new, n_all, scale in (3, 5, 1), (5, 5, 2), (4, 6, 1):
        rng, shape = np.random.default_rng(n_all), [(2, n, 8) for n in (n_new, n_all, n_all)]
        q, k, v = (rng.normal(0, scale, one).astype(np.float32) for one in shape)
        mask = causal_mask(np.arange(n_all - n_new, n_all))
        mask[..., 1] = -1e10  # a mask need not be causal
        label = f"{n_new} queries and {n_all} keys"
        yield Seen(label, m.attention(q, k, v, mask), "n_head, n_new, d_head")


def exercise_attention(my_attention):
    """Check my_attention(q, k, v, mask) -> [n_head, n_new, d_head]."""
    part = Part(("my_attention",), see_attention, ATTENTION_WRONG)
    module = SimpleNamespace(attention=my_attention)
    code = getattr(my_attention.__wrapped__, "__code__", judge.__code__)  # a partial has none
    found = judge(part, module, path=code.co_filename)
    assert not found or found[0] == "float64", found[1]


def exercise_1(n_parameters):
    """Check n_parameters(n_vocab, n_ctx, n_embd, n_layer) -> how many parameters a GPT-2 has."""
    v, c, d, layers = model.n_vocab, model.n_ctx, model.n_embd, len(BLOCKS)
    answer = n_parameters(v, c, d, layers)
    assert answer is not None, "write n_parameters"
    right = count(model.params)
    parts = {  # parts that are easily forgotten or counted twice
        "the table wte": v * d,
        "the table wpe": c * d,
        "both tables": (v + c) * d,
        "the biases of the linear layers": 9 * d * layers,
        "the last norm": 2 * d,
        "all norms": (4 * layers + 2) * d,
        "the norms in the blocks": 4 * d * layers,
        "the b of all norms": (2 * layers + 1) * d,
        "c_proj of the MLP": (4 * d * d + d) * layers,
        "c_proj of attention": (d * d + d) * layers,
        "two thirds of c_attn": 2 * (d * d + d) * layers,
        "all but one block": (12 * d * d + 13 * d) * (layers - 1),
    }
    named = [name for name, size in parts.items() if abs(answer - right) == size]
    hint = f": have you counted {named[0]} exactly once?" if named else ""
    assert answer == right, f"stories has {right:,} parameters, not {answer:,}{hint}"
    small = n_parameters(50257, 1024, 768, 12)
    assert small == 124_439_808, f"the small GPT-2 has 124,439,808 parameters, not {small:,}"


def count(tree):
    """Return how many numbers a tree of parameters contains."""
    if isinstance(tree, dict | list):
        return sum(map(count, tree.values() if isinstance(tree, dict) else tree))
    return np.size(tree)


def exercise_2(written_by_heads):
    """Check written_by_heads(mixed, w, b) -> what each head adds, [n_head, n, n_embd]."""
    rng, d_head = np.random.default_rng(0), model.n_embd // N_HEAD
    mixed = rng.normal(size=(N_HEAD, 4, d_head)).astype(np.float32)
    c_proj = BLOCKS[1]["attn"]["c_proj"]
    w, b = c_proj["w"], c_proj["b"]
    answer = written_by_heads(mixed, **c_proj)
    assert answer is not None, "write written_by_heads"
    shape = N_HEAD, 4, model.n_embd
    assert np.shape(answer) == shape, "return one part per head: [n_head, n, n_embd]"
    alone = mixed * np.eye(N_HEAD, dtype=np.float32)[..., None, None]  # of one head each
    right = np.array([linear(merge_heads(one), w) for one in alone])
    rows = [mixed[h] @ w[h * d_head : (h + 1) * d_head] for h in range(N_HEAD)]
    assert not np.allclose(answer, rows, atol=1e-3), (
        "you took rows of w: w is [n_out, n_in], so each head belongs to columns of w"
    )
    assert not np.allclose(answer, right + b, atol=1e-3), (
        "each part contains the bias: leave it out, because attention adds it only once"
    )
    assert np.allclose(np.sum(answer, axis=0) + b, linear(merge_heads(mixed), w, b), atol=1e-3), (
        "the parts and one bias do not sum to what attention adds"
    )
    for head in range(N_HEAD):
        close = np.allclose(answer[head], right[head], atol=1e-3)
        assert close, f"part {head} depends on other heads: use the result of head {head} alone"


def change(mask, position):
    """Return how far the last block's output moves at each position if one token changes.

    mask: the attention mask, [1, n, n]; position: that of the token that changes.
    """
    ends = []
    for token in (" Max", " Lily"):
        ids = IDS.copy()
        [ids[position]] = tokenizer.encode(token)
        x = model.params["wte"][ids] + model.params["wpe"][np.arange(len(ids))]
        for layer, block in enumerate(BLOCKS):
            x = model.block(x, **block, mask=mask, cache=None, layer=layer)
        ends.append(x)
    return np.linalg.norm(ends[0] - ends[1], axis=-1)


def exercise_3(window_mask, reach):
    """Check window_mask(n, w) -> float32 [1, n, n], and reach(n_layer, w) -> positions back."""
    n, position = len(IDS), 4
    assert window_mask(n, 2) is not None, "write window_mask"
    assert np.shape(window_mask(n, 2)) == (1, n, n), "window_mask should return [1, n, n]"
    assert np.asarray(window_mask(n, 2)).dtype == np.float32, (
        "the mask should be float32: float64 is slower"
    )
    assert not window_mask(n, n)[0].diagonal().any(), "do not hide a query's own position"
    causal = causal_mask(np.arange(n))
    assert np.array_equal(window_mask(n, n), causal), "w = n should give the causal mask"
    assert (window_mask(n, 1)[0] == 0).sum() == n, "with w = 1 a query sees only itself"
    assert (window_mask(n, 3)[0] == 0).sum() == 3 * n - 3, (
        "with w = 3 a query sees up to three keys"
    )
    changed = change(window_mask(n, 2), position)
    assert not changed[:position].any(), "a token influenced an earlier position: hide later tokens"
    assert reach(len(BLOCKS), 2) is not None, "now write reach"
    for w in (2, 3):
        seen = np.flatnonzero(change(window_mask(n, w), position))[-1] - position
        mine = reach(len(BLOCKS), w)
        case = f"after {len(BLOCKS)} blocks with w = {w}, a change"
        assert mine == seen, f"{case} has travelled {seen} positions, not {mine}"
    assert reach(2, 4) == 6, f"two blocks with w = 4 do not reach {reach(2, 4)} positions back"
