"""Right code in another style than the project's, whose functions it replaces."""

STYLE = """
def softmax(x):  # no keepdims, because the last axis comes first
    rows = np.moveaxis(x, -1, 0)
    e = np.exp(rows - rows.max(0))
    return np.moveaxis(e / e.sum(0), 0, -1)


def layer_norm(x, g, b, eps=1e-5):  # the mean of the squares less the square of the mean
    wide = x.astype(np.float64)
    mean = wide.mean(-1)[..., np.newaxis]
    var = (wide**2).mean(-1)[..., np.newaxis] - mean**2
    return ((wide - mean) * (var + eps) ** -0.5 * g + b).astype(np.float32)


def attention(q, k, v, mask):  # the mask as a condition
    scores = np.einsum("...id,...jd->...ij", q, k) / float(np.sqrt(q.shape[-1]))
    scores = np.where(mask < 0, np.float32(-np.inf), scores)
    return np.einsum("...ij,...jd->...id", softmax(scores), v)


def causal_mask(positions):  # rows of a triangle
    n_all = int(np.max(positions)) + 1
    triangle = np.triu(np.full((n_all, n_all), -1e10, np.float32), 1)
    return np.expand_dims(triangle[np.array(positions)], -3)


class GPT2(GPT2):  # the length grows after the last block
    def __call__(self, ids, cache=None, last=None):
        ids = np.array(ids)
        n_new = ids.shape[-1]
        positions = np.arange(n_new) if cache is None else cache.extend(n_new)
        x = np.take(self.params["wte"], ids, 0) + np.take(self.params["wpe"], positions, 0)
        for layer, block in enumerate(self.params["blocks"]):
            x = self.block(x, mask=causal_mask(positions), cache=cache, layer=layer, **block)
        if cache is not None:
            cache.length += n_new
        x = layer_norm(x[..., -last if last else 0 :, :], **self.params["ln_f"], eps=self.eps)
        return x @ self.params.get("lm_head", self.params["wte"]).T


class Cache:  # a list of tokens for each block
    def __init__(self, n_layer, batch, n_head, n_ctx, d_head):
        self.n_ctx, self.length = n_ctx, 0
        self.blocks = [[] for _ in range(n_layer)]

    def extend(self, n_new):
        if self.length + n_new > self.n_ctx:
            raise ValueError(f"no room for {n_new} tokens more")
        return np.array([self.length + i for i in range(n_new)])

    def append(self, layer, k, v):
        for i in range(k.shape[-2]):
            self.blocks[layer].append((k[..., i, :], v[..., i, :]))
        keys, values = zip(*self.blocks[layer])
        return np.stack(keys, -2), np.stack(values, -2)

    def cut(self, length):
        self.length = min(self.length, length)
        self.blocks = [tokens[: self.length] for tokens in self.blocks]

    def select(self, rows):
        self.blocks = [[(k[rows], v[rows]) for k, v in tokens] for tokens in self.blocks]


def draw(probs, rng):  # other random numbers: noise is added to the logarithms
    with np.errstate(divide="ignore"):
        return int(np.argmax(np.log(probs) + rng.gumbel(size=len(probs))))


def top_k(k):
    def keep(logits, ids):
        out = logits.copy()
        out[np.argsort(-logits, kind="stable")[k:]] = -np.inf
        return out

    return keep


def advance(model, ids, cache, chunk=256):
    while cache.length < len(ids):
        logits = model(ids[cache.length : cache.length + chunk], cache, last=1)[-1]
    return logits


class Rows:  # the lengths grow with the last block's append
    def __init__(self, n_layer, n_rows, n_head, n_ctx, d_head):
        self.n_layer, self.lengths = n_layer, np.zeros(n_rows, int)
        self.kv = np.full((2, n_layer, n_rows, n_head, n_ctx, d_head), 7, np.float32)

    def extend(self, n_new):
        return np.array([np.arange(length, length + n_new) for length in self.lengths])

    def append(self, layer, k, v):
        n_new = k.shape[2]
        for row, length in enumerate(self.lengths):
            self.kv[:, layer, row, :, length : length + n_new] = k[row], v[row]
        n_all = max(self.lengths) + n_new
        if layer == self.n_layer - 1:
            self.lengths = self.lengths + n_new
        return self.kv[0, layer, :, :, :n_all], self.kv[1, layer, :, :, :n_all]

    def cut(self, lengths):
        self.lengths = np.array([min(a, b) for a, b in zip(self.lengths, lengths)])


def verify(logits, ids, drafts, qs, sampler, rng):  # rejects first; u counts down from 1
    text = list(ids)
    for row, x in enumerate(drafts):
        p, q = sampler(logits[row], text), qs[row]
        if 1 - rng.random() > p[x] / q[x]:
            excess = np.clip(p - q, 0, None).astype(float)
            return [*text[len(ids) :], int(rng.choice(len(p), p=excess / excess.sum()))]
        text.append(x)
    return [*text[len(ids) :], draw(sampler(logits[len(drafts)], text), rng)]


from dataclasses import dataclass, field


@dataclass
class DraftModel:
    model: object
    sampler: object
    seed: int
    text: list = field(default_factory=list)

    def __post_init__(self):
        self.cache, self.rng = self.model.new_cache(), np.random.default_rng((self.seed, 7))

    def propose(self, ids, n):
        common = 0
        while common < min(len(self.text), len(ids) - 1) and self.text[common] == ids[common]:
            common += 1
        self.cache.cut(common)
        self.text, qs = list(ids), []
        for _ in range(n):
            qs.append(self.sampler(advance(self.model, self.text, self.cache), self.text))
            self.text.append(draw(qs[-1], self.rng))
        return self.text[len(ids) :], qs

    def learn(self, ids, drafts, logits, tokens):
        pass
"""
