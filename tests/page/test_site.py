"""The site, opened from a disk: links, labels and sizes are right, nothing gives an answer away,
every page fits a phone, and a visitor can click through it."""

import json
import posixpath
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
import pages  # noqa: E402


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
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "notebooks/edition.py", "--site", folder]
    subprocess.run(command, cwd=HOUSE, check=True)
    return folder


@pytest.fixture(scope="module")
def site(folder):  # -> {its address in the site: page}
    paths = sorted(folder.rglob("*.html"))
    return {path.relative_to(folder).as_posix(): Page(path) for path in paths}


def led(place, url):  # from a page -> to a page
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), url.partition("#")[0]))


def test_every_link_leads_somewhere(site):
    for place, page in site.items():
        for url in page.all("href", "a") + [src for src in page.all("src", "iframe") if src]:
            if url[:8] == "https://":
                continue
            target = site[led(place, url) if url[0] != "#" else place]
            anchor = url.partition("#")[2]
            assert not anchor or anchor[:9] == "function=" or anchor in target.all("id"), url


def test_the_arrows_turn_all_chapters(site):
    place = "pico/forward.py.html"
    for _, _, chapter in pages.chapters(edition.table())[1:]:
        assert place == chapter
        following = [
            given["href"] for _, given, _ in site[place].tags if given.get("rel") == "next"
        ]
        place = led(place, *following) if following else None
    assert not place


def test_pages_have_labels_and_headings_in_order_and_load_nothing(site, folder):
    first = site["index.html"]
    assert (folder / "index.html").stat().st_size < 600_000 and first.all("src", "iframe") == [None]
    for place, page in site.items():
        assert (folder / place).stat().st_size < 3_000_000 or place == "live.html"
        assert page.all("lang", "html") == ["en"] and "script" not in page.all("src")
        assert {"description", "og:title", "og:image"} < {*page.all("name"), *page.all("property")}
        assert all(page.all("content", "meta")[2:]) and "icon" in page.all("rel", "link")
        assert all(page.all("alt", "img")) and all(page.all("title", "iframe"))
        assert all(src is None or src[:5] == "data:" for src in page.all("src", "img", "script"))
        levels = [int(tag[1]) for tag, *_ in page.tags if tag in ("h1", "h2", "h3", "h4")]
        assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), place
        ids = [id for id in page.all("id") if id]
        assert len(ids) == len({*ids}), place


@pytest.mark.parametrize("name", edition.table())
def test_a_lesson_folds_answers_and_shows_other_pictures(site, name):
    page, are_folded = site[f"notebooks/{name}.ipynb.html"], []
    for cell, answers in edition.with_answers(edition.read(name).cells):
        outputs = cell.get("outputs", [])
        printed = "".join(x.get("text", "") for x in outputs if answers)
        hidden = cell.source if edition.tagged(cell, "yours") else printed
        assert len(hidden) < 40 or hidden.strip() not in page.shown
        made = "".join(x.get("data", {}).get("text/html", "") for x in outputs)
        are_folded += made.count("<img") * [answers]
    assert [folds > 0 for tag, _, folds in page.tags if tag == "img"] == are_folded


def test_the_first_page_shows_the_numbers_of_the_model(site):
    tokenizer, model = load("stories", forward.gpt2)
    ids, given = tokenizer.encode("The dragon was"), model.keywords
    x = given["wte"][ids] + given["wpe"][:3]
    best = sorted(model(ids)[-1])[:-6:-1]
    shown = site["index.html"].shown.replace("−", "-")
    assert all(f"{number:.2f}" in shown for number in [*x[:, :6].ravel(), *best])
    assert "sandwiches" in shown and "sandwiches" in site["live.html"].shown


def test_a_page_of_each_kind_fits_a_phone_and_loads_nothing(site, folder, browser):
    browser.driver.get("about:blank")
    browser.resize(360)
    browser.driver.get_log("performance")
    kinds = {(path.parent.name, *path.suffixes): path for path in map(Path, site)}
    for path in kinds.values():
        browser.driver.get((folder / path).as_uri())
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), path
        assert browser.errors() == []
        logged = [json.loads(x["message"]) for x in browser.driver.get_log("performance")]
        events = [x["message"] for x in logged if x["message"]["method"].endswith("WillBeSent")]
        sent = [event["params"]["request"]["url"] for event in events]
        assert all(url.startswith(("file:", "data:", "about:")) for url in sent)


def test_a_visitor_leads_the_story_and_steps_into_a_function(folder, browser):
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
    for words in ["1. The forward pass", "attention"]:
        browser.driver.find_elements("link text", words)[-1].click()
    browser.wait("return document.querySelector('#where b')?.textContent === 'attention'", 100)
    assert browser.errors() == []
