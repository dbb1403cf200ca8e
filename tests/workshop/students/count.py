"""Run the workshop on every mistake, pair and style, and count the results.

    python tests/workshop/students/count.py [mistake] [pair] [style] [--show]

A mistake is found if the workshop says that a step is wrong. A mistake is named if the workshop
also says which mistake it is. Readers judged whether these names are right. Their judgements are in
judged.json: {mistake: {the workshop's name: right or not}}. With --show, the script prints what the
workshop says about every file, even if the result is good.

For a mistake or a pair, the workshop runs only on the steps with the mistakes, because a whole file
with an early mistake can take minutes. If the workshop finds nothing wrong there, it runs on the
whole file. For a style, it always runs on the whole file.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from mistakes import MISTAKES, edit  # noqa: E402
from pairs import PAIRS  # noqa: E402
from styles import STYLES, restyle  # noqa: E402

SECONDS = 60  # the time limit for one run of the workshop


def workshop(path, *arguments):
    """Run the workshop. For each step not done, return {"step", "state", "mistake", "says"}."""
    command = [sys.executable, "-m", "workshop", str(path), *arguments, "--json"]
    try:
        done = subprocess.run(
            command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=SECONDS
        )
        steps = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return [{"step": "?", "state": "timeout", "mistake": None, "says": "no answer"}]
    except json.JSONDecodeError:
        return [{"step": "?", "state": "crash", "mistake": None, "says": done.stderr[-300:]}]
    return [step for step in steps if step["state"] != "done"]


def run(text, steps):
    """Run the workshop on each of these steps alone, as a student who works on them would. If all
    of these steps are done, or if there are none, run the workshop on the whole file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.py"
        path.write_text(text)
        said = [found for step in dict.fromkeys(steps) for found in workshop(path, step)]
        return said or workshop(path)


def cases():
    """Yield each case as (kind, name, the steps with the mistakes, the text of the file)."""
    right = (HERE / "right.py").read_text()
    for step, name, old, new in MISTAKES:
        yield "mistake", name, [step], edit(right, old, new)
    for one, two in PAIRS:
        name, text = f"{one[1]} + {two[1]}", edit(edit(right, *one[2:]), *two[2:])
        yield "pair", name, [one[0], two[0]], text
    for name, style in STYLES:
        yield "style", name, [], restyle(right, style)


def verdict(said, judged):
    """Judge a run: "missed", "unnamed", "not judged", "named", "named in part" or "misnamed"."""
    names = [step for step in said if step["mistake"]]
    if not said or not any(step["state"] in ("wrong", "timeout", "crash") for step in said):
        return "missed"
    if not names:
        return "unnamed"
    marks = [judged.get(step["mistake"]) for step in names]
    if None in marks:
        return "not judged"
    return "named" if all(marks) else "named in part" if any(marks) else "misnamed"


def main():
    judged_path = HERE / "judged.json"
    judged = json.loads(judged_path.read_text()) if judged_path.exists() else {}
    counts, lines = {}, []
    kinds = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    for kind, name, steps, text in cases():
        if kinds and kind not in kinds:
            continue
        said = run(text, steps)
        if kind == "style":
            result = "false alarm" if said else "done"
        else:
            result = verdict(said, judged.get(name, {}))
        counts.setdefault(kind, {}).setdefault(result, 0)
        counts[kind][result] += 1
        if result not in ("named", "done") or "--show" in sys.argv:
            lines.append(f"{kind}, {result}: {name}")
            lines += [f"    {s['step']} {s['state']} {s['mistake']}: {s['says']}" for s in said]
            if "--show" in sys.argv:
                print(*lines[-1 - len(said) :], sep="\n", flush=True)
    if "--show" not in sys.argv:
        print(*lines, sep="\n")
    for kind, results in counts.items():
        print(kind, sum(results.values()), results)


if __name__ == "__main__":
    main()
