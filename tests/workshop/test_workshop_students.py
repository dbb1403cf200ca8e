"""The workshop judges the files in tests/workshop/students, which were written before it."""

import ast
import sys
from pathlib import Path

import pytest

from workshop.engine import Reader, check
from workshop.steps import STEPS

STUDENTS = Path(__file__).with_name("students")
sys.path.append(str(STUDENTS))

from mistakes import MISTAKES, edit  # noqa: E402
from styles import STYLES, restyle  # noqa: E402

pytestmark = pytest.mark.slow

RIGHT = (STUDENTS / "right.py").read_text("utf-8")


@pytest.fixture
def verdicts(tmp_path):
    """Return verdicts(text, steps): it checks these steps in a file with this text."""

    def run(text, steps):
        path = tmp_path / "mine.py"
        path.write_text(text, "utf-8")
        reader = Reader(path, STEPS)
        return [check(reader, step) for step in STEPS if step.name in steps]

    return run


@pytest.mark.parametrize("step, words, old, new", MISTAKES, ids=[m[1] for m in MISTAKES])
def test_every_mistake_is_found_and_has_a_name(verdicts, step, words, old, new):
    [verdict] = verdicts(edit(RIGHT, old, new), {step})
    assert (verdict.state, bool(verdict.mistake)) == ("wrong", True)


@pytest.mark.parametrize("words, style", STYLES, ids=[words for words, _ in STYLES])
def test_a_right_solution_in_another_style_is_right(verdicts, words, style):
    written = {getattr(node, "name", "") for node in ast.parse(style).body}
    steps = {
        step.name
        for step in STEPS
        for part in step.parts
        if written & {name.split(".")[0] for name in part.names} and step.name != "stories"
    }
    assert steps and {v.state for v in verdicts(restyle(RIGHT, style), steps)} == {"done"}
