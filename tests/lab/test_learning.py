"""The gradients of training/backward.py are right, and what learn.py learns is what it says."""

import numpy as np
import pytest

from gpt2 import GPT2, log_softmax
from training.backward import gpt2, loss_and_gradients
from training.learn import flat, new_params

SHAPES = [  # n_rows, n_seq, n_vocab, n_ctx, n_embd, n_head, n_layer
    (2, 5, 11, 8, 12, 3, 2),
    (1, 6, 4, 6, 4, 1, 3),
    (3, 1, 7, 2, 6, 2, 1),
]


def example(n_rows, n_seq, n_vocab, n_ctx, n_embd, n_head, n_layer):
    """Return params of float64 (no bias is zero, no gain is one), n_head, ids and targets."""
    params, rng = new_params(n_vocab, n_ctx, n_embd, n_layer), np.random.default_rng(1)

    def moved(tree):
        if isinstance(tree, np.ndarray):
            return tree + rng.normal(0, 0.5, tree.shape)
        if isinstance(tree, list):
            return [moved(part) for part in tree]
        return {key: moved(part) for key, part in tree.items()}

    return moved(params), n_head, *rng.integers(0, n_vocab, (2, n_rows, n_seq))


@pytest.mark.parametrize("shape", SHAPES)
def test_each_gradient_is_that_of_gpt2_s_loss(shape):
    """A gradient and a random direction give the slope of the loss in this direction. It must be
    that of two losses close by, which gpt2.py computes."""
    params, n_head, ids, targets = example(*shape)
    logits, _ = gpt2(ids, **params, n_head=n_head)
    np.testing.assert_allclose(logits, GPT2(params, n_head)(ids), rtol=1e-12)
    loss, gradients = loss_and_gradients(params, n_head, ids, targets)
    gradients, rng = flat(gradients), np.random.default_rng(2)

    def moved_loss(array, change):
        array += change
        log_p = log_softmax(GPT2(params, n_head)(ids))
        array -= change
        return -np.take_along_axis(log_p, targets[..., None], -1).mean()

    assert loss == pytest.approx(moved_loss(params["wte"], 0), rel=1e-12)
    assert gradients.keys() == flat(params).keys()
    for name, array in flat(params).items():
        direction = rng.normal(size=array.shape)
        up, down = (moved_loss(array, sign * 1e-5 * direction) for sign in (1, -1))
        slope = (gradients[name] * direction).sum()
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8), name
