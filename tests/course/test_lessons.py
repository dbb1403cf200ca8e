"""Tests of notebooks/lessons.py, the helper functions of the notebooks."""

import ast
import inspect
import sys
from pathlib import Path
from textwrap import dedent

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))

import lessons  # noqa: E402


def test_timed_actions_take_turns_after_a_round_that_does_not_count(monkeypatch):
    clock, order = [0.0], []
    monkeypatch.setattr(lessons.time, "perf_counter", lambda: clock[0])

    def action(name, *costs):
        def run():
            clock[0] += costs[order.count(name)]
            order.append(name)

        return run

    actions = {"quick": action("quick", 50, 2, 9, 2), "slow": action("slow", 90, 8, 7, 60)}
    assert lessons.timed(actions, rounds=3) == {"quick": [2, 9, 2], "slow": [8, 7, 60]}
    assert order == ["quick", "slow"] * 4


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
