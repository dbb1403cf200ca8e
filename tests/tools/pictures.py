"""Make page/pictures/story.png, the picture of a page in the README: python -m tests.tools.pictures

`python -m tests.tools.pictures FOLDER` makes other pictures for a person to check: the page of each
run in RUNS, at four widths, light and dark.
"""

import sys
import tempfile
from pathlib import Path

from terminal import cli
from tests.support.chromium import Browser

PICTURE = Path(__file__).parents[2] / "page" / "pictures" / "story.png"
STORY = ["Once upon a time", *"--seed 3 --tokens 49 --temperature 0.8 --top-p 0.9".split()]
RUNS = {
    "cached": STORY,
    "greedy": ["The cat sat on the mat.", "--temperature", "0", "--min-length", "40"],
    "beam": ["Lily likes cake", "--method", "beam", "--tokens", "24", "--no-repeat-ngram", "3"],
    "speculative": ["Once upon a time", "--method", "speculative", "--seed", "1", "--tokens", "50"],
    "en-de": ["The weather is nice today, but my friends stay at home.", "--model", "en-de"],
}


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        browser = Browser(Path(place))
        for run in RUNS if words else ["cached"]:
            file = Path(place, f"{run}.html")
            cli.main([*RUNS[run], "--html", str(file)])
            text = file.read_text(encoding="utf-8")
            if not words:  # GitHub shows a README at a width of about 830 pixels
                browser.open(text, 830, address="#token=47")
                PICTURE.write_bytes(browser.picture("#why", scale=1.5))
                continue
            for width in (360, 800, 1280, 1600):
                for scheme in ("light", "dark"):
                    browser.scheme(scheme)
                    browser.open(text, width)
                    Path(*words, f"{run}-{width}-{scheme}.png").write_bytes(browser.picture())
        browser.driver.quit()


if __name__ == "__main__":
    main(sys.argv[1:])
