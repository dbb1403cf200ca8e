"""Steps 1 and 2: softmax; layer norm, gelu and linear."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import numbers


def see_softmax(m, seed):
    x = 3 * numbers(3, 4)
    yield Seen("softmax of a row", m.softmax(x[0]), "n")
    yield Seen("softmax of three rows", m.softmax(x), "row, n")
    yield Seen("the argument of softmax after the call", x, "row, n")
    yield Seen("softmax with more axes", m.softmax(3 * numbers(2, 3, 4)), "batch, row, n")
    large = x[:2] + np.array([[1000], [-1000]], np.float32)
    yield Seen("softmax of rows near 1000 and near -1000", m.softmax(large), "row, n")
    for row in ([1000, 0, 1, 2], [100, 0, 1, 2], [-999, -1000, -998]):
        yield Seen(f"softmax of {row}", m.softmax(np.array(row, np.float32)), "n")


SOFTMAX_WRONG = mistakes(r"""
[gpt2.py softmax]
sum of the whole array: with the sum of the whole array instead of a sum for each row
    e.sum(-1, keepdims=True) -> e.sum()
sum over axis 0: with the sum over the first axis instead of the last
    e.sum(-1, keepdims=True) -> e.sum(0, keepdims=True)
sum over axis 1: with the sum over axis 1 instead of the last
    e.sum(-1, keepdims=True) -> e.sum(1, keepdims=True)
sum over axis -2: with the sum over the rows (axis -2)
    e.sum(-1, keepdims=True) -> e.sum(-2, keepdims=True)
no maximum: without the maximum subtracted: e^1000 is infinite
    x - x.max(-1, keepdims=True) -> x
maximum of the whole array: with the maximum of the whole array: every e^x of a low row is 0
    x.max(-1, keepdims=True) -> x.max()
maximum over axis 0: with the maximum over the first axis instead of each row's
    x.max(-1, keepdims=True) -> x.max(0, keepdims=True)
minimum: with the minimum subtracted instead of the maximum
    x.max -> x.min
mean: with the mean subtracted instead of the maximum
    x.max -> x.mean
absolute maximum: with the largest absolute value subtracted: every e^x of a low row is 0
    x.max -> np.abs(x).max
maximum added: with the maximum added instead of subtracted
    x - x.max -> x + x.max
clipped: with large numbers clipped, which changes the result
    x - x.max(-1, keepdims=True) -> np.clip(x, -80, 80)
not normalised: without the division by the sum
    => return e
length: divided by the length of the row as a vector instead of its sum
    e.sum(-1, keepdims=True) -> np.linalg.norm(e, axis=-1, keepdims=True)
mean of e^x: divided by the mean of e^x instead of the sum
    e.sum -> e.mean
keepdims: without keepdims=True: the sums or maxima have lost an axis, so they broadcast along
        the wrong axis
    e.sum(-1, keepdims=True) -> e.sum(-1)
keepdims, divided in place: without keepdims=True: the sums have lost an axis
    => e /= e.sum(-1); return e
each x[i]: of one softmax for each x[i], but a row is the last axis, even of three axes
    e.sum(-1, keepdims=True) -> e.sum(tuple(range(1, x.ndim)), keepdims=True)
absolute values: of the absolute values of x
    x - x.max(-1, keepdims=True) -> abs(x) - abs(x).max(-1, keepdims=True)
sum of x: divided by the sum of x instead of the sum of e^x
    e / e.sum -> e / x.sum
argument changed: of a softmax that changes its argument, because it subtracts the maximum in place
    e = np.exp(x - x.max(-1, keepdims=True)) -> x -= x.max(-1, keepdims=True); e = np.exp(x)
argument overwritten: of a softmax that writes its result over its argument
    => x[...] = e / e.sum(-1, keepdims=True); return x
argument e^x: of a softmax that writes e^x over its argument
    e = np.exp(x - x.max(-1, keepdims=True))
    -> e = x; e -= x.max(-1, keepdims=True); np.exp(x, out=x)
sign: of e^-x
    x - x.max(-1, keepdims=True) -> x.min(-1, keepdims=True) - x
no exponential: of x divided by its sum, without e^x
    e = np.exp(x - x.max(-1, keepdims=True)) -> e = x
exponential of the maximum only: of x, not e^x, after the maximum was subtracted
    np.exp(x - x.max(-1, keepdims=True)) -> x - x.max(-1, keepdims=True)
logarithm: of the logarithm of the softmax
    => return np.log(e / e.sum(-1, keepdims=True))
twice: of a softmax of a softmax
    return e -> e = np.exp(e / e.sum(-1, keepdims=True)); return e
base 2: of 2^x instead of e^x
    np.exp -> np.exp2
square: of x^2 instead of e^x
    np.exp(x - x.max(-1, keepdims=True)) -> x * x
expm1: of e^x - 1
    np.exp -> np.expm1
divided by the maximum: with x divided by the maximum, which should be subtracted
    x - x.max -> x / x.max
""")
SOFTMAX = Part(("softmax",), "gpt2.py", see_softmax, SOFTMAX_WRONG)


def see_layer_norm(m, seed):
    x, g, b = 2 * numbers(4, 6) + 3, numbers(6, seed=1), numbers(6, seed=2)
    x[0] *= 1e-3  # so small that eps matters
    yield Seen("layer_norm of a row", m.layer_norm(x[1], g, b), "n_embd")
    yield Seen("layer_norm of rows, the first one tiny", m.layer_norm(x, g, b), "row, n_embd")
    yield Seen("the argument of layer_norm after the call", x, "row, n_embd")
    yield Seen("layer_norm with eps=0.5", m.layer_norm(x, g, b, eps=0.5), "row, n_embd")
    flat = np.full((1, 6), 7, np.float32)
    yield Seen("layer_norm of a row of equal numbers", m.layer_norm(flat, g, b), "row, n_embd")
    x = 2 * numbers(2, 4, 6) + 3
    yield Seen("layer_norm with more axes", m.layer_norm(x, g, b), "batch, row, n_embd")


LAYER_NORM_WRONG = mistakes(r"""
[gpt2.py layer_norm]
no mean: without the mean subtracted (an RMS norm)
    x = x - x.mean(-1, keepdims=True) -> pass
mean in the variance only: with the mean subtracted in the variance, but not from x itself
    return x / -> return (x + whole) /
    x = x - x.mean -> whole = x.mean(-1, keepdims=True); x = x - x.mean
mean square: with the mean square of x instead of the variance
    (x * x) -> (whole * whole)
    x = x - x.mean -> whole = x; x = x - x.mean
no eps: without eps
     + eps) -> )
eps outside: with eps added to the standard deviation instead of the variance
    keepdims=True) + eps) -> keepdims=True)) + eps)
    x / np.sqrt -> x / (np.sqrt
eps squared: with eps^2 instead of eps
    + eps -> + eps**2
eps fixed: with 1e-5, whatever eps is
    + eps -> + 1e-5
variance: divided by the variance instead of its root
    np.sqrt ->
multiplied: multiplied by the standard deviation instead of divided by it
    x / np -> x * np
n - 1: with the sum of squares divided by n - 1 instead of n (ddof=1)
    (x * x).mean(-1, keepdims=True) -> x.std(-1, keepdims=True, ddof=1) ** 2
sum: with the sum of squares instead of their mean
    (x * x).mean -> (x * x).sum
axis 0: with the mean and variance over the first axis instead of the last
    x = x - x.mean(-1 -> x = x - x.mean(0
    (x * x).mean(-1 -> (x * x).mean(0
axis 1: with the mean and variance over axis 1 instead of the last
    x = x - x.mean(-1 -> x = x - x.mean(1
    (x * x).mean(-1 -> (x * x).mean(1
axis -2: with the mean and variance over the rows (axis -2)
    x = x - x.mean(-1 -> x = x - x.mean(-2
    (x * x).mean(-1 -> (x * x).mean(-2
whole array: with one mean and variance for the whole array
    x = x - x.mean(-1, keepdims=True) -> x = x - x.mean()
    (x * x).mean(-1, keepdims=True) -> (x * x).mean()
mean of the whole array: with the mean of the whole array
    x = x - x.mean(-1, keepdims=True) -> x = x - x.mean()
variance of the whole array: with the variance of the whole array
    (x * x).mean(-1, keepdims=True) -> (x * x).mean()
variance over axis 0: with the variance over the first axis
    (x * x).mean(-1 -> (x * x).mean(0
mean over axis 0: with the mean over the first axis
    x = x - x.mean(-1 -> x = x - x.mean(0
no g: without the product with g
     * g ->
no b: without b
    * g + b -> * g
neither g nor b: without g and b
     * g + b ->
g and b exchanged: with g and b swapped
    * g + b -> * b + g
b before g: with b added before the product with g
    x / -> (x /
    * g + b -> + b) * g
1 + g: multiplied by 1 + g
    * g -> * (1 + g)
divided by g: divided by g instead of multiplied
    * g -> / g
b subtracted: with b subtracted instead of added
    g + b -> g - b
b as a factor: with b as a factor
    g + b -> g * b
mean deviation: with the mean absolute deviation instead of the root of the variance
    (x * x).mean(-1, keepdims=True) -> np.abs(x).mean(-1, keepdims=True) ** 2
mean added: with the mean added instead of subtracted
    x - x.mean -> x + x.mean
keepdims: without keepdims=True: the means or variances have lost an axis
    x = x - x.mean(-1, keepdims=True) -> x = x - x.mean(-1)
argument changed: of a layer norm that changes its argument, because it subtracts the mean in place
    x = x - x -> x -= x
argument overwritten: of a layer norm that writes its result over its argument
    x = x - x -> whole = x; x = x - x
    return x -> whole[...] = x
    g + b -> g + b; return whole
""")
LAYER_NORM = Part(("layer_norm",), "gpt2.py", see_layer_norm, LAYER_NORM_WRONG)


def see_gelu(m, seed):
    x = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)
    yield Seen("gelu of numbers from -4 to 4", m.gelu(x), "row, n")
    yield Seen("the argument of gelu after the call", x, "row, n")
    yield Seen("gelu with more axes", m.gelu(numbers(2, 3, 4)), "batch, row, n")


GELU_WRONG = mistakes(r"""
[gpt2.py gelu]
erf: of the exact gelu with erf, but GPT-2 uses the formula with tanh
    => return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)).astype(x.dtype))
relu: of relu
    => return np.maximum(x, 0)
sigmoid: of x * sigmoid(1.702 x), a different approximation
    => return x / (1 + np.exp(-1.702 * x))
silu: of x * sigmoid(x)
    => return x / (1 + np.exp(-x))
no half: without the factor 1/2
    0.5 * x -> x
a quarter: with the factor 1/4
    0.5 * x -> 0.25 * x
no x: without the factor x
    0.5 * x -> 0.5
no 1: without the 1 that is added to tanh
    1 + np -> np
1 minus: with 1 - tanh
    1 + np -> 1 - np
parentheses: of x/2 + tanh(...), without the parentheses around 1 + tanh
    x * (1 + np.tanh -> x + (np.tanh
parentheses after x: of x/2 + x tanh(...), without the parentheses around 1 + tanh
    0.5 * x * (1 + np.tanh -> 0.5 * x + x * (np.tanh
no root: with 2/pi instead of its root
    math.sqrt(2 / math.pi) -> (2 / math.pi)
no sqrt(2/pi): without the factor sqrt(2/pi)
    math.sqrt(2 / math.pi) * ->
pi/2: with sqrt(pi/2) instead of sqrt(2/pi)
    2 / math.pi -> math.pi / 2
sqrt(2)/pi: with sqrt(2)/pi instead of sqrt(2/pi)
    math.sqrt(2 / math.pi) -> math.sqrt(2) / math.pi
2/sqrt(pi): with 2/sqrt(pi) instead of sqrt(2/pi)
    math.sqrt(2 / math.pi) -> 2 / math.sqrt(math.pi)
1/sqrt(2 pi): with sqrt(1/(2 pi)) instead of sqrt(2/pi)
    2 / math.pi -> 1 / (2 * math.pi)
sqrt(2 pi): with sqrt(2 pi) instead of sqrt(2/pi)
    2 / math.pi -> 2 * math.pi
sqrt(1/pi): with sqrt(1/pi) instead of sqrt(2/pi)
    2 / math.pi -> 1 / math.pi
sqrt(2): with sqrt(2) instead of sqrt(2/pi)
    2 / math.pi -> 2
square: with x^2 instead of x^3
    x * x * x) -> x * x)
no cube: with x instead of x^3
    x * x * x) -> x)
cube left out: without the term 0.044715 x^3
     + 0.044715 * x * x * x ->
fourth power: with x^4 instead of x^3
    x * x * x) -> x * x * x * x)
cube taken away: with the cube subtracted instead of added
    x + 0 -> x - 0
cube alone: with only the cube, without the term x
    (x + 0.044715 -> (0.044715
cube of the sum: of (x + 0.044715 x)^3
    (x + 0.044715 * x * x * x) -> (x + 0.044715 * x) ** 3
sum times the cube: of (x + 0.044715) x^3
    (x + 0.044715 * x * x * x) -> (x + 0.044715) * x * x * x
cube of the product: of (0.044715 x)^3 instead of 0.044715 x^3
    0.044715 * x * x * x -> (0.044715 * x) ** 3
factor for x alone: with sqrt(2/pi) for x, but not for the cube
    (x + 0.044715 * x * x * x) -> x + 0.044715 * x * x * x
1 inside: with the 1 inside tanh
    1 + np.tanh( -> np.tanh(1 +
tanh of x: of tanh(x)
    math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x) -> x
no 0.044715: without the factor 0.044715
    0.044715 * ->
0.44715: with 0.44715 instead of 0.044715
    0.044715 -> 0.44715
0.0044715: with 0.0044715 instead of 0.044715
    0.044715 -> 0.0044715
tan: of tan instead of tanh
    tanh -> tan
argument overwritten: of a gelu that writes its result over its argument
    return 0.5 -> x[...] = 0.5
    * x))) -> * x))); return x
""")
GELU = Part(("gelu",), "gpt2.py", see_gelu, GELU_WRONG)


def see_linear(m, seed):
    x, w, b = numbers(2, 3), numbers(4, 3), numbers(4)
    yield Seen("linear of two rows", m.linear(x, w, b), "row, n_out")
    yield Seen("linear without b", m.linear(x, w), "row, n_out")
    yield Seen("linear of one row", m.linear(x[0], w, b), "n_out")
    yield Seen("linear with more axes", m.linear(numbers(5, 2, 3), w, b), "batch, row, n_out")
    square = m.linear(x, numbers(3, 3), numbers(3))
    yield Seen("linear from 3 to 3 numbers", square, "row, n_out")
    yield Seen("the argument of linear after the call", x, "row, n_in")
    yield Seen("the b of linear after the call", b, "n_out")


LINEAR_WRONG = mistakes(r"""
[gpt2.py linear]
not transposed: of x @ w instead of x @ w.T, but w has one row for each output
    w.T -> w
reshaped: with w reshaped to [n_in, n_out], which is not w.T
    w.T -> w.reshape(w.shape[::-1])
w first: of w @ x.T, which swaps rows and outputs
    => return w @ x.T
w first, plus b: of w @ x.T + b, which swaps rows and outputs
    => return w @ x.T + b
w @ x: of w @ x, which is right only for a single row
    => return w @ x + b
product of numbers: of x * w, which multiplies number by number
    x @ w.T -> x * w
no b: without b
    w.T + b -> w.T
b subtracted: with b subtracted instead of added
    w.T + b -> w.T - b
b as a factor: with b as a factor
    w.T + b -> w.T * b
b twice: with b added twice
    w.T + b -> w.T + b + b
b summed: with the sum of b added to every output
    w.T + b -> w.T + np.sum(b, dtype=np.float32)
b before: with b added before the product
    => return (x + b) @ w.T
b per row: with b added along the rows instead of the outputs
    w.T + b -> w.T + b[:, None]
""")
LINEAR = Part(("linear",), "gpt2.py", see_linear, LINEAR_WRONG)
