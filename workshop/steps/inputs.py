"""Random arrays and tiny models, chosen so that every mistake changes the results."""

import functools

import numpy as np

from workshop.mistakes import REFERENCE, build

OURS = build(REFERENCE).Cache


def numbers(*shape, scale=1.0, seed=0):
    """Return an array of this shape with random float32 numbers."""
    return drawn(shape, scale, seed).copy()


@functools.cache
def drawn(shape, scale, seed):
    return np.random.default_rng([seed, *shape]).normal(0, scale, shape).astype(np.float32)


def dense(n_in, n_out, seed, scale=1.0):
    w = numbers(n_out, n_in, scale=scale / n_in**0.5, seed=seed)
    return {"w": w, "b": numbers(n_out, scale=0.5, seed=seed)}


def norm(n_embd, seed):
    return {"g": 1 + numbers(n_embd, scale=0.4, seed=seed), "b": numbers(n_embd, seed=seed + 1)}


def block(n_embd, seed):
    """Return a block's parameters. Its large queries and keys focus attention on a few tokens."""
    return {
        "ln_1": norm(n_embd, seed),
        "attn": {
            "c_attn": dense(n_embd, 3 * n_embd, seed + 2, scale=2),
            "c_proj": dense(n_embd, n_embd, seed + 3),
        },
        "ln_2": norm(n_embd, seed + 4),
        "mlp": {
            "c_fc": dense(n_embd, 4 * n_embd, seed + 5),
            "c_proj": dense(4 * n_embd, n_embd, seed + 6),
        },
    }


def parameters(n_vocab=11, n_ctx=16, n_embd=12, n_layer=3, tied=False, seed=0):
    """Return random parameters of a tiny GPT-2. tied: whether to leave out the lm_head."""
    head = {} if tied else {"lm_head": numbers(n_vocab, n_embd, seed=seed + 3)}
    return {
        "wte": numbers(n_vocab, n_embd, seed=seed),
        "wpe": numbers(n_ctx, n_embd, seed=seed + 1),
        "blocks": [block(n_embd, seed + 10 * layer + 10) for layer in range(n_layer)],
        "ln_f": norm(n_embd, seed + 2),
        **head,
    }


def tiny(m, n_head=3, **sizes):
    """Return a tiny m.GPT2 with m.gelu. GPT2's default may be a wrong gelu in the reader's file."""
    return m.GPT2(parameters(**sizes), n_head, activation=m.gelu)


@functools.cache
def logits_after(text, seed, scale, n_vocab):
    logits = np.random.default_rng([seed, *text]).normal(0, scale, n_vocab)
    return logits.astype(np.float32)


class WatchedModel:
    """A model without weights. Its logits are random numbers that depend on the text. It keeps the
    text in a cache of module m, as if ids were keys and values. `passes` counts (cached tokens, new
    tokens) in each pass. After `most` passes, calls raise an error."""

    def __init__(self, m=None, n_vocab=7, n_ctx=40, stop_ids=(), seed=0, scale=1.5, most=200):
        self.n_vocab, self.n_ctx, self.stop_ids, self.seed = n_vocab, n_ctx, stop_ids, seed
        self.scale, self.most, self.passes = scale, most, []
        self.cache_class = getattr(m, "Cache", OURS)
        self.texts: list = []  # those in the cache after the last pass
        self.n_rows = self.n_logits = 0  # how many tokens were run, and how many rows computed

    def new_cache(self, *batch):
        return self.cache_class(1, batch, 1, self.n_ctx, 1)

    def after(self, text):
        return logits_after(text, self.seed, self.scale, self.n_vocab)

    def __call__(self, ids, cache=None, last=None):
        ids = np.asarray(ids)
        if cache is None:
            cache = self.new_cache(*ids.shape[:-1])
        if len(self.passes) >= self.most:
            raise RuntimeError(f"{self.most} passes through the model, and the text has not ended")
        if ids.dtype.kind not in "iu" or ids.size == 0:
            raise ValueError(f"the model got ids of shape {list(ids.shape)} and type {ids.dtype}")
        n_old, n_new = int(cache.length), ids.shape[-1]
        positions = np.asarray(cache.extend(n_new))
        k = ids[..., None, :, None].astype(np.float32)  # [..., n_head, n_new, d_head]
        texts = np.asarray(cache.append(0, k, k)[0])[..., 0, :, 0].astype(int)  # [..., n_all]
        if texts.shape != (*ids.shape[:-1], max(positions) + 1):
            raise ValueError(f"{n_new} ids at {positions}, but the cache has {list(texts.shape)}")
        cache.length = n_old + n_new  # as GPT2 does, if neither extend nor append has counted them
        self.texts = texts.tolist()
        self.passes.append((n_old, n_new))
        self.n_rows += ids.size
        ends = positions[-(last or 0) :] + 1
        rows = np.atleast_2d(texts).tolist()
        logits = np.array([[self.after(tuple(row[:end])) for end in ends] for row in rows])
        self.n_logits += len(rows) * len(ends)
        return logits if ids.ndim > 1 else logits[0]
