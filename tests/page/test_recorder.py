"""page/recorder.py records the calls of a running model."""

import sys

import numpy as np
import pytest

from generate import generate
from gpt2 import GPT2
from page.recorder import passes, recording
from tests.support.tiny import tiny_gpt2


def recorded(model, prompt, n=2, keep=()):
    """Generate n tokens with the cached loop; return the recorded calls."""
    with recording(model, keep) as calls:
        list(generate(model, prompt, n))
    return calls


def test_the_calls_are_a_tree_with_shapes():
    model = tiny_gpt2()
    calls = recorded(model, [1, 2, 3])
    model([1])  # after the block, nothing is recorded
    [first, second] = passes(calls, model)
    assert passes(calls, tiny_gpt2()) == []  # these calls belong to a different model
    assert (first.name, first.inputs, first.owner) == ("__call__", {"ids": (3,)}, model)
    attention = [call.named("attention")[0].inputs for call in (first, second)]
    assert [one["q"] for one in attention] == [(2, 3, 4), (2, 1, 4)]
    assert [one["k"] for one in attention] == [(2, 3, 4), (2, 4, 4)]
    names = [call.name for call in first.named("block")[0].calls]
    assert names == ["layer_norm", "self_attention", "layer_norm", "feed_forward"]
    blocks = ["new_positions", "causal_mask", "block", "block", "layer_norm", "linear", "commit"]
    assert [call.name for call in first.calls] == blocks  # no _check_length
    assert first.value is None


def test_a_model_defined_in_a_notebook_is_recorded():
    """The source of such a class is not in a file."""
    code = "class Mine(GPT2):\n    def block(self, x, **more): return super().block(x, **more)\n"
    names = {"GPT2": GPT2, "__name__": "__main__"}
    exec(compile(code, "<cell 1>", "exec"), names)
    model = names["Mine"](tiny_gpt2().params, 2)
    with recording(model) as calls:
        model([1, 2, 3])
    first, *_ = [call for call in calls[0].calls if call.name == "block"]
    assert first.calls[0].name == "block"


def test_a_recorded_value_is_a_copy_and_of_several_results_the_first():
    model = tiny_gpt2()
    cache = model.new_cache()
    with recording(model, keep=["linear", "new_positions"]) as calls:
        logits = model([1, 2, 3], cache)
    expected = logits.copy()
    logits[:] = 0
    np.testing.assert_array_equal(calls[0].named("linear")[-1].value, expected)
    assert calls[0].named("new_positions")[0].value.tolist() == [0, 1, 2]


def test_after_an_error_the_tree_is_right_and_the_earlier_profile_function_is_back():
    def before(frame, event, result):
        pass

    model = tiny_gpt2()
    sys.setprofile(before)
    try:
        with recording(model, keep=["__call__"]) as calls:
            with pytest.raises(IndexError):
                model([99])
            model([1])
        assert sys.getprofile() is before
    finally:
        sys.setprofile(None)
    assert [call.name for call in calls] == ["__call__", "__call__"]
    assert calls[0].value is None and calls[1].value.shape == (1, 11)
