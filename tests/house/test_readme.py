"""The README's commands and Python example run. Its breakpoints, links and map are right."""

import os
import re
import shlex
from unittest import mock

import pytest

from benchmarks import benchmark
from terminal import cli, options
from tests.support.commands import HOUSE, python

README = (HOUSE / "README.md").read_text(encoding="utf-8")
LINES = "".join(re.findall(r"```sh\n(.*?)```", README, re.S)).splitlines()
LINES += re.findall(r"`(python generate.py [^`]+)`", README)  # in a sentence
COMMANDS = [line for line in LINES if line.startswith("python generate.py")]


def test_every_command_of_the_readme_is_run_here_or_by_ci():
    ci = (HOUSE / ".ci/run").read_text(encoding="utf-8").replace("--quiet ", "").replace('"', "")
    installed = (HOUSE / "requirements.txt").read_text(encoding="utf-8")
    for line in LINES:
        words = shlex.split(line, comments=True)
        if words[:2] == ["pip", "install"]:
            assert all(package in installed for package in words[2:]), line
        elif line and line not in COMMANDS and words[0] != "git":  # the repository's own address
            assert " ".join(words[1:]) in ci, line
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command, capsys, monkeypatch, tmp_path):
    words = shlex.split(command, comments=True)[2:]
    (tmp_path / "examples").symlink_to(HOUSE / "examples")
    monkeypatch.chdir(tmp_path)  # some commands write a file to the current folder
    if {"gpt2", "124M", "HuggingFaceTB/SmolLM2-135M-Instruct"} & {*words}:  # to be downloaded
        options.parse(words)
        return
    monkeypatch.setattr("builtins.input", lambda prompt="": "/quit")
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    costs = re.findall(r"^\| (\w+) \| ([\d,]+) \| (\d+) \| ([\d.]+) \|", README, re.M)
    assert len(printed) > 20 and len(costs) == 3
    for row in costs if "--compare" in words else ():
        assert re.search(r"^{} .* {} +{} +{} ".format(*row), printed, re.M), row


def test_the_first_commands_print_what_the_readme_shows(capsys):
    stories = re.findall(r"^(Once upon a time.*) \.\.\.$", README, re.M)
    assert cli.main(["Once upon a time", "--seed", "3"]) == 0
    one = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = python("-m", "pico.forward", "Once upon a time", env=one)
    for story, printed in zip(stories, [capsys.readouterr().out, done.stdout], strict=True):
        assert printed.startswith(story)


def test_the_speeds_are_those_of_the_benchmark(capsys):
    with mock.patch("sys.argv", ["benchmark", "--rounds", "0"]):
        benchmark.main()
    printed = capsys.readouterr().out
    rows = re.findall(r"\| ([\d.]+) (?:s|tokens/s) \| ([\d.]+) times", README)
    assert len(rows) == 4
    for row in rows:
        assert re.search(r"\| {} \S+ \(transformers {}[,)]".format(*row), printed), row


def test_the_breakpoints_stop_with_the_shapes_of_the_table():
    rows = re.findall(r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \|", README, re.M)
    assert len(rows) == 3
    for function, look, prompt in rows:
        lines = [f"b {function}", "c", look, "q"]
        command = ["-m", "pdb", "generate.py", "Once upon a", "--top-k", "40"]
        told = python(*command, input="\n".join(lines) + "\n").stdout
        assert f"(Pdb) {prompt}\n" in told, (function, told)


def test_every_file_at_the_top_and_every_idea_is_linked():
    names = [path.name for path in HOUSE.glob("*.py")]
    names += [f"pico/{path.name}" for path in HOUSE.glob("pico/[a-z]*.py")]
    for name in [*names, "loading", "terminal", "page", "examples/README.md"]:
        assert f"]({name})" in README, name


def test_links_lead_somewhere():
    for folder in (".", "notebooks", "training", "examples", "models/stories", "models/en-de"):
        text = (HOUSE / folder / "README.md").read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in link or (HOUSE / folder / link).exists(), link
