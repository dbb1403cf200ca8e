"""Right solutions in other styles than right.py's. Each text has the functions that differ.

`restyle` puts them into right.py, in place of those with the same names. A class GPT2 in a style
contains only the methods to replace.
"""

import ast


def restyle(text, style):
    """Replace functions and classes of `text` by those of `style`. Put other code at the top."""
    lines = text.splitlines()
    places = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            places[node.name] = node
            if node.name == "GPT2":
                places |= {f"GPT2.{method.name}": method for method in node.body}
    changes, extra = [], []
    for node in ast.parse(style).body:
        name = getattr(node, "name", None)
        if name == "GPT2":
            changes += [(places[f"GPT2.{method.name}"], method) for method in node.body]
        elif name in places:
            changes.append((places[name], node))
        else:
            extra += style.splitlines()[node.lineno - 1 : node.end_lineno] + [""]
    for old, new in sorted(changes, key=lambda change: -change[0].lineno):
        new_lines = style.splitlines()[new.lineno - 1 : new.end_lineno]
        lines[old.lineno - 1 : old.end_lineno] = new_lines
    start = lines.index("import numpy as np") + 1
    return "\n".join(lines[:start] + ["", *extra] + lines[start:]) + "\n"


ONE = """
# the last axis is moved to the front, so that no keepdims is needed
def softmax(x):
    rows = np.moveaxis(x, -1, 0)
    e = np.exp(rows - rows.max(0))
    return np.moveaxis(e / e.sum(0), 0, -1)


# the mean of the squares less the square of the mean
def layer_norm(x, g, b, eps=1e-5):
    wide = x.astype(np.float64)
    mean = wide.mean(-1)[..., np.newaxis]
    var = (wide**2).mean(-1)[..., np.newaxis] - mean**2
    return ((wide - mean) * (var + eps) ** -0.5 * g + b).astype(np.float32)


# einsum
def linear(x, w, b=0):
    return np.einsum("...i,oi->...o", x, w) + b


# einsum, and the mask as a condition
def attention(q, k, v, mask):
    scores = np.einsum("...id,...jd->...ij", q, k) / float(np.sqrt(q.shape[-1]))
    scores = np.where(mask < 0, np.float32(-np.inf), scores)
    return np.einsum("...ij,...jd->...id", softmax(scores), v)


# rows of a triangle
def causal_mask(positions):
    positions = np.array(positions)
    n_all = int(np.max(positions)) + 1
    triangle = np.triu(np.full((n_all, n_all), -1e10, np.float32), 1)
    return np.expand_dims(triangle[positions], -3)


# np.split and np.stack, np.concatenate
def split_heads(x, n_head):
    return np.stack(np.split(x, n_head, axis=-1), axis=-3)


def merge_heads(x):
    return np.concatenate([x[..., i, :, :] for i in range(x.shape[-3])], axis=-1)


# slices instead of np.split, a loop over the heads
def self_attention(x, c_attn, c_proj, n_head, mask, cache=None, layer=0):
    qkv = linear(x, c_attn["w"], c_attn["b"])
    n_embd = x.shape[-1]
    q = split_heads(qkv[..., :n_embd], n_head)
    k = split_heads(qkv[..., n_embd : 2 * n_embd], n_head)
    v = split_heads(qkv[..., 2 * n_embd :], n_head)
    if cache is not None:
        k, v = cache.append(layer, k, v)
    mask = np.broadcast_to(mask, q.shape[:-1] + (k.shape[-2],))
    heads = []
    for h in range(n_head):
        one = q[..., h, :, :], k[..., h, :, :], v[..., h, :, :], mask[..., h, :, :]
        heads.append(attention(*one))
    return linear(np.concatenate(heads, axis=-1), c_proj["w"], c_proj["b"])


# computes all logits and returns the last; np.take, an if for lm_head
class GPT2:
    def __call__(self, ids, cache=None, last=None):
        ids = np.array(ids)
        positions = np.arange(ids.shape[-1])
        if cache is not None:
            positions = cache.extend(ids.shape[-1])
        x = np.take(self.params["wte"], ids, axis=0)
        x = x + np.take(self.params["wpe"], positions, axis=0)
        mask = causal_mask(positions)
        for layer in range(len(self.params["blocks"])):
            x = self.block(x, mask=mask, cache=cache, layer=layer, **self.params["blocks"][layer])
        x = layer_norm(x, self.params["ln_f"]["g"], self.params["ln_f"]["b"], self.eps)
        w = self.params["lm_head"] if "lm_head" in self.params else self.params["wte"]
        logits = linear(x, w)
        return logits if last is None else logits[..., logits.shape[-2] - last :, :]


# an array, last=1, one line for the probabilities
def naive(model, sequence):
    while sequence.running:
        logits = model(np.array(sequence.ids), last=1)
        probs = sequence.sampler(logits[0], sequence.ids)
        sequence.append(draw(probs, sequence.rng))
        yield sequence.ids[-1]


# a loop that sums; top_k by argsort, top_p by a loop, both set -inf on a copy
def draw(probs, rng):
    u, total = rng.random(), 0.0
    for token, p in enumerate(probs):
        total += float(p)
        if u < total:
            return token
    return int(np.flatnonzero(probs)[-1])


def temperature(t):
    return lambda logits, ids: (logits / t).astype(np.float32)


def top_k(k):
    def f(logits, ids):
        out = logits.copy()
        out[np.argsort(-logits, kind="stable")[k:]] = -np.inf
        return out

    return f


def top_p(p):
    def f(logits, ids):
        probs, kept, total = softmax(logits), [], 0.0
        for token in np.argsort(-probs, kind="stable"):
            if total >= p:
                break
            kept.append(token)
            total += probs[token]
        return np.array([x if i in kept else -np.inf for i, x in enumerate(logits)], np.float32)

    return f


# a list that grows by its last symbol; ranks in a dict
def merge(symbols, pair):
    left, right = pair
    out = []
    just_merged = False
    for symbol in symbols:
        if out and out[-1] == left and symbol == right and not just_merged:
            out[-1] = left + right
            just_merged = True
        else:
            out.append(symbol)
            just_merged = False
    return out


def encode(word, merges, vocab):
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    data = word.encode()
    symbols = [data[i : i + 1] for i in range(len(data))]
    while len(symbols) > 1:
        best = min(zip(symbols, symbols[1:]), key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        symbols = merge(symbols, best)
    return list(map(vocab.get, symbols))


# lists that are joined, the length counted by the first block's append
class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        empty = np.zeros((*batch, n_head, 0, d_head), np.float32)
        self.blocks = [(empty, empty) for _ in range(n_layer)]

    def extend(self, n_new):
        if self.length + n_new > self.n_ctx:
            raise ValueError(f"no room for {n_new} tokens more")
        self.length += n_new
        return np.arange(self.length - n_new, self.length)

    def append(self, layer, k, v):
        old_k, old_v = self.blocks[layer]
        k = np.concatenate([old_k, k], axis=-2)
        v = np.concatenate([old_v, v], axis=-2)
        self.blocks[layer] = k, v
        return k, v

    def cut(self, length):
        if length < self.length:
            self.length = length
            self.blocks = [(k[..., :length, :], v[..., :length, :]) for k, v in self.blocks]


# a while loop over the chunks; the first token drawn before the loop
def advance(model, ids, cache, chunk=256):
    while cache.length < len(ids):
        part = np.array(ids[cache.length : cache.length + chunk])
        logits = model(part, cache)[-1]
    return logits


def cached(model, sequence, cache=None):
    cache = model.new_cache() if cache is None else cache
    if not sequence.running:
        return
    logits = advance(model, sequence.ids, cache)
    while True:
        token = draw(sequence.sampler(logits, sequence.ids), sequence.rng)
        sequence.append(token)
        yield token
        if not sequence.running:
            return
        logits = model([token], cache)[0]


# one Python list of arrays for each row, joined to an array of zeros; np.array pads
class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_ctx, self.lengths = n_ctx, np.zeros(n_rows, int)
        empty = np.zeros((n_head, 0, d_head), np.float32)
        self.kv = [[[empty, empty] for _ in range(n_rows)] for _ in range(n_layer)]

    def extend(self, n_new):
        self.lengths = self.lengths + n_new
        return np.array([np.arange(end - n_new, end) for end in self.lengths])

    def append(self, layer, k, v):
        n_rows, n_head, _, d_head = k.shape
        out = np.zeros((2, n_rows, n_head, max(self.lengths), d_head), np.float32)
        for row in range(n_rows):
            for which, new in enumerate([k, v]):
                joined = np.concatenate([self.kv[layer][row][which], new[row]], axis=1)
                self.kv[layer][row][which] = joined
                out[which, row, :, : joined.shape[1]] = joined
        return out[0], out[1]

    def cut(self, lengths):
        self.lengths = np.minimum(self.lengths, lengths)
        for block in self.kv:
            for row, stop in enumerate(self.lengths):
                block[row] = [part[:, :stop] for part in block[row]]


def prefill(model, prompts, cache):
    longest = max(map(len, prompts))
    ids = np.array([list(prompt) + [prompt[-1]] * (longest - len(prompt)) for prompt in prompts])
    logits = model(ids, cache)
    cache.cut(np.array([len(prompt) for prompt in prompts]))
    return np.stack([logits[row, len(prompt) - 1] for row, prompt in enumerate(prompts)])


# rejects first, u * q >= p; draws by rng.choice
def verify(logits, ids, drafts, qs, sampler, rng):
    text, n_before = list(ids), len(ids)
    for row, x in enumerate(drafts):
        p = np.asarray(sampler(logits[row], text), np.float64)
        q = np.asarray(qs[row], np.float64)
        if rng.random() * q[x] >= p[x]:
            excess = np.clip(p - q, 0, None)
            text.append(int(rng.choice(len(p), p=excess / excess.sum())))
            return text[n_before:]
        text.append(x)
    text.append(draw(sampler(logits[len(drafts)], text), rng))
    return text[n_before:]


# the drafter's seed is seed + 1; the prompt passes before the loop
class DraftModel:
    def __init__(self, model, sampler, seed):
        self.model, self.sampler, self.rng = model, sampler, np.random.default_rng(seed + 1)
        self.cache, self.passed = model.new_cache(), []

    def propose(self, ids, n):
        ids = list(ids)
        common = 0
        for old, new in zip(self.passed, ids[:-1]):
            if old != new:
                break
            common += 1
        self.cache.cut(common)
        drafts, qs = [], []
        while len(drafts) < n:
            logits = advance(self.model, ids + drafts, self.cache)
            q = self.sampler(logits, ids + drafts)
            drafts.append(draw(q, self.rng))
            qs.append(q)
        self.passed = (ids + drafts)[: self.cache.length]
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        return None


def speculative(model, sequence, drafter, gamma=4):
    cache = model.new_cache()
    if sequence.running and len(sequence.ids) > 1:
        advance(model, sequence.ids[:-1], cache)
    while sequence.running:
        ids = list(sequence.ids)
        drafts, qs = drafter.propose(ids, max(0, min(gamma, sequence.n_left - 1)))
        logits = model(np.array(ids[-1:] + list(drafts)), cache)
        tokens = verify(logits, ids, drafts, qs, sequence.sampler, sequence.rng)
        drafter.learn(ids, drafts, logits, tokens)
        for token in tokens:
            if not sequence.running:
                break
            sequence.append(token)
            yield token
        cache.cut(len(ids) + len(tokens) - 1)


# plain lists, sorted; log of softmax in float64
def beam_search(model, prompt, n, width=4, length_penalty=1.0):
    cache = model.new_cache(1)
    rows = model(np.array([prompt]), cache)[:, -1, :]
    beams, done = [(0.0, [])], []
    for left in reversed(range(n)):
        candidates = []
        for parent, (log_p, ids) in enumerate(beams):
            row = rows[parent].astype(np.float64)
            row = row - row.max() - np.log(np.exp(row - row.max()).sum())
            best = np.argsort(-row, kind="stable")[: width * (1 + len(model.stop_ids))]
            candidates += [(log_p + row[t], parent, ids + [int(t)]) for t in best]
        candidates.sort(key=lambda candidate: -candidate[0])
        kept = []
        for rank, (log_p, parent, ids) in enumerate(candidates):
            if left == 0 or ids[-1] in model.stop_ids:
                if rank < width:
                    done.append((ids, log_p, log_p / len(ids) ** length_penalty))
            else:
                kept.append((log_p, parent, ids))
        if not kept:
            break
        kept = kept[:width]
        cache.select([parent for _, parent, _ in kept])
        rows = model(np.array([[ids[-1]] for _, _, ids in kept]), cache)[:, -1, :]
        beams = [(log_p, ids) for log_p, _, ids in kept]
    return sorted(done, key=lambda text: -text[2])[:width]
"""

TWO = """
# in place, on a copy
def softmax(x):
    y = x.copy()
    y -= np.amax(y, axis=-1)[..., None]
    np.exp(y, out=y)
    y /= np.sum(y, axis=-1)[..., None]
    return y


# x * x * x and constants with names
ROOT = float(np.sqrt(2 / np.pi))
CUBE = 0.044715


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(ROOT * x * (1.0 + CUBE * x * x)))


# a loop over the queries, the scale on them
def attention(q, k, v, mask):
    n_new, d = q.shape[-2:]
    scaled = q * np.float32(d**-0.5)
    mask = np.broadcast_to(mask, q.shape[:-1] + (k.shape[-2],))
    means = []
    for i in range(n_new):
        scores = (k * scaled[..., i : i + 1, :]).sum(-1) + mask[..., i, :]
        means.append((softmax(scores)[..., None] * v).sum(-2))
    return np.stack(means, axis=-2)


# each step on a line of its own
def feed_forward(x, c_fc, c_proj, activation):
    x = linear(x, c_fc["w"], c_fc["b"])
    x = activation(x)
    return linear(x, c_proj["w"], c_proj["b"])


class GPT2:
    def block(self, x, ln_1, attn, ln_2, mlp, mask, cache=None, layer=0):
        normed = layer_norm(x, ln_1["g"], ln_1["b"], self.eps)
        mixed = self_attention(
            normed, attn["c_attn"], attn["c_proj"], self.n_head, mask, cache, layer
        )
        middle = x + mixed
        normed = layer_norm(middle, ln_2["g"], ln_2["b"], self.eps)
        middle += feed_forward(normed, mlp["c_fc"], mlp["c_proj"], self.activation)
        return middle


# the length grows with the last block's append, as the pass is complete only then
class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length, self.n_layer = n_ctx, 0, n_layer
        self.kv = np.zeros((2, n_layer) + tuple(batch) + (n_head, n_ctx, d_head), np.float32)

    def extend(self, n_new):
        if self.n_ctx - self.length < n_new:
            raise ValueError("too long")
        return self.length + np.arange(n_new)

    def append(self, layer, k, v):
        end = self.length + k.shape[-2]
        self.kv[0, layer][..., self.length : end, :] = k
        self.kv[1, layer][..., self.length : end, :] = v
        if layer == self.n_layer - 1:
            self.length = end
        return self.kv[0, layer][..., :end, :], self.kv[1, layer][..., :end, :]

    def cut(self, length):
        while self.length > length:
            self.length -= 1


# other random numbers: noise is added to the logarithms
def draw(probs, rng):
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(probs) + rng.gumbel(size=len(probs))))


# each rule once
def encode(word, merges, vocab):
    symbols = [bytes([byte]) for byte in word.encode()]
    for pair in merges:
        symbols = merge(symbols, pair)
    return [vocab[symbol] for symbol in symbols]


# the lengths grow with the last block's append
class Rows:
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_layer, self.n_ctx, self.lengths = n_layer, n_ctx, np.zeros(n_rows, int)
        self.kv = np.zeros((2, n_layer, n_rows, n_head, n_ctx, d_head), np.float32)

    def extend(self, n_new):
        return np.array([np.arange(length, length + n_new) for length in self.lengths])

    def append(self, layer, k, v):
        n_new = k.shape[2]
        for row, length in enumerate(self.lengths):
            self.kv[0, layer, row, :, length : length + n_new] = k[row]
            self.kv[1, layer, row, :, length : length + n_new] = v[row]
        n_all = max(self.lengths) + n_new
        if layer == self.n_layer - 1:
            self.lengths = self.lengths + n_new
        return self.kv[0, layer, :, :, :n_all], self.kv[1, layer, :, :, :n_all]

    def cut(self, lengths):
        self.lengths = np.array([min(a, b) for a, b in zip(self.lengths, lengths)])


# u counts down from 1
def verify(logits, ids, drafts, qs, sampler, rng):
    tokens = []
    for row, x in enumerate(drafts):
        p, q = sampler(logits[row], ids + tokens), qs[row]
        if 1 - rng.random() > p[x] / q[x]:
            rest = np.clip(p - q, 0, None)
            return [*tokens, draw(rest / rest.sum(), rng)]
        tokens.append(x)
    return [*tokens, draw(sampler(logits[-1], ids + tokens), rng)]
"""

THREE = """
# the length grows in GPT2.__call__, as the last thing before the return
class GPT2:
    def __call__(self, ids, cache=None, last=None):
        ids = np.asarray(ids)
        n_new = ids.shape[-1]
        positions = np.arange(n_new) if cache is None else cache.extend(n_new)
        mask = causal_mask(positions)
        x = self.params["wte"][ids] + self.params["wpe"][positions]
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, **block, mask=mask, cache=cache, layer=layer)
        x = x if last is None else x[..., -last:, :]
        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)
        logits = linear(x, self.params.get("lm_head", self.params["wte"]))
        if cache is not None:
            cache.length += n_new
        return logits


class Cache:
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        self.kv = np.zeros((2, n_layer, *batch, n_head, n_ctx, d_head), np.float32)

    def extend(self, n_new):
        if self.length + n_new > self.n_ctx:
            raise ValueError("too long")
        return np.arange(self.length, self.length + n_new)

    def append(self, layer, k, v):
        n_all = self.length + k.shape[-2]
        self.kv[:, layer, ..., self.length : n_all, :] = k, v
        return self.kv[:, layer, ..., :n_all, :]

    def cut(self, length):
        self.length = min(self.length, length)
"""
