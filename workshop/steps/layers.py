"""Steps 1 and 2: softmax; layer norm, gelu and linear."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import numbers

ONE_BLOCK = '"The forward pass": One block, line by line.'


def see_softmax(m, seed):
    x = 3 * numbers(3, 4)
    yield Seen("softmax of a row", lambda: m.softmax(x[0]), "n")
    yield Seen("softmax of three rows", lambda: m.softmax(x), "row, n")
    yield Seen("the argument of softmax after the call", x, "row, n")
    yield Seen("softmax with more axes", lambda: m.softmax(3 * numbers(2, 3, 4)), "batch, row, n")
    large = x[:2] + np.array([[1000], [-1000]], np.float32)
    yield Seen("softmax of rows near 1000 and near -1000", lambda: m.softmax(large), "row, n")
    large = np.array([1000, 0, 1, 2], np.float32)
    yield Seen("softmax of 1000, 0, 1, 2", lambda: m.softmax(large), "n")


SOFTMAX_WRONG = mistakes(r"""
[gpt2.py softmax]
of a softmax that changes its argument, because it subtracts the maximum in place
    e = np.exp(x - x.max(-1, keepdims=True)) -> x -= x.max(-1, keepdims=True); e = np.exp(x)
of the logarithm of the softmax
    => return np.log(e / e.sum(-1, keepdims=True))
""")
SOFTMAX = Part(
    ("softmax",), see_softmax, SOFTMAX_WRONG, '"The forward pass": From the stream to logits.'
)


def see_layer_norm(m, seed):
    x, more = 2 * numbers(4, 6) + 3, 2 * numbers(2, 4, 6) + 3
    g, b = numbers(6, seed=1), numbers(6, seed=2)
    x[0] *= 1e-3  # so small that eps matters
    yield Seen("layer_norm of a row", lambda: m.layer_norm(x[1], g, b), "n_embd")
    tiny = "layer_norm of rows, the first one tiny"
    yield Seen(tiny, lambda: m.layer_norm(x, g, b), "row, n_embd")
    yield Seen("the argument of layer_norm after the call", x, "row, n_embd")
    yield Seen("layer_norm with eps=0.5", lambda: m.layer_norm(x, g=g, b=b, eps=0.5), "row, n_embd")
    flat = np.full((1, 6), 7, np.float32)
    yield Seen("layer_norm of equal numbers", lambda: m.layer_norm(flat, g, b), "row, n_embd")
    yield Seen("layer_norm with more axes", lambda: m.layer_norm(more, g, b), "batch, row, n_embd")


LAYER_NORM_WRONG = mistakes(r"""
[gpt2.py layer_norm]
with the mean subtracted in the variance, but not from x itself
    return x / -> return (x + whole) /
    x = x - x.mean -> whole = x.mean(-1, keepdims=True); x = x - x.mean
with the mean square of x instead of the variance
    (x * x) -> (whole * whole)
    x = x - x.mean -> whole = x; x = x - x.mean
with eps added to the standard deviation instead of the variance
    keepdims=True) + eps) -> keepdims=True)) + eps)
    x / np.sqrt -> x / (np.sqrt
with the sum of squares divided by n - 1 instead of n (ddof=1)
    (x * x).mean(-1, keepdims=True) -> x.std(-1, keepdims=True, ddof=1) ** 2
with the mean and variance over the first axis instead of the last
    .mean(-1 -> .mean(0
with one mean and variance for the whole array
    .mean(-1, keepdims=True) -> .mean()
with b added before the product with g
    x / -> (x /
    * g + b -> + b) * g
""")
LAYER_NORM = Part(("layer_norm",), see_layer_norm, LAYER_NORM_WRONG, ONE_BLOCK)


def see_gelu(m, seed):
    x = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)
    yield Seen("gelu of numbers from -4 to 4", lambda: m.gelu(x), "row, n")
    yield Seen("the argument of gelu after the call", x, "row, n")
    yield Seen("gelu with more axes", lambda: m.gelu(numbers(2, 3, 4)), "batch, row, n")


GELU_WRONG = mistakes(r"""
[gpt2.py gelu]
of the exact gelu with erf, but GPT-2 uses the formula with tanh
    => return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)).astype(x.dtype))
of relu
    => return np.maximum(x, 0)
of x * sigmoid(1.702 x), a different approximation
    => return x / (1 + np.exp(-1.702 * x))
of x * sigmoid(x)
    => return x / (1 + np.exp(-x))
of (x + 0.044715 x)^3
    (x + 0.044715 * x * x * x) -> (x + 0.044715 * x) ** 3
""")
GELU = Part(("gelu",), see_gelu, GELU_WRONG, ONE_BLOCK)


def see_linear(m, seed):
    x, w, b = numbers(2, 3), numbers(4, 3), numbers(4)
    yield Seen("linear of two rows", lambda: m.linear(x, w=w, b=b), "row, n_out")
    yield Seen("linear without b", lambda: m.linear(x, w), "row, n_out")
    more, square = numbers(5, 2, 3), numbers(3, 3)
    yield Seen("linear with more axes", lambda: m.linear(more, w, b), "batch, row, n_out")
    yield Seen("linear from 3 to 3 numbers", lambda: m.linear(x, square, b[:3]), "row, n_out")
    yield Seen("the argument of linear after the call", x, "row, n_in")


LINEAR_WRONG = mistakes(r"""
[gpt2.py linear]
of x * w, which multiplies number by number
    x @ w.T -> x * w
""")
LINEAR = Part(("linear",), see_linear, LINEAR_WRONG, ONE_BLOCK)
