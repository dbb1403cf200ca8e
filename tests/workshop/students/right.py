"""A correct solution of the whole workshop, like a student's. It follows the workshop's texts."""

import math

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    normed = (x - mean) / np.sqrt(var + eps)
    return normed * g + b


def gelu(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / 2 * (1 + np.tanh(inner))


def linear(x, w, b=0):
    return x @ w.T + b


def attention(q, k, v, mask):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = softmax(scores + mask)
    return weights @ v


def causal_mask(positions):
    positions = np.asarray(positions)
    n_all = positions.max() + 1
    keys = np.arange(n_all)
    later = keys > positions[..., None, :, None]
    return np.where(later, np.float32(-1e10), np.float32(0))


def split_heads(x, n_head):
    *batch, n, n_embd = x.shape
    d_head = n_embd // n_head
    return x.reshape(*batch, n, n_head, d_head).swapaxes(-2, -3)


def merge_heads(x):
    *batch, n_head, n, d_head = x.shape
    rows = x.swapaxes(-3, -2)
    return rows.reshape(*batch, n, n_head * d_head)


def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    q, k, v = split_heads(q, n_head), split_heads(k, n_head), split_heads(v, n_head)
    if cache is not None:
        k, v = cache.append(layer, k, v)
    heads = attention(q, k, v, mask)
    return linear(merge_heads(heads), **c_proj)


def feed_forward(x, c_fc, c_proj, activation):
    hidden = activation(linear(x, **c_fc))
    return linear(hidden, **c_proj)


class GPT2:
    def __init__(self, params, n_head, stop_ids=(), activation=gelu, eps=1e-5):
        self.params, self.n_head, self.stop_ids = params, n_head, tuple(stop_ids)
        self.activation, self.eps = activation, eps
        self.n_vocab, self.n_embd = params["wte"].shape
        self.n_ctx = len(params["wpe"])

    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        h = layer_norm(x, **ln_1, eps=self.eps)
        x = x + self_attention(h, **attn, n_head=self.n_head, mask=mask, cache=cache, layer=layer)
        h = layer_norm(x, **ln_2, eps=self.eps)
        return x + feed_forward(h, **mlp, activation=self.activation)

    def __call__(self, ids, cache=None, last=None):
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = np.arange(n_new) if cache is None else cache.extend(n_new)
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        if last is not None:
            x = x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        return linear(x, self.params.get("lm_head", self.params["wte"]))

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
    cumulative = np.cumsum(probs, dtype=float)
    u = rng.random() * cumulative[-1]
    return int(np.searchsorted(cumulative, u, side="right"))


def temperature(t):
    def divide(logits, ids):
        return logits / t

    return divide


def top_k(k):
    def keep_k(logits, ids):
        if k >= len(logits):
            return logits
        least = np.sort(logits)[-k]
        return np.where(logits >= least, logits, np.float32(-np.inf))

    return keep_k


def top_p(p):
    def keep_p(logits, ids):
        probs = softmax(logits)
        order = np.argsort(-probs)
        mass = np.cumsum(probs[order])
        kept = order[: np.searchsorted(mass, p) + 1]
        filtered = np.full_like(logits, -np.inf)
        filtered[kept] = logits[kept]
        return filtered

    return keep_p


def merge(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == tuple(pair):
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def encode(word, merges, vocab):
    symbols = [bytes([byte]) for byte in word.encode("utf-8")]
    while True:
        neighbours = set(zip(symbols, symbols[1:]))
        possible = [pair for pair in merges if pair in neighbours]
        if not possible:
            break
        symbols = merge(symbols, possible[0])
    return [vocab[symbol] for symbol in symbols]


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        self.keys = np.zeros((n_layer, *batch, n_head, n_ctx, d_head), np.float32)
        self.values = np.zeros_like(self.keys)

    def extend(self, n_new):
        start, end = self.length, self.length + n_new
        if end > self.n_ctx:
            raise ValueError("the context is full")
        self.length = end
        return np.arange(start, end)

    def append(self, layer, k, v):
        end = self.length
        start = end - k.shape[-2]
        self.keys[layer, ..., start:end, :] = k
        self.values[layer, ..., start:end, :] = v
        return self.keys[layer, ..., :end, :], self.values[layer, ..., :end, :]

    def cut(self, length):
        self.length = min(self.length, length)

    def select(self, rows):
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]


def advance(model, ids, cache, chunk=256):
    for start in range(cache.length, len(ids), chunk):
        logits = model(ids[start : start + chunk], cache, last=1)
    return logits[-1]


def cached(model, sequence, cache=None):
    if cache is None:
        cache = model.new_cache()
    while sequence.running:
        logits = advance(model, sequence.ids, cache)
        p = sequence.sampler(logits, sequence.ids)
        next_token = draw(p, sequence.rng)
        sequence.append(next_token)
        yield next_token


class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        self.k = np.zeros((n_layer, n_rows, n_head, n_ctx, d_head), np.float32)
        self.v = np.zeros_like(self.k)

    def extend(self, n_new):
        positions = self.lengths[:, None] + np.arange(n_new)
        self.lengths = self.lengths + n_new
        return positions

    def append(self, layer, k, v):
        n_new, longest = k.shape[2], self.lengths.max()
        for row, stop in enumerate(self.lengths):
            self.k[layer, row, :, stop - n_new : stop] = k[row]
            self.v[layer, row, :, stop - n_new : stop] = v[row]
        return self.k[layer, :, :, :longest], self.v[layer, :, :, :longest]

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)
        for row, stop in enumerate(self.lengths):
            self.k[:, row, :, stop:] = 0
            self.v[:, row, :, stop:] = 0


def prefill(model, prompts, cache):
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = np.zeros((len(prompts), lengths.max()), int)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    logits = model(ids, cache)
    cache.cut(lengths)
    return logits[np.arange(len(prompts)), lengths - 1]


def verify(logits, ids, drafts, qs, sampler, rng):
    tokens = []
    for i, (x, q) in enumerate(zip(drafts, qs)):
        p = sampler(logits[i], list(ids) + tokens)
        if rng.random() < min(1, p[x] / q[x]):
            tokens.append(x)
        else:
            rest = np.maximum(0, p - q)
            tokens.append(draw(rest / rest.sum(), rng))
            return tokens
    p = sampler(logits[-1], list(ids) + tokens)
    tokens.append(draw(p, rng))
    return tokens


class DraftModel:
    def __init__(self, model, sampler, seed):
        self.model, self.sampler = model, sampler
        self.rng = np.random.default_rng(seed).spawn(1)[0]
        self.cache, self.seen = model.new_cache(), []

    def propose(self, ids, n):
        same = 0
        while same < min(len(self.seen), len(ids) - 1) and self.seen[same] == ids[same]:
            same += 1
        self.cache.cut(same)
        text, drafts, qs = list(ids), [], []
        for _ in range(n):
            logits = advance(self.model, text, self.cache)
            qs.append(self.sampler(logits, text))
            drafts.append(draw(qs[-1], self.rng))
            text = text + drafts[-1:]
        self.seen = text
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        pass


def speculative(model, sequence, drafter, gamma=4):
    cache = model.new_cache()
    while sequence.running:
        ids = list(sequence.ids)
        n = min(gamma, sequence.n_left - 1)
        drafts, qs = drafter.propose(ids, n)
        new = ids[cache.length :] + list(drafts)
        logits = model(new, cache, last=len(drafts) + 1)
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng)
        drafter.learn(ids, drafts, logits, tokens)
        for new_token in tokens:
            if sequence.running:
                sequence.append(new_token)
                yield new_token
        cache.cut(len(sequence.ids) - 1)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    cache = model.new_cache(1)
    logits = model([list(prompt)], cache, last=1)[:, -1]
    beams, finished = [([], 0.0)], []
    for step in range(1, n + 1):
        sums = np.array([log_p for _, log_p in beams])
        totals = sums[:, None] + log_softmax(logits)
        going, parents = [], []
        for place, index in enumerate(np.argsort(-totals, axis=None, kind="stable")):
            row, token = divmod(int(index), model.n_vocab)
            ids, log_p = beams[row][0] + [token], float(totals[row, token])
            if token in model.stop_ids or step == n:
                if place < width:
                    finished.append((ids, log_p, log_p / len(ids) ** length_penalty))
            elif len(going) < width:
                going.append((ids, log_p))
                parents.append(row)
        if step == n or not going:
            break
        beams = going
        cache.select(parents)
        logits = model([ids[-1:] for ids, _ in beams], cache, last=1)[:, -1]
    finished.sort(key=lambda text: text[2], reverse=True)
    return finished[:width]


def model(name="stories"):
    import utils

    tokenizer, loaded = utils.load(name)
    return tokenizer, GPT2(loaded.params, loaded.n_head, loaded.stop_ids)
