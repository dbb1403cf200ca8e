"""tokenwise is a library: users import it from their own folders and type-check their code."""

import os
import re
import shutil

import pytest

from tests.support.commands import HOUSE
from tests.support.commands import python as run

README = (HOUSE / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"In Python:\n\n```python\n(.*?)```", README, re.DOTALL)[1]
ELSEWHERE = (HOUSE / "examples" / "README.md").read_text(encoding="utf-8")


def python(*words, cwd, status=0, **environment):
    """Run Python in the folder `cwd` and return what it prints."""
    ours = {"PYTHONPATH": str(HOUSE), "OPENBLAS_NUM_THREADS": "1"}
    return run(*words, status=status, cwd=cwd, env=os.environ | ours | environment).stdout


@pytest.fixture
def folder(tmp_path):
    """Return a folder in which mine/story.py is the README's example."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "story.py").write_text(EXAMPLE, encoding="utf-8")
    return tmp_path


def test_the_example_of_the_readme_runs_in_a_different_folder(folder):
    assert "PYTHONPATH=~/tokenwise python story.py" in ELSEWHERE
    first, text = python("mine/story.py", cwd=folder).split("\n", 1)
    assert first == EXAMPLE.partition("  # ")[2].partition("# ")[2].partition("\n")[0]
    assert len(text.split()) > 5
    python("mine/story.py", status=1, cwd=folder, PYTHONPATH="")


WRONG = """
from generate import Model


class Mine:
    n_vocab = 3


model: Model = Mine()
"""


@pytest.mark.slow
def test_a_type_checker_shows_only_the_user_s_errors(folder):
    """Mypy runs without the settings in pyproject.toml, as it does in a user's folder."""
    pytest.importorskip("mypy", reason="NOT RUN: pip install -r .ci/requirements.txt")
    shutil.copy(HOUSE / "examples" / "shortest.py", folder / "mine")
    (folder / "mine" / "wrong.py").write_text(WRONG)
    command = ["-m", "mypy", "--follow-imports=silent", "--no-error-summary", "mine"]
    told = python(*command, status=1, cwd=folder, PYTHONPATH="", MYPYPATH=str(HOUSE))
    errors = [line for line in told.splitlines() if ": error: " in line]
    assert [error.partition(":")[0] for error in errors] == [os.path.join("mine", "wrong.py")]
    assert 'variable has type "Model"' in errors[0]
