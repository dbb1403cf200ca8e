"""The model in a live page computes what NumPy computes. A headless Chromium opens the page as a
file."""

import numpy as np
import pytest

import page
import utils
from generate import generate
from loading.errors import UserError
from page import label, live
from page.candidates import SLIDERS
from samplers import make_sampler
from tests.support.pages import recorded

pytestmark = pytest.mark.slow
HOSTILE = [
    "",
    "  a  b\n\n\tc ",
    "don't I'LL we've 's",
    "naïve Zoë ß ŉ Ǆ ａ ½ ² Ⅷ ٣ 𝟛",
    "👩\u200d👩\u200d👧 🇺🇳 e\u0301",
    "\u200b\u2028\u2029\x85\xa0\ufeff\x1c\x1f x \u202eevil\u202c",
    "<|endoftext|></script><img src=x onerror=alert(1)>",
]


@pytest.fixture(scope="module", params=["stories", "stories-draft"])
def opened(request, browser):
    """Open a live page. Return the browser, and the page's tokenizer and model."""
    tokenizer, model, _ = open_page(browser, request.param)
    return browser, tokenizer, model


@pytest.fixture
def panel(browser):
    """Open a live page of stories-draft. Return browser, tokenizer, model and the text's ids."""
    return browser, *open_page(browser, "stories-draft")


def open_page(browser, name):
    """Open a live page, and return its tokenizer, model and ids."""
    tokenizer, model = utils.load(name)
    model = live.in_8_bits(tokenizer, model)
    data = recorded(tokenizer, model, "Once upon a time", 8, temperature=0.8)
    browser.open(page.html(data, live.parts(tokenizer, model)))
    browser.wait("return Boolean(globalThis.live.panel)")
    settled(browser)
    assert browser.js("return live.panel.place === state.selected")
    click(browser, ".branch .token", len(data["ids"]))
    browser.js("let u = 0; Math.random = () => u = (u + 0.618034) % 1")  # the same in each run
    return tokenizer, model, data["ids"]


def settled(browser):
    """Wait until the panel has finished all actions."""
    browser.driver.execute_async_script("""
        const [done] = arguments, {panel} = live;
        const wait = (last) => last.then(() => last === panel.done ? done() : wait(panel.done));
        wait(panel.done);
    """)


def test_the_logits_equal_numpy_s(opened):
    browser, _, model = opened
    rng = np.random.default_rng(0)
    texts = [rng.integers(model.n_vocab, size=n).tolist() for n in (1, 2, 7, 25, 40)]
    script = "const cache = []; return arguments[0].map((id) => [...live.model.logits(id, cache)])"
    for ids in texts:
        np.testing.assert_allclose(browser.js(script, ids), model(ids), rtol=0, atol=1e-3)


def test_a_text_becomes_the_same_ids_pieces_and_labels(opened):
    browser, tokenizer, _ = opened
    rng = np.random.default_rng(0)
    points = rng.integers(1, 0x3000, (40, 30))  # characters of many scripts
    words = "".join(map(chr, rng.integers(97, 123, 3000)))
    for text in [*HOSTILE, *("".join(map(chr, row)) for row in points), words]:
        ids = tokenizer.encode(text)
        assert browser.js("return live.tokenizer.encode(arguments[0])", text) == ids, text
        assert pieces_of(browser, ids) == [*map(tokenizer.stream().feed, ids)]
    labels = browser.js("return range(live.model.n_vocab).map((id) => data.labels[id])")
    assert labels == [label(tokenizer, id) for id in range(tokenizer.n_vocab)]
    ids = rng.integers(tokenizer.n_vocab, size=300).tolist()  # random tokens, not always UTF-8
    assert pieces_of(browser, ids) == [*map(tokenizer.stream().feed, ids)]


def pieces_of(browser, ids):
    return browser.js("return live.tokenizer.pieces(arguments[0])", ids)


def test_sampling_equals_samplers_py(opened):
    browser, tokenizer, model = opened
    logits = model(tokenizer.encode("Tom and Lily went to the"))[-1]
    ranked = "return live.ranked(Float32Array.from(arguments[0]), arguments[1])"
    draws = "return range(20000).map((i) => live.draw(arguments[0], (i + 0.5) / 20000))"
    # With top_p 0.9, rounding errors would decide whether a token is removed.
    cuts = {"temperature": 1.3, "top_p": 0.7}, {"top_k": 5, "top_p": 0.8, "min_p": 0.1}
    for settings in ({"temperature": 0}, *cuts):
        expected = make_sampler(**settings)(logits, [])
        found = browser.js(ranked, logits.tolist(), SLIDERS | settings)
        np.testing.assert_allclose([p for _, p in sorted(found)], expected, atol=1e-6)
        assert (np.diff([p for _, p in found]) <= 0).all()
        counts = np.bincount(browser.js(draws, found), minlength=model.n_vocab)
        np.testing.assert_allclose(counts, 20_000 * expected, atol=1.01)


def test_8_bits_change_the_logits_little_and_rounding_twice_changes_nothing():
    tokenizer, model = utils.load("stories")
    ids = np.random.default_rng(0).integers(model.n_vocab, size=40)
    rounded = live.in_8_bits(tokenizer, model)
    twice = live.in_8_bits(tokenizer, rounded)
    assert 0.01 < np.abs(rounded(ids) - model(ids)).max() < 1
    assert np.abs(twice(ids) - rounded(ids)).max() < 1e-4
    assert rounded.params["wte"].dtype == np.float32


@pytest.mark.parametrize("name", ["stories-llama", "en-de"])
def test_other_families_are_refused_in_one_line(name):
    with pytest.raises(UserError, match="a small GPT-2 into the page, such as stories"):
        live.in_8_bits(*utils.load(name))


def branches(browser):
    return browser.js("return live.panel.branches.map((branch) => branch.text.ids)")


def click(browser, selector, place=0):
    browser.all(f"#live {selector}")[place].click()
    settled(browser)


def test_a_click_on_a_candidate_opens_a_branch_and_the_model_goes_on(panel):
    browser, tokenizer, model, ids = panel
    click(browser, ".current .token", 6)
    chosen = int(browser.value("#live .bars li:nth-child(3)", "data-token"))
    browser.slide("temperature", 0)
    click(browser, ".bars button", 2)
    first, second = branches(browser)
    assert first == ids and second[:7] == [*ids[:6], chosen]
    assert second[7:] == list(generate(model, second[:7], 40))
    shown = browser.value("#live .current .text", "textContent")
    assert shown.rstrip("…").replace("↵", "") == tokenizer.decode(second)

    click(browser, ".branch:not(.current) .token", 6)  # go to the other branch, and close it
    click(browser, ".current h3 button")
    assert branches(browser) == [second]
    assert browser.errors() == []


def test_the_model_writes_on_from_the_framed_place_and_draws_anew_each_time(panel):
    browser, _, _, ids = panel
    for _ in range(2):
        click(browser, ".branch:first-child .token", 6)
        click(browser, "#write")
    first, second, third = branches(browser)
    assert first == ids and second != third and second[:6] == third[:6] == ids[:6]


def test_a_text_can_be_edited_and_its_markup_stays_text(panel):
    browser, tokenizer, _, ids = panel
    click(browser, "#edit")
    area = browser.all("#live textarea")[0]
    assert area.get_attribute("value") == tokenizer.decode(ids)
    text = "Tom saw <img src=x onerror=alert(1)> and </script> \u202ea"
    area.clear()
    area.send_keys(text)
    click(browser, "form button")
    assert branches(browser)[1] == tokenizer.encode(text)
    assert browser.all("#live img") == [] and not area.is_displayed()
    assert browser.errors() == []
