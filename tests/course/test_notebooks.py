"""In the class edition, every notebook runs from top to bottom and its exercises can be solved. The
saved notebooks, their links, the teacher's sheets and the badges are in order."""

import asyncio
import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import edition
import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = [FOLDER / f"{name}.ipynb" for name in edition.table()]
ADDRESS = "https://github.com/someone/tokenwise"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def made(folder, *options):
    """Run edition.py, which writes an edition into this folder. Return the folder."""
    command = [sys.executable, FOLDER / "edition.py", *options, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{len(NOTEBOOKS)} ")
    return folder


@pytest.fixture(scope="session")
def class_edition(tmp_path_factory):
    """Unpack the package for a class where no project is. Return the folder of its lessons."""
    folder = tmp_path_factory.mktemp("class")
    shutil.unpack_archive(made(folder / "class.zip", "--zip"), folder)
    return folder / "tokenwise/notebooks"


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def printed(cell, stream="stdout"):
    return "".join(o["text"] for o in cell.outputs if o.get("name") == stream)


def pictures(notebook):
    """Yield the alternative text of each saved picture."""
    for cell in code(notebook):
        for output in cell.outputs:
            page = output.get("data", {}).get("text/html", "")
            if page.startswith("<img "):
                yield html.unescape(page.rpartition(' alt="')[2].removesuffix('"/>'))


def solutions(path):
    """Return {exercise number: its solution} from a lesson's file in solutions/. In this file, a
    line "# exercise N" precedes each solution."""
    text = (FOLDER / "solutions" / path.with_suffix(".py").name).read_text(encoding="utf-8")
    parts = re.split(r"^# exercise (\d+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2]))


def exercises(notebook):
    """Return {exercise number: (index of its cell, index of the next cell)}. The next cell checks
    the exercise."""
    found = {}
    for place, cell in enumerate(notebook.cells):
        for tag in cell.metadata.get("tags", []):
            if tag.startswith("exercise-"):
                found[int(tag.removeprefix("exercise-"))] = place, place + 1
    return found


@pytest.fixture(scope="module")
def runs(request, class_edition):
    """Run the notebooks of all selected tests, two at a time: a notebook uses one core. Return
    {path: its error, or None}."""
    chosen = [item for item in request.session.items if "runs" in item.fixturenames]
    paths = [item.callspec.params["path"] for item in chosen]

    async def run_all():
        turns = asyncio.Semaphore(2)
        work = (run(path, class_edition, turns) for path in paths)
        return await asyncio.gather(*work, return_exceptions=True)

    return dict(zip(paths, asyncio.run(run_all())))


async def run(path, class_edition, turns):
    """Run a notebook from top to bottom, then solve its exercises."""
    notebook = nbformat.read(class_edition / path.name, as_version=4)
    assert not any(cell.outputs for cell in code(notebook))
    where = {"metadata": {"path": str(class_edition)}}
    client = NotebookClient(notebook, timeout=300, resources=where)
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    async with turns, client.async_setup_kernel(env=one_thread):
        for place, cell in enumerate(notebook.cells):
            if edition.tagged(cell, "ours"):  # uncomment our solution
                cell.source = cell.source.removeprefix("# If you give up: ")
            await client.async_execute_cell(cell, place)  # raises an error if the cell does
            if cell.cell_type == "code":
                assert not printed(cell, "stderr")
        assert list(exercises(notebook)) == list(solutions(path)) != []
        for number, (place, check) in exercises(notebook).items():
            assert printed(notebook.cells[check]).startswith("not solved yet: ")
            notebook.cells[place].source = solutions(path)[number]
            await client.async_execute_cell(notebook.cells[place], place)
            await client.async_execute_cell(notebook.cells[check], check)
            assert printed(notebook.cells[check]) == "solved\n"


def test_the_class_edition_runs_and_its_exercises_can_be_solved(path, runs):
    if runs[path]:
        raise runs[path]


def test_a_lesson_in_which_nothing_is_written_says_what_to_write(class_edition):
    notebook = nbformat.read(class_edition / "loop_and_cache.ipynb", as_version=4)
    own = ["def step(token):\n    return token", "lessons.check('loop_and_cache', 'step', step)"]
    own += ["guess = moved = 5", 'lessons.here(f"by {moved:g} at most")']
    own += ["lessons.ours('continue_greedily')", "lessons.report('Ada')"]
    notebook.cells = [*notebook.cells[:20], *map(nbformat.v4.new_code_cell, own)]
    NotebookClient(notebook, resources={"metadata": {"path": str(class_edition)}}).execute()
    says = {cell.id: printed(cell) for cell in code(notebook)}
    write = "write continue_greedily first, or run lessons.ours('continue_greedily')\n"
    assert says["loop-runs"] == says["count"] == write
    assert says["watch"].startswith("text is missing: run the cell that begins with 'prompt = ")
    record = (class_edition / "report-loop_and_cache-Ada.txt").read_text("utf-8")
    assert record.startswith("Ada: loop_and_cache, ")
    assert " differ?\n  you: 5, here: by 5 at most\n" in record
    assert "\nour continue_greedily was read\n" in record
    assert "\nnot solved, tries: 0, continue_greedily\nnot solved, tries: 1, step\n" in record


def test_the_package_has_no_answer_in_plain(path, notebook, class_edition):
    answers = [cell.source for cell in code(notebook) if edition.tagged(cell, "yours")]
    answers += re.findall(f"{path.stem} .+", (FOLDER / "alternatives.txt").read_text("utf-8"))
    files = [file for file in class_edition.parent.rglob("*.*") if file.suffix in (".py", ".txt")]
    text = "\n".join(file.read_text("utf-8") for file in files)
    assert not any(answer.strip() in text for answer in [*answers, *solutions(path).values()])


def own(notebook):  # -> the code cells, except those that edition.py added
    added = {"guess", "ours", "report"}
    return [cell for cell in code(notebook) if not added & {*cell.metadata.get("tags", [])}]


def test_the_class_edition_has_the_same_code_without_solutions(path, notebook, class_edition):
    edited = nbformat.read(class_edition / path.name, as_version=4)
    assert "](solutions/" in notebook.cells[0].source
    assert "/solutions/" not in "".join(cell.source for cell in prose(edited))
    for mine, theirs in zip(code(notebook), own(edited), strict=True):
        if edition.tagged(mine, "yours"):
            assert "..." in theirs.source and len(theirs.source) < len(mine.source)
        else:
            assert mine.source == theirs.source


def test_the_class_edition_answers_no_prediction(path, class_edition):
    """A cell for the reader's guess follows each "Predict" task, and one for an answer follows each
    question. The first text after the next code is a folded answer, a heading, or another task or
    question."""
    cells = nbformat.read(class_edition / path.name, as_version=4).cells
    for place, cell in enumerate(cells):
        if cell.cell_type == "markdown" and "**Question" in cell.source:
            assert edition.tagged(cells[place + 1], "reply")
        if cell.cell_type != "markdown" or "**Predict" not in cell.source:
            continue
        assert any(edition.tagged(cell, "guess") for cell in cells[place + 1 : place + 3])
        rest = cells[place + 2 :]
        ran = next(i for i, cell in enumerate(rest) if cell.cell_type == "code")
        answer = next(cell for cell in rest[ran:] if cell.cell_type == "markdown")
        assert answer.source.startswith(("<details>", "#", "**Predict", "**Question"))


def test_every_link_of_every_notebook_leads_somewhere(class_edition):
    for folder in FOLDER, class_edition:
        for file in sorted(folder.glob("*.ipynb")):
            for cell in prose(nbformat.read(file, as_version=4)):
                for target in re.findall(r"\]\(([^)\s#]+)", cell.source):
                    assert "://" in target or (folder / target).exists(), (file, target)


def test_the_table_in_the_readme_has_every_lesson():
    assert {*NOTEBOOKS} == {*FOLDER.glob("*.ipynb")}


def test_the_top_of_a_lesson_is_up_to_date(path, notebook):
    assert notebook.cells[0].source == edition.titled(path.stem, edition.known())


def test_a_teacher_s_sheet_names_sections_that_exist(path, notebook):
    headings = re.findall(r"^#+ (.+)$", "\n".join(cell.source for cell in prose(notebook)), re.M)
    known = {re.sub("^(Deeper|Second session): ", "", one).lower() for one in headings}
    sheet = (FOLDER / "teachers" / f"{path.stem}.md").read_text("utf-8")
    assert "## Exit questions" in sheet and "\nEarly finishers " in sheet
    agenda = sheet.partition("## Agenda\n")[2].partition("\n## ")[0]
    others = {"set-up", "beginning", "what the last session found", "exit questions"}
    for session in agenda.partition("- Deeper")[0].splitlines():
        begins = re.findall(r"\*\*(\d+)\*\*", session)
        assert len({*begins}) == len(begins)
    named = [name.lower() for name in re.findall(r"\*\*\d+\*\* (.+?)(?=, \*\*|\n|$)", agenda)]
    assert len(named) > 4 and not {*named} - known - others


def test_a_lesson_begins_with_the_set_up_of_bootstrap_py(notebook):
    assert notebook.cells[1].source == (FOLDER / "bootstrap.py").read_text("utf-8").strip()


def test_a_notebook_is_saved_with_the_outputs_of_one_run(notebook):
    cells = code(notebook)
    assert printed(cells[0]) == "ready\n"
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not printed(cell, "stderr")
        assert not any(output.output_type == "error" for output in cell.outputs)
        lines = printed(cell).splitlines()
        assert len(lines) <= 40
        assert all(len(line) <= 79 for line in lines)
    alternatives = list(pictures(notebook))
    assert alternatives and all(len(text) > 50 and re.search(r"\d", text) for text in alternatives)


def test_the_saved_outputs_show_today_s_comments(notebook):
    """Some cells print functions of the project. Their comments must be those of the files."""
    files = [file for file in FOLDER.parent.glob("**/*.py") if ".venv" not in file.parts]
    known = without_spaces("".join(file.read_text(encoding="utf-8") for file in files))
    for cell in notebook.cells:
        if cell.cell_type == "code" and "source(" in cell.source:
            printed = "".join(output.get("text", "") for output in cell.outputs)
            for comment in re.findall(r"(?:^ *#.*\n?)+", printed, flags=re.MULTILINE):
                assert without_spaces(comment) in known, comment


def without_spaces(text):
    return re.sub(r"[\s#]+", "", text)  # a long comment is wrapped, so it has more lines


def test_the_cells_fit_a_projector(notebook):
    for cell in code(notebook):
        lines = cell.source.splitlines()
        assert len(lines) <= 20 or "setup" in cell.metadata.get("tags", []), cell.source
        assert all(len(line) <= 79 for line in lines), max(lines, key=len)


NUMBER = r"(?<![\w.^/-])\d+(?:,\d{3})*(?:\.\d+)?(?: ?%)?(?![\w^])"
NOT_PROSE = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|https?://\S+"


def test_numbers_in_the_prose_come_from_a_cell(notebook):
    """The test checks numbers with a decimal point or a percent sign. It skips sentences that cite
    a source with its year."""
    outputs = "\n".join(printed(cell) + cell.source for cell in code(notebook))
    known = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", outputs.replace(",", ""))}
    for cell in prose(notebook):
        text = re.sub(NOT_PROSE, " ", cell.source, flags=re.DOTALL)
        for sentence in re.split(r"(?<=[.:?!])\s", text):
            for number in re.findall(NUMBER, sentence):
                value = number.strip(" %").replace(",", "")
                if "." in value or "%" in number:
                    sourced = re.search(r"\b(19|20)\d\d\b", sentence)
                    assert sourced or comes_from(value, known), sentence


def comes_from(written, known):
    """Return whether a known number, or 100 times a known number, rounds to `written`."""
    error = 0.51 * 10 ** -len(written.partition(".")[2])
    scaled = [scale * number for number in known for scale in (1, 100)]
    return any(abs(number - float(written)) <= error for number in scaled)


def test_a_notebook_says_nothing_about_the_machine_it_ran_on(path):
    assert path.stat().st_size < 1_500_000
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(root|home|tmp|Users|work)/", text)


@pytest.mark.parametrize(
    "words, says",
    [
        (["--zip", "no/a.zip"], "is not a file in a folder"),
        (["--titles", "--repository", f"{ADDRESS}/tree/main"], "is not the address of"),
    ],
)
def test_an_edition_that_leads_nowhere_is_refused(words, says):
    command = [sys.executable, FOLDER / "edition.py", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr


def test_a_package_knows_the_address_to_clone(tmp_path):
    made(tmp_path / "class.zip", "--repository", "git@github.com:someone/tokenwise.git/", "--zip")
    with ZipFile(tmp_path / "class.zip") as package:
        lesson = package.read("tokenwise/notebooks/tokens.ipynb").decode()
    _, setup, *_ = nbformat.reads(lesson, 4).cells
    assert f'address = address or "{ADDRESS}"\n' in setup.source


def test_the_setup_cell_installs_again_after_a_pip_that_failed(tmp_path):
    """A false git and a false pip write down their calls; pip fails at the first one."""
    (tmp_path / "false.py").write_text(
        "import os, subprocess, sys\nfrom pathlib import Path\ncalls = []\n"
        "def run(words, check):\n    calls.append(words[0])\n"
        "    Path('tokenwise/notebooks').mkdir(parents=True, exist_ok=True)\n"
        "    if len(calls) == 2: raise subprocess.CalledProcessError(1, 'pip')\n"
        "subprocess.run, os.environ['TOKENWISE_REPOSITORY'] = run, 'here'\n"
        f"cell = Path({str(FOLDER / 'bootstrap.py')!r}).read_text()\n"
        "try: exec(cell)\nexcept subprocess.CalledProcessError: exec(cell)\n"
        "assert calls == ['git', sys.executable, sys.executable] and Path.cwd().name == 'notebooks'"
    )
    subprocess.run([sys.executable, "false.py"], cwd=tmp_path, check=True)


def test_the_setup_cell_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != "regex")
    old = (3, 9), FOLDER, "is too old: choose 3.10"
    alone = (3, 10), tmp_path, "open this notebook inside the project's folder"
    for version, place, says in old, alone, ((3, 10), FOLDER, "requirements.txt .* of regex"):
        monkeypatch.chdir(place)
        with monkeypatch.context() as patch, pytest.raises(Exception, match=says):
            patch.setattr(sys, "version_info", version)
            exec((FOLDER / "bootstrap.py").read_text("utf-8"), {})


def test_an_address_is_inserted_again_and_again(tmp_path):
    """In both states, README.md has at most 150 lines, and nothing is a placeholder."""
    shutil.copytree(FOLDER, tmp_path / "notebooks", ignore=shutil.ignore_patterns("*.py[co]"))
    names = "README.md", "CITATION.cff", "notebooks/bootstrap.py", "notebooks/tokens.ipynb"
    for name in names[:2]:
        shutil.copy(FOLDER.parent / name, tmp_path)
    found = []
    for options in [], ["a/b"], ["c-d/e"], ["c-d/e"], []:
        options = [f"--repository=https://github.com/{name}" for name in options]
        script = tmp_path / "notebooks/edition.py"
        subprocess.run([sys.executable, script, "--titles", *options], check=True)
        found.append([(tmp_path / name).read_text("utf-8") for name in names])
        assert found[-1][0].count("\n") <= 150 and "OWNER" not in "".join(found[-1])
    assert found[2] == found[3] == found[4] and "a/b" not in "".join(found[4])
    readme, citation, setup, lesson = found[4]
    assert "git clone --depth 1 https://github.com/c-d/e " in readme
    assert "https://c-d.github.io/e/" in readme and "code: https://github.com/c-d/e\n" in citation
    assert "c-d/e/blob/main/notebooks/tokens.ipynb" in lesson
    assert setup.strip() == nbformat.reads(lesson, 4).cells[1].source
