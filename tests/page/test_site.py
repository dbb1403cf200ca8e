"""The site, opened from a disk: links, labels and sizes are right, nothing gives an answer away,
every page fits a phone, and a visitor can click through it."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pico import forward, load

pytestmark = pytest.mark.slow
HOUSE = Path(__file__).parents[2]
sys.path.append(str(HOUSE / "notebooks"))
import edition  # noqa: E402


class Page(HTMLParser):
    """tags: (tag, its attributes, how many folds are around it). shown: the text in no fold."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.folds, self.shown = [], 0, ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.folds += tag == "details"
        self.tags.append((tag, dict(attributes), self.folds))

    def handle_endtag(self, tag):
        self.folds -= tag == "details"

    def handle_data(self, data):
        self.shown += "" if self.folds else data

    def all(self, name, *tags):  # the values of an attribute
        return [given.get(name) for tag, given, _ in self.tags if tag in tags or not tags]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "notebooks/edition.py", "--site", folder]
    subprocess.run(command, cwd=HOUSE, check=True)
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}, folder


def test_every_link_leads_somewhere(site):
    pages, folder = site
    assert len(pages) > 100
    for path, page in pages.items():
        for url in page.all("href", "a") + [src for src in page.all("src", "iframe") if src]:
            place, _, anchor = url.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert url.startswith("https://") or target in pages, (path, url)
            is_place = not anchor or url[:8] == "https://" or anchor.startswith("function=")
            assert is_place or anchor in pages[target].all("id"), (path, url)


def test_pages_have_labels_and_headings_in_order_and_load_nothing(site):
    pages, folder = site
    first = folder / "index.html"
    assert first.stat().st_size < 600_000 and pages[first].all("src", "iframe") == [None]
    for path, page in pages.items():
        assert path.stat().st_size < 3_000_000 or path == folder / "live.html"
        assert page.all("lang", "html") == ["en"] and "script" not in page.all("src")
        assert {"description", "og:title", "og:image"} < {*page.all("name"), *page.all("property")}
        assert all(page.all("content", "meta")[2:]) and "icon" in page.all("rel", "link")
        assert all(page.all("alt", "img")) and all(page.all("title", "iframe"))
        assert all(src is None or src[:5] == "data:" for src in page.all("src", "img", "script"))
        levels = [int(tag[1]) for tag, *_ in page.tags if tag in ("h1", "h2", "h3", "h4")]
        assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), path
        ids = [id for id in page.all("id") if id]
        assert len(ids) == len({*ids}), path


@pytest.mark.parametrize("name", edition.table())
def test_a_lesson_gives_no_answer_away_and_shows_its_pictures(site, name):
    pages, folder = site
    page = pages[folder / f"notebooks/{name}.ipynb.html"]
    for cell, answers in edition.with_answers(edition.read(name).cells):
        printed = "".join(x.get("text", "") for x in cell.get("outputs", []) if answers)
        hidden = cell.source if edition.tagged(cell, "yours") else printed
        assert len(hidden) < 40 or hidden.strip() not in page.shown
    assert all(folds == 0 for tag, _, folds in page.tags if tag == "img")


def test_the_first_page_shows_the_numbers_of_the_model(site):
    pages, folder = site
    tokenizer, model = load("stories", forward.gpt2)
    ids, given = tokenizer.encode("The dragon was"), model.keywords
    x = given["wte"][ids] + given["wpe"][:3]
    best = sorted(model(ids)[-1])[:-6:-1]
    shown = pages[folder / "index.html"].shown.replace("−", "-")
    assert all(f"{number:.2f}" in shown for number in [*x[:, :6].ravel(), *best])
    assert "sandwiches" in shown and "sandwiches" in pages[folder / "live.html"].shown


def seen(browser):
    """Check that nothing was loaded from elsewhere, nothing failed, and all fits the width."""
    assert browser.errors() == []
    events = [json.loads(x["message"])["message"] for x in browser.driver.get_log("performance")]
    sent = [x["params"]["request"]["url"] for x in events if x["method"].endswith("WillBeSent")]
    assert all(url.startswith(("file:", "data:", "about:")) for url in sent)
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth")


def test_pages_of_each_kind_fit_a_phone(site, browser):
    browser.driver.get("about:blank")
    browser.resize(360)
    browser.driver.get_log("performance")
    kinds = {(path.parent.name, *path.suffixes): path for path in site[0]}
    for path in kinds.values():
        browser.driver.get(path.as_uri())
        seen(browser)


def test_a_visitor_leads_the_story_and_turns_all_pages(site, browser):
    _, folder = site
    browser.resize(1440)
    browser.driver.get((folder / "index.html").as_uri())
    browser.all("#story span")[9].click()
    browser.wait("return document.querySelector('iframe').clientHeight > 99", 100)
    browser.driver.switch_to.frame(0)
    browser.wait("return globalThis.live?.panel?.place === 9", 100)
    browser.all("#live .bars button")[2].click()
    browser.wait("return live.panel.branches.length === 2 && !live.panel.writing", 100)
    first, second = browser.js("return live.panel.branches.map(({whole: {ids}}) => ids)")
    assert first[:9] == second[:9] and first[9] != second[9]
    browser.driver.switch_to.default_content()
    for words in ["Attention, and the forward pass", *25 * ["→"], "All files →"]:
        click(browser, words)
    assert not browser.all("[rel=next]")
    click(browser, "1. The forward pass")
    steps = "[...document.querySelectorAll('a[title=\"Step into it\"]')]"
    browser.js(f"{steps}.find((link) => link.textContent === 'attention').click()")
    browser.wait("return document.documentElement.dataset.ready")
    assert browser.text("#where b") == "attention"


def click(browser, words):
    browser.driver.find_elements("partial link text", words)[-1].click()
    browser.wait("return document.readyState === 'complete'")
    seen(browser)
