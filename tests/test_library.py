"""As a library: from another folder, in a type checker, at a Python prompt."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"In Python:\n\n```python\n(.*?)```", README, re.DOTALL)[1]
ELSEWHERE = (HOUSE / "examples" / "README.md").read_text(encoding="utf-8")


def python(*words, cwd, **environment):
    """Run Python in another folder -> stdout, stderr."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(HOUSE),
        "OPENBLAS_NUM_THREADS": "1",
        **environment,
    }
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True,
                          text=True)


@pytest.fixture
def folder(tmp_path):
    """A folder with mine/story.py, the README's example."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "story.py").write_text(EXAMPLE, encoding="utf-8")
    return tmp_path


def test_the_example_of_the_readme_runs_in_another_folder(folder):
    assert "PYTHONPATH=~/tokenwise python story.py" in ELSEWHERE
    done = python("mine/story.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    first, text = done.stdout.split("\n", 1)
    assert first == EXAMPLE.partition("  # ")[2].partition("# ")[2].partition("\n")[0]
    assert len(text.split()) > 5
    assert python("mine/story.py", cwd=folder, PYTHONPATH="").returncode == 1


def test_a_file_of_the_same_name_hides_ours_as_the_readme_says(folder):
    assert re.search(r"such as\nutils.py, hides ours", ELSEWHERE)
    (folder / "mine" / "utils.py").touch()
    assert "cannot import name 'load' from 'utils'" in python("mine/story.py", cwd=folder).stderr


def test_the_command_line_runs_from_another_folder(tmp_path):
    done = python(str(HOUSE / "generate.py"), "One day", "-n", "3", cwd=tmp_path, PYTHONPATH="")
    assert done.returncode == 0 and done.stdout.startswith("One day")


def test_a_type_checker_shows_no_errors_of_ours(folder):
    """Without the settings in pyproject.toml; those of the user's own file it shows."""
    pytest.importorskip("mypy", reason="NOT RUN: pip install -r .ci/requirements.txt")
    shutil.copy(HOUSE / "examples" / "shortest.py", folder / "mine")
    wrong = (
        "from generate import Model\n\n\nclass Mine:\n    n_vocab = 3\n\n\nmodel: Model = Mine()\n"
    )
    (folder / "mine" / "wrong.py").write_text(wrong)
    options = ["--follow-imports=silent", "--no-error-summary"]
    done = python("-m", "mypy", *options, "mine", cwd=folder, PYTHONPATH="",
                  MYPYPATH=str(HOUSE))
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [error.partition(":")[0] for error in errors] == [os.path.join("mine", "wrong.py")]
    assert 'variable has type "Model"' in errors[0]
