"""The checks of the lessons accept our version of each function, and refuse each known mistake
under its own name."""

import functools
import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import edition  # noqa: E402
import lessons  # noqa: E402

from workshop.engine import Part  # noqa: E402
from workshop.mistakes import build  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("lesson", edition.table())
def test_a_known_mistake_is_refused_under_its_name(lesson, capsys):
    lessons.share(lesson)
    for name, part in vars(importlib.import_module(f"checks.{lesson}")).items():
        if isinstance(part, Part):
            for mistake in (None, *part.mistakes):
                ours = build(part.source, mistake)
                answers = [getattr(ours, function) for function in part.names]
                lessons.check(lesson, name.removeprefix("exercise_"), *answers)
                said = capsys.readouterr().out
                assert mistake.says in said if mistake else said == "solved\n", (name, said)
                assert not re.search(r"(?:: |is )(.+) instead of \1[.\n]", said), (name, said)


def test_no_message_shows_two_equal_texts():
    arrays = np.array([False, True]), np.array([0.0, 1.0]), np.arange(90) % 7, np.float64(1)
    values = *arrays, *[array.tolist() for array in arrays], (0, 1), [*range(90), 1], None, "1"
    for kind in "=", "axis", "<=1", "~":
        for a, b in itertools.product(values, repeat=2):
            a, b = Seen("", a, kind), Seen("", b, kind)
            if kind == "=" or kind == "~" and isinstance(a.value, list) and isinstance(b.value, list) or kind == "axis" and isinstance(b.value, np.ndarray):
                if is_right(a, b) < RARE:
                    mine, said, right = tell(a, b).rpartition(" instead of ")
                    assert mine.rpartition(": ")[2] != right


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
