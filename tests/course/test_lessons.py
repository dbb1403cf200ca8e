"""Tests of notebooks/lessons.py and counting.py, the helper functions of the notebooks."""

import ast
import inspect
from textwrap import dedent

import counting
import lessons
import numpy as np
import pytest

import samplers
import utils
from generate import generate
from page.recorder import counted
from samplers import Sampler
from tests.support.tiny import tiny_gpt2
from workshop.mistakes import build


def test_timed_actions_take_turns_after_a_round_that_does_not_count():
    order = []
    actions = {name: lambda name=name: order.append(name) for name in ("quick", "slow")}
    times = lessons.timed(actions, rounds=3)
    assert order == ["quick", "slow"] * 4 and [*map(len, times.values())] == [3, 3]


def test_a_disturbed_machine_shows_saved_times_and_says_so(capsys):
    saved, disturbed = {1: 1.0, 2: 1.2}, {1: [2, 2.1, 2.2], 2: [3, 9, 6]}
    assert lessons.steady({1: [2, 2.1, 2.2], 2: [3, 3.9, 3.1]}, saved, "a core") == {1: 2, 2: 3}
    assert lessons.steady(disturbed, None) == {1: 2, 2: 3}
    assert capsys.readouterr().out == ""
    assert lessons.steady(disturbed, saved, "a core") is saved
    assert "saved ones, from\na core.\n" in capsys.readouterr().out
    assert lessons.steady(disturbed, [7, 8]) == {1: 0.007, 2: 0.008}


def test_a_source_is_python(capsys):
    lessons.source(samplers.Sampler.filter)  # `source` splits its long string in two
    printed = ast.parse(capsys.readouterr().out)
    written = dedent(inspect.getsource(samplers.Sampler.filter))
    assert ast.dump(printed) == ast.dump(ast.parse(written))


def test_continued_texts_are_those_of_their_seeds_and_have_n_tokens():
    model, endless = lessons.tiny_model(5, seed=3), lessons.tiny_model(5, seed=3)
    model.stop_ids = (0, 1)  # with `generate`, these would end most texts early
    texts = lessons.continuations(model, [2, 4], Sampler(), 4, 9).tolist()
    assert texts == [list(generate(endless, [2, 4], 9, Sampler(), seed)) for seed in range(4)]
    assert {0, 1} & {*sum(texts, [])}


@pytest.mark.parametrize("n_rows, n_past, n_new", [(1, 0, 5), (1, 5, 1), (3, 4, 2)])
def test_the_formulas_agree_with_counts_of_the_running_code(n_rows, n_past, n_new):
    model = tiny_gpt2()
    shape, n_all = counting.shape_of(model), n_past + n_new
    cache = model.new_cache(n_rows)
    if n_past:
        model(np.ones((n_rows, n_past), int), cache)
    ids = np.ones((n_rows, n_new), int)
    logits, flops, read = counted(model, model, ids, cache, last=1)
    assert logits.shape == (n_rows, 1, model.n_vocab)
    assert flops == n_rows * counting.pass_flops(shape, n_new, n_all)
    assert read == counting.pass_bytes(shape, n_all, n_rows)


def test_the_lesson_s_own_step_agrees_with_the_model():
    part = lessons.share("loop_and_cache").checks["exercise_step"]
    tokenizer, model = utils.load("stories")
    shape, n_layer = (model.n_head, 0, model.n_embd // model.n_head), len(model.params["blocks"])
    keys, values = ([np.zeros(shape, np.float32)] * n_layer for _ in range(2))
    prompt = tokenizer.encode("Once upon a time")
    for token in prompt:
        logits = build(part.source).step(token, keys, values)
    np.testing.assert_allclose(logits, model(np.array(prompt))[-1], atol=1e-4)
