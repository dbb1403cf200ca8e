"""Make page/pictures/code.png, a still of pico/forward.html: python -m tests.tools.pictures"""

import base64
import io
import tempfile
from pathlib import Path

from PIL import Image

from tests.support.checkpoints import ROOT
from tests.support.chromium import Browser


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        browser = Browser(Path(place))
        browser.open((ROOT / "pico/forward.html").read_text(encoding="utf-8"))
        browser.js("visit(TOUR.find((place) => place.dataset.name === 'softmax'))")
        clip = {"x": 0, "y": 0, "width": 1200, "height": 800, "scale": 1.25}
        shot = browser.command("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        browser.driver.quit()
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"])))
    image = image.quantize(128, dither=Image.Dither.NONE)
    image.save(ROOT / "page/pictures/code.png", optimize=True)


if __name__ == "__main__":
    main()
