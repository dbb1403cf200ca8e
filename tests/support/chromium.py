"""A headless Chromium, to test the pages that --html writes."""

import json
import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """A browser window that opens a page and reads its elements.

    It needs the Python package selenium, and the programs CHROMIUM and DRIVER. folder: where it
    puts the page's file.
    """

    def __init__(self, folder):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(120)
        self.js, self.path = self.driver.execute_script, folder / "page.html"

    def command(self, name, **settings):
        return self.driver.execute_cdp_cmd(name, settings)

    def open(self, text, width=1200, address=""):
        """Write `text` (HTML) to a file and open it. address: what follows the file's name in the
        URL, such as "#token=47".

        Fail if the page reports an error or requests any other URL.
        """
        self.path.write_text(text, encoding="utf-8")
        self.resize(width)
        self.driver.get("about:blank")  # a URL that differs only in its #address loads nothing
        self.driver.get_log("performance")
        self.driver.get(self.path.as_uri() + address)
        self.wait("return document.documentElement.dataset.ready")
        assert self.errors() == []
        entries = self.driver.get_log("performance")
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
        assert [event["params"]["request"]["url"] for event in sent] == [self.path.as_uri()]

    def resize(self, width, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def errors(self):
        """Return what the page has reported since the last call."""
        return self.driver.get_log("browser")

    def wait(self, script, seconds=10):
        """Wait until the script returns a true value. Fail after so many seconds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds, 0.02).until(lambda _: self.js(script))

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        [element] = self.all(selector)
        return element.text

    def texts(self, selector):
        """Return the texts of all elements, without scrolling to them."""
        all = "[...document.querySelectorAll(arguments[0])]"
        return self.js(f"return {all}.map((element) => element.innerText)", selector)

    def value(self, selector, name):
        [element] = self.all(selector)
        return element.get_attribute(name)

    def slide(self, name, value):
        """Set a slider to a value and send an input event, as if a user had moved it."""
        script = """const input = document.getElementById(arguments[0]);
                    input.value = arguments[1];
                    input.dispatchEvent(new Event("input"));"""
        self.js(script, name, value)

    def bars(self):
        """Return {token id: probability} of the candidates that the page lists."""
        rows = "[...document.querySelectorAll('#candidates .candidate')]"
        pairs = self.js(f"return {rows}.map((row) => [row.dataset.token, row.dataset.p])")
        return {int(id): float(p) for id, p in pairs}
