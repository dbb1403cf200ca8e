"""The lists of packages agree, and .ci/run has the workflow's commands."""

import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="tomllib is new in Python 3.11")

HOUSE = Path(__file__).parents[2]
PROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]
CORE = PROJECT["project"]["dependencies"]


def requirements(path):  # the path of a requirements file -> its packages
    lines = (HOUSE / path).read_text(encoding="utf-8").splitlines()
    return {line.split("  #")[0].strip() for line in lines if line and not line.startswith("#")}


def test_requirements_txt_has_everything():
    assert requirements("requirements.txt") == {*CORE, *GROUPS["tests"], *GROUPS["openai"]}


def test_the_other_lists_are_parts_of_pyproject():
    assert requirements(".ci/requirements.txt") == {*GROUPS["checks"]}
    assert requirements("notebooks/requirements.txt") < {*CORE, *GROUPS["notebooks"]}
    assert requirements(".binder/requirements.txt") == {"-r ../notebooks/requirements.txt"}


def test_uv_run_installs_what_the_models_of_the_repository_need():
    code = (HOUSE / "generate.py").read_text(encoding="utf-8")
    [block] = re.findall(r"^# /// script\n(.*?)^# ///$", code, re.M | re.S)
    block = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.M))
    assert block["dependencies"] == CORE[:4]
    assert block["requires-python"] == PROJECT["project"]["requires-python"]


def test_the_workflow_runs_the_commands_of_ci():
    workflow = (HOUSE / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    commands = re.findall(r"- run: (.*)", workflow.partition("  official:")[0])
    ci = (HOUSE / ".ci/run").read_text(encoding="utf-8").replace('"', "")
    assert len(commands) == 3
    for command in commands:
        # Here uv runs the quick tests. All run with pip, which has TensorFlow, too.
        command = command.replace('"', "").replace("uv run pytest --all", "pytest --all")
        assert command in ci
