"""The functions of gpt2.py, and the memory of its cache. What every model has to do, and that its
logits equal those of transformers, is tested in families/test_every_model.py."""

import math
from unittest.mock import Mock

import numpy as np
import pytest

import gpt2
from families.layers import ACTIVATIONS
from gpt2 import causal_mask, gelu, layer_norm, log_softmax, softmax
from tests.support.tiny import close, tiny_gpt2

MODEL = tiny_gpt2()
N_CTX, N_VOCAB = MODEL.n_ctx, MODEL.n_vocab
FULL = np.random.default_rng(1).integers(N_VOCAB, size=N_CTX)  # [n_ctx]
LOGITS = MODEL(FULL)  # [n_ctx, n_vocab]


def test_the_slots_of_a_cache_double_and_never_exceed_the_context():
    cache, slots = MODEL.new_cache(2), []
    for _ in range(N_CTX):
        MODEL([[1], [2]], cache)
        slots.append(cache.kv.shape[-2])
    assert slots == sorted(slots) and slots[-1] == N_CTX
    assert all(n <= n_slots <= 2 * n for n, n_slots in enumerate(slots, 1))
    assert len(set(slots)) <= 1 + np.log2(N_CTX)  # for each new size, the cache is copied
    with pytest.raises(ValueError, match="no rows"):
        MODEL.new_cache().select([0])
    assert all(slots[n - 1] == slots[n - 2] for n in range(2, N_CTX + 1) if n <= slots[n - 2])


@pytest.mark.parametrize("name", ["attention", "layer_norm", "linear", "softmax", "causal_mask"])
def test_a_replaced_function_runs(name, monkeypatch):
    """The model looks up its functions at every call, so a user can replace each of them."""
    replacement = Mock(wraps=getattr(gpt2, name))
    monkeypatch.setattr(gpt2, name, replacement)
    close(MODEL(FULL), LOGITS)
    n_calls = {"causal_mask": 1, "layer_norm": 5, "linear": 9}.get(name, 2)
    assert replacement.call_count == n_calls


X = np.linspace(-8, 8, 401, dtype=np.float32)
DEFINITIONS = {
    "gelu_new": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_pytorch_tanh": lambda x: DEFINITIONS["gelu_new"](x),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_follow_their_definitions(name):
    x = X.copy()
    found = ACTIVATIONS[name](x)
    np.testing.assert_allclose(found, [DEFINITIONS[name](float(v)) for v in X], atol=2e-6)
    np.testing.assert_array_equal(x, X)
    with np.errstate(over="raise", invalid="raise"):
        far = ACTIVATIONS[name](np.array([-1000, 1000], np.float32))
    np.testing.assert_allclose(far, [0, 1000], atol=1e-6)


def test_softmax_sums_to_1_for_arguments_of_any_size():
    x = np.array([[1e4, 1e4, -1e4], [0, 0, 0], [-np.inf, 3, 2]], np.float32)
    x.setflags(write=False)
    np.testing.assert_allclose(softmax(x).sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(softmax(x)[:2], [[0.5, 0.5, 0], [1 / 3] * 3], rtol=1e-6)
    assert softmax(x)[2, 0] == 0


def test_log_softmax_is_right_even_if_softmax_underflows():
    x = np.array([[1, 2, 4], [1000, 0, -9e3], [-np.inf, 3, 3]], np.float32)
    before = x.copy()
    found = log_softmax(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], np.log(softmax(x[0])), rtol=1e-5)
    np.testing.assert_allclose(found[1], [0, -1000, -1e4], rtol=1e-6)
    np.testing.assert_allclose(found[2], [-np.inf, -math.log(2), -math.log(2)], rtol=1e-6)
    np.testing.assert_array_equal(x, before)


def test_layer_norm_divides_by_the_root_of_variance_plus_epsilon():
    x = np.array([1, 3], np.float32)  # mean 2, variance 1
    x.setflags(write=False)  # x is also the residual stream, which a norm must not change
    found = layer_norm(x, np.float32(4), np.float32(5), eps=3)
    np.testing.assert_allclose(found, [3, 7], rtol=1e-6)
    close(layer_norm(x, np.float32(1), np.float32(0)), np.array([-1, 1], np.float32) / 1.000005)


def test_a_model_has_its_epsilon_and_its_activation():
    ids = FULL[:5]
    assert MODEL.eps == 1e-5 and MODEL.activation is gelu
    assert 0 < np.abs(tiny_gpt2(eps=1e-9)(ids) - MODEL(ids)).max() < 0.1
    for more in ({"eps": 1.0}, {"activation": np.tanh}):
        assert np.abs(tiny_gpt2(**more)(ids) - MODEL(ids)).max() > 0.1


def test_the_causal_mask():
    _ = -1e10
    mask = causal_mask(np.array([[2, 3], [0, 1]]))  # [2, 1, n_new, n_all]
    expected = [[[[0, 0, 0, _], [0, 0, 0, 0]]], [[[0, _, _, _], [0, 0, _, _]]]]
    np.testing.assert_array_equal(mask, np.array(expected, np.float32))
    assert mask.dtype == np.float32
    square = np.array([[[0, _, _], [0, 0, _], [0, 0, 0]]], np.float32)
    np.testing.assert_array_equal(causal_mask(np.arange(3)), square)
