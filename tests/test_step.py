"""step.py in a debugger: the README's breakpoints stop where it says, with those shapes."""

import json
import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text(encoding="utf-8")
# | `b gpt2.attention` | `p q.shape` | `(7, 3, 32)` | `(7, 1, 32)` | what it is |
STOPS = re.findall(r"^\| `b (\S+)` \| `(p .+?)` \| `(.+?)` \| `(.+?)` \|", README, re.M)


def pdb(*commands):
    """What pdb prints for each command, after the prompt."""
    process = subprocess.run(
        [sys.executable, "-m", "pdb", "-m", "examples.step"], cwd=HOUSE,
        input="\n".join([*commands, "q\n"]), capture_output=True, text=True, check=True,
        timeout=120,
    )
    assert process.stderr == ""
    return process.stdout.split("(Pdb) ")[1:]


def test_the_breakpoints_of_the_readme_show_the_prompt_then_one_token():
    assert len({place for place, *_ in STOPS}) == 5
    # In the order of the table, which is that of the code; each stops once per pass.
    commands = [[f"tbreak {place}", "c", look] for place, look, _, _ in STOPS * 2]
    looks = pdb(*sum(commands, []))[2::3]
    expected = [shape for *_, shape, _ in STOPS] + [shape for *_, shape in STOPS]
    assert [printed.strip() for printed in looks] == expected


def test_between_the_file_and_the_model_is_only_the_loop():
    stack = pdb("b gpt2.self_attention", "c", "w")[2]
    frames = re.findall(r"^[> ] /.*/(\w+\.py)\(\d+\)(\S+)\(\)", stack, re.M)
    names = [frame for frame in frames if frame[0] != "bdb.py"]
    assert names == [
        ("step.py", "<module>"), ("generate.py", "cached"), ("generate.py", "advance"),
        ("gpt2.py", "__call__"), ("gpt2.py", "block"), ("gpt2.py", "self_attention"),
    ]


def test_few_lines_run_before_the_first_pass():
    """Most of them read the vocabulary: four or so for each of its 3,329 tokens."""
    counting = (
        "import sys\n"
        "class Begun(Exception): pass\n"
        "def trace(frame, event, arg):\n"
        "    code, name = frame.f_code, frame.f_code.co_name\n"
        "    if code.co_filename.startswith('<') or 'lib' in code.co_filename: return None\n"
        "    if (event, name) == ('call', 'self_attention'): raise Begun\n"
        "    trace.n += event == 'line'\n"
        "    return trace\n"
        "trace.n = 0\n"
        "sys.settrace(trace)\n"
        "try: import examples.step\n"
        "except Begun: print(trace.n)\n"
    )
    command = [sys.executable, "-c", counting]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=True)
    assert 1000 < int(done.stdout) < 20_000


def test_the_editor_starts_it_too():
    launch = json.loads((HOUSE / ".vscode" / "launch.json").read_text(encoding="utf-8"))
    [configuration] = launch["configurations"]
    assert configuration["module"] == "examples.step"
    assert configuration["cwd"] == "${workspaceFolder}"
    assert (HOUSE / "examples" / "step.py").is_file()
    assert configuration["stopOnEntry"]
