"""Checks: two ways back, a table's way back, a step of Adam, gradients in parts."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/learning.ipynb back_linear]
with dw transposed: it needs w's shape, [n_out, n_in]
    dy.T @ x -> x.T @ dy
with dw as a mean: w was used for each row, and gradients are added
    dy.T @ x -> dy.T @ x / len(x)
with one db for each row: b was added to each row, so add up the rows of dy
    dy.sum(axis=0) -> dy
with w transposed in dx: x[i] meets the column w[:, i]
    dy @ w, -> dy @ w.T,
[notebooks/learning.ipynb back_cross_entropy]
of the sum of the losses: the loss is their mean
    p / len(targets) -> p
divided by the number of logits: divide by the number of tokens
    p / len(targets) -> p / logits.size
with the wrong sign: a larger logit of the target makes the loss smaller
    p / len(targets) -> -p / len(targets)
without the target, whose own logit also makes the loss smaller
    -= 1 -> -= 0
with 1 subtracted in whole rows: subtract it only for the target of each row
    p[range(len(targets)), targets] -> p
with 1 subtracted in whole columns: index [range(n), targets], not [:, targets]
    [range(len(targets)), targets] -> [:, targets]
of -log P in P: each logit changes every P of its row
    p = softmax(logits) -> q = softmax(logits); p = 0 * q
    -= 1 -> -= 1 / q[range(len(targets)), targets]
of exp(logits) that overflow: use the softmax of gpt2.py
    softmax(logits) -> np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
[notebooks/learning.ipynb back_embedding]
with only the last row of a token that occurs more than once: add all of them
    np.add.at(dwte, ids, dx) -> dwte[ids] += dx
[notebooks/learning.ipynb adam_step]
with p moved the way in which the loss grows: subtract
    p - rate -> p + rate
with means that began at 0: divide them by 1 - 0.9**n and 1 - 0.95**n
    (mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.95**n)) -> mean / (np.sqrt(square)
with the means returned after the division by 1 - 0.9**n: return them without it
    return p -> mean, square = mean / (1 - 0.9**n), square / (1 - 0.95**n); return p
[notebooks/learning.ipynb in_parts]
of the sum of the parts' gradients: the loss is a mean
    len(part[0]) * -> len(inputs) *
with the same weight for each part: the last part may have fewer rows
    len(part[0]) * gradient_of -> size * gradient_of
with more rows at once than the memory holds
    size -> (size + 1)
""")


def see_linear(m, seed):
    """Look at each gradient, for square and other weights."""
    for n, n_in, n_out in (6, 4, 4), (5, 3, 4):
        rng = np.random.default_rng(n)
        dy, x, w = (rng.normal(size=s) for s in ((n, n_out), (n, n_in), (n_out, n_in)))
        gradients = m.back_linear(dy, x, w)
        yield Seen("how many gradients it returns", len(gradients))
        for name, found in zip(("dx", "dw", "db"), gradients):
            axes = {"dx": "row, n_in", "dw": "n_out, n_in", "db": "n_out"}[name]
            yield Seen(f"{name} for {n} rows, n_in = {n_in}, n_out = {n_out}", found, axes)


def see_cross_entropy(m, seed):
    """Look at the gradients of five tokens and of huge logits."""
    logits = np.random.default_rng(0).normal(0, 2, (5, 7))
    found = m.back_cross_entropy(logits, np.array([3, 0, 3, 6, 1]))
    yield Seen("the gradient for 5 tokens", found, "token, n_vocab")
    huge = m.back_cross_entropy(np.array([[1000.0, 0, 0]]), np.array([1]))
    yield Seen("the gradient for the logits 1000, 0, 0", huge, "token, n_vocab")


def see_embedding(m, seed):
    """Look at the gradient of a table whose rows are used up to three times."""
    dx = np.random.default_rng(1).normal(size=(5, 3))
    found = m.back_embedding(dx, np.array([2, 5, 2, 0, 2]), 7)
    yield Seen("the gradient of the table for the ids 2 5 2 0 2", found, "token, n_embd")


def see_adam(m, seed):
    """Look at what steps 3 and 1 return."""
    p, g, mean, square = np.random.default_rng(2).uniform(0.1, 2, (4, 6))
    for n in 3, 1:
        for name, found in zip(("p", "mean", "square"), m.adam_step(p, g, mean, square, n, 0.01)):
            yield Seen(f"the new {name} of step {n}", found, "weight")


def see_parts(m, seed):
    """Look at the gradient of eight rows, and at the rows of each part."""
    inputs, targets = np.random.default_rng(3).normal(size=(2, 8, 4))
    taken = []

    def gradient_of(inputs, targets):
        taken.append(len(inputs))
        return (inputs * targets).mean(0)

    for size in 4, 3:
        taken.clear()
        found = m.in_parts(gradient_of, inputs, targets, size)
        yield Seen(f"the gradient of 8 rows in parts of {size}", found, "weight")
        yield Seen(f"at most {size} rows at once", max(taken) <= size)
        yield Seen(f"how many rows are used in parts of {size}", sum(taken))


exercise_linear = Part(("back_linear",), see_linear, WRONG)
exercise_cross_entropy = Part(("back_cross_entropy",), see_cross_entropy, WRONG)
exercise_1 = Part(("back_embedding",), see_embedding, WRONG)
exercise_2 = Part(("adam_step",), see_adam, WRONG)
exercise_3 = Part(("in_parts",), see_parts, WRONG)
