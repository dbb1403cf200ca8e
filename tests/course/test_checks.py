"""The checks of the lessons accept our version of each function, and refuse each known mistake
under its own name."""

import functools
import itertools
import re

import edition
import lessons
import numpy as np
import pytest

from workshop.compare import RARE, Seen, is_right, tell
from workshop.mistakes import build


@pytest.mark.slow
@pytest.mark.parametrize("lesson", edition.table())
def test_a_known_mistake_is_refused_under_its_name(lesson, capsys, monkeypatch):
    monkeypatch.setattr(lessons, "SEARCH_SECONDS", 1e3)  # a busy machine needs more
    for name, part in lessons.share(lesson).checks.items():
        for mistake in (None, *part.mistakes):
            ours = build(part.source, mistake)
            answers = [getattr(ours, function) for function in part.names]
            lessons.check(lesson, name.removeprefix("exercise_"), *answers)
            said = capsys.readouterr().out
            assert mistake.says in said if mistake else said == "solved\n", (name, said)
            assert not re.search(r"(?:: |is )(.+) instead of \1\.\n", said), (name, said)


def test_no_message_shows_two_equal_texts():
    arrays = np.array([False, True]), np.array([0, np.nan]), np.arange(90.0), np.array([1, 2])
    lists = *(array.tolist() for array in arrays), [*range(90), 1], [*range(89), 1]
    kinds = {"=": (*arrays, *lists, (1, 2), None, "1"), "axis": arrays, "~": lists}
    for kind, values in kinds.items():
        for a, b in itertools.permutations(values, 2):
            pair = Seen("", a, kind), Seen("", b, kind)
            said = tell(*pair).split(": ")[-1] if is_right(*pair) < RARE else "no message"
            assert not re.search(r"(?:^| )(.+) instead of \1$", said), said


def test_an_endless_loop_ends_with_a_verdict(monkeypatch, capsys):
    def at_entropy(logits, bits):
        while True:
            pass

    monkeypatch.setattr(lessons, "MOST_SECONDS", 0.1)
    lessons.check("samplers", 2, at_entropy)
    said = capsys.readouterr().out
    assert said.startswith("not solved yet: ") and "no result after 0.1 seconds" in said


def test_an_error_without_a_known_mistake_is_shown_with_its_line(capsys):
    def sure_width(n_vocab, n):
        return n_vocab**m  # noqa: F821

    lessons.check("search", 1, sure_width)
    says = r": look at line \d+: return n_vocab\*\*m .*: NameError: name 'm' is not defined"
    assert re.search(says, capsys.readouterr().out)


def test_an_answer_that_changes_its_argument_is_named_as_that(capsys):
    def back_linear(dy, x, w):
        dy *= 2
        return dy @ w / 2, dy.T @ x / 2, dy.sum(axis=0) / 2

    lessons.check("learning", "linear", back_linear)
    says = "back_linear changes its argument: work on a copy"
    assert capsys.readouterr().out == f"not solved yet: {says}\n"


def test_an_answer_may_be_a_partial(capsys):
    def back_linear(times, dy, x, w):
        return dy @ w, dy.T @ x, times * dy.sum(axis=0)

    for times, said in (1, "solved"), (2, "not solved yet: db"):
        lessons.check("learning", "linear", functools.partial(back_linear, times))
        assert capsys.readouterr().out.startswith(said)
