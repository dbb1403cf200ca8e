"""Make page/pictures/code.png, the picture in the README: python -m tests.tools.pictures

`python -m tests.tools.pictures FOLDER` makes other pictures for a person to check: the page of each
run in RUNS, at four widths, light and dark.
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from terminal import cli
from tests.support.chromium import Browser

PICTURE = Path(__file__).parents[2] / "page" / "pictures" / "code.png"
CODE = ["Once upon a", *"--top-k 40 --tokens 3".split()]
RUNS = {
    "cached": ["Once upon a time", *"--seed 3 --tokens 49 --temperature 0.8 --top-p 0.9".split()],
    "greedy": ["The cat sat on the mat.", "--temperature", "0", "--min-length", "40"],
    "beam": ["Lily likes cake", "--method", "beam", "--tokens", "24", "--no-repeat-ngram", "3"],
    "speculative": ["Once upon a time", "--method", "speculative", "--seed", "1", "--tokens", "50"],
    "en-de": ["The weather is nice today, but my friends stay at home.", "--model", "en-de"],
}


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        browser = Browser(Path(place))
        if not words:
            cli.main([*CODE, "--code", str(browser.path)])
            browser.open(browser.path.read_text(encoding="utf-8"), 1200)
            browser.js("find('#bookmarks button:nth-child(3)').click()")  # the softmax of attention
            shot = Image.open(io.BytesIO(picture(browser, 1.25, 800)))
            shot.quantize(128, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
        for run in RUNS if words else ():
            file = Path(place, f"{run}.html")
            cli.main([*RUNS[run], "--html", str(file)])
            text = file.read_text(encoding="utf-8")
            for width in (360, 800, 1280, 1600):
                for scheme in ("light", "dark"):
                    feature = {"name": "prefers-color-scheme", "value": scheme}
                    browser.command("Emulation.setEmulatedMedia", features=[feature])
                    browser.open(text, width)
                    Path(*words, f"{run}-{width}-{scheme}.png").write_bytes(picture(browser))
        browser.driver.quit()


def picture(browser, scale=1, height=None):
    """Return a PNG (bytes) of the page, or of its first `height` pixels."""
    size = "const {clientWidth, scrollHeight} = document.documentElement;"
    width, whole = browser.js(f"{size} return [clientWidth, scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": height or whole, "scale": scale}
    settings = {"clip": clip, "captureBeyondViewport": True}
    shot = browser.command("Page.captureScreenshot", **settings)
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main(sys.argv[1:])
