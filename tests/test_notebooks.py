"""Every notebook runs from top to bottom as its class sees it, its exercises can be solved, and it
is saved tidily."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="session")
def class_edition(tmp_path_factory):
    """The folder of a class edition, as its command makes it."""
    folder = tmp_path_factory.mktemp("class")
    command = [sys.executable, FOLDER / "edition.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{len(NOTEBOOKS)} notebooks ")
    return folder


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def tagged(notebook, tag):
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def printed(cell, stream="stdout"):
    return "".join(o["text"] for o in cell.outputs if o.get("name") == stream)


def pictures(notebook):
    """The alternative text of each picture that is saved."""
    for cell in code(notebook):
        for output in cell.outputs:
            for kind in output.get("data", {}):
                if kind.startswith("image/"):
                    yield output.metadata.get(kind, {}).get("alt", "")


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


def test_the_class_edition_runs_and_its_exercises_can_be_solved(path, class_edition, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # two that share a core wait for each other
    notebook = nbformat.read(class_edition / path.name, as_version=4)
    assert not any(cell.outputs for cell in code(notebook))
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


def test_the_class_edition_is_the_same_code_without_solutions(path, notebook, class_edition):
    edition = nbformat.read(class_edition / path.name, as_version=4)
    assert [cell.source for cell in code(edition)] == [cell.source for cell in code(notebook)]
    assert "(solutions/" not in "".join(cell.source for cell in prose(edition))
    assert "(solutions/" in notebook.cells[0].source


def test_has_three_exercises_each_with_a_solution_and_a_hidden_check(path, notebook):
    assert list(exercises(notebook)) == list(solutions(path)) == [1, 2, 3]
    for number, (_, check) in exercises(notebook).items():
        assert notebook.cells[check].source.startswith(f'lessons.check("{path.stem}", {number}')


def test_every_assert_of_a_check_tells_what_is_missing(path):
    text = (FOLDER / "checks" / f"lesson_{path.stem}.py").read_text(encoding="utf-8")
    asserts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]
    assert asserts and all(node.msg for node in asserts)


def test_begins_with_what_it_needs_and_gives(path, notebook):
    title, setup = notebook.cells[:2]
    for part in (r"^# \d+\. .+", r"^\*About \d+ minutes\.\*", r"\*\*Before", r"\*\*Goals"):
        assert re.search(part, title.source, flags=re.MULTILINE), part
    place = NOTEBOOKS.index(path)
    for neighbour in NOTEBOOKS[max(place - 1, 0) : place] + NOTEBOOKS[place + 1 : place + 2]:
        assert f"({neighbour.name})" in title.source
    assert tagged(notebook, "setup") == [setup]
    assert setup.source == (FOLDER / "bootstrap.py").read_text(encoding="utf-8").strip()


def test_ends_with_a_text_of_the_readers_own(notebook):
    (cell,) = tagged(notebook, "your-text")
    assert re.match(r'MODEL, TEXT = "[\w-]+", ', cell.source)


def test_is_saved_with_the_outputs_of_one_run(notebook):
    cells = code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not printed(cell, "stderr")
        assert not any(output.output_type == "error" for output in cell.outputs)
        lines = printed(cell).splitlines()
        assert len(lines) <= 40  # no wall of output
        assert all(len(line) <= 79 for line in lines)
    alternatives = list(pictures(notebook))
    assert alternatives and all(len(text) > 30 for text in alternatives)


def test_can_be_projected(notebook):
    for cell in code(notebook):
        lines = cell.source.splitlines()
        assert len(lines) <= 20 or "setup" in cell.metadata.get("tags", []), cell.source
        assert all(len(line) <= 79 for line in lines), max(lines, key=len)


NUMBER = r"(?<![\w.^/-])\d+(?:,\d{3})*(?:\.\d+)?(?: ?%)?(?![\w^])"
NOT_PROSE = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|https?://\S+"


def test_numbers_in_the_prose_come_from_a_cell(notebook):
    """Those with a decimal point or a percent sign, but where the sentence names its source."""
    outputs = "\n".join(printed(cell) + cell.source for cell in code(notebook))
    shown = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", outputs.replace(",", ""))}
    for cell in prose(notebook):
        text = re.sub(NOT_PROSE, " ", cell.source, flags=re.DOTALL)
        for sentence in re.split(r"(?<=[.:?!])\s", text):
            for number in re.findall(NUMBER, sentence):
                value = number.strip(" %").replace(",", "")
                if "." in value or "%" in number:
                    sourced = re.search(r"\b(19|20)\d\d\b", sentence)
                    assert sourced or comes_from(float(value), value, shown), sentence


def comes_from(number, written, shown):
    """Whether a number of the outputs, or its hundredfold, is this one when rounded like it."""
    digits = len(written.partition(".")[2])
    return any(abs(value * scale - number) <= 0.51 * 10**-digits
               for value in shown for scale in (1, 100))  # fmt: skip


def test_says_nothing_of_the_machine_it_ran_on(path):
    assert path.stat().st_size < 1_500_000
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(root|home|tmp|Users|work)/", text)


def test_is_in_the_index(path):
    assert f"({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_badges_for_a_folder_outside_the_repository_are_refused(tmp_path):
    command = [sys.executable, FOLDER / "edition.py", tmp_path, "--repository", "https://a.b/c/d"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and not list(tmp_path.iterdir())
    assert done.stderr.endswith(f"{tmp_path} is not in the repository\n")


def test_a_repository_gives_badges_and_an_address_to_clone(class_edition):
    sys.path.insert(0, str(FOLDER))
    import edition

    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    address, path = "https://github.com/someone/tokenwise", "notebooks/class/a.ipynb"
    title, setup = edition.from_repository(notebook, address, path).cells[:2]
    assert f"(https://colab.research.google.com/github/someone/tokenwise/blob/main/{path})" in (
        title.source
    )
    assert f"(https://mybinder.org/v2/gh/someone/tokenwise/main?labpath={path})" in title.source
    assert f'address = "{address}"\n' in setup.source
