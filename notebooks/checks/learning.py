"""Checks: two ways back, a table's way back, a step of Adam, gradients in parts."""

import numpy as np

from gpt2 import softmax


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


def exercise_linear(back_linear):
    """Check back_linear(dy, x, w) -> the gradients of x, w and b."""
    for n, n_in, n_out in (6, 4, 4), (5, 3, 4):
        rng = np.random.default_rng(n)
        dy, x, w = (rng.normal(size=s) for s in ((n, n_out), (n, n_in), (n_out, n_in)))
        answer = back_linear(dy, x, w)
        assert answer is not None, "write back_linear, and return three gradients"
        assert isinstance(answer, tuple | list) and len(answer) == 3, "return dx, dw and db"
        dx, dw, db = answer
        right = dy @ w, dy.T @ x, dy.sum(0)
        refuse(dw, {"dw is transposed: it needs w's shape, [n_out, n_in]": right[1].T})
        refuse(db, {"db: b was added to each row, so add up the rows of dy": dy})
        means = "is a mean: w and b were used for each row, and gradients are added"
        refuse(dw, {f"dw {means}": right[1] / n})
        refuse(db, {f"db {means}": right[2] / n, "db: add up the rows, not the columns": dy.sum(1)})
        if n_in == n_out:  # otherwise NumPy refuses
            refuse(dx, {"dx: do not transpose w; x[i] meets the column w[:, i]": dy @ w.T})
        for name, found, wanted in zip(("dx", "dw", "db"), answer, right):
            assert isinstance(found, np.ndarray), f"{name} is no array: wrap it in np.array"
            shape = np.shape(found)
            assert shape == wanted.shape, f"{name} has the shape {shape}, not {wanted.shape}"
            fits = np.allclose(found, wanted, rtol=1e-3)
            assert fits, difference(found, wanted, name)


def exercise_cross_entropy(back_cross_entropy):
    """Check back_cross_entropy(logits, targets) -> the gradient of the mean loss."""
    logits = np.random.default_rng(0).normal(0, 2, (5, 7))
    targets, rows = np.array([3, 0, 3, 6, 1]), np.arange(5)
    p, chosen = softmax(logits), np.eye(7)[[3, 0, 3, 6, 1]]
    found = back_cross_entropy(logits, targets)
    assert found is not None, "write back_cross_entropy, and return the gradient"
    assert isinstance(found, np.ndarray), "this is no array: wrap it in np.array"
    shape = np.shape(found)
    assert shape == logits.shape, f"return the logits' shape, {logits.shape}, not {shape}"
    right = (p - chosen) / 5
    columns = p.copy()
    columns[:, targets] -= 1
    down = np.exp(logits) / np.exp(logits).sum(0)
    slope = -chosen / p[rows, targets][:, None]
    mistakes = {
        "this is the gradient of the sum of the losses; the loss is their mean": 5 * right,
        "divide by the number of tokens, not by the number of logits": right / 7,
        "the sign is wrong: a larger logit of the target makes the loss smaller": -right,
        "the target is missing: its own logit also makes the loss smaller": p / 5,
        "subtract 1 only for the target of each row": (p - 1) / 5,
        "subtract 1 in one place of each row: [range(n), targets], not [:, targets]": columns / 5,
        "this is the slope of -log P in P: each logit changes every P of its row": slope / 5,
        "the softmax goes over the row of a token, not over a column": (down - chosen) / 5,
        "the logits went in as they are: the softmax is missing": (logits - chosen) / 5,
    }
    summed = {f"{message}; and take the mean": 5 * wrong for message, wrong in mistakes.items()}
    refuse(found, mistakes)
    refuse(found, dict(list(summed.items())[2:]))
    assert np.allclose(found, right, rtol=1e-3), difference(found, right, "the gradient")
    huge = back_cross_entropy(np.array([[1000.0, 0, 0]]), np.array([1]))
    assert np.isfinite(huge).all(), "large logits overflow: use the softmax of gpt2.py"


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
