"""The site, opened from a disk: links, labels and sizes are right, every page fits a phone, and a
visitor can click through it."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HOUSE = Path(__file__).parents[2]
READY = {"live.html", "code.html", "speculation.html", "translation.html"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.path, self.tags = path, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def all(self, name, *tags):  # the values of an attribute
        return [given.get(name) for tag, given in self.tags if tag in tags or not tags]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "notebooks/edition.py", "--site", folder]
    subprocess.run(command, cwd=HOUSE, check=True)
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}, folder


def test_every_link_leads_somewhere(site):
    pages, folder = site
    assert len(pages) > 100 and READY < {path.name for path in pages}
    for path, page in pages.items():
        for url in page.all("href", "a"):
            place, _, anchor = url.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert url.startswith("https://") or target in pages, (path, url)
            assert not anchor or url[:8] == "https://" or anchor in pages[target].all("id"), url
            assert "\\" not in url


def test_pages_have_labels_and_headings_in_order_and_load_nothing(site):
    pages, folder = site
    for path, page in pages.items():
        size, live = path.stat().st_size, folder / "live.html"
        assert size < (300_000 if path == folder / "index.html" else 3_000_000) or path == live
        assert page.all("lang", "html") == ["en"] and "script" not in page.all("src")
        assert all(page.all("alt", "img")) and all(page.all("title", "iframe"))
        assert all(src is None or src[:5] == "data:" for src in page.all("src", "img", "script"))
        levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
        assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), path
        ids = [id for id in page.all("id") if id]
        assert len(ids) == len({*ids}), path


def seen(browser):
    """Check that nothing was loaded from elsewhere, nothing failed, and all fits the width."""
    assert browser.errors() == []
    events = [json.loads(x["message"])["message"] for x in browser.driver.get_log("performance")]
    sent = [x["params"]["request"]["url"] for x in events if x["method"].endswith("WillBeSent")]
    assert all(url.startswith(("file:", "data:", "about:")) for url in sent)
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")
    folds = "[...document.querySelectorAll('main > details')]"  # each has more than its summary
    assert browser.js(f"return {folds}.every((fold) => fold.children.length > 1)")


def test_every_page_fits_a_phone(site, browser):
    browser.driver.get("about:blank")
    browser.resize(360)
    browser.driver.get_log("performance")
    for path in site[0]:
        browser.driver.get(path.as_uri())
        seen(browser)


def test_a_visitor_changes_the_story_and_clicks_through_the_lessons(site, browser):
    _, folder = site
    browser.resize(1200)
    browser.driver.get((folder / "index.html").as_uri())
    browser.js("document.querySelector('iframe').scrollIntoView()")
    browser.driver.switch_to.frame(0)
    browser.wait("return document.documentElement.dataset.ready")
    browser.wait("return globalThis.live?.panel?.current")
    browser.all("#live .token")[9].click()
    browser.wait("return document.querySelector('.bars button')")
    browser.all("#live .bars button")[2].click()
    browser.wait("return live.panel.branches.length === 2 && !live.panel.writing")
    first, second = browser.js("return live.panel.branches.map(({whole: {ids}}) => ids)")
    assert first[:9] == second[:9] and first[9] != second[9]
    browser.driver.switch_to.default_content()
    assert browser.js("return document.querySelector('iframe').clientHeight") != 560
    for words in "Code with numbers", "tokenwise", "Workshop", "Lessons", "1. The forward pass":
        click(browser, words)
    passed = 1
    while browser.driver.find_elements("partial link text", "→"):
        click(browser, "→")
        passed += 1
    assert passed == len([*HOUSE.glob("notebooks/*.ipynb")])


def click(browser, words):
    browser.driver.find_elements("partial link text", words)[-1].click()
    browser.wait("return document.readyState === 'complete'")
    seen(browser)
