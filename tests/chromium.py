"""A headless Chromium: for the tests of the page, and for its pictures."""

import base64
import json
import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """A page in a window, and what its elements show. Needs selenium, CHROMIUM and DRIVER."""

    def __init__(self):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.js = self.driver.execute_script

    def command(self, name, **settings):
        return self.driver.execute_cdp_cmd(name, settings)

    def scheme(self, name):
        """light or dark"""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.command("Emulation.setEmulatedMedia", features=[feature])

    def open(self, folder, text, width=1200, height=900, address=""):
        """Show a page, at an address in it. Nothing may fail, nothing else may be requested."""
        path = folder / "page.html"
        path.write_text(text, encoding="utf-8")
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.driver.get_log("performance")
        self.driver.get(path.as_uri() + address)
        if "data-ready" in text or "dataset.ready" in text:
            self.wait("return document.documentElement.dataset.ready")
        log = self.driver.get_log("browser")
        assert log == [], log
        events = [json.loads(entry["message"])["message"]
                  for entry in self.driver.get_log("performance")]  # fmt: skip
        urls = [event["params"]["request"]["url"] for event in events
                if event["method"] == "Network.requestWillBeSent"]  # fmt: skip
        assert urls == [path.as_uri()]

    def wait(self, script):
        """Until the script returns something; an error that the page notes ends it too."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 10, 0.02).until(lambda driver: driver.execute_script(script))

    def picture(self, until="html", scale=1):
        """The page down to the end of an element -> the bytes of a PNG."""
        end = self.js("return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
                      " + scrollY", until)  # fmt: skip
        width = self.js("return document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": end + 16 * (until != "html")}
        shot = self.command("Page.captureScreenshot", clip=clip | {"scale": scale},
                            captureBeyondViewport=True)  # fmt: skip
        return base64.b64decode(shot["data"])

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        [element] = self.all(selector)
        return element.text

    def value(self, selector, name):
        [element] = self.all(selector)
        return element.get_attribute(name)

    def slide(self, name, value):
        """Move a slider to a value, as a hand does."""
        self.js("""const input = document.getElementById(arguments[0]);
                   input.value = arguments[1];
                   input.dispatchEvent(new Event("input"));""", name, value)  # fmt: skip

    def bars(self):
        """The probabilities of the candidates that are listed, by their ids."""
        rows = self.js("return [...document.querySelectorAll('#candidates .candidate')]"
                       ".map((row) => [row.dataset.token, row.dataset.p])")  # fmt: skip
        return {int(id): float(p) for id, p in rows}
