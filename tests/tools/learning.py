"""Make training/learning.png, the picture in training/README.md: python -m tests.tools.learning

It runs `python -m training.learn` on the stories of the course, and draws what the command reports.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

HOUSE = Path(__file__).parents[2]
REPORT = r"after step (\d+): ([\d.]+) bits .*? The model writes: (.*)"


def main():
    with tempfile.TemporaryDirectory() as place:
        text, folder = HOUSE / "notebooks/text/train.txt", Path(place, "model")
        command = [sys.executable, "-m", "training.learn", text, "--folder", folder]
        told = subprocess.run(command, cwd=HOUSE, stdout=subprocess.PIPE, text=True, check=True)
    steps, bits, texts = zip(*re.findall(REPORT, told.stdout))
    _, (above, below) = plt.subplots(2, figsize=(10, 6.4), layout="constrained")
    above.plot(list(map(int, steps)), list(map(float, bits)), "o-", color="#0072B2")
    above.set(xlabel="step", ylabel="bits per byte of held-out text", ylim=(0, None))
    lines = [f"{step:>5}  {textwrap.shorten(text, 100)}" for step, text in zip(steps, texts)]
    page = "\n".join(["step   the model writes", *lines])
    page = "".join(c if c == "\n" or c.isprintable() else "\u25a1" for c in page)
    below.text(0, 1, page, va="top", family="monospace", fontsize=9, parse_math=False)
    below.axis("off")
    plt.savefig(HOUSE / "training" / "learning.png", dpi=100)


if __name__ == "__main__":
    main()
