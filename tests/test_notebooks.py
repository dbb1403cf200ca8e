"""Every notebook runs from top to bottom, its exercises can be solved, and it is saved tidily."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


def printed(cell, stream="stdout"):
    return "".join(o["text"] for o in cell.outputs if o.get("name") == stream)


def solutions(path):
    """{exercise: source of its solution}: solutions/NAME.py has each under "# exercise N"."""
    text = (FOLDER / "solutions" / path.with_suffix(".py").name).read_text(encoding="utf-8")
    parts = re.split(r"^# exercise (\d+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2]))


def exercises(notebook):
    """{exercise: (index of its cell, tagged exercise-N, and of the check, the next cell)}."""
    found = {}
    for place, cell in enumerate(notebook.cells):
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise-"):
                found[int(tag.removeprefix("exercise-"))] = place, place + 1
    return found


def test_runs_and_its_exercises_can_be_solved(path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # two that share a core wait for each other
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}})
    with client.setup_kernel():
        for place, cell in enumerate(notebook.cells):
            client.execute_cell(cell, place)  # raises on any error
            if cell.cell_type == "code":
                assert not printed(cell, "stderr")
        for number, (place, check) in exercises(notebook).items():
            assert printed(notebook.cells[check]).startswith("not solved yet: ")
            notebook.cells[place].source = solutions(path)[number]
            client.execute_cell(notebook.cells[place], place)
            client.execute_cell(notebook.cells[check], check)
            assert printed(notebook.cells[check]) == "solved\n"


def test_has_three_exercises_each_with_a_solution(path):
    notebook = nbformat.read(path, as_version=4)
    assert list(exercises(notebook)) == list(solutions(path)) == [1, 2, 3]
    for _, check in exercises(notebook).values():
        assert notebook.cells[check].source.startswith("@lessons.check\n")


def test_is_saved_with_the_outputs_of_one_run(path):
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert not printed(cell, "stderr")
        assert not any(output.output_type == "error" for output in cell.outputs)
        assert len(printed(cell).splitlines()) <= 40  # no wall of output
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)


def test_says_nothing_of_the_machine_it_ran_on(path):
    assert path.stat().st_size < 1_500_000
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(root|home|tmp|Users|work)/", text)


def test_is_in_the_index(path):
    assert f"({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_a_check_says_what_is_missing_and_stops_nothing(capsys):
    import sys

    sys.path.insert(0, str(FOLDER))
    import lessons

    @lessons.check
    def wrong():
        raise AssertionError("the mean, not the sum")

    @lessons.check
    def right():
        assert lessons.PROJECT == FOLDER.parent

    assert capsys.readouterr().out == "not solved yet: the mean, not the sum\nsolved\n"
