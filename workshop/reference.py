"""Right solutions in the skeleton's form, for functions that look different in the project itself.

Readers differ in how a cache counts and stores its tokens, and a mistake then has other results. So
known mistakes of a cache are tried in several styles, which the three constants describe.
"""

import math  # noqa: F401, known mistakes use it

import numpy as np

from generate import advance, cached  # noqa: F401, the last step runs all these functions
from gpt2 import (  # noqa: F401
    attention,
    causal_mask,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    merge_heads,
    softmax,
    split_heads,
)
from samplers import draw
from speculative import verify

COUNTED_BY = "extend"  # or "append", in the last block, or "model", after the last block
JOINS = False  # whether new keys are joined to the old ones; otherwise they are put into slots
CLEARS = False  # whether `cut` sets the slots that it frees to 0


# --- block, model, keys ---------------------------------------------------------------------------


class GPT2:
    def __init__(self, params, n_head, stop_ids=(), activation=gelu, eps=1e-5):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def __call__(self, ids, cache=None, last=None):  # [..., n_new] -> [..., n_new, n_vocab]
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = np.arange(n_new) if cache is None else cache.extend(n_new)
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]  # [..., n_new, n_embd]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        if COUNTED_BY == "model" and cache is not None:
            cache.length = cache.length + n_new  # count them
        x = x if last is None else x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    def new_cache(self, *batch):
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    qkv = np.split(linear(x, **c_attn), 3, axis=-1)  # 3 x [..., n_new, n_embd]
    q, k, v = (split_heads(part, n_head) for part in qkv)  # 3 x [..., n_head, n_new, d_head]
    if cache is not None:
        k, v = cache.append(layer, k, v)  # 2 x [..., n_head, n_all, d_head]
    return linear(merge_heads(attention(q, k, v, mask)), **c_proj)


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        shape = (*batch, n_head, 0 if JOINS else n_ctx, d_head)
        self.kv = [[np.zeros(shape, np.float32) for _ in range(2)] for _ in range(n_layer)]

    def extend(self, n_new):
        old = self.length
        if old + n_new > self.n_ctx:
            raise ValueError(f"{old + n_new} tokens do not fit the context of {self.n_ctx}")
        if COUNTED_BY == "extend":
            self.length = old + n_new  # count them
        return np.arange(old, old + n_new)

    def append(self, layer, k, v):
        n_new = k.shape[-2]
        start = self.length - n_new if COUNTED_BY == "extend" else self.length
        stop = start + n_new
        kept = self.kv[layer]  # [keys, values]
        if JOINS:
            pairs = zip(kept, (k, v)) if kept[0].size else ()
            both = [np.concatenate([old, new], axis=-2) for old, new in pairs] or [k, v]
            self.kv[layer] = both
        else:
            for slots, new in zip(kept, (k, v)):
                slots[..., start:stop, :] = new
            both = [slots[..., :stop, :] for slots in kept]
        if COUNTED_BY == "append" and layer == len(self.kv) - 1:
            self.length = start + n_new  # count them
        return both

    def cut(self, length):
        if length < self.length:
            self.length = length
            if JOINS:
                self.kv = [[one[..., :length, :] for one in both] for both in self.kv]

    def select(self, rows):
        self.kv = [[one[rows] for one in both] for both in self.kv]


# --- rows -----------------------------------------------------------------------------------------


class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        self.kv = np.zeros((2, n_layer, n_rows, n_head, n_ctx, d_head), np.float32)

    def extend(self, n_new):
        old = self.lengths[:, None]
        if COUNTED_BY == "extend":
            self.lengths = self.lengths + n_new  # count them
        return old + np.arange(n_new)

    def append(self, layer, k, v):
        rows, n_new = np.arange(len(k))[:, None], k.shape[2]
        start = self.lengths - n_new if COUNTED_BY == "extend" else self.lengths
        slots = start[:, None] + np.arange(n_new)  # [n_rows, n_new]
        n_all = slots.max() + 1
        for kept, new in zip(self.kv[:, layer], (k, v)):
            kept[rows, :, slots] = new.swapaxes(1, 2)
        if COUNTED_BY == "append" and layer == self.kv.shape[1] - 1:
            self.lengths = self.lengths + n_new  # count them
        return self.kv[:, layer, :, :, :n_all]

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)
        if CLEARS:
            for row, length in enumerate(self.lengths):
                self.kv[:, :, row, :, length:] = 0


def prefill(model, prompts, cache):
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = np.array([[*prompt, *[0] * (lengths.max() - len(prompt))] for prompt in prompts])
    logits = model(ids, cache)
    cache.cut(lengths)
    return logits[np.arange(len(prompts)), lengths - 1]


# --- pairs ----------------------------------------------------------------------------------------


def merge(symbols, pair):
    merged, skip = [], False
    for i in range(len(symbols)):
        if skip:
            skip = False
        elif tuple(symbols[i : i + 2]) == tuple(pair):
            merged.append(pair[0] + pair[1])
            skip = True
        else:
            merged.append(symbols[i])
    return merged


def encode(word, merges, vocab):
    symbols = [bytes([byte]) for byte in word.encode("utf-8")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for _ in symbols[1:]:  # at most so many merges
        pairs = [pair for pair in zip(symbols, symbols[1:]) if pair in ranks]
        if not pairs:
            break
        symbols = merge(symbols, min(pairs, key=ranks.__getitem__))
    return [vocab[symbol] for symbol in symbols]


# --- speculation ----------------------------------------------------------------------------------


class DraftModel:
    def __init__(self, model, sampler, seed):
        self.model, self.sampler, self.cache = model, sampler, model.new_cache()
        self.rng, self.seen = np.random.default_rng([seed, 1]), []

    def propose(self, ids, n):
        drafts, qs = [], []
        same = [a == b for a, b in zip(self.seen, ids[:-1])]
        kept = [*same, False].index(False)
        self.cache.cut(kept)
        new = ids[kept:]
        for _ in range(n):
            logits = self.model(np.array(new), self.cache)[-1]
            q = self.sampler(logits, ids + drafts)
            drafts.append(draw(q, self.rng))
            qs.append(q)
            new = drafts[-1:]
        self.seen = (ids + drafts)[: self.cache.length]
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        pass


def speculative(model, sequence, drafter, gamma=4):
    cache = model.new_cache()
    while sequence.running:
        ids = list(sequence.ids)
        n = min(gamma, sequence.n_left - 1)
        drafts, qs = drafter.propose(ids, n)
        new = [*ids[cache.length :], *drafts]
        logits = model(np.array(new), cache)[-len(drafts) - 1 :]
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng)
        drafter.learn(ids, drafts, logits, tokens)
        for token in tokens:
            if sequence.running:
                yield sequence.append(token)
        cache.cut(len(sequence.ids) - 1)


# --- beam -----------------------------------------------------------------------------------------


def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    cache, beams, finished = model.new_cache(1), [([], 0.0)], []
    new = np.array([prompt])
    for step in range(n):
        logits = model(new, cache)[:, -1]
        totals = log_softmax(logits) + np.array([[log_p] for _, log_p in beams])
        best = np.argsort(-totals, axis=None, kind="stable")
        kept, parents = [], []
        for place, index in enumerate(best):
            row, token = divmod(int(index), model.n_vocab)
            ids, log_p = [*beams[row][0], token], float(totals[row, token])
            if token in model.stop_ids or step == n - 1:
                if place < width:
                    finished.append((ids, log_p, log_p / len(ids) ** length_penalty))
            elif len(kept) < width:
                kept.append((ids, log_p))
                parents.append(row)
        if not kept:
            break
        cache.select(parents)
        beams, new = kept, np.array([ids[-1:] for ids, _ in kept])
    finished.sort(key=lambda text: -text[2])
    return finished[:width]


# --- stories --------------------------------------------------------------------------------------


def model(name="stories"):
    import utils  # this needs more than NumPy, unlike the other steps

    tokenizer, loaded = utils.load(name)
    return tokenizer, GPT2(loaded.params, loaded.n_head, loaded.stop_ids)
