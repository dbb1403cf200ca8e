"""In pdb, examples/step.py stops at the breakpoints of the README, with the shapes given there."""

import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]
README = (HOUSE / "README.md").read_text(encoding="utf-8")
# A table row: | `b gpt2.attention` | `p q.shape` | `(7, 3, 32)` | `(7, 1, 32)` | an explanation |
STOPS = re.findall(r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \| `(.+?)` \|", README, re.M)


def pdb(*commands):
    """Run commands in pdb; return what pdb prints for each command."""
    process = subprocess.run(
        [sys.executable, "-m", "pdb", "-m", "examples.step"],
        cwd=HOUSE,
        input="\n".join([*commands, "q\n"]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert process.stderr == ""
    return process.stdout.split("(Pdb) ")[1:]


def test_the_breakpoints_of_the_readme_show_the_prompt_then_one_token():
    assert len({place for place, *_ in STOPS}) == 5
    # The breakpoints are listed in the order in which they are reached. So the first five stops are
    # in the first pass, and the other five are in the second pass.
    commands = [[f"tbreak {place}", "c", look] for place, look, _, _ in STOPS * 2]
    looks = pdb(*sum(commands, []))[2::3]
    expected = [shape for *_, shape, _ in STOPS] + [shape for *_, shape in STOPS]
    assert [printed.strip() for printed in looks] == expected


def test_only_the_loop_lies_between_the_file_and_the_model():
    stack = pdb("b gpt2.attention", "c", "w")[2]
    frames = re.findall(r"^[> ] /.*/(\w+\.py)\(\d+\)(\S+)\(\)", stack, re.M)
    names = [frame for frame in frames if frame[0] != "bdb.py"]
    assert names == [
        ("step.py", "<module>"),
        ("generate.py", "cached"),
        ("generate.py", "advance"),
        ("gpt2.py", "__call__"),
        ("gpt2.py", "block"),
        ("gpt2.py", "self_attention"),
        ("gpt2.py", "attention"),
    ]
