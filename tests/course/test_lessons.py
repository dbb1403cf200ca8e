"""Tests of notebooks/lessons.py, the helper functions of the notebooks."""

import ast
import inspect
import sys
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import lessons  # noqa: E402


@pytest.mark.parametrize("function, slow_one", [(lessons.medians, 8), (lessons.fastest, 7)])
def test_timed_actions_take_turns_after_a_round_that_does_not_count(
    function, slow_one, monkeypatch
):
    clock, order = [0.0], []
    monkeypatch.setattr(lessons.time, "perf_counter", lambda: clock[0])

    def action(name, costs):
        def run():
            order.append(name)
            clock[0] += next(costs)

        return run

    quick = action("quick", iter([50, 2, 9, 2]))  # the first round (50) does not count
    slow = action("slow", iter([90, 8, 7, 60]))
    times = function({"quick": quick, "slow": slow}, rounds=3)
    assert times == {"quick": 2, "slow": slow_one}
    assert order == ["quick", "slow"] * 4


def test_a_disturbed_machine_shows_saved_times_and_says_so(capsys):
    saved, quiet = {1: 1.0, 2: 1.2}, {1: [2, 2.1, 2.2], 2: [3, 3.9, 3.1]}
    assert lessons.steady(quiet, saved, "a core") == {1: 2.1, 2: 3.1}
    assert capsys.readouterr().out == ""
    assert lessons.steady({1: [2, 2.1, 2.2], 2: [3, 9, 6]}, saved, "a core") is saved
    assert "2.0 times the least" in (said := capsys.readouterr().out) and "a core" in said


def test_a_source_is_python(capsys):
    import samplers

    lessons.source(samplers.Sampler.filter)  # `source` splits its long string in two
    printed = ast.parse(capsys.readouterr().out)
    written = dedent(inspect.getsource(samplers.Sampler.filter))
    assert ast.dump(printed) == ast.dump(ast.parse(written))


def test_continuations_are_the_texts_of_their_seeds_and_have_n_tokens():
    from generate import generate
    from samplers import Sampler

    model, endless = lessons.tiny_model(5, seed=3), lessons.tiny_model(5, seed=3)
    model.stop_ids = (0, 1)  # with `generate`, these would end most texts early
    texts = lessons.continuations(model, [2, 4], Sampler(), 4, 9)
    alone = [list(generate(endless, [2, 4], 9, Sampler(), seed)) for seed in range(4)]
    assert texts.tolist() == alone
    assert {0, 1} & set(texts[:, :-1].ravel().tolist())


def test_different_prompts_are_continued_like_a_single_one():
    from samplers import Sampler

    model = lessons.tiny_model(5, seed=3)
    texts = lessons.continued(model, [[2, 4], [1]], Sampler(), [0, 7], 6)
    assert texts[0].tolist() == lessons.continuations(model, [2, 4], Sampler(), 1, 6)[0].tolist()
    assert texts.shape == (2, 6)
