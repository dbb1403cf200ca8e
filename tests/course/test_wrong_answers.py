"""The checks of the exercises refuse wrong answers, and say what is missing. A wrong answer is the
solution with some text replaced."""

import contextlib
import functools
import io
import re
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402, F401, it makes the project's files importable

pytestmark = pytest.mark.slow

# lesson: (the exercise, what its check says, old text, new text, ...)
WRONG = {
    "serving": [
        ("loop", "does its row", "select(stay)", "select(range(len(stay)))"),
        ("loop", "passes instead of", "len(running) < max_rows", "not running"),
        ("loop", "does not get the text", "if sequence.running:", "if True:"),
    ],
    "encoder_decoder": [
        (1, "not as a whole text", "encode(candidate)]", "plain_ids(candidate)]"),
        (1, "mean", ".sum()", ".mean()"),
        (2, "</s>", "looked_at))[:-1]", "looked_at))"),
        (2, "name", "names(np.array(source)[weights.argmax(-1)])", "weights.argmax(-1)"),
        (2, "shifted by one", "[weights.", "[np.roll(weights, 1, 0)."),
    ],
}
CASES = [(lesson, *case) for lesson, cases in WRONG.items() for case in cases]
NEEDED = {  # the cells whose names a solution uses, beside the first cell with imports
    "encoder_decoder": ["cell-4", "cell-6"],
}


@functools.cache
def cells(lesson):
    """Return {id: cell} of a lesson's notebook, and the names that its first cells define."""
    notebook = nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)
    found, names = {cell.id: cell for cell in notebook.cells}, {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in [notebook.cells[2], *map(found.get, NEEDED.get(lesson, []))]:
            exec(cell.source, names)
    return found, names


def message(capsys, lesson, number, *changes):
    """Replace text in the solution of an exercise. Return what its check prints."""
    found, names = cells(lesson)
    start = f'lessons.check("{lesson}", {number!r}'.replace("'", '"')
    sources = [cell.source for cell in found.values()]
    [(code, check)] = [pair for pair in zip(sources, sources[1:]) if start in pair[1]]
    if isinstance(number, int):  # otherwise the cell before the check is one that readers write
        text = (FOLDER / "solutions" / f"{lesson}.py").read_text(encoding="utf-8")
        code = re.split(r"^# exercise \d+$", text, flags=re.MULTILINE)[number]
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in code, old
        code = code.replace(old, new)
    exec(code, names := dict(names))
    exec(check[check.index(start) :], names)
    return capsys.readouterr().out


@pytest.mark.parametrize("lesson, number, missing, changes", [(*c[:3], c[3:]) for c in CASES])
def test_a_wrong_answer_is_refused_with_the_right_message(lesson, number, missing, changes, capsys):
    said = message(capsys, lesson, number, *changes)
    assert said.startswith("not solved yet: ") and missing in said
    assert "Error" not in said  # an assert failed; no other error was raised


@pytest.mark.parametrize(
    "lesson, name", dict.fromkeys((c[0], c[1]) for c in CASES if isinstance(c[1], str))
)
def test_the_cells_that_readers_write_are_solved(lesson, name, capsys):
    assert message(capsys, lesson, name) == "solved\n"
