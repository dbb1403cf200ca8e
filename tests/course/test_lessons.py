"""Tests of notebooks/lessons.py, the helper functions of the notebooks."""

import ast
import inspect
import sys
from pathlib import Path
from textwrap import dedent

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import lessons  # noqa: E402


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
    import samplers

    lessons.source(samplers.Sampler.filter)  # `source` splits its long string in two
    printed = ast.parse(capsys.readouterr().out)
    written = dedent(inspect.getsource(samplers.Sampler.filter))
    assert ast.dump(printed) == ast.dump(ast.parse(written))


def test_continued_texts_are_those_of_their_seeds_and_have_n_tokens():
    from generate import generate
    from samplers import Sampler

    model, endless = lessons.tiny_model(5, seed=3), lessons.tiny_model(5, seed=3)
    model.stop_ids = (0, 1)  # with `generate`, these would end most texts early
    texts = lessons.continuations(model, [2, 4], Sampler(), 4, 9).tolist()
    assert texts == lessons.continued(model, [[2, 4]] * 4, Sampler(), range(4), 9).tolist()
    assert texts == [list(generate(endless, [2, 4], 9, Sampler(), seed)) for seed in range(4)]
    assert {0, 1} & {*sum(texts, [])}
