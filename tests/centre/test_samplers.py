"""Each filter gives the results of transformers, the reference, and follows its definition. Tokens
are drawn with the right probabilities, even for the smallest and largest random numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import samplers
from gpt2 import softmax
from loading.config import forced_id
from samplers import Sampler, draw, greedy, make_sampler, one_hot, top_k, top_p
from tests.support.checkpoints import FIXTURES

INF = np.inf
CHAIN = {"repetition_penalty": 1.3, "no_repeat_ngram": 3, "temperature": 0.7}
CHAIN |= {"top_k": 7, "top_p": 0.95, "min_p": 0.02}
IN_ORDER = [samplers.FILTERS[name](value) for name, value in CHAIN.items()]
VALUES = {"temperature": [0.7], "top_k": [1, 7, 5000], "top_p": [0.01, 0.5, 0.95]}
VALUES |= {"min_p": [0.02, 0.5], "repetition_penalty": [1.3, 0.8], "no_repeat_ngram": [1, 2, 3]}
# processors.npz has reference results under the same names:
FILTERS = {f"{name} {v}": samplers.FILTERS[name](v) for name in VALUES for v in VALUES[name]}
FILTERS |= {f"min_length {n}": samplers.min_length(n, (2, 5)) for n in (30, 31)}
FILTERS |= {f"forced_id 4 at {n}": forced_id(4, n) for n in (30, 29)}
FILTERS["all"] = Sampler(*IN_ORDER).filter


def f32(*values):
    return np.array(values, np.float32)


def remaining(logits):
    return np.flatnonzero(logits > -INF).tolist()


@pytest.fixture(scope="module")
def reference():
    with np.load(FIXTURES / "processors.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("n_vocab", [10, 1000])
@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_equals_the_reference(reference, name, n_vocab):
    assert reference["names"].tolist() == list(FILTERS)
    number = list(FILTERS).index(name)
    expected = reference[f"filtered_{n_vocab}"][number]  # [n_seeds, n_vocab]
    assert len(expected) == 3
    for row, logits in enumerate(reference[f"logits_{n_vocab}"]):
        logits.setflags(write=False)  # a filter does not change its arguments
        ids = reference[f"ids_{n_vocab}"][row].tolist()
        found = FILTERS[name](logits, ids)
        assert found.dtype == np.float32 and ids == reference[f"ids_{n_vocab}"][row].tolist()
        assert remaining(found) == remaining(expected[row])
        np.testing.assert_allclose(found, expected[row], rtol=1e-6)
        again = FILTERS[name](found, ids)
        assert {*remaining(again)} <= {*remaining(found)} and not np.isnan(again).any()


@pytest.mark.parametrize("t", [1e-300, 1e-6, 1e6, 1e300])  # 1e-300 and 1e300 do not fit in float32
def test_temperature_at_its_extremes_is_greedy_or_uniform(t):
    logits = f32(3, -20, 3.5, 0, 15)
    probs = Sampler(samplers.temperature(t))(logits, [])
    assert probs.dtype == np.float32
    expected = one_hot(logits) if t < 1 else np.full(5, 0.2)
    np.testing.assert_allclose(probs, expected, atol=1e-5)


def test_top_k_keeps_the_tokens_that_tie_with_the_k_th():
    assert remaining(top_k(2)(f32(1, 3, 2, 3, 3), [])) == [1, 3, 4]


@given(st.lists(st.integers(1, 99), min_size=1, max_size=9), st.integers(1, 9), st.floats(-20, 20))
@example([90, 10], 1, 0)  # (0.9, 0.1) with p = 0.9 keeps one token
@example([30, 10, 10, 50], 2, 0)  # transformers' own test
def test_a_nucleus_that_reaches_p_exactly_is_complete(counts, n, shift):
    """In float32, the sum of the n best may be a little less or more than p. All logits may have
    the same summand."""
    falling, total = sorted(counts, reverse=True), sum(counts)
    logits = (np.log(np.array(counts) / total) + shift).astype(np.float32)
    best = falling[:n]
    expected = [i for i, count in enumerate(counts) if count >= best[-1]]
    assert remaining(top_p(sum(best) / total)(logits, [])) == expected


def test_top_p_0_and_1_and_min_p_0_remove_not_even_improbable_tokens():
    logits = np.random.default_rng(0).normal(0, 60, 5000).astype(np.float32)
    with np.errstate(all="raise"):
        for f in (top_p(0), top_p(1.0), samplers.min_p(0), samplers.min_p(1e-300)):
            np.testing.assert_array_equal(f(logits, []), logits)


def test_settings_are_always_applied_in_the_same_order():
    logits = np.random.default_rng(1).normal(0, 3, 50).astype(np.float32)
    ids = [1, 2, 3, 1, 2]
    found = make_sampler(**dict(reversed(CHAIN.items())))(logits, ids)
    np.testing.assert_array_equal(found, Sampler(*IN_ORDER)(logits, ids))
    assert not np.array_equal(found, Sampler(*reversed(IN_ORDER))(logits, ids))  # the order matters


def test_settings_of_none_or_0_are_left_out_and_temperature_0_is_greedy():
    logits = f32(1, 3, 2)
    plain = make_sampler(temperature=None, top_k=0, top_p=None)
    assert plain.filters == ()
    np.testing.assert_array_equal(plain(logits, []), softmax(logits))
    np.testing.assert_array_equal(make_sampler(temperature=0, top_k=2)(logits, []), f32(0, 1, 0))
    ends = make_sampler(first=[samplers.min_length(1, [1])], last=[forced_id(0, 1)], top_k=1)
    np.testing.assert_array_equal(ends(logits, []), f32(0, 0, 1))
    np.testing.assert_array_equal(ends(logits, [2]), f32(1, 0, 0))


def test_an_unknown_setting_is_an_error():
    with pytest.raises(TypeError, match="temprature, top_kk"):
        make_sampler(top_kk=1, temprature=0, top_p=0.5)


@pytest.mark.parametrize(
    "name, values",
    [
        ("temperature", [-1, -1e-9, np.nan]),
        ("top_k", [-1, 2.0, np.nan]),
        ("top_p", [-0.5, 1.5, 90, np.nan]),
        ("min_p", [-0.1, 1.1, np.nan]),
        ("repetition_penalty", [-1, np.nan]),
        ("no_repeat_ngram", [-1, 2.0]),
    ],
)
def test_a_value_without_a_meaning_is_refused_by_name(name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{name} is {value}, not "):
            make_sampler(**{name: value})
    if name in ("top_k", "repetition_penalty", "no_repeat_ngram"):
        with pytest.raises(ValueError, match=f"^{name} is 0, not "):
            samplers.FILTERS[name](0)  # make_sampler omits a filter whose value is 0


def test_greedy_is_the_best_token_that_the_filters_leave():
    logits = f32(1, 5, 5, 3)
    np.testing.assert_array_equal(greedy(logits, []), f32(0, 1, 0, 0))  # the first tied token
    assert greedy(logits, []).dtype == np.float32
    sampler = Sampler(samplers.no_repeat_ngram(1), samplers.temperature(0.5), to_probs=one_hot)
    np.testing.assert_array_equal(sampler(logits, [1]), f32(0, 0, 1, 0))


@pytest.mark.parametrize(
    "logits", [f32(-INF, -INF, -INF), f32(1, np.nan, 0), f32(np.nan, np.nan), f32(1, INF, 0)]
)
@pytest.mark.parametrize("to_probs", [softmax, one_hot])
def test_logits_that_allow_no_draw_are_an_error_before_and_after_each_filter(logits, to_probs):
    for filters in ([], *([f] for f in IN_ORDER), IN_ORDER):
        with pytest.raises(ValueError, match="no token can be drawn"):
            Sampler(*filters, to_probs=to_probs)(logits, [])


@pytest.mark.parametrize("returned", [None, 3, [1.0, 2.0, 3.0], f32(1, 2)])
def test_a_filter_that_returns_no_logits_is_refused(returned):
    with pytest.raises(ValueError, match="a filter returned .*, not logits: forgot a return"):
        Sampler(lambda logits, ids: returned)(f32(1, 2, 3), [])


def fixed(u):
    """Return a random generator that always returns the number u."""
    return SimpleNamespace(random=lambda: u)


SMALLEST, LARGEST = 0.0, 1 - 2.0**-53  # the extremes of Generator.random()


@pytest.mark.parametrize(
    "probs",
    [np.zeros(5), np.full(5, np.nan), np.full(5, np.inf), np.ones(5), np.full(5, 0.1), f32(0.998)],
)
def test_probabilities_that_do_not_sum_to_1_are_refused(probs):
    with pytest.raises(ValueError, match="probabilities sum to .*, not to 1"):
        draw(probs, np.random.default_rng(0))


def test_a_draw_at_the_edges_of_the_intervals():
    probs = f32(0, 0.25, 0, 0.75, 0)
    assert draw(probs, fixed(SMALLEST)) == 1
    assert draw(probs, fixed(0.25 - 1e-9)) == 1
    assert draw(probs, fixed(0.25)) == 3
    assert draw(probs, fixed(LARGEST)) == 3
    assert type(draw(probs, fixed(0.5))) is int
    for total in (1 - 1e-4, 1 + 2.0**-23, 1 + 1e-4):  # a sum may be rounded
        assert draw(probs * np.float32(total), fixed(LARGEST)) == 3
