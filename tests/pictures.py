"""Makes the pictures in inside/pictures, of the page and of a terminal: python -m tests.pictures

With a folder, `python -m tests.pictures FOLDER`: pictures of every kind of run, at three widths,
light and dark, to be looked at.
"""

import contextlib
import html
import io
import sys
import tempfile
from pathlib import Path

from terminal import cli
from tests.chromium import Browser

PICTURES = Path(__file__).parent.parent / "inside" / "pictures"
RUNS = {
    "cached": ["Once upon a time", "--seed", "3", "--tokens", "60"],
    "beam": ["Lily likes cake", "--method", "beam", "--tokens", "24", "--no-repeat-ngram", "3"],
    "speculative": ["Once upon a time", "--method", "speculative", "--seed", "1", "--tokens", "50"],
    "en-de": ["The weather is nice today, but my friends stay at home.", "--model", "en-de"],
}  # fmt: skip
SHOWN = {("cached", 1400, "light"): "story.png", ("en-de", 1400, "dark"): "translation.png"}
EXPLAINED = ["The cat", "--explain", "--tokens", "16", "--seed", "2"]
TERMINAL = (
    "<!doctype html><body style='margin: 0; padding: 16px; background: #1b1c1e; color: #eceae4'>"
    "<pre style='font: 15px/1.35 \"DejaVu Sans Mono\", monospace; margin: 0'>"
)
ALL = [(run, width, scheme) for run in RUNS for width in (360, 900, 1600)
       for scheme in ("light", "dark")]  # fmt: skip


def main(words: list[str]) -> None:
    wanted = {key: "-".join(map(str, key)) + ".png" for key in ALL} if words else SHOWN
    folder = Path(*words) if words else PICTURES
    browser = Browser()
    with tempfile.TemporaryDirectory() as place:
        for run, width, scheme in wanted:
            file = Path(place, f"{run}.html")
            if not file.exists():
                cli.main([*RUNS[run], "--html", str(file)])
            browser.scheme(scheme)
            browser.open(Path(place), file.read_text(encoding="utf-8"), width)
            (folder / wanted[run, width, scheme]).write_bytes(browser.picture())
        if not words:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                cli.main(EXPLAINED)
            command = f'$ python generate.py "{EXPLAINED[0]}" {" ".join(EXPLAINED[1:])}\n'
            browser.open(Path(place), TERMINAL + html.escape(command + out.getvalue()), 800, 10)
            (folder / "terminal.png").write_bytes(browser.picture())
    browser.driver.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
