"""Every command in examples/README.md runs, and the table there is right."""

import ast
import re
import shlex

import pytest

from terminal import cli
from tests.support.checkpoints import ROOT

FOLDER = ROOT / "examples"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
TRY = README.partition("## Try them")[2].split("```")[1]
COMMANDS = [line for line in TRY.splitlines()[1:] if line]
FILES = {path.name for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command, capsys):
    words = shlex.split(command)
    assert words[:2] == ["python", "generate.py"]
    assert cli.main(words[2:]) == 0
    assert len(capsys.readouterr().out) > 5


def test_every_file_is_in_the_table_and_has_a_command():
    assert {*re.findall(r"^\| \[(\w+\.py)\]\(\1\) \|", README, re.M)} == FILES
    tried = {name for command in COMMANDS for name in re.findall(r"examples/(\w+\.py)", command)}
    assert tried == FILES
    for name in tried - {"shortest.py"}:
        text = ast.get_docstring(ast.parse((FOLDER / name).read_text(encoding="utf-8")))
        own = re.findall(r"^    (python generate.py (?:.*\\\n)?.*)", text, re.M)
        assert own and any(name in command for command in own), name
