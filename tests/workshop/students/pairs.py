"""Forty pairs of mistakes. A pair consists of two entries like those in mistakes.py.

Both mistakes are made in the same file, one after the other. In a pair, a string stands for the
entry of mistakes.py whose name begins with this string.
"""

from mistakes import MISTAKES


def entry(words):
    if isinstance(words, tuple):
        return words
    (found,) = (mistake for mistake in MISTAKES if mistake[1].startswith(words))
    return found


NO_BETA = ("layers", "layer norm does not add b", "return normed * g + b", "return normed * g")
GELU_SQUARE = ("layers", "gelu squares instead of cubes", "0.044715 * x**3", "0.044715 * x**2")
GELU_DIGIT = ("layers", "gelu has 0.44715: a digit is missing", "0.044715", "0.44715")
NO_BIAS = ("layers", "linear forgets b", " + b\n\n\n# 3", "\n\n\n# 3")
NO_MASK = ("attention", "the mask is not added", "softmax(scores + mask)", "softmax(scores)")
NO_VALUES = (
    "attention",
    "returns the weights without multiplying by v",
    "return weights @ v",
    "return weights",
)
KEY_T = ("attention", "k.T reverses all axes", "k.swapaxes(-1, -2)", "k.T")
NO_HEAD_AXIS = (
    "mask",
    "the axis for the heads is missing",
    "positions[..., None, :, None]",
    "positions[..., :, None]",
)
MASK_64 = ("mask", "float64", "np.float32(-1e10), np.float32(0)", "-1e10, np.float64(0)")
PLUS_MASK = ("mask", "the minus is missing: later keys are preferred", "(-1e10)", "(1e10)")
SWAP_LAST = (
    "heads",
    "merge_heads swaps the last two axes",
    "rows = x.swapaxes(-3, -2)",
    "rows = x.swapaxes(-1, -2)",
)
QV = ("block", "query and value are exchanged", "q, k, v = np.split(", "v, k, q = np.split(")
NO_C_PROJ = (
    "block",
    "c_proj is not applied to the merged heads",
    "return linear(merge_heads(heads), **c_proj)",
    "return merge_heads(heads)",
)
NO_ACTIVATION = (
    "block",
    "no activation between the two matrices",
    "activation(linear(x, **c_fc))",
    "linear(x, **c_fc)",
)
OWN_EPS = (
    "block",
    "the model's eps is not passed on",
    "layer_norm(x, **ln_2, eps=self.eps)",
    "layer_norm(x, **ln_2)",
)
NO_LN_1 = (
    "block",
    "the first layer norm is left out",
    "h = layer_norm(x, **ln_1, eps=self.eps)",
    "h = x",
)
LATE_POSITION = (
    "model",
    "the positions of wpe are one too low",
    '["wpe"][positions]',
    '["wpe"][positions - 1]',
)
LAST_ONE = ("model", "last gives one position, however many", "x[..., -last:, :]", "x[..., -1:, :]")
ONE_BLOCK = (
    "model",
    "every block gets the parameters of block 0",
    "x = self.block(x, **block, mask",
    'x = self.block(x, **self.params["blocks"][0], mask',
)
OWN_RANDOM = (
    "draw",
    "draws from NumPy's own generator, not from rng",
    "rng.random() * cumulative[-1]",
    "np.random.random() * cumulative[-1]",
)
TIMES_T = ("draw", "temperature multiplies", "return logits / t", "return logits * t")
K_SMALLEST = (
    "draw",
    "top_k takes the k-th smallest as its limit",
    "np.sort(logits)[-k]",
    "np.sort(logits)[k]",
)
ZERO = (
    "draw",
    "top_p sets the others to 0 instead of -inf",
    "np.full_like(logits, -np.inf)",
    "np.zeros_like(logits)",
)
SHORT_MERGE = (
    "pairs",
    "merge stops before the last symbol",
    "while i < len(symbols):",
    "while i < len(symbols) - 1:",
)
FIRST_IN_WORD = (
    "pairs",
    "merges the pair that comes first in the word, not in merges",
    "[pair for pair in merges if pair in neighbours]",
    "[pair for pair in zip(symbols, symbols[1:]) if pair in merges]",
)
ONCE = (
    "pairs",
    "only one merge, no repetition",
    "        symbols = merge(symbols, possible[0])\n",
    "        symbols = merge(symbols, possible[0])\n        break\n",
)
ONLY_NEW = (
    "keys",
    "append returns only the new keys and values",
    "return self.keys[layer, ..., :end, :], self.values[layer, ..., :end, :]",
    "return k, v",
)
LAYER_0 = (
    "keys",
    "all blocks store their keys where block 0 does",
    "self.keys[layer, ..., start:end, :] = k",
    "self.keys[0, ..., start:end, :] = k",
)
CUT_ONE_MORE = (
    "keys",
    "cut forgets one token too many",
    "min(self.length, length)",
    "min(self.length, length - 1)",
)
FIRST_LOGITS = (
    "cached",
    "advance returns the logits of the first position of the pass",
    "cache, last=1)\n    return logits[-1]",
    "cache)\n    return logits[0]",
)
NO_CHUNK = (
    "cached",
    "each chunk lacks its last token",
    "ids[start : start + chunk]",
    "ids[start : start + chunk - 1]",
)
SHORTEST = (
    "rows",
    "returns as many slots as the shortest row has",
    "self.lengths.max()\n        for",
    "self.lengths.min()\n        for",
)
FRONT = (
    "rows",
    "the fillers precede the prompt",
    "ids[row, : len(prompt)] = prompt",
    "ids[row, lengths.max() - len(prompt) :] = prompt",
)
NEXT_LOGITS = ("rows", "returns the logits before each last token", "lengths - 1]", "lengths - 2]")
ABSOLUTE = (
    "rule",
    "|p - q| instead of max(0, p - q)",
    "np.maximum(0, p - q)",
    "np.abs(p - q)",
)
BACKWARDS = (
    "rule",
    "max(0, q - p) instead of max(0, p - q)",
    "np.maximum(0, p - q)",
    "np.maximum(0, q - p)",
)
GO_ON = (
    "rule",
    "goes on with the next draft after a rejection",
    "tokens.append(draw(rest / rest.sum(), rng))\n            return tokens",
    "tokens.append(draw(rest / rest.sum(), rng))",
)
FIRST_P = (
    "rule",
    "every draft is judged by the first row",
    "sampler(logits[i],",
    "sampler(logits[0],",
)
ALL_ACCEPTED = (
    "rule",
    "min(1, ...) became max(1, ...)",
    "min(1, p[x] / q[x])",
    "max(1, p[x] / q[x])",
)
ONE_TOO_MANY = (
    "speculation",
    "as many drafts as tokens left: one too many with the model's own",
    "min(gamma, sequence.n_left - 1)",
    "min(gamma, sequence.n_left)",
)
CUT_LATE = (
    "speculation",
    "the cache keeps one token too many",
    "cache.cut(len(sequence.ids) - 1)",
    "cache.cut(len(sequence.ids))",
)
GREEDY_DRAFT = (
    "speculation",
    "the drafts are the most probable tokens, not drawn",
    "drafts.append(draw(qs[-1], self.rng))",
    "drafts.append(int(np.argmax(qs[-1])))",
)
PROBABILITIES = (
    "beam",
    "sums probabilities, not their logs",
    "sums[:, None] + log_softmax(logits)",
    "sums[:, None] + softmax(logits)",
)
TIMES_LENGTH = (
    "beam",
    "multiplies by the length instead of dividing",
    "log_p / len(ids) ** length_penalty",
    "log_p * len(ids) ** length_penalty",
)
WHOLE_LENGTH = (
    "beam",
    "the length counts the prompt, too",
    "log_p / len(ids) ** length_penalty",
    "log_p / (len(prompt) + len(ids)) ** length_penalty",
)

PAIRS = [
    # Both mistakes are in one function.
    ("the sum goes over the first axis", "the largest number is not subtracted"),
    ("divided by the sum of the whole array", "the largest number of the whole array"),
    ("layer norm divides by the variance", NO_BETA),
    ("layer norm adds eps to the standard deviation", NO_BETA),
    (GELU_SQUARE, "gelu takes a NumPy float64"),
    ("linear does not transpose", NO_BIAS),
    ("the scale 1 / sqrt(d) is forgotten", NO_MASK),
    ("divided by d instead", "the mask is added after"),
    ("a token may not see itself", MASK_64),
    ("the earlier keys are hidden", "there are as many keys as queries"),
    ("query and key are taken", NO_C_PROJ),
    (NO_LN_1, "the residual around the feed-forward"),
    ("the positions are not added", "the last layer norm ln_f"),
    (LATE_POSITION, LAST_ONE),
    ("the positions begin at 0", "the cache is full one token too early"),
    (BACKWARDS, GO_ON),
    ("the ratio is upside down", ABSOLUTE),
    (ONE_TOO_MANY, CUT_LATE),
    (PROBABILITIES, TIMES_LENGTH),
    ("the logits of the last column", FRONT),
    # The mistakes are in two functions, in the same step or in neighbouring steps.
    (GELU_DIGIT, NO_BIAS),
    ("the rows are reshaped directly", "merge_heads reshapes without"),
    ("the numbers of a row are dealt", SWAP_LAST),
    (NO_ACTIVATION, QV),
    (OWN_RANDOM, "top_p leaves out"),
    (TIMES_T, K_SMALLEST),
    (ZERO, "top_k loses"),
    (SHORT_MERGE, FIRST_IN_WORD),
    ("after a merge, only one", ONCE),
    (LAYER_0, CUT_ONE_MORE),
    (FIRST_LOGITS, "the cache that is given"),
    (SHORTEST, NEXT_LOGITS),
    (GREEDY_DRAFT, "the model's cache keeps"),
    # The mistakes are in steps that are far apart.
    (KEY_T, "the residual adds the normed"),
    (NO_HEAD_AXIS, "the model gets only the last token"),
    (PLUS_MASK, ONE_BLOCK),
    (NO_VALUES, ONLY_NEW),
    (OWN_EPS, FIRST_P),
    (NO_CHUNK, ALL_ACCEPTED),
    ("the sampler is not called", WHOLE_LENGTH),
]
PAIRS = [(entry(first), entry(second)) for first, second in PAIRS]
