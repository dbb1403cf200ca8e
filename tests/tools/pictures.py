"""Make page/pictures/code.png, the picture in the README: python -m tests.tools.pictures"""

import base64
import io
import tempfile
from pathlib import Path

from PIL import Image

from terminal import cli
from tests.support.chromium import Browser

PICTURE = Path(__file__).parents[2] / "page" / "pictures" / "code.png"
CODE = ["Once upon a", *"--seed 1 --top-k 40 --tokens 3".split()]


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        browser = Browser(Path(place))
        cli.main([*CODE, "--code", str(browser.path)])
        browser.open(browser.path.read_text(encoding="utf-8"))
        browser.js("find('#bookmarks button:nth-child(3)').click()")  # the softmax of attention
        clip = {"x": 0, "y": 0, "width": 1200, "height": 800, "scale": 1.25}
        shot = browser.command("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        image = Image.open(io.BytesIO(base64.b64decode(shot["data"])))
        image.quantize(128, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
        browser.driver.quit()


if __name__ == "__main__":
    main()
