"""Solutions for those steps whose functions look different in the project itself."""

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
from workshop import model as ours
from workshop.model import self_attention  # noqa: F401

# --- pairs ----------------------------------------------------------------------------------------


def merge(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        both = tuple(symbols[i : i + 2]) == tuple(pair)
        merged.append(pair[0] + pair[1] if both else symbols[i])
        i += 2 if both else 1
    return merged


def encode(word, merges, vocab):
    symbols = [bytes([byte]) for byte in word.encode("utf-8")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    while True:
        pairs = [pair for pair in zip(symbols, symbols[1:]) if pair in ranks]
        if not pairs:
            break
        symbols = merge(symbols, min(pairs, key=ranks.__getitem__))
    return [vocab[symbol] for symbol in symbols]


# --- keys: one array of keys and one array of values for each block -------------------------------


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        self.keys: list = [None] * n_layer
        self.values: list = [None] * n_layer

    def extend(self, n_new):
        if self.length + n_new > self.n_ctx:
            raise ValueError("too many tokens")
        self.length += n_new
        return np.arange(self.length - n_new, self.length)

    def append(self, layer, k, v):
        if self.keys[layer] is not None:
            k = np.concatenate([self.keys[layer], k], axis=-2)
            v = np.concatenate([self.values[layer], v], axis=-2)
        self.keys[layer], self.values[layer] = k, v
        return k, v

    def cut(self, length):
        if length < self.length:
            self.length = length
            self.keys = [k[..., :length, :] for k in self.keys]
            self.values = [v[..., :length, :] for v in self.values]


class GPT2(ours.GPT2):
    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache, layer):
        return super().block(x, ln_1, attn, ln_2, mlp, mask=mask, cache=cache, layer=layer)

    def new_cache(self, *batch):
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


# --- rows -----------------------------------------------------------------------------------------


class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        self.kv = np.zeros((2, n_layer, n_rows, n_head, n_ctx, d_head), np.float32)

    def extend(self, n_new):
        self.positions = self.lengths[:, None] + np.arange(n_new)
        self.lengths = self.lengths + n_new
        return self.positions

    def append(self, layer, k, v):
        n_all, rows = self.positions.max() + 1, np.arange(len(self.lengths))[:, None]
        for kept, new in zip(self.kv[:, layer], (k, v)):
            kept[rows, :, self.positions] = new.swapaxes(1, 2)
        return self.kv[:, layer, :, :, :n_all]

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)
        for row, length in enumerate(self.lengths):
            self.kv[:, :, row, :, length:] = 0


def prefill(model, prompts, cache):
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = np.array([[*prompt, *[0] * (lengths.max() - len(prompt))] for prompt in prompts])
    logits = model(ids, cache)
    cache.cut(lengths)
    return logits[np.arange(len(prompts)), lengths - 1]


# --- speculation ----------------------------------------------------------------------------------


class DraftModel:
    def __init__(self, model, sampler, seed):
        self.model, self.sampler, self.cache = model, sampler, model.new_cache()
        self.rng, self.seen = np.random.default_rng([seed, 1]), []

    def propose(self, ids, n):
        drafts, qs = [], []
        kept = 0
        while kept < min(len(self.seen), len(ids) - 1) and self.seen[kept] == ids[kept]:
            kept += 1
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

    return utils.load(name)
