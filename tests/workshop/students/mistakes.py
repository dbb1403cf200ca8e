"""Mistakes that students might make: (step, a part of its name, old text, new text).

The old text occurs once in the student's file. A file with the mistake has the new text instead.
"""

MISTAKES = [
    ("softmax", "`x` instead of `x - x.max", "np.exp(rows - rows.max(0))", "np.exp(rows)"),
    ("layers", "b added before", "* g + b).astype", "* g + b * g).astype"),
    ("layers", "float64", "math.sqrt(2 / math.pi)", "np.sqrt(2 / np.pi)"),
    ("mask", "0)` instead of", "np.full((n_all, n_all), -1e10, np.float32), 1)",
     "np.full((n_all, n_all), -1e10, np.float32), 0)"),
    ("block", "`k, q, v` instead of `q, k, v`", "q, k, v = (split", "k, q, v = (split"),
    ("block", "`h + self_attention", "x = x + self_attention(h", "x = h + self_attention(h"),
    ("model", "wpe", ' + np.take(self.params["wpe"], positions, 0)', ""),
    ("draw", "most probable token", "np.log(probs) + rng.gumbel(size=len(probs))", "probs"),
    ("draw", "`logits` instead of `np.where(kept", "[k:]] = -np.inf", "[:0]] = -np.inf"),
    ("pairs", "looked at again", "skip = True", "pass"),
    ("keys", "with a length that stays 0", "            cache.length += n_new", "            pass"),
    ("keys", "the length cut, but not the keys",
     "        self.blocks = [tokens[: self.length] for tokens in self.blocks]\n", ""),
    ("cached", "`chunk` instead of `start + chunk`", "cache.length + chunk]", "chunk]"),
    ("rows", "without `cache.cut(lengths)`", "    cache.cut(lengths)\n", ""),
    ("rule", "`p` instead of `resid", "np.clip(p - q, 0, None).astype(float)", "p.astype(float)"),
    ("rule", "list(ids))` instead", "(logits[row], text)", "(logits[row], list(ids))"),
    ("speculation", "the text's seed", "default_rng((self.seed, 7))", "default_rng(self.seed)"),
    ("beam", "without `cache.select(parents)`", "        cache.select(parents)\n", ""),
]  # fmt: skip
