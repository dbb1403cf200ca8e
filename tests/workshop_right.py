"""A right file for the workshop, in another style than the project's."""

import math

import numpy as np


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    y = np.exp(x)
    y /= np.sum(y, axis=-1, keepdims=True)
    return y


def layer_norm(x, g, b, eps=1e-5):
    mu = np.mean(x, axis=-1, keepdims=True)
    var = np.var(x, axis=-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def linear(x, w, b=0):
    return np.einsum("...i,oi->...o", x, w) + b


def attention(q, k, v, mask):
    d = q.shape[-1]
    scores = np.einsum("...id,...jd->...ij", q, k) / math.sqrt(d) + mask
    return np.einsum("...ij,...jd->...id", softmax(scores), v)


def causal_mask(positions):
    positions = np.asarray(positions)
    keys = np.arange(positions.max() + 1)
    mask = np.zeros((*positions.shape, len(keys)), np.float32)
    mask[keys > positions[..., None]] = -1e10
    return np.expand_dims(mask, -3)


def split_heads(x, n_head):
    return np.stack(np.split(x, n_head, axis=-1), axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., i, :, :] for i in range(x.shape[-3])], axis=-1)


def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    y = linear(x, c_attn["w"], c_attn["b"])
    n = x.shape[-1]
    q, k, v = y[..., :n], y[..., n : 2 * n], y[..., 2 * n :]
    q, k, v = split_heads(q, n_head), split_heads(k, n_head), split_heads(v, n_head)
    if cache is not None:
        k, v = cache.append(layer, k, v)
    out = attention(q, k, v, mask)
    return linear(merge_heads(out), **c_proj)


def feed_forward(x, c_fc, c_proj, activation):
    h = linear(x, **c_fc)
    h = activation(h)
    return linear(h, **c_proj)


class GPT2:
    def __init__(self, params, n_head, stop_ids=(), activation=gelu, eps=1e-5):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        y = x.copy()
        y += self_attention(
            layer_norm(x, ln_1["g"], ln_1["b"], self.eps),
            attn["c_attn"],
            attn["c_proj"],
            self.n_head,
            mask,
            cache,
            layer,
        )
        return y + feed_forward(
            layer_norm(y, ln_2["g"], ln_2["b"], self.eps),
            mlp["c_fc"],
            mlp["c_proj"],
            self.activation,
        )

    def __call__(self, ids, cache=None, last=None):
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        if cache is None:
            positions = np.arange(n_new)
        else:
            positions = cache.extend(n_new)
        mask = causal_mask(positions)
        x = np.take(self.params["wte"], ids, axis=0) + np.take(
            self.params["wpe"], positions, axis=0
        )
        for i in range(len(self.params["blocks"])):
            p = self.params["blocks"][i]
            x = self.block(x, p["ln_1"], p["attn"], p["ln_2"], p["mlp"], mask, cache, i)
        x = layer_norm(x, self.params["ln_f"]["g"], self.params["ln_f"]["b"], self.eps)
        if last:
            x = x[..., n_new - last :, :]
        head = self.params["lm_head"] if "lm_head" in self.params else self.params["wte"]
        return linear(x, head)

    def new_cache(self, *batch):
        d_head = self.n_embd // self.n_head
        return Cache(len(self.params["blocks"]), batch, self.n_head, self.n_ctx, d_head)


def naive(model, sequence):
    while sequence.running:
        logits = model(sequence.ids)[-1]
        p = sequence.sampler(logits, sequence.ids)
        token = draw(p, sequence.rng)
        sequence.append(token)
        yield token


def draw(probs, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(probs) + rng.gumbel(size=len(probs))))


def temperature(t):
    def f(logits, ids):
        return logits / t

    return f


def top_k(k):
    def f(logits, ids):
        out = np.full_like(logits, -np.inf)
        best = np.argsort(logits)[-k:]
        out[best] = logits[best]
        return out

    return f


def top_p(p):
    def f(logits, ids):
        order = np.argsort(-logits)
        probs = softmax(logits)[order]
        before = np.cumsum(probs) - probs
        out = np.full_like(logits, -np.inf)
        kept = order[before < p]
        out[kept] = logits[kept]
        return out

    return f


def merge(symbols, pair):
    out = []
    for s in symbols:
        out.append(s)
    i = 0
    while i < len(out) - 1:
        if out[i] == pair[0] and out[i + 1] == pair[1]:
            out[i : i + 2] = [pair[0] + pair[1]]
        i += 1
    return out


def encode(word, merges, vocab):
    symbols = [bytes([b]) for b in word.encode()]
    for pair in merges:
        symbols = merge(symbols, pair)
    return [vocab[s] for s in symbols]


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        self.k = [None] * n_layer
        self.v = [None] * n_layer

    def extend(self, n_new):
        if self.length + n_new > self.n_ctx:
            raise ValueError("too long")
        start = self.length
        self.length += n_new
        return np.arange(start, start + n_new)

    def append(self, layer, k, v):
        if self.k[layer] is None:
            self.k[layer], self.v[layer] = k, v
        else:
            self.k[layer] = np.concatenate([self.k[layer], k], axis=-2)
            self.v[layer] = np.concatenate([self.v[layer], v], axis=-2)
        return self.k[layer], self.v[layer]

    def cut(self, length):
        if length < self.length:
            self.length = length
            self.k = [k[..., :length, :] for k in self.k]
            self.v = [v[..., :length, :] for v in self.v]


def advance(model, ids, cache, chunk=256):
    while cache.length < len(ids):
        logits = model(ids[cache.length : cache.length + chunk], cache)
    return logits[-1]


def cached(model, sequence, cache=None):
    if cache is None:
        cache = model.new_cache()
    while sequence.running:
        p = sequence.sampler(advance(model, sequence.ids, cache), sequence.ids)
        t = draw(p, sequence.rng)
        sequence.append(t)
        yield t


class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        self.k = np.zeros((n_layer, n_rows, n_head, n_ctx, d_head), np.float32)
        self.v = np.zeros((n_layer, n_rows, n_head, n_ctx, d_head), np.float32)
        self.n_layer = n_layer

    def extend(self, n_new):
        return np.array([np.arange(at, at + n_new) for at in self.lengths])

    def append(self, layer, k, v):
        n = k.shape[2]
        for r, at in enumerate(self.lengths):
            self.k[layer, r, :, at : at + n] = k[r]
            self.v[layer, r, :, at : at + n] = v[r]
        n_all = max(self.lengths) + n
        if layer == self.n_layer - 1:
            self.lengths = self.lengths + n
        return self.k[layer, :, :, :n_all], self.v[layer, :, :, :n_all]

    def cut(self, lengths):
        self.lengths = np.array([min(a, b) for a, b in zip(self.lengths, lengths)])


def prefill(model, prompts, cache):
    n = max(map(len, prompts))
    ids = np.zeros((len(prompts), n), int)
    for i, p in enumerate(prompts):
        ids[i, : len(p)] = p
    logits = model(ids, cache)
    cache.cut([len(p) for p in prompts])
    return np.stack([logits[i, len(p) - 1] for i, p in enumerate(prompts)])


def verify(logits, ids, drafts, qs, sampler, rng):
    out = []
    for i in range(len(drafts)):
        p = sampler(logits[i], ids + out)
        q = qs[i]
        x = drafts[i]
        if 1 - rng.random() <= min(1, p[x] / q[x]):
            out.append(x)
        else:
            r = np.clip(p - q, 0, None)
            out.append(draw(r / r.sum(), rng))
            return out
    p = sampler(logits[len(drafts)], ids + out)
    out.append(draw(p, rng))
    return out


class DraftModel:
    def __init__(self, model, sampler, seed):
        self.model, self.sampler = model, sampler
        self.rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
        self.cache = model.new_cache()
        self.passed = []

    def propose(self, ids, n):
        same = 0
        for a, b in zip(self.passed, ids[:-1]):
            if a != b:
                break
            same += 1
        self.cache.cut(same)
        self.passed = self.passed[:same]
        text = list(ids)
        qs = []
        for _ in range(n):
            new = text[len(self.passed) :]
            logits = self.model(np.array(new), self.cache, last=1)
            self.passed = list(text)
            q = self.sampler(logits[0], text)
            text.append(draw(q, self.rng))
            qs.append(q)
        return text[len(ids) :], qs

    def learn(self, ids, drafts, logits, tokens):
        pass


def speculative(model, sequence, drafter, gamma=4):
    cache = model.new_cache()
    while sequence.running:
        ids = list(sequence.ids)
        n = min(gamma, sequence.n_left - 1)
        drafts, qs = drafter.propose(ids, n)
        logits = model(np.array(ids[cache.length :] + list(drafts)), cache)
        logits = logits[-(len(drafts) + 1) :]
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng)
        drafter.learn(ids, drafts, logits, tokens)
        for t in tokens:
            sequence.append(t)
            yield t
            if not sequence.running:
                break
        cache.cut(len(sequence.ids) - 1)


def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    cache = model.new_cache(1)
    logits = model(np.array([prompt]), cache)[:, -1]
    beams = [([], 0.0)]
    done = []
    for step in range(1, n + 1):
        cands = []
        for r, (ids, lp) in enumerate(beams):
            logs = logits[r].astype(float)
            logs = logs - logs.max()
            logs = logs - np.log(np.exp(logs).sum())
            for t in range(len(logs)):
                cands.append((lp + logs[t], r, ids + [t]))
        cands.sort(key=lambda c: -c[0])
        nxt = []
        rows = []
        for place, (lp, r, ids) in enumerate(cands):
            if step == n or ids[-1] in model.stop_ids:
                if place < width:
                    done.append((ids, lp, lp / len(ids) ** length_penalty))
            elif len(nxt) < width:
                nxt.append((ids, lp))
                rows.append(r)
        beams = nxt
        if not beams:
            break
        cache.select(rows)
        logits = model(np.array([[ids[-1]] for ids, _ in beams]), cache)[:, -1]
    return sorted(done, key=lambda d: d[2], reverse=True)[:width]


def model(name="stories"):
    import utils

    tokenizer, loaded = utils.load(name)
    return tokenizer, GPT2(loaded.params, loaded.n_head, loaded.stop_ids)
