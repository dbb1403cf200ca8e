"""The README's commands and Python example run. Its breakpoints, links and map are right."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from terminal import cli, options
from tests.house.test_rooms import CENTRE

HOUSE = Path(__file__).parents[2]
README = (HOUSE / "README.md").read_text(encoding="utf-8")
LINES = "".join(re.findall(r"```sh\n(.*?)```", README, re.S)).splitlines()
COMMANDS = [line for line in LINES if line.startswith("python generate.py")]


def test_every_command_of_the_readme_is_run_here_or_by_ci():
    others = [line for line in LINES if line and line not in COMMANDS]
    assert others[0].startswith("git clone ")
    ci = (HOUSE / ".ci/run").read_text(encoding="utf-8").replace("--quiet ", "").replace('"', "")
    for line in others[1:]:
        assert line.partition(" --seed")[0].replace('"', "") in ci, line
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command, capsys, monkeypatch, tmp_path):
    words = shlex.split(command)[2:]
    (tmp_path / "examples").symlink_to(HOUSE / "examples")
    monkeypatch.chdir(tmp_path)  # some commands write a file to the current folder
    hub = "HuggingFaceTB/SmolLM2-135M"
    big = {"gpt2", "t5-small", hub, f"{hub}-Instruct"}
    if big & set(words):  # these models would have to be downloaded
        options.parse(words)
        return
    monkeypatch.setattr("builtins.input", lambda prompt="": "/quit")
    assert cli.main(words) == 0
    assert len(capsys.readouterr().out) > 20


def test_the_first_command_prints_what_the_readme_shows(capsys):
    assert cli.main(["Once upon a time", "--seed", "3"]) == 0
    shown = re.search(r"```\n(Once upon a time.*) \.\.\.\n```", README)[1]
    assert capsys.readouterr().out.startswith(shown)


def test_the_breakpoints_stop_with_the_shapes_of_the_table():
    rows = re.findall(r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \| `(.+?)` \|", README, re.M)
    assert len(rows) == 5
    for function, look, prompt, later in rows:
        lines = [f"b {function}", "c", look] + ["c", look] * 7 + ["q"]
        done = subprocess.run(
            [sys.executable, "-m", "pdb", "generate.py", "Once upon a", "--top-k", "40"],
            input="\n".join(lines) + "\n",
            cwd=HOUSE,
            capture_output=True,
            text=True,
        )
        assert f"(Pdb) {prompt}\n" in done.stdout, (function, done.stdout, done.stderr)
        assert f"(Pdb) {later}\n" in done.stdout, (function, done.stdout)


def test_the_map_has_every_room():
    rows = re.findall(r"^\| \[(\S+)\]\(\1\) \|", README, re.M)
    folders = {"decoding", "families", "loading", "terminal", "page"}
    assert {*rows} == {f"{name}.py" for name in (*CENTRE, "utils")} | folders


def test_links_lead_somewhere():
    for folder in (".", "notebooks", "training", "examples", "models/stories", "models/en-de"):
        text = (HOUSE / folder / "README.md").read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or (HOUSE / folder / link).exists(), link
