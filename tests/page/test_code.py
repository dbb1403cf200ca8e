"""The page that steps through the code: it has the record's numbers, and its controls work."""

import re

import numpy as np
import pytest

import generate
import page
import utils
from generate import Sequence
from loading.errors import UserError
from page.code import MODULES, Packing, check, code_html
from page.file import writing_code
from page.trace import recording
from samplers import greedy, make_sampler

KEYS = {"right": "\ue014", "left": "\ue012", "down": "\ue015", "up": "\ue013", "shift": "\ue008"}
PLACE = "const s = stops[state.at], n = data.nodes[s.node]; return [s.pass, s.part, n[1], n[3]]"


def run(prompt="Once upon a", n=3, sampler=greedy):  # prompt: a text, or ids
    tokenizer, model = utils.load("stories")
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    sequence = Sequence(model, ids, n, sampler, 3)
    with recording(MODULES, model) as record:
        list(generate.cached(model, sequence))
    return record, tokenizer, sequence


@pytest.fixture(scope="module")
def made():
    return run(sampler=make_sampler(temperature=0.7, top_k=40))


@pytest.fixture(scope="module")
def html(made):
    return code_html(*made)


def test_the_page_is_one_file_that_requests_nothing(html):
    assert len(html) < 1_200_000 and "<!-- " not in html and "default-src 'none'" in html
    assert not re.search(r"https?:|//\w+\.|\bsrc=|\bhref=|@import|url\(", html)


def test_the_page_has_the_record_s_numbers_rounded(browser, html, made):
    record, _, sequence = made
    browser.open(html)
    found = browser.js("""return data.values.map((value, i) => {
        if (!value.at || value.n) return null;
        const xs = numbers(i).map((x) => x < -1e9 ? -1e9 : x);
        return [value.type, xs.reduce((sum, x, j) => sum + x * (1 + j % 7), 0)]; })""")
    n = 0
    for value, sums in zip(record.values, found, strict=True):
        if sums:
            kind = {"f2": np.float16, "f4": np.float32}.get(sums[0], np.int64)
            x = np.maximum(value["array"].astype(kind).ravel().astype(float), -1e9)
            expected = (x * (1 + np.arange(x.size) % 7)).sum()
            assert sums[1] == pytest.approx(expected, rel=1e-9, abs=1e-6)
            n += 1
    assert n > 600
    best = browser.js("""return data.values.map((value, i) => value.n && [numbers(i),
        [...stored.i4.subarray(value.ids, value.ids + numbers(i).length)]])""")
    rows = [(x["array"].reshape(-1, 3329), b) for x, b in zip(record.values, best) if b]
    for x, (numbers, ids) in rows:
        shown = np.array(ids).reshape(len(x), -1)
        expected = np.take_along_axis(x, shown, -1).astype(np.float32).ravel().tolist()
        assert [y for y in numbers if y is not None] == [y for y in expected if y > -np.inf]
    assert len(rows) >= 30


def test_a_table_over_the_vocabulary_has_the_best_tokens_and_the_next(made):
    record, _, sequence = made
    packing = Packing(record, {}, sequence, [], True)
    packing.length = len(sequence.ids) - 1
    came = sequence.ids[-1]
    x = np.zeros(3329, np.float32)
    x[[5, 7, came]] = 3, 2, -1
    place = packing.store_best(x)
    ids = packing.arrays["i4"][-1].tolist()
    assert ids[:2] == [5, 7] and ids[-1] == came and place["n"] == 11 and not place["sum"]
    place = packing.store_best(np.cumsum(np.abs(x)))
    assert place["sum"] and packing.arrays["i4"][-1].tolist() == sorted(packing.arrays["i4"][-1])
    assert packing.store_best(np.sort(np.random.default_rng(0).random(3329))[::-1])["sorted"]


def test_a_long_prompt_keeps_the_first_and_the_last_layer(browser):
    ids = run("Once upon a time, there was a girl." * 6, 1)[2].ids
    for n, whole in (16, True), (64, False):
        html = code_html(*run(ids[:n], 4))
        assert len(html) <= 3_000_000
        browser.open(html, 360)
        assert browser.js("return [data.left_out, data.whole]") == [[1, 2, 3], whole]
        assert "layers 1 to 3" in browser.text("#limits")
        browser.js("goTo(stops.findIndex((s) => s.part === 2) + 1)")
        assert "not in this page" in browser.text("#names")


def test_what_the_page_cannot_show_is_refused_before_the_run(tmp_path, monkeypatch):
    tokenizer, model = utils.load("stories")
    check(model, 64)
    with pytest.raises(UserError, match="64 tokens, not 65: shorten"):
        check(model, 65)
    with pytest.raises(UserError, match="other code"):
        page.show_code(*utils.load("stories-llama"), "Once")
    sequence = Sequence(model, tokenizer.encode("Once upon a"), 0)
    file = tmp_path / "page.html"
    with pytest.raises(UserError, match="no pass"):
        with writing_code(f"{file}", tokenizer, sequence, model):
            pass
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr("page.code.MOST_BYTES", 1000)
    with pytest.raises(UserError, match="shorten the prompt"):
        code_html(*run(n=1))


def test_a_notebook_gets_the_page_in_a_frame():
    pytest.importorskip("IPython")
    shown = page.show_code(*utils.load("stories"), "Once upon a", n=1)
    assert (
        shown.data.startswith("<div><iframe srcdoc=") and "The code with its numbers" in shown.data
    )


# --- stepping -------------------------------------------------------------------------------------


def place(browser):
    return browser.js(PLACE)


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser.driver).send_keys(*keys).perform()


def test_steps_by_keys_and_buttons(browser, html):
    browser.open(html)
    assert place(browser)[:3] == [0, "loop", "cached"]
    visit = "goTo(stops.findIndex((s) => s.part === 0))"
    browser.js(visit)
    at = place(browser)
    assert at[:3] == [0, 0, "GPT2.__call__"]
    press(browser, KEYS["down"])
    assert place(browser)[2] == "GPT2.block"
    press(browser, KEYS["up"])  # the next layer's line, in the function that called
    assert place(browser)[:3] == [0, 1, "GPT2.__call__"]
    press(browser, KEYS["left"])
    assert place(browser)[:2] == [0, 0]
    browser.js(visit)
    browser.js("go('over')")
    assert place(browser)[:3] == [0, 1, "GPT2.__call__"]
    for _ in range(4):  # further layers are folded: one step for each
        browser.all("#steps button")[1].click()
    assert place(browser)[:2] == [0, "out"]
    press(browser, "[")
    assert place(browser)[:2] == [0, 4]
    press(browser, KEYS["down"], ".")
    assert place(browser)[:3] == [1, 4, "GPT2.block"]
    press(browser, "3")
    assert browser.js("return state.head") == 3


def test_each_stop_is_drawn_and_its_address_leads_back(browser, html):
    browser.open(html, 360)
    assert browser.js("""let wide = 0;
        for (const i of stops.keys()) {
            goTo(i);
            const list = document.querySelectorAll(".operation");
            if (list.length) list[list.length - 1].click();
            wide += document.documentElement.scrollWidth > innerWidth;
        }
        return wide""") == 0  # fmt: skip
    browser.js("goTo(stops.findIndex((s) => s.pass === 1 && s.part === 2) + 9)")
    browser.wait("return location.hash.startsWith('#pass=1&part=2&line=10')")
    at, address = place(browser), browser.js("return location.hash")
    browser.open(html, address=address)
    assert place(browser) == at and browser.errors() == []


def test_bookmarks_ask_and_answer(browser, html, made):
    browser.open(html)
    names = browser.texts("#bookmarks button")
    assert len(names) == 12 and not browser.all("#bookmarks button:disabled")
    for i, (function, source) in enumerate(BOOKMARKS):
        browser.all("#bookmarks button")[i].click()
        assert place(browser)[2] == function and browser.text("#question > p").endswith("?")
        chosen = browser.texts("#chosen code") or browser.texts("#source .now span")
        assert source in chosen[0]
        assert not browser.all("#question details[open]")
    browser.open(code_html(*run(n=1)))
    assert browser.texts("#bookmarks button:disabled") == ["10 temperature", "11 top-k"]


BOOKMARKS = [
    ("causal_mask", "np.where"),
    ("attention", "k.swapaxes(-1, -2)"),
    ("attention", "softmax("),
    ("attention", "@ v"),
    ("GPT2.self_attention", "c_proj"),
    ("GPT2.block", "self.self_attention"),
    ("gelu", "tanh"),
    ("GPT2.__call__", "ln_f"),
    ("GPT2.__call__", "lm_head"),
    ("temperature", "logits / scale"),
    ("top_k.keep_top_k", "keep("),
    ("draw", ""),
]


def test_the_keyboard_reaches_every_control_and_each_has_a_name(browser, html):
    browser.open(html)
    browser.js("visit(1)")
    names = browser.js("""return [...document.querySelectorAll("button, input, [tabindex]")]
        .filter((x) => x.offsetParent && !x.disabled).map((x) =>
            (x.ariaLabel || x.textContent || x.labels?.[0]?.textContent || "").trim())""")
    assert len(names) > 40 and all(names)
    browser.js("document.querySelector('.cells').focus()")
    press(browser, KEYS["right"], KEYS["down"])
    shown = browser.js("return document.activeElement.closest('.array').innerText")
    assert re.search(r"\[0, 1, 1\] = .* \(head 0, upon\)", shown.replace("\u2423", ""))
