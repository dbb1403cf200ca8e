"""Make page/pictures/story.png, the picture of a page in the README: python -m tests.tools.pictures

`python -m tests.tools.pictures FOLDER` makes other pictures for a person to check: the page of each
run in RUNS, at four widths, light and dark.
"""

import base64
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
                PICTURE.write_bytes(picture(browser, "#why", scale=1.5))
                continue
            for width in (360, 800, 1280, 1600):
                for scheme in ("light", "dark"):
                    feature = {"name": "prefers-color-scheme", "value": scheme}
                    browser.command("Emulation.setEmulatedMedia", features=[feature])
                    browser.open(text, width)
                    Path(*words, f"{run}-{width}-{scheme}.png").write_bytes(picture(browser))
        browser.driver.quit()


def picture(browser, until="html", scale=1):
    """Return a PNG (bytes) of the page, from its top to the bottom of one element. until: a CSS
    selector of this element."""
    element = "document.querySelector(arguments[0])"
    end = browser.js(f"return {element}.getBoundingClientRect().bottom + scrollY", until)
    width = browser.js("return document.documentElement.clientWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": end + 16 * (until != "html")}
    settings = {"clip": clip | {"scale": scale}, "captureBeyondViewport": True}
    shot = browser.command("Page.captureScreenshot", **settings)
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main(sys.argv[1:])
