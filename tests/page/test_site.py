"""The site, opened from a disk: its links lead somewhere, no answer stands open, every kind of page
fits a phone, and a visitor can lead the story."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import edition
import pages
import pytest

from pico import forward, load

pytestmark = pytest.mark.slow
HOUSE = Path(__file__).parents[2]


class Page(HTMLParser):
    """tags: (tag, its attributes, how many folds are around it). shown: the text in no fold."""

    def __init__(self, path):
        super().__init__()
        self.path, self.tags, self.folds, self.shown = path, [], 0, ""
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
def site(tmp_path_factory):  # -> {its address in the site: page}
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "notebooks/edition.py", "--site", folder]
    subprocess.run(command, cwd=HOUSE, check=True)
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


def test_every_link_leads_somewhere_and_the_arrows_to_the_next_chapter(site):
    for place, page in site.items():
        for url in page.all("href", "a") + [src for src in page.all("src", "iframe") if src]:
            target, anchor = urldefrag(urljoin(place, url))
            if url[:8] != "https://":
                is_there = anchor[:5] in ("", "funct", "head=") or anchor in site[target].all("id")
                assert is_there, (place, url)
    places = [place for *_, place in pages.chapters(edition.table())]
    for i, place in enumerate(places[1:], 2):
        following = [x["href"] for _, x, _ in site[place].tags if x.get("rel") == "next"]
        assert [urljoin(place, url) for url in following] == places[i : i + 1]


def test_pages_have_labels_and_headings_in_order_and_load_nothing(site):
    assert site["index.html"].all("src", "iframe") == [None]
    most = {"index.html": 600_000, "live.html": 9_000_000}
    for place, page in site.items():
        assert page.path.stat().st_size < most.get(place, 3_000_000)
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
    page, opened, closed, are_folded = site[f"notebooks/{name}.ipynb.html"], [], [], []
    for cell, answers in edition.with_answers(edition.read(name).cells):
        outputs = cell.get("outputs", [])
        (closed if answers else opened).append("".join(x.get("text", "") for x in outputs))
        closed += [cell.source] * edition.tagged(cell, "yours")
        made = "".join(x.get("data", {}).get("text/html", "") for x in outputs)
        are_folded += made.count("<img") * [answers]
    for text in closed:
        shown = text.strip() in page.shown and text.strip() not in "".join(opened)
        assert len(text) < 40 or not shown
    assert [folds > 0 for tag, _, folds in page.tags if tag == "img"] == are_folded


def test_the_first_page_shows_the_numbers_of_the_model(site):
    tokenizer, model = load("stories", forward.gpt2)
    ids, given = tokenizer.encode("The dragon was"), model.keywords
    x = given["wte"][ids] + given["wpe"][:3]
    best = sorted(model(ids)[-1])[:-6:-1]
    shown = site["index.html"].shown.replace("−", "-")
    assert all(f"{number:.2f}" in shown for number in [*x[:, :6].ravel(), *best])
    assert "sandwiches" in shown and "sandwiches" in site["live.html"].shown


def test_a_page_of_each_kind_fits_a_phone_and_has_no_error(site, browser):
    browser.driver.get("about:blank")
    browser.resize(360)
    paths = [page.path for page in site.values()]
    for path in {(path.parent.name, *path.suffixes): path for path in paths}.values():
        browser.driver.get(path.as_uri())
        assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), path
        assert browser.errors() == []


def test_a_visitor_leads_the_story_and_steps_into_a_function(site, browser):
    browser.resize(1440)
    browser.driver.get(site["index.html"].path.as_uri())
    browser.all("#story span")[9].click()
    browser.wait("return document.querySelector('iframe').clientHeight > 99", 100)
    browser.driver.switch_to.frame(0)
    browser.wait("return globalThis.live?.panel?.place === 9", 100)
    browser.all("#live .bars button")[2].click()
    browser.wait("return live.panel.branches.length === 2 && !live.panel.writing", 100)
    first, second = browser.js("return live.panel.branches.map(({text: {ids}}) => ids)")
    assert first[:9] == second[:9] and first[9] != second[9]
    browser.driver.switch_to.default_content()
    for words in ["1. The forward pass", "attention"]:
        browser.driver.find_elements("link text", words)[-1].click()
    browser.wait("return document.querySelector('#where b')?.textContent === 'attention'", 100)
    assert browser.errors() == []
