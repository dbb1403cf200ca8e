"""Checks: two ways back, a table's way back, a step of Adam, gradients in parts."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes


def difference(found, right, name):
    """Return a sentence about the first number that differs."""
    place = tuple(map(int, np.argwhere(~np.isclose(found, right, rtol=1e-3, atol=1e-6))[0]))
    index = ", ".join(map(str, place))
    return f"{name}[{index}] is {np.asarray(found)[place]:.4f}, not {right[place]:.4f}"


def refuse(found, mistakes):
    """Fail with a mistake's message if its result is the found one; mistakes: {message: result}."""
    for message, wrong in mistakes.items():
        same = np.shape(found) == np.shape(wrong) and np.allclose(found, wrong, rtol=1e-3)
        assert not same, message


def see_linear(m, seed):
    for n, n_in, n_out in (6, 4, 4), (5, 3, 4):
        rng = np.random.default_rng(n)
        dy, x, w = (rng.normal(size=s) for s in ((n, n_out), (n, n_in), (n_out, n_in)))
        gradients = m.back_linear(dy, x, w)
        yield Seen("how many gradients it returns", len(gradients))
        for name, found in zip(("dx", "dw", "db"), gradients):
            axes = {"dx": "row, n_in", "dw": "n_out, n_in", "db": "n_out"}[name]
            yield Seen(f"{name} for {n} rows, n_in = {n_in}, n_out = {n_out}", found, axes)


exercise_linear = Part(
    ("back_linear",),
    see_linear,
    mistakes("""
[notebooks/learning.ipynb back_linear]
with dw transposed: it needs w's shape, [n_out, n_in]
    dy.T @ x -> x.T @ dy
with dw as a mean: w was used for each row, and gradients are added
    dy.T @ x -> dy.T @ x / len(x)
with db as a mean: b was used for each row, and gradients are added
    dy.sum(axis=0) -> dy.mean(axis=0)
with one db for each row: b was added to each row, so add up the rows of dy
    dy.sum(axis=0) -> dy
with w transposed in dx: x[i] meets the column w[:, i]
    dy @ w, -> dy @ w.T,
"""),
)


def see_cross_entropy(m, seed):
    logits = np.random.default_rng(0).normal(0, 2, (5, 7))
    found = m.back_cross_entropy(logits, np.array([3, 0, 3, 6, 1]))
    yield Seen("the gradient for 5 tokens", found, "token, n_vocab")
    huge = m.back_cross_entropy(np.array([[1000.0, 0, 0]]), np.array([1]))
    yield Seen("the gradient for the logits 1000, 0, 0", huge, "token, n_vocab")


exercise_cross_entropy = Part(
    ("back_cross_entropy",),
    see_cross_entropy,
    mistakes("""
[notebooks/learning.ipynb back_cross_entropy]
of the sum of the losses: the loss is their mean
    p / len(targets) -> p
divided by the number of logits: divide by the number of tokens
    len(targets) -> logits.size
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
with a softmax over a column: it goes over the row of a token
    softmax(logits) -> softmax(logits.T).T
without the softmax
    softmax(logits) -> logits.copy()
of exp(logits) that overflow: use the softmax of gpt2.py
    softmax(logits) -> np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
"""),
)


def exercise_1(back_embedding):
    """Check back_embedding(dx, ids, n_vocab) -> the gradient of the table, [n_vocab, n_embd]."""
    ids, dx = np.array([2, 5, 2, 0, 2]), np.random.default_rng(1).normal(size=(5, 3))
    found = back_embedding(dx, ids, 7)
    assert found is not None, "write back_embedding"
    assert np.shape(found) == (7, 3), f"return the table's shape, (7, 3), not {np.shape(found)}"
    right = np.eye(7)[ids].T @ dx
    last, mean = np.zeros((7, 3)), right.copy()
    last[ids] = dx
    mean[2] /= 3
    mistakes = {
        "token 2 occurs three times, and only its last row counts: add all three": last,
        "token 2 occurs three times: gradients are added, not averaged": mean,
    }
    refuse(found, mistakes)
    assert np.allclose(found, right), difference(found, right, "the gradient")


def exercise_2(adam_step):
    """Check adam_step(p, g, mean, square, n, rate) -> the new p, mean and square."""
    p, g, mean, square = np.random.default_rng(2).uniform(0.1, 2, (4, 6))
    answer = adam_step(p, g, mean, square, 3, 0.01)
    assert answer is not None, "write adam_step"
    assert len(answer) == 3, "return p, mean and square"
    m, s = 0.9 * mean + 0.1 * g, 0.95 * square + 0.05 * g * g
    m_hat, s_hat = m / (1 - 0.9**3), s / (1 - 0.95**3)
    refuse(answer[1], {"mean: the old mean counts 0.9, the gradient 0.1": 0.1 * mean + 0.9 * g})
    refuse(answer[2], {"square: this is the mean of g, not of g * g": 0.95 * square + 0.05 * g})
    moved = m_hat / np.sqrt(s_hat)
    mistakes = {
        "the means began at 0: divide them by 1 - 0.9**n and 1 - 0.95**n": m / np.sqrt(s),
        "the square root is missing": m_hat / s_hat,
        "this step makes the loss larger: subtract": -moved,
        "p moves by the mean of the gradients; use new values, not the old ones": mean
        / np.sqrt(square),
        "p moves by the gradient itself: use its mean": g / np.sqrt(s_hat),
    }
    refuse(answer[0], {message: p - 0.01 * step for message, step in mistakes.items()})
    for name, found, right in zip(("p", "mean", "square"), answer, (p - 0.01 * moved, m, s)):
        assert np.shape(found) == (6,), f"{name}: return an array of p's shape"
        assert np.allclose(found, right, rtol=1e-4), difference(found, right, name)
    first = adam_step(p, g, 0 * p, 0 * p, 1, 0.01)[0]
    assert np.allclose(first, p - 0.01, rtol=1e-4), "a first step moves each number by the rate"


def exercise_3(in_parts):
    """Check in_parts(gradient_of, inputs, targets, size) -> the gradient of the mean loss."""
    inputs, targets = np.random.default_rng(3).normal(size=(2, 8, 4))
    taken = []

    def gradient_of(inputs, targets):
        taken.append(len(inputs))
        return (inputs * targets).mean(0)

    right = (inputs * targets).mean(0)
    for size in (4, 3):
        taken.clear()
        found = in_parts(gradient_of, inputs, targets, size)
        assert found is not None, "write in_parts"
        assert max(taken) <= size, f"{max(taken)} rows at once: the memory holds {size}"
        assert sum(taken) == 8, f"{sum(taken)} rows were used instead of 8"
        n = len(taken)
        refuse(found, {"this is the sum of the parts' gradients: the loss is a mean": n * right})
        hint = "" if size == 4 else ": the last part has fewer rows, so it counts less"
        assert np.allclose(found, right), f"not the gradient of all 8 rows{hint}"
