"""Sixty mistakes that students might make. Each is (step, name in plain words, old text, new text).

The old text occurs once in right.py. A file with the mistake has the new text instead. All
mistakes were written before the workshop was run on any of them.
"""


def edit(text, old, new):
    """Replace `old`, which must occur exactly once in the text, by `new`."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times in the text, not once")
    return text.replace(old, new)


MISTAKES = [
    (
        "softmax",
        "the sum goes over the first axis instead of the last",
        "e / e.sum(axis=-1, keepdims=True)",
        "e / e.sum(axis=0, keepdims=True)",
    ),
    (
        "softmax",
        "the largest number is not subtracted: overflow",
        "np.exp(x - x.max(axis=-1, keepdims=True))",
        "np.exp(x)",
    ),
    (
        "softmax",
        "divided by the sum of the whole array instead of each row's",
        "e / e.sum(axis=-1, keepdims=True)",
        "e / e.sum()",
    ),
    (
        "softmax",
        "the largest number of the whole array is subtracted: a row far below it becomes 0 / 0",
        "x.max(axis=-1, keepdims=True))",
        "x.max())",
    ),
    (
        "layers",
        "layer norm divides by the variance instead of its root",
        "/ np.sqrt(var + eps)",
        "/ (var + eps)",
    ),
    (
        "layers",
        "layer norm adds eps to the standard deviation instead of the variance",
        "np.sqrt(var + eps)",
        "(np.sqrt(var) + eps)",
    ),
    (
        "layers",
        "gelu takes a NumPy float64 constant: the result is float64",
        "math.sqrt(2 / math.pi)",
        "np.sqrt(2 / np.pi)",
    ),
    (
        "layers",
        "linear does not transpose the matrix",
        "x @ w.T",
        "x @ w",
    ),
    (
        "attention",
        "the scale 1 / sqrt(d) is forgotten",
        " / math.sqrt(q.shape[-1])",
        "",
    ),
    (
        "attention",
        "divided by d instead of sqrt(d)",
        "/ math.sqrt(q.shape[-1])",
        "/ q.shape[-1]",
    ),
    (
        "attention",
        "the mask is added after the softmax",
        "softmax(scores + mask)",
        "softmax(scores) + mask",
    ),
    (
        "attention",
        "the scale is the root of the number of queries instead of d",
        "math.sqrt(q.shape[-1])",
        "math.sqrt(q.shape[-2])",
    ),
    (
        "mask",
        "a token may not see itself: >= instead of >",
        "keys > positions",
        "keys >= positions",
    ),
    (
        "mask",
        "the earlier keys are hidden instead of the later ones",
        "keys > positions",
        "keys < positions",
    ),
    (
        "mask",
        "there are as many keys as queries: this is wrong after an earlier pass",
        "n_all = positions.max() + 1",
        "n_all = positions.shape[-1]",
    ),
    (
        "mask",
        "the exponent is negative: -1e-10 hides nothing",
        "np.float32(-1e10)",
        "np.float32(-1e-10)",
    ),
    (
        "heads",
        "the rows are reshaped directly: a head gets tokens instead of a part of each row",
        "x.reshape(*batch, n, n_head, d_head).swapaxes(-2, -3)",
        "x.reshape(*batch, n_head, n, d_head)",
    ),
    (
        "heads",
        "the numbers of a row are dealt out in turn: head 0 gets every n_head-th",
        "x.reshape(*batch, n, n_head, d_head).swapaxes(-2, -3)",
        "np.moveaxis(x.reshape(*batch, n, d_head, n_head), -1, -3)",
    ),
    (
        "heads",
        "merge_heads reshapes without moving the axis of heads back",
        "rows = x.swapaxes(-3, -2)",
        "rows = x",
    ),
    (
        "block",
        "query and key are taken in the wrong order",
        "q, k, v = np.split(",
        "k, q, v = np.split(",
    ),
    (
        "block",
        "the residual around the feed-forward is forgotten",
        "return x + feed_forward(h",
        "return feed_forward(h",
    ),
    (
        "block",
        "the residual adds the normed rows instead of the rows themselves",
        "x = x + self_attention(h",
        "x = h + self_attention(h",
    ),
    (
        "block",
        "the second layer norm has the first one's parameters",
        "layer_norm(x, **ln_2, eps=self.eps)",
        "layer_norm(x, **ln_1, eps=self.eps)",
    ),
    (
        "model",
        "the positions are not added",
        ' + self.params["wpe"][positions]',
        "",
    ),
    (
        "model",
        "the last layer norm ln_f is forgotten",
        '        x = layer_norm(x, **self.params["ln_f"], eps=self.eps)\n',
        "",
    ),
    (
        "model",
        "wte is used even where there is an lm_head",
        'self.params.get("lm_head", self.params["wte"])',
        'self.params["wte"]',
    ),
    (
        "model",
        "last takes the first positions",
        "x[..., -last:, :]",
        "x[..., :last, :]",
    ),
    (
        "naive",
        "the model gets only the last token instead of the whole text",
        "model(sequence.ids)[-1]",
        "model(sequence.ids[-1:])[-1]",
    ),
    (
        "naive",
        "the logits of the first position instead of the last",
        "model(sequence.ids)[-1]",
        "model(sequence.ids)[0]",
    ),
    (
        "naive",
        "the sampler is not called: softmax of the plain logits",
        "p = sequence.sampler(logits, sequence.ids)\n        token =",
        "p = softmax(logits)\n        token =",
    ),
    (
        "draw",
        "always the most probable token",
        'int(np.searchsorted(cumulative, u, side="right"))',
        "int(np.argmax(probs))",
    ),
    (
        "draw",
        "top_k loses the k-th token: > instead of >=",
        "np.where(logits >= least",
        "np.where(logits > least",
    ),
    (
        "draw",
        "top_p leaves out the token with which the sum reaches p",
        "np.searchsorted(mass, p) + 1",
        "np.searchsorted(mass, p)",
    ),
    (
        "draw",
        "top_p sums from the least probable token on",
        "np.argsort(-probs)",
        "np.argsort(probs)",
    ),
    (
        "pairs",
        "after a merge, only one symbol is skipped: the right symbol stays as well",
        "i += 2",
        "i += 1",
    ),
    (
        "pairs",
        "merges the pair that comes last in merges",
        "possible[0]",
        "possible[-1]",
    ),
    (
        "pairs",
        "begins with characters instead of bytes",
        '[bytes([byte]) for byte in word.encode("utf-8")]',
        '[letter.encode("utf-8") for letter in word]',
    ),
    (
        "keys",
        "the cache is full one token too early: >= instead of >",
        "if end > self.n_ctx",
        "if end >= self.n_ctx",
    ),
    (
        "keys",
        "the positions begin at 0 in each call",
        "np.arange(start, end)",
        "np.arange(n_new)",
    ),
    (
        "keys",
        "the keys are stored as the values, too",
        "self.values[layer, ..., start:end, :] = v",
        "self.values[layer, ..., start:end, :] = k",
    ),
    (
        "keys",
        "cut lengthens a cache that is shorter",
        "self.length = min(self.length, length)",
        "self.length = length",
    ),
    (
        "cached",
        "each pass begins with the first token again, not after the cached tokens",
        "range(cache.length, len(ids), chunk)",
        "range(0, len(ids), chunk)",
    ),
    (
        "cached",
        "each chunk runs to the end of the text: later tokens are passed twice",
        "ids[start : start + chunk]",
        "ids[start:]",
    ),
    (
        "cached",
        "the cache that is given is ignored",
        "    if cache is None:\n        cache = model.new_cache()\n    while",
        "    cache = model.new_cache()\n    while",
    ),
    (
        "rows",
        "all rows go on at the position of the longest",
        "self.lengths[:, None] + np.arange(n_new)",
        "self.lengths.max() + np.zeros_like(self.lengths)[:, None] + np.arange(n_new)",
    ),
    (
        "rows",
        "the keys of a shorter row are stored at the end, like those of the longest row",
        "self.k[layer, row, :, stop - n_new : stop] = k[row]",
        "self.k[layer, row, :, longest - n_new : longest] = k[row]",
    ),
    (
        "rows",
        "the logits of the last column are returned: in a shorter row, they belong to a filler",
        "logits[np.arange(len(prompts)), lengths - 1]",
        "logits[:, -1]",
    ),
    (
        "rows",
        "the fillers stay in the cache",
        "    cache.cut(lengths)\n",
        "",
    ),
    (
        "rule",
        "the ratio is upside down: q(x) / p(x)",
        "min(1, p[x] / q[x])",
        "min(1, q[x] / p[x])",
    ),
    (
        "rule",
        "after a rejection the token is drawn from p itself",
        "rest = np.maximum(0, p - q)",
        "rest = p",
    ),
    (
        "rule",
        "no further token is drawn when all drafts are accepted",
        "    tokens.append(draw(p, rng))\n    return tokens",
        "    return tokens",
    ),
    (
        "rule",
        "the sampler sees the text without the accepted drafts",
        "sampler(logits[i], list(ids) + tokens)",
        "sampler(logits[i], list(ids))",
    ),
    (
        "speculation",
        "the drafter's random numbers are those of the text: same seed",
        "np.random.default_rng(seed).spawn(1)[0]",
        "np.random.default_rng(seed)",
    ),
    (
        "speculation",
        "there are always gamma drafts, however few tokens are left",
        "n = min(gamma, sequence.n_left - 1)",
        "n = gamma",
    ),
    (
        "speculation",
        "the model's cache keeps the rejected drafts",
        "        cache.cut(len(sequence.ids) - 1)\n",
        "",
    ),
    (
        "speculation",
        "the small model's cache is not cut to the common beginning",
        "        self.cache.cut(same)\n",
        "",
    ),
    (
        "beam",
        "the beams are reordered, but the rows of the cache are not: no select",
        "        cache.select(parents)\n",
        "",
    ),
    (
        "beam",
        "the score is the sum itself, not divided by a power of the length",
        "log_p / len(ids) ** length_penalty",
        "log_p",
    ),
    (
        "beam",
        "a stop id does not end a text",
        "if token in model.stop_ids or step == n:",
        "if step == n:",
    ),
    (
        "beam",
        "a text that ends is finished however low it ranks",
        "if place < width:",
        "if place < width or step < n:",
    ),
]
