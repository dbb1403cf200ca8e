"""The page in a headless Chromium: it shows what the code computed, and its controls work."""

import re

import numpy as np
import pytest

import page
from gpt2 import softmax
from page.candidates import SLIDERS
from samplers import make_sampler, min_length
from tests.support.pages import RUNS, banning, recorded, run

pytestmark = pytest.mark.slow
SETTINGS = [  # settings of the sliders
    {"temperature": 2.0},
    {"temperature": 0},
    {"temperature": 0.8, "top_k": 40},
    {"top_p": 0.5},
    {"min_p": 0.05},
    {"temperature": 1.5, "top_k": 100, "top_p": 0.7, "min_p": 0.02},
]
SELECTED = '#text [aria-selected="true"]'


@pytest.mark.parametrize("name", RUNS)
def test_a_page_opens_without_errors_or_requests_and_fits(browser, name):
    data = run(name)
    browser.open(page.html(data), 360)
    for width in (360, 800, 1280, 1600):
        browser.resize(width)
        assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth"), width
    assert len(browser.all("#text .token")) == len(data["ids"])
    shown = {section.get_attribute("id") for section in browser.all("section:not([hidden])")}
    more = {"beam": {"beams"}, "en-de": {"beams", "alignment"}, "drafts": {"drafts"}}
    expected = {"candidates", "attention", "lens", "cache"} | more.get(name, set())
    assert shown == expected
    browser.js("select(data.n_prompt + 3)")
    assert browser.errors() == []


def test_a_click_selects_a_token_and_arrows_move_on(browser):
    data = run("cached")
    browser.open(page.html(data))
    browser.all("#text .token")[6].click()
    assert browser.value(SELECTED, "id") == "token-6"
    surprise = -data["logprobs"][5] / np.log(2)
    assert f"{surprise:.1f} bits" in browser.text("#selected")
    browser.all("#text .token")[6].send_keys("\ue014")  # the right arrow key
    assert browser.value(SELECTED, "id") == "token-7"
    assert browser.js("return document.activeElement.id") == "token-7"
    browser.all("#previous")[0].click()
    assert browser.value(SELECTED, "id") == "token-6"
    browser.all("#text .token")[0].click()  # not possible: nothing predicts the first token
    assert browser.value(SELECTED, "id") == "token-6"


def test_the_address_holds_the_state_of_the_page(browser):
    browser.open(page.html(run("cached")))
    browser.js("select(9)")
    browser.all('[data-head="4.6"]')[0].click()
    browser.slide("top_p", 0.9)
    browser.wait("return location.hash === '#token=9&head=4.6&top_p=0.9'")
    browser.open(page.html(run("cached")), address="#token=9&head=4.6&top_p=0.9")
    assert browser.value(SELECTED, "id") == "token-9"
    assert browser.value(".heads [aria-pressed=true]", "data-head") == "4.6"
    assert browser.text("[for=top_p][data-is]") == "0.9"


def chain(browser, row, settings):
    return browser.js("return chain(arguments[0], arguments[1])", row, SLIDERS | settings)


def test_the_page_samples_like_samplers_at_every_position(browser, stories):
    """Also with the user's own filters: one removes " the" before the sliders, another makes " a"
    less likely after them. Where the page says that its probabilities are not exact, they are at
    most 1e-3 off."""
    tokenizer, model = stories
    [the], [a] = tokenizer.encode(" the"), tokenizer.encode(" a")

    def rarer(logits, ids):
        logits[a] -= 1.5
        return logits

    filters = {"first": [min_length(40, model.stop_ids), banning(the)], "last": [rarer]}
    data = recorded(*stories, "Once upon a time there", 20, temperature=1.3, **filters)
    browser.open(page.html(data))
    exact, n_prompt = 0, data["n_prompt"]
    for row, logits in enumerate(model(data["ids"][:-1])):
        plain, own = softmax(logits), filters if row + 1 >= n_prompt else {}
        for settings in SETTINGS:
            found = chain(browser, row, settings)
            ids = [token["id"] for token in found["tokens"]]
            expected = make_sampler(**settings, **own)(logits.copy(), [])[ids]
            error = np.abs(np.array([token["p"] for token in found["tokens"]]) - expected).max()
            models = [token["model"] for token in found["tokens"]]
            assert models == pytest.approx(plain[ids], abs=1e-4)
            most = 1e-5 if found["exact"] else 1e-3
            assert found["others"] == pytest.approx(1 - expected.sum(), abs=max(1e-4, most))
            assert error < most, (row, settings)
            exact += found["exact"]
    browser.js("select(n_rows)")
    best = np.argsort(-make_sampler(filters["first"])(logits.copy(), []), kind="stable")[:10]
    for settings in SETTINGS:  # the table of the last token shows the same numbers
        for name, value in (SLIDERS | settings).items():
            browser.slide(name, value)
        shown, tokens = browser.bars(), chain(browser, row, settings)["tokens"]
        assert shown.items() <= {token["id"]: token["p"] for token in tokens}.items()
        assert [*shown][:10] == best.tolist()
    assert exact > 0.9 * len(SETTINGS) * (len(data["ids"]) - 1)


def test_a_die_falls_where_samplers_draw_puts_it(browser, stories):
    """The page can place the die if a cut has removed all tokens that the page does not store."""
    data = recorded(*stories, "Once upon a time there", 8, temperature=0.9, top_p=0.9)
    browser.open(page.html(data))
    logits, fell = stories[1](data["ids"][:-1]), set()
    for token, (_, u, _, _) in enumerate(data["draws"], data["n_prompt"]):
        browser.js("select(arguments[0])", token)
        browser.slide("top_p", 1)  # without a cut, the page cannot place the die
        assert "Throw a die to see" in browser.text("#dice")
        browser.slide("top_k", 5)
        ends = np.cumsum(make_sampler(temperature=0.9, top_k=5)(logits[token - 1], []))
        expected = int(np.searchsorted(ends, u, side="right"))
        assert browser.value("#candidates tr.drawn", "data-token") == f"{expected}"
        browser.slide("die", 0.5)
        expected = int(np.searchsorted(ends, 0.5, side="right"))
        assert browser.value("#candidates tr.drawn", "data-token") == f"{expected}"
        fell.add(expected)
        browser.all("#restore")[0].click()
        assert browser.value("#candidates tr.drawn", "data-token") == f"{data['ids'][token]}"
    assert len(fell) > 3


def test_a_bet_shows_p_q_and_the_die(browser):
    data, rejections = run("drafts"), 0
    browser.open(page.html(data))
    rejected = browser.text("#bets [data-case=bets] tr.rejected")  # the panel opens on a rejection
    assert min(map(float, re.findall(r"([\d.]+) %", rejected))) > 1  # whose numbers can be read
    for i, one in enumerate(data["passes"]):
        if not one["bets"]:
            continue
        browser.all(f'#drafts [data-pass="{i}"]')[0].click()
        rows = browser.texts("#bets [data-case=bets] tbody tr")
        assert len(rows) == len(one["bets"])
        for row, (_, q, p, u) in zip(rows, one["bets"]):
            if u is None:
                assert "not tested" in row
                continue
            least, die = map(float, re.search(r"\(1, p/q\) ([\d.]+), u ([\d.]+)", row).groups())
            assert die < 1 and (die < least) == (u * q < p)
            np.testing.assert_allclose([least, die], [min(1, p / q), u], atol=1e-4)
        # If a draft was rejected, the token drawn from the residual is marked.
        assert len(browser.all("#residual .chosen")) == bool(one["residual"])
        rejections += bool(one["residual"])
    assert rejections > 1


def test_the_page_shows_the_beams_of_the_run(browser):
    data = run("beam")
    assert {c[3] for step in data["beams"] for c in step} == {"kept", "dropped", "finished"}
    browser.open(page.html(data))
    won = browser.js("return steps.flat().filter((node) => node.won).map((node) => node.token)")
    assert won == data["ids"][data["n_prompt"] :]
    n_beams = sum(c[3] != "dropped" for step in data["beams"] for c in step)
    assert len(browser.all("#beams svg g[data-depth]")) == n_beams
    assert browser.all("#beams .edge.dropped") and browser.all("#beams .cut")
    browser.js("select(arguments[0])", data["n_prompt"] + 2)
    rows = browser.texts("#step tbody tr")
    assert len(rows) == len(data["beams"][2])
    for row, (_, _, logprob, status) in zip(rows, data["beams"][2]):
        assert row.startswith(status) and f"−{-logprob:.2f}" in row


def test_the_cache_panel_counts_computed_tokens_with_and_without_a_cache(browser):
    data = run("cached")
    n_prompt, n = data["n_prompt"], len(data["ids"])
    naive = sum(range(n_prompt, n))
    browser.open(page.html(data))
    browser.js("select(n_rows)")
    totals = browser.text("#totals")
    assert f"so far {n - 1} positions computed, instead of {naive}" in totals
    assert f"holds {round((n - 1) * data['kv_bytes'] / 1000, 2):g} kB" in totals
    browser.all("#naive")[0].click()  # what if every pass computed all tokens?
    assert f"so far {naive} positions computed" in browser.text("#totals")
    browser.js("document.querySelectorAll('#grid li')[4].click()")
    assert browser.js("return passOf(state.selected)") == 4


def test_a_prompt_without_new_tokens_has_a_page(browser, stories):
    browser.open(page.html(recorded(*stories, "Once upon a time", n=0)))
    assert browser.value(SELECTED, "id") == "token-1"
    assert browser.all("#cache[hidden]")


def test_markup_in_a_text_stays_text(browser):
    data = run("cached")
    text = "</script><script>document.title = 'x'</script><img src=x onerror=alert(1)>"
    texts = {"pieces": [text] * len(data["ids"]), "labels": dict.fromkeys(data["labels"], text)}
    browser.open(page.html(data | texts))
    assert browser.text("#text") == text * len(data["ids"])
    assert browser.driver.title.startswith("</script>")
    assert browser.all("img") == []


def test_the_page_works_in_a_frame_of_a_notebook(browser, stories):
    pytest.importorskip("IPython")
    shown = page.show(*stories, "Once upon", n=3)
    browser.path.write_text(f"<!doctype html>{shown.data}", encoding="utf-8")
    browser.driver.get(browser.path.as_uri())
    browser.driver.switch_to.frame(0)
    browser.wait("return document.documentElement.dataset.ready")
    browser.all("#text .token")[2].click()
    assert browser.value(SELECTED, "id") == "token-2"
    assert browser.errors() == []
    browser.driver.switch_to.default_content()
