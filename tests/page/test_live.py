"""The model in a live page computes what NumPy computes. A headless Chromium opens the page as a
file."""

import base64
import copy
import json

import numpy as np
import pytest

import page
import utils
from generate import generate
from gpt2 import log_softmax, softmax
from loading.errors import UserError
from page import label, live
from samplers import make_sampler
from tests.support.chromium import CHROMIUM, DRIVER, Browser
from tests.support.pages import recorded

pytest.importorskip("selenium", reason="the live page's tests need selenium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="the live page's tests need chromium and its chromedriver"
    ),
]
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
HOSTILE = [
    "",
    " ",
    "  a  b\n\n\tc ",
    "don't I'LL we've 's",
    "a1b22 333,4;;5 -- !",
    "naïve Zoë ß ŉ Ǆ ａ ½ ² Ⅷ ٣ 𝟛",
    "日本語 text ไทย हिन्दी العربية",
    "👩\u200d👩\u200d👧 🇺🇳 e\u0301",
    "\u200b\u2028\u2029\x85\xa0\ufeff\x1c\x1f x \u202eevil\u202c",
    "<|endoftext|></script><img src=x onerror=alert(1)>",
]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    browser.driver.set_script_timeout(120)
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="module", params=["stories", "stories-draft"])
def opened(request, browser, tmp_path_factory):
    """Open a live page. Return the browser, and the page's tokenizer and model."""
    tokenizer, model = utils.load(request.param)
    model = live.in_8_bits(tokenizer, model)
    open_page(browser, tmp_path_factory.mktemp("live"), tokenizer, model)
    return browser, tokenizer, model


def open_page(browser, folder, tokenizer, model, text="Once upon a time", width=1280, **settings):
    """Open a live page, and return its data."""
    data = recorded(tokenizer, model, text, 8, **settings)
    browser.open(folder, page.html(data, live.parts(tokenizer, model)), width)
    settled(browser)
    same_random_numbers(browser)
    return data


def same_random_numbers(browser):
    """Make Math.random return the same numbers after each call of this function."""
    browser.js("let u = 0; Math.random = () => u = (u + 0.618034) % 1")


def settled(browser):
    """Wait until the panel has finished all actions."""
    browser.wait("return Boolean(globalThis.live)")
    browser.driver.execute_async_script("""
        const [done] = arguments, {panel} = live;
        const wait = (last) => last.then(() => last === panel.done ? done() : wait(panel.done));
        wait(panel.done);
    """)


def logits_of(browser, ids, heads=()):
    """Return the page's logits [n, n_vocab] for a text, with these heads switched off."""
    text = browser.js(
        """
        const [ids, heads] = arguments, model = live.without(live.model, heads);
        const cache = [];
        const bytes = ids.flatMap((id) => [...new Uint8Array(model.logits(id, cache).buffer)]);
        return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        """,
        ids,
        list(heads),
    )
    return np.frombuffer(base64.b64decode(text), np.float32).reshape(len(ids), -1)


def written(browser, ids, n, **settings):
    """Let the page generate n tokens after a text. Return the ids of the whole text."""
    return browser.driver.execute_async_script(
        """
        const [ids, n, settings, done] = arguments, {model, read, ranked, draw} = live;
        (async () => {
          let text = await read(model, ids);
          while (text.ids.length < ids.length + n) {
            const candidates = ranked(text.rows.at(-1).logits, settings);
            const id = draw(candidates, Math.random());
            text = await read(model, [...text.ids, id], text);
          }
          done(text.ids);
        })();
        """,
        ids,
        n,
        PLAIN | settings,
    )


def test_the_logits_equal_numpy_s_for_50_texts(opened):
    browser, tokenizer, model = opened
    rng = np.random.default_rng(0)
    for n in range(1, 51):
        ids = rng.integers(model.n_vocab, size=n // 2 + 1).tolist()
        if n % 2:  # half of the texts are stories, the others are random tokens
            ids = written(browser, tokenizer.encode("One day"), n // 2)
        np.testing.assert_allclose(logits_of(browser, ids), model(ids), rtol=0, atol=1e-3)


def test_a_greedy_text_of_200_tokens_equals_numpy_s(opened):
    browser, tokenizer, model = opened
    endless, prompt = copy.copy(model), tokenizer.encode("Once upon a time")
    endless.stop_ids = ()
    ids = [*generate(endless, prompt, 200)]
    assert len(ids) == 200
    assert written(browser, prompt, 200, temperature=0) == prompt + ids


def test_a_text_becomes_the_same_ids_and_pieces(opened):
    browser, tokenizer, _ = opened
    rng = np.random.default_rng(0)
    points = rng.integers(1, 0x3000, (40, 30))  # characters of many scripts
    words = "".join(map(chr, rng.integers(97, 123, 3000)))
    for text in [*HOSTILE, *("".join(map(chr, row)) for row in points), words]:
        ids = tokenizer.encode(text)
        assert browser.js("return live.tokenizer.encode(arguments[0])", text) == ids, text
        assert pieces_of(browser, ids) == [*map(tokenizer.stream().feed, ids)]
    ids = rng.integers(tokenizer.n_vocab, size=300).tolist()  # random tokens, not always UTF-8
    assert pieces_of(browser, ids) == [*map(tokenizer.stream().feed, ids)]


def pieces_of(browser, ids):
    return browser.js("return live.tokenizer.pieces(arguments[0])", ids)


def test_every_token_has_the_label_of_the_page(opened):
    browser, tokenizer, _ = opened
    labels = browser.js("return range(live.model.n_vocab).map((id) => data.labels[id])")
    assert labels == [label(tokenizer, id) for id in range(tokenizer.n_vocab)]


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1},
        {"temperature": 0},
        {"temperature": 0.7, "top_k": 40},
        # With top_p 0.9, rounding errors would decide whether a token is removed.
        {"temperature": 1.3, "top_p": 0.7},
        {"top_p": 0.3},
        {"top_k": 5, "top_p": 0.8, "min_p": 0.1},
    ],
)
def test_sampling_equals_samplers_py(opened, settings):
    browser, tokenizer, model = opened
    ids = tokenizer.encode("Tom and Lily went to the")
    logits = model(ids)[-1]
    found = browser.js(
        "return live.ranked(Float32Array.from(arguments[0]), arguments[1])",
        logits.tolist(),
        PLAIN | settings,
    )
    probabilities = np.zeros(model.n_vocab)
    for id, p in found:
        probabilities[id] = p
    np.testing.assert_allclose(probabilities, make_sampler(**settings)(logits, ids), atol=1e-6)
    assert (np.diff([p for _, p in found]) <= 0).all()


def test_the_draws_follow_the_probabilities(opened):
    browser, tokenizer, model = opened
    logits = model(tokenizer.encode("Tom and Lily went to the"))[-1]
    probabilities = make_sampler(top_k=12)(logits, [])
    ids = browser.js(
        """
        const candidates = live.ranked(Float32Array.from(arguments[0]), arguments[1]);
        return range(20000).map((i) => live.draw(candidates, (i + 0.5) / 20000));
        """,
        logits.tolist(),
        PLAIN | {"top_k": 12},
    )
    counts = np.bincount(ids, minlength=model.n_vocab)
    np.testing.assert_allclose(counts, 20_000 * probabilities, atol=1.01)


def test_a_head_that_is_off_adds_nothing(opened):
    browser, tokenizer, model = opened
    ids = tokenizer.encode("Tom and Lily went to the")
    changed = copy.deepcopy(model)
    d_head = model.n_embd // model.n_head
    for layer, head in [(0, 1), (1, 0)]:
        w = changed.params["blocks"][layer]["attn"]["c_proj"]["w"]
        w[:, head * d_head : (head + 1) * d_head] = 0
    found = logits_of(browser, ids, ["0.1", "1.0"])
    np.testing.assert_allclose(found, changed(ids), rtol=0, atol=1e-3)
    assert np.abs(found - model(ids)).max() > 0.1
    np.testing.assert_allclose(logits_of(browser, ids), model(ids), rtol=0, atol=1e-3)


def test_a_fork_of_a_cache_does_not_change_it(opened):
    """Two branches fork from one cache. Each gets the logits of its own text."""
    browser, tokenizer, _ = opened
    differences = browser.js(
        """
        const [common, a, b] = arguments, {model} = live, cache = [];
        const last = (ids, cache) => Array.from(ids.map((id) => model.logits(id, cache)).at(-1));
        last(common, cache);
        const fork = cache.slice(0, 3), of_a = last(a, cache), of_b = last(b, fork);
        const apart = (xs, ys) => Math.max(...xs.map((x, i) => Math.abs(x - ys[i])));
        return [apart(of_a, last([...common, ...a], [])),
                apart(of_b, last([...common.slice(0, 3), ...b], []))];
        """,
        tokenizer.encode("Tom and Lily went"),
        [5, 6, 7],
        [8, 9],
    )
    assert max(differences) < 1e-4


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


def test_a_page_of_stories_draft_is_small():
    tokenizer, model = utils.load("stories-draft")
    model = live.in_8_bits(tokenizer, model)
    parts = live.parts(tokenizer, model)
    assert len(json.dumps(parts)) < 530_000
    assert len(page.html(recorded(tokenizer, model, "Once", 20), parts)) < 750_000


# --- the panel ------------------------------------------------------------------------------------


@pytest.fixture
def panel(browser, tmp_path):
    """Open a live page of stories-draft. Return browser, tokenizer, model and the text's ids."""
    tokenizer, model = utils.load("stories-draft")
    model = live.in_8_bits(tokenizer, model)
    data = open_page(browser, tmp_path, tokenizer, model, temperature=0.8)
    return browser, tokenizer, model, data["ids"]


def branches(browser):
    return browser.js("return live.panel.branches.map((branch) => branch.whole.ids)")


def click(browser, selector, place=0):
    browser.all(f"#live {selector}")[place].click()
    settled(browser)


def bars(browser):
    """Return {id: p} for the candidates that the panel lists."""
    lines = browser.js(
        "return [...document.querySelectorAll('#live .bars li')].map((line) =>"
        " [Number(line.dataset.token), Number(line.dataset.p)])"
    )
    assert len(lines) >= 10
    return dict(lines)


def test_a_click_on_a_candidate_opens_a_branch_and_the_model_goes_on(panel):
    browser, tokenizer, _, ids = panel
    click(browser, ".current .token", 6)
    chosen = list(bars(browser))[2]
    same_random_numbers(browser)
    click(browser, ".bars button", 2)
    first, second = branches(browser)
    assert first == ids and second[:7] == [*ids[:6], chosen]
    assert len(second) == 7 + 40 or second[-1] in panel[2].stop_ids
    same_random_numbers(browser)
    assert second == written(browser, second[:7], len(second) - 7, temperature=0.8)
    shown = browser.value("#live .current .text", "textContent")
    assert shown.rstrip("…").replace("↵", "") == tokenizer.decode(second)
    assert browser.driver.get_log("browser") == []


def test_a_candidate_at_the_end_lengthens_the_branch(panel):
    browser, _, _, ids = panel
    click(browser, ".bars button", 1)
    [text] = branches(browser)
    assert text[: len(ids)] == ids and len(text) == len(ids) + 1 + 40
    click(browser, "#write")
    assert len(branches(browser)[0]) == len(text) + 40


def test_writing_can_be_stopped(panel):
    browser, _, _, ids = panel
    says = browser.driver.execute_async_script(
        """
        const [n, done] = arguments, button = document.querySelector("#write"), says = [];
        const stop = () => {
          if (live.panel.current.whole.ids.length < n) return setTimeout(stop);
          says.push(button.textContent);
          button.click();
          live.panel.done.then(() => done([...says, button.textContent]));
        };
        button.click();
        stop();
        """,
        len(ids) + 3,
    )
    assert says == ["Stop", "Write on from the framed place"]
    assert len(ids) + 3 <= len(branches(browser)[0]) < len(ids) + 10


def test_the_model_writes_on_from_the_framed_place_and_draws_anew_each_time(panel):
    browser, _, _, ids = panel
    for _ in range(2):
        click(browser, ".branch:first-child .token", 6)
        click(browser, "#write")
    first, *others = branches(browser)
    assert first == ids and len(others) == 2 and others[0] != others[1]
    assert all(text[:6] == ids[:6] for text in others)


def test_a_text_can_be_edited_and_its_markup_stays_text(panel):
    browser, tokenizer, model, ids = panel
    click(browser, "#edit")
    area = browser.all("#live textarea")[0]
    assert area.get_attribute("value") == tokenizer.decode(ids)
    text = "Tom saw <img src=x onerror=alert(1)> and </script> \u202ea"
    area.clear()
    area.send_keys(text)
    click(browser, "form button")
    assert branches(browser)[1] == tokenizer.encode(text)
    assert browser.all("#live img") == [] and not browser.all("#live textarea")[0].is_displayed()
    click(browser, "#write")
    assert branches(browser)[1][: len(tokenizer.encode(text))] == tokenizer.encode(text)
    click(browser, "#edit")
    browser.js("document.querySelector('#live textarea').value = 'so '.repeat(700)")
    click(browser, "form button")
    assert [len(ids) for ids in branches(browser)][2] == model.n_ctx  # a longer text is cut off
    assert browser.driver.get_log("browser") == []


def test_a_switch_changes_the_candidates_as_in_numpy(panel):
    browser, tokenizer, model, ids = panel
    changed = copy.deepcopy(model)
    d_head = model.n_embd // model.n_head
    changed.params["blocks"][1]["attn"]["c_proj"]["w"][:, d_head:] = 0
    click(browser, ".switches input", 3)
    assert not browser.all("#live [value='1.1']")[0].is_selected()
    expected = softmax(changed(ids)[-1])
    for id, p in bars(browser).items():
        assert p == pytest.approx(expected[id], abs=1e-4)
    before = softmax(model(ids)[-1])
    assert {np.argmax(before), np.argmax(expected)} <= bars(browser).keys()
    notes = "return [...document.querySelectorAll('#live .bars small')].map((x) => x.textContent)"
    assert all(note.startswith("was ") for note in browser.js(notes))
    click(browser, ".switches input", 3)
    assert max(bars(browser).values()) == pytest.approx(before.max(), abs=1e-4)
    assert not any(browser.js(notes))


def test_the_model_writes_with_the_page_s_settings(panel):
    browser, tokenizer, model, ids = panel
    browser.slide("temperature", 0)
    click(browser, "#write")
    [text] = branches(browser)
    best = model(text[:-1]).argmax(-1)[len(ids) - 1 :]
    assert text[len(ids) :] == best.tolist() and len(text) > len(ids)
    browser.slide("temperature", 1)
    browser.slide("top_k", 1)  # draws, and has no choice
    click(browser, "#write")
    [longer] = branches(browser)
    best = model(longer[:-1]).argmax(-1)[len(text) - 1 :]
    assert longer[len(text) :] == best.tolist() and len(longer) > len(text)


def test_two_branches_are_compared(panel):
    browser, _, model, ids = panel
    click(browser, ".current .token", 6)
    click(browser, ".bars button", 2)
    first, second = branches(browser)

    def bits(text):
        logprobs = log_softmax(model(text))[range(len(text) - 1), text[1:]]
        return f"{len(text) - 6} tokens, {-logprobs[5:].mean() / np.log(2):.1f} bits each"

    note = browser.text("#live .branch:not(.current) .note")
    assert note == f"6 tokens as in Branch 2, then {bits(first)}; there {bits(second)}"
    assert len(browser.all("#live .same")) == 6
    click(browser, ".branch:not(.current) .token", 6)  # go to the other branch
    assert "6 tokens as in Branch 1" in browser.text("#live .branch:not(.current) .note")
    click(browser, ".current h3 button")
    assert branches(browser) == [second]


def test_the_panel_can_be_used_with_keys_alone(panel):
    browser, _, _, ids = panel
    selected = browser.js("return state.selected")
    browser.js("document.querySelector('#live [aria-selected=true]').focus()")
    for key in 2 * ["\ue012"]:  # the left arrow
        browser.driver.switch_to.active_element.send_keys(key)
        settled(browser)
    assert browser.js("return live.panel.place") == len(ids) - 2
    assert browser.js("return document.activeElement.getAttribute('aria-selected')") == "true"
    # The keys have not moved the selection in the page's own text.
    assert browser.js("return state.selected") == selected
    browser.js("document.querySelectorAll('#live .bars button')[3].focus()")
    browser.driver.switch_to.active_element.send_keys("\ue007")  # Enter
    settled(browser)
    assert branches(browser)[1][: len(ids) - 2] == ids[:-2]
    assert browser.js("return document.activeElement.dataset.key") == "candidate 3"


def test_a_text_ends_with_the_context(panel):
    browser, _, model, ids = panel
    long = np.random.default_rng(0).integers(3000, size=model.n_ctx - 5).tolist()
    script = """
        const [ids, done] = arguments, {panel} = live;
        live.model.stop_ids.length = 0;
        live.read(live.model, ids).then((found) => {
          panel.current.whole = found;
          panel.place = ids.length;
          done();
        });
    """
    browser.driver.execute_async_script(script, long)
    click(browser, "#write")
    assert len(branches(browser)[0]) == model.n_ctx
    assert browser.all("#write")[0].get_attribute("disabled")
    assert browser.driver.get_log("browser") == []


@pytest.mark.parametrize("width", [360, 800, 1280, 1600])
def test_the_panel_fits_and_can_be_touched(browser, tmp_path, width):
    tokenizer, model = utils.load("stories-draft")
    model = live.in_8_bits(tokenizer, model)
    open_page(browser, tmp_path, tokenizer, model, width=width)
    click(browser, ".current .token", 6)
    click(browser, ".bars button", 2)
    assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth")
    small = browser.js("""
        return [...document.querySelectorAll("#live button, #live input")].filter((button) => {
          const {width, height} = button.getBoundingClientRect();
          return width && (width < 24 || height < 24);
        }).map((button) => button.outerHTML);
    """)
    assert small == []
