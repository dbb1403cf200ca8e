"""The page in a headless Chromium: it loads alone, a click selects, sliders follow samplers.py."""

import numpy as np
import pytest

import utils
from inside import page
from samplers import make_sampler
from tests.chromium import CHROMIUM, DRIVER, Browser
from tests.pages import METHODS, by_method, recorded

pytest.importorskip("selenium", reason="the page's tests need selenium")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="the page's tests need chromium and its chromedriver"
)
SETTINGS = [  # of the sliders
    {"temperature": 1.0}, {"temperature": 0.5}, {"temperature": 2.0}, {"temperature": 0},
    {"temperature": 0.8, "top_k": 40}, {"temperature": 1.0, "top_p": 0.9}, {"top_p": 0.5},
    {"min_p": 0.05}, {"temperature": 1.5, "top_k": 100, "top_p": 0.7, "min_p": 0.02},
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return request.param


@pytest.mark.parametrize("width", [360, 900, 1600])
def test_a_page_loads_without_an_error_or_a_request_and_fits(browser, tmp_path, method, width):
    data = by_method(method)
    browser.open(tmp_path, page.html(data), width)
    assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth")
    assert len(browser.all("#text .token")) == len(data["ids"])
    shown = {section.get_attribute("id") for section in browser.all("section:not([hidden])")}
    more = {"beam": {"beams"}, "en-de": {"beams", "alignment"}, "speculative": {"drafts"}}
    assert shown == {"candidates", "attention", "lens", "cache"} | more.get(method, set())


def test_a_click_selects_and_arrows_go_on(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    browser.all("#text .token")[6].click()
    selected = '#text [aria-selected="true"]'
    assert browser.value(selected, "id") == "token-6"
    surprise = -data["logprobs"][5] / np.log(2)
    assert f"{surprise:.1f} bits" in browser.text("#selected")
    browser.all("#text .token")[6].send_keys("\ue014")  # the right arrow
    assert browser.value(selected, "id") == "token-7"
    assert browser.js("return document.activeElement.id") == "token-7"
    browser.all("#previous")[0].click()
    browser.all("#previous")[0].click()
    assert browser.value(selected, "id") == "token-5"
    browser.all("#text .token")[0].click()  # nothing predicts the first token
    assert browser.value(selected, "id") == "token-5"


def test_sliders_give_the_probabilities_of_samplers(browser, tmp_path):
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 8, temperature=0.8)
    browser.open(tmp_path, page.html(data))
    logits = model(data["ids"][:-1])
    for token in (5, 9):
        browser.all("#text .token")[token].click()
        best = np.argsort(-logits[token - 1], kind="stable")[:10]
        for settings in SETTINGS:
            plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
            for name, value in (plain | settings).items():
                browser.slide(name, value)
            expected = make_sampler(**settings)(logits[token - 1], [])[best]
            np.testing.assert_allclose(browser.bars()[:10], expected, atol=1e-5)
            assert browser.text("#candidates .note") == ""


def test_sampling_in_the_page_is_that_of_samplers_everywhere(browser, tmp_path):
    """All stored tokens of all positions; where the page says that it is exact, it is."""
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 20, temperature=1.3)
    browser.open(tmp_path, page.html(data))
    exact = 0
    for row, logits in enumerate(model(data["ids"][:-1])):
        for settings in SETTINGS:
            found = browser.js(
                "const [row, settings] = arguments;"
                "return [probabilitiesAt(row, settings), Array.from(storedIds(row))]", row,
                {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | settings,
            )  # fmt: skip
            expected = make_sampler(**settings)(logits, [])[found[1]]
            error = np.abs(np.array(found[0]["probs"]) - expected).max()
            assert found[0]["others"] == pytest.approx(1 - expected.sum(), abs=1e-4)
            assert error < (1e-5 if found[0]["exact"] else 1e-3), (row, settings)
            exact += found[0]["exact"]
    assert exact > 0.9 * len(SETTINGS) * (len(data["ids"]) - 1)


def test_the_die_falls_on_the_token_that_came_and_moves_with_the_sliders(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    for token in range(data["n_prompt"], len(data["ids"])):
        browser.js("select(arguments[0])", token)
        label = data["labels"][data["ids"][token]].replace("\n", "↵")
        assert browser.text(".die label").partition(" falls on ")[2].strip() == label.strip()
    browser.slide("temperature", 0)
    best = browser.text("#candidates .bars li:first-child .name")
    assert browser.text(".die label").endswith(best)
    browser.all("#restore")[0].click()
    assert browser.text("output[for=temperature]") == "0.80"


def test_a_head_can_be_chosen_by_mouse_and_by_keys(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    browser.all('[data-head="1,2"]')[0].click()
    assert "layer 2, head 3" in browser.text("#attention .lead")
    browser.all('[data-head="1,2"]')[0].send_keys("\ue015")  # down
    assert browser.value("#attention [aria-pressed=true]", "data-head") == "2,2"
    browser.all("#mean")[0].click()
    assert "all heads" in browser.text("#attention .lead")


def test_drafts_and_beams_are_those_of_the_run(browser, tmp_path):
    data = by_method("speculative")
    browser.open(tmp_path, page.html(data))
    passes = browser.js("return passes")
    text = [*data["ids"]]
    for found in passes:
        assert text[found["known"] :][: found["accepted"]] == found["drafts"][: found["accepted"]]
        rejected = found["drafts"][found["accepted"] :][:1]
        assert rejected != text[found["known"] + found["accepted"] :][:1] or not rejected
    known = [found["known"] for found in passes]
    assert known == sorted({*known}) and known[0] == data["n_prompt"]
    assert len(browser.all("#drafts li")) == len(passes)

    data = by_method("beam")
    browser.open(tmp_path, page.html(data))
    won = browser.js("return readBeams().filter((node) => node.won).map((node) => node.token)")
    assert won == data["ids"][data["n_prompt"] :]
    nodes = browser.js("const nodes = readBeams(); placeLines(nodes);"
                       "return nodes.map(({depth, line}) => `${depth} ${line}`)")  # fmt: skip
    assert len(nodes) == len({*nodes})  # no two in one place
    kept = sum(c[3] != "dropped" for step in data["beams"] for c in step)
    assert len(nodes) == kept == len(browser.all("#beams svg text"))


def test_a_prompt_to_which_nothing_came_has_a_page(browser, tmp_path):
    tokenizer, model = utils.load("stories")
    browser.open(tmp_path, page.html(recorded(tokenizer, model, "Once upon a time", n=0)))
    assert browser.value('#text [aria-selected="true"]', "id") == "token-1"
    assert browser.all("#cache[hidden]")


def test_markup_in_a_text_stays_text(browser, tmp_path):
    data = by_method("cached")
    text = "</script><script>document.title = 'x'</script><img src=x onerror=alert(1)>"
    texts = {"pieces": [text] * len(data["ids"]), "labels": dict.fromkeys(data["labels"], text)}
    browser.open(tmp_path, page.html(data | texts))
    assert browser.text("#text") == text * len(data["ids"])
    assert browser.driver.title.startswith("</script>")
    assert browser.all("img") == []


def test_the_page_works_in_a_frame_of_a_notebook(browser, tmp_path):
    pytest.importorskip("IPython")
    shown = page.show(*utils.load("stories"), "Once upon", n=3)
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{shown.data}", encoding="utf-8")
    browser.driver.get((tmp_path / "notebook.html").as_uri())
    browser.driver.switch_to.frame(0)
    browser.all("#text .token")[2].click()
    assert browser.value('#text [aria-selected="true"]', "id") == "token-2"
    assert browser.driver.get_log("browser") == []
    browser.driver.switch_to.default_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them(browser, tmp_path, scheme):
    """WCAG's contrast of at least 4.5, at the most surprising token too."""
    data = by_method("cached")
    browser.scheme(scheme)
    browser.open(tmp_path, page.html(data))
    read = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])"
    colour = {name: rgb(browser.js(read, f"--{name}"))
              for name in ("paper", "card", "ink", "soft", "amber", "blue", "red")}  # fmt: skip
    amber = 0.62 * colour["amber"] + 0.38 * colour["paper"]
    blue = 0.45 * colour["blue"] + 0.55 * colour["card"]
    for above, below in [("ink", colour["paper"]), ("ink", amber), ("ink", blue),
                         ("soft", colour["paper"]), ("soft", colour["card"]),
                         ("blue", colour["card"]), ("red", colour["card"])]:  # fmt: skip
        assert contrast(colour[above], below) >= 4.5, (above, below)


def rgb(text):  # "#fff" or "#ffffff" -> [3] in [0, 1]
    digits = text.strip().lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])


def contrast(a, b):
    def luminance(c):
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    darker, lighter = sorted([luminance(a), luminance(b)])
    return (lighter + 0.05) / (darker + 0.05)
