"""page/recorder.py records the calls of a running model, and page/trace.py prints them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import utils
from generate import generate
from gpt2 import GPT2
from page.recorder import passes, recording
from page.trace import as_json, format_trace
from tests.support.tiny import checkpoint, close, tiny_gpt2

FIXTURES = Path(__file__).parents[1] / "fixtures"
FAMILIES = "gpt2", "llama", "seq2seq"
MODELS: list = ["stories", "en-de"]
for family in FAMILIES:
    MODELS += [path.parent for path in sorted(FIXTURES.glob(f"{family}/*/config.json"))]


def recorded(model, prompt, n=2, keep=()):
    """Generate n tokens with the cached loop; return the recorded calls."""
    with recording(model, keep) as calls:
        list(generate(model, prompt, n))
    return calls


def inner(call, name):
    """Return the first call of the function `name` inside `call`."""
    return next(inside for inside in call.walk() if inside.name == name)


def test_the_calls_are_a_tree_with_places_and_shapes():
    model = tiny_gpt2()
    [first, second] = passes(recorded(model, [1, 2, 3]), model)
    assert (first.name, first.file, first.inputs) == ("__call__", "gpt2.py", {"ids": (3,)})
    assert first.line == model.__call__.__func__.__code__.co_firstlineno
    assert (first.output, second.output) == ((1, 11), (1, 11))
    softmax = [inner(call, "softmax") for call in (first, second)]
    assert [call.output for call in softmax] == [(2, 3, 3), (2, 1, 4)]
    names = [call.name for call in inner(first, "block").calls]
    assert names == ["layer_norm", "self_attention", "layer_norm", "feed_forward"]


def test_a_call_with_several_results_records_the_first():
    model = tiny_gpt2()
    [first, second] = passes(recorded(model, [1, 2, 3]), model)
    assert [inner(call, "extend").output for call in (first, second)] == [(3,), (1,)]


def test_a_model_defined_in_a_notebook_is_recorded():
    """The source of such a class is not in a file."""
    code = "class Mine(GPT2):\n    def block(self, x, **more): return super().block(x, **more)\n"
    names = {"GPT2": GPT2, "__name__": "__main__"}
    exec(compile(code, "<cell 1>", "exec"), names)
    model = names["Mine"](tiny_gpt2().params, 2)
    with recording(model) as calls:
        model([1, 2, 3])
    first, *_ = [call for call in calls[0].calls if call.name == "block"]
    assert first.file == "<cell 1>" and first.calls[0].name == "block"


def test_a_recorded_value_is_a_copy():
    model = tiny_gpt2()
    with recording(model, keep=["linear"]) as calls:
        logits = model([1, 2, 3])
    expected = logits.copy()
    logits[:] = 0
    np.testing.assert_array_equal(calls[0].calls[-1].value, expected)


def test_the_earlier_profile_function_is_restored():
    def before(frame, event, result):
        pass

    sys.setprofile(before)
    try:
        with recording(tiny_gpt2()):
            pass
        assert sys.getprofile() is before
    finally:
        sys.setprofile(None)


def test_a_block_adds_its_parts_results_to_the_stream():
    model = tiny_gpt2()
    with recording(model, keep=["block", "self_attention", "feed_forward"]) as calls:
        model([1, 2, 3])
    x = model.params["wte"][[1, 2, 3]] + model.params["wpe"][:3]
    for block in [call for call in calls[0].calls if call.name == "block"]:
        parts = [inner(block, name) for name in ("self_attention", "feed_forward")]
        assert block.norms[0] == pytest.approx(np.linalg.norm(x[-1]), rel=1e-5)
        x = x + parts[0].value + parts[1].value
        close(block.value, x)
        for part in parts:
            assert part.norms[1] == pytest.approx(np.linalg.norm(part.value[-1]), rel=1e-5)


def test_multiply_adds_count_the_matrix_products():
    model = tiny_gpt2(n_vocab=11, n_embd=8, n_layer=2)
    for n in (1, 5):
        with recording(model) as calls:
            model(np.zeros(n, int), last=1)
        # A block's matrices have (3 + 1 + 4 + 4) * 8 * 8 weights. Each of attention's two products
        # takes n * n * 8 multiply-adds. The logits of one row take 8 * 11.
        assert calls[0].multiply_adds == 2 * (n * 12 * 8 * 8 + 2 * n * n * 8) + 8 * 11


def test_only_the_model_s_calls_inside_the_block_are_recorded():
    model = tiny_gpt2()
    calls = recorded(model, [1])
    n = len(calls)
    model([1])
    assert len(calls) == n and sys.getprofile() is None
    assert all(call.file == "gpt2.py" for root in calls for call in root.walk())
    assert all(call.value is None for root in calls for call in root.walk())
    assert passes(calls, tiny_gpt2()) == []  # these calls belong to a different model


def test_the_tree_is_right_after_an_error():
    model = tiny_gpt2()
    with recording(model) as calls:
        with pytest.raises(IndexError):
            model([99])
        model([1])
    assert [call.name for call in calls] == ["__call__", "__call__"]
    assert [call.output for call in calls] == [None, (1, 11)]
    assert sys.getprofile() is None


@pytest.mark.parametrize("name", MODELS, ids=lambda name: getattr(name, "name", name))
def test_a_trace_of_every_model_fits_80_columns(name):
    is_llama = isinstance(name, Path) and name.parent.name == "llama"
    model = checkpoint(f"llama/{name.name}") if is_llama else utils.load(name)[1]
    source = [5, 6, 7, 8, 9, 10, 11]
    calls = recorded(model, source)
    read = next((call for call in calls if call.name == "read"), None)
    text = format_trace(passes(calls, model), read)
    assert max(map(len, text.splitlines())) <= 80
    n, n_layer = len(source), len(model.params.get("decoder", model.params)["blocks"])
    rows = "[1] ->" if read else f"[{n}|1] ->"
    assert rows in text
    assert "block " in text and "softmax" in text
    assert len(text.split("Norms at")[1].splitlines()) == 2 + n_layer


def test_the_trace_of_a_long_prompt_fits_80_columns():
    model = tiny_gpt2(10, 1024, 768, 1, n_head=12)
    text = format_trace(passes(recorded(model, [1] * 1000), model)[:2])
    assert "[12,256,64] -> [2,12,256|512,64]" in text  # the loop reads the prompt in chunks
    assert max(map(len, text.splitlines())) <= 80


def test_the_trace_shows_equal_calls_once():
    model = tiny_gpt2()
    lines = format_trace(passes(recorded(model, [1, 2, 3]), model)).splitlines()
    found = {line.split()[0]: line.split(maxsplit=2)[2] for line in lines if "gpt2.py" in line}
    assert found["block"] == "[3|1,8] -> same x2"
    assert found["append"] == "[2,3|1,4] -> [2,2,3|4,4]"
    assert found["softmax"] == "[2,3|1,3|4] -> same"
    assert found["causal_mask"] == "[3|1] -> [1,3|1,3|4]"


def test_different_passes_are_printed_one_after_the_other():
    one, two = tiny_gpt2(n_layer=1), tiny_gpt2(n_layer=2)
    given = [passes(recorded(model, [1, 2, 3], n=1), model)[0] for model in (one, two)]
    text = format_trace(given)
    assert text.count("__call__") == 2 and text.count("] -> same x2") >= 1
    assert "|" not in text.split("Norms")[0].split("\n", 1)[1]


def test_the_trace_of_a_single_pass_has_no_second_shapes():
    model = tiny_gpt2()
    text = format_trace(passes(recorded(model, [1, 2, 3], n=1), model))
    assert "[3] ->" in text and "|" not in text.split("\n", 1)[1]


def test_json_has_the_same_tree():
    model = tiny_gpt2()
    [first, _] = passes(recorded(model, [1, 2, 3]), model)
    data = json.loads(json.dumps(as_json(first)))
    assert (data["call"], data["in"], data["out"]) == ("__call__", {"ids": [3]}, [1, 11])
    attention = data["calls"][2]["calls"][1]
    assert (attention["call"], attention["in"]["x"]) == ("self_attention", [3, 8])
    assert len(attention["norms"]) == 2
