"""Every command and every Python example of the README runs."""

import re
import shlex
from pathlib import Path

import pytest

from terminal import cli, options

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text(encoding="utf-8")
LINES = "".join(re.findall(r"```sh\n(.*?)```", README, re.S)).splitlines()
COMMANDS = [line for line in LINES if line.startswith("python generate.py")]


def test_every_command_of_the_readme_is_run_here_or_by_ci():
    others = {line for line in LINES if line and line not in COMMANDS}
    run_elsewhere = {"PYTHONPATH=~/tokenwise python mine/story.py"}  # see test_library.py
    first = "pip install numpy regex"
    by_ci = {first, "pip install -r requirements.txt", "python -m pytest"}
    assert others == by_ci | run_elsewhere
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command, capsys, monkeypatch, tmp_path):
    words = shlex.split(command)[2:]
    (tmp_path / "examples").symlink_to(HOUSE / "examples")
    monkeypatch.chdir(tmp_path)  # a file that it writes
    hub = "HuggingFaceTB/SmolLM2-135M"
    big = {"gpt2", "t5-small", hub, f"{hub}-Instruct"}
    if big & set(words):  # other tests fetch such from a local server
        options.check(options.parse(words))
        return
    monkeypatch.setattr("builtins.input", lambda prompt="": "/quit")
    assert cli.main(words) == 0
    assert len(capsys.readouterr().out) > 20


def test_the_python_examples_run(capsys):
    examples = re.findall(r"```python\n(.*?)```", README, re.S)
    names = {}
    for example in examples:
        exec(example, names)
    assert "' time'" in capsys.readouterr().out
    logits = names["model"](names["np"].array([1, 2, 3]))[-1]
    assert names["sampler"](logits, [1, 2, 3])[names["tokenizer"].encode(" the")] == 0


def test_the_shortest_parts_are_those_of_the_file():
    file = (HOUSE / "examples/shortest.py").read_text(encoding="utf-8")
    code = file[file.index("import numpy") :]  # without the docstring
    assert f"```python\n{code}```" in README


def test_the_map_has_every_room_and_its_lines():
    rows = re.findall(r"^\| \[(\S+)\]\(\1\) \| (\d+) \|", README, re.M)
    rooms = {path.name for path in HOUSE.glob("*.py")} | {"inside", "loading", "terminal"}
    assert {name for name, _ in rows} == rooms
    for name, count in rows:
        files = [HOUSE / name] if name.endswith(".py") else HOUSE.glob(f"{name}/*.py")
        found = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        assert found == int(count), f"{name} has {found} lines"


def test_links_lead_somewhere():
    for folder in (".", "notebooks", "training", "examples", "models/stories", "models/en-de"):
        text = (HOUSE / folder / "README.md").read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or (HOUSE / folder / link).exists(), link
