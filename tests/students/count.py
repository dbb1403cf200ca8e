"""What the workshop makes of the students' files.

    python tests/students/count.py [mistakes] [pairs] [styles]

For each it prints the state and the name of the mistake beside the student's own words. Whether a
name is right is for a reader to judge.
"""

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from mistakes import MISTAKES, edit  # noqa: E402
from pairs import PAIRS  # noqa: E402
from styles import STYLES, restyle  # noqa: E402

from workshop.engine import Reader, check  # noqa: E402
from workshop.steps import STEPS  # noqa: E402

RIGHT = (HERE / "right.py").read_text("utf-8")


def verdicts(text, steps):
    """Run some steps on a text -> their verdicts, and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.py"
        path.write_text(text, "utf-8")
        start = time.perf_counter()
        reader = Reader(path, STEPS)
        found = [check(reader, step) for step in STEPS if step.name in steps]
        return found, time.perf_counter() - start


def main(kinds):
    every = {step.name for step in STEPS}
    if "mistakes" in kinds:
        for step, words, old, new in MISTAKES:
            [v], seconds = verdicts(edit(RIGHT, old, new), {step})
            print(
                f"{step}: {words}\n    {v.state}: {v.mistake} ({seconds:.1f} s)\n    {v.says:.300}"
            )
    if "pairs" in kinds:
        for (step, words, *one), (other, more, *two) in PAIRS:
            found, seconds = verdicts(edit(edit(RIGHT, *one), *two), {step, other})
            print(f"{step}: {words}\n{other}: {more}")
            for v in found:
                print(f"    {v.step} {v.state}: {v.mistake} ({seconds:.1f} s)\n    {v.says:.200}")
    if "styles" in kinds:
        for words, style in [("right.py itself", ""), *STYLES]:
            found, seconds = verdicts(restyle(RIGHT, style) if style else RIGHT, every)
            wrong = [f"{v.step}: {v.says}" for v in found if v.state != "done"]
            print(f"{words}: {wrong or 'right'} ({seconds:.1f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["mistakes", "pairs", "styles"])
