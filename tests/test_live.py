"""The model in the page: in a headless Chromium, over file://, it agrees with NumPy's."""

import base64
import copy

import numpy as np
import pytest

import utils
from generate import Sequence, cached
from inside import live, page
from inside.labels import label
from samplers import make_sampler
from tests.chromium import CHROMIUM, DRIVER, Browser
from tests.pages import recorded

pytest.importorskip("selenium", reason="the live page's tests need selenium")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="the live page's tests need chromium and its chromedriver"
)
HOSTILE = [
    "", " ", "  a  b\n\n\tc ", "don't I'LL we've 's", "a1b22 333,4;;5 -- !", "naïve Zoë ß ŉ Ǆ ａ",
    "日本語 text ไทย हिन्दी العربية", "👩‍👩‍👧 🇺🇳 e\u0301", "\u200b\u2028\u2029\x85\xa0\ufeff\x1c\x1f x",
    "<|endoftext|></script><img src=x onerror=alert(1)>", "½ ² Ⅷ ٣ 𝟛", "\u202eevil\u202c",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    browser.driver.set_script_timeout(120)
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="module", params=["stories", "stories-draft"])
def opened(request, browser, tmp_path_factory):
    """A live page in the browser -> the model and the tokenizer that it has."""
    tokenizer, model = utils.load(request.param)
    model = live.in_8_bits(model)
    show(browser, tmp_path_factory.mktemp("live"), tokenizer, model)
    return browser, tokenizer, model


def show(browser, folder, tokenizer, model, text="Once upon a time", **settings):
    data = recorded(tokenizer, model, text, 8, **settings)
    browser.open(folder, page.html(data, live.parts(tokenizer, model)), 1280)
    settled(browser)
    return data


def settled(browser):
    """Wait until the panel has done what it was asked for."""
    browser.driver.execute_async_script(
        "const [done] = arguments, wait = (last) => (last ?? Promise.resolve()).then(() => {"
        "  const {panel} = globalThis.live ?? {};"
        "  if (last && last === panel.done) done();"
        "  else setTimeout(() => wait(panel?.done), last ? 0 : 20);"
        "}); wait(globalThis.live?.panel.done);"
    )


def logits_of(browser, ids, heads=()):
    """The page's logits [n, n_vocab] for a text."""
    text = browser.js(
        "const [ids, heads] = arguments, {model, without} = live;"
        "const runs = without(model, new Set(heads)), cache = runs.new_cache();"
        "const rows = ids.map((id) => runs.logits(id, cache));"
        "let text = ''; for (const row of rows) for (const byte of new Uint8Array(row.buffer))"
        "  text += String.fromCharCode(byte);"
        "return btoa(text)", ids, list(heads),
    )  # fmt: skip
    return np.frombuffer(base64.b64decode(text), np.float32).reshape(len(ids), -1)


def written(browser, ids, n, seed=0, **settings):
    """The text after n new tokens, with the page's cache, sampler and generator."""
    settings = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0} | settings
    return browser.driver.execute_async_script(
        "const [ids, n, seed, settings, done] = arguments;"
        "const {model, Reader, ranked, draw, uniform} = live;"
        "(async () => {"
        "  let reader = await new Reader(model).read(ids);"
        "  for (let i = 0; i < n; i++) {"
        "    const candidates = ranked(reader.rows.at(-1).logits, settings);"
        "    const id = draw(candidates, uniform(seed, reader.ids.length));"
        "    reader = await reader.read([...reader.ids, id]);"
        "  }"
        "  done(reader.ids);"
        "})()", ids, n, seed, settings,
    )  # fmt: skip


def test_the_logits_are_those_of_numpy_on_50_texts(opened):
    browser, tokenizer, model = opened
    rng = np.random.default_rng(0)
    for n in range(1, 51):
        ids = rng.integers(model.n_vocab, size=n // 2 + 1).tolist()
        if n % 2:  # a story
            ids = written(browser, tokenizer.encode("One day"), n // 2, seed=n)
        np.testing.assert_allclose(logits_of(browser, ids), model(ids), atol=1e-3)


def test_a_greedy_text_of_200_tokens_is_that_of_numpy(opened):
    browser, tokenizer, model = opened
    model = copy.copy(model)
    model.stop_ids = ()
    sequence = Sequence(model, tokenizer.encode("Once upon a time"), 200)
    for _ in cached(model, [sequence]):
        pass
    assert written(browser, sequence.ids[: sequence.n_prompt], 200, temperature=0) == sequence.ids


def test_a_text_becomes_the_same_ids_and_pieces(opened):
    browser, tokenizer, _ = opened
    rng = np.random.default_rng(0)
    points = rng.integers(1, 0x3000, (40, 30))  # scripts of every kind, unassigned points too
    texts = [*HOSTILE, *("".join(map(chr, row)) for row in points), "word" * 500]
    for text in texts:
        ids = tokenizer.encode(text)
        assert browser.js("return live.tokenizer.encode(arguments[0])", text) == ids, text
        pieces = browser.js("return live.tokenizer.pieces(arguments[0])", ids)
        assert pieces == page.pieces(tokenizer, ids)
    ids = rng.integers(len(tokenizer.vocab), size=300).tolist()  # bytes that are not UTF-8
    assert browser.js("return live.tokenizer.pieces(arguments[0])", ids) == page.pieces(
        tokenizer, ids
    )


def test_every_token_has_the_label_of_the_page(opened):
    browser, tokenizer, _ = opened
    labels = browser.js("return range(live.model.n_vocab).map((id) => live.tokenizer.label(id))")
    for id, found in enumerate(labels):
        try:
            tokenizer.token_bytes(id).decode("utf-8")
            assert found == label(tokenizer, id)
        except UnicodeDecodeError:  # bytes: the page shows all that are not ASCII
            assert found.isascii() and "<" in found


@pytest.mark.parametrize("settings", [
    {"temperature": 1}, {"temperature": 0}, {"temperature": 0.7, "top_k": 40},
    {"temperature": 1.3, "top_p": 0.9}, {"top_p": 0.3}, {"top_k": 5, "top_p": 0.8, "min_p": 0.1},
])  # fmt: skip
def test_sampling_is_that_of_samplers(opened, settings):
    browser, tokenizer, model = opened
    ids = tokenizer.encode("Tom and Lily went to the")
    found = browser.js(
        "const [ids, settings] = arguments;"
        "const {model, ranked} = live, cache = model.new_cache();"
        "return ranked(ids.map((id) => model.logits(id, cache)).at(-1), settings)",
        ids, {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0} | settings,
    )  # fmt: skip
    probabilities = np.zeros(model.n_vocab)
    for id, p in found:
        probabilities[id] = p
    expected = make_sampler(**settings)(model(ids)[-1], ids)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert (np.diff([p for _, p in found]) <= 0).all()


def test_the_generator_is_uniform_and_its_seed_gives_one_text(opened):
    browser, tokenizer, _ = opened
    numbers = np.array(browser.js(
        "return range(100).map((seed) => range(200).map((place) => live.uniform(seed, place)))"
    ))  # fmt: skip
    assert 0 <= numbers.min() and numbers.max() < 1
    for counts in (np.histogram(numbers, 20, (0, 1))[0],
                   np.histogram((numbers[:, 1:] - numbers[:, :-1]) % 1, 20, (0, 1))[0],
                   np.histogram((numbers[1:] - numbers[:-1]) % 1, 20, (0, 1))[0]):  # fmt: skip
        expected = counts.sum() / 20
        assert ((counts - expected) ** 2 / expected).sum() < 43.8  # chi-square, 19 degrees: 0.1 %
    ids = tokenizer.encode("One day")
    assert written(browser, ids, 12, seed=1) == written(browser, ids, 12, seed=1)
    assert written(browser, ids, 12, seed=1) != written(browser, ids, 12, seed=2)


def test_a_head_switched_off_adds_nothing(opened):
    browser, tokenizer, model = opened
    ids = tokenizer.encode("Tom and Lily went to the")
    changed = copy.deepcopy(model)
    d_head = model.n_embd // model.n_head
    for layer, head in [(0, 1), (1, 0)]:
        w = changed.params["blocks"][layer]["attn"]["c_proj"]["w"]
        w[:, head * d_head : (head + 1) * d_head] = 0
    found = logits_of(browser, ids, ["0.1", "1.0"])
    np.testing.assert_allclose(found, changed(ids), atol=1e-3)
    assert np.abs(found - model(ids)).max() > 0.1
    np.testing.assert_allclose(logits_of(browser, ids), model(ids), atol=1e-3)


def test_a_fork_of_a_cache_does_not_change_it(opened):
    """Two branches go on from one cache; each has the logits of its own text."""
    browser, tokenizer, model = opened
    common, (a, b) = tokenizer.encode("Tom and Lily went"), ([5, 6, 7], [8, 9])
    errors = browser.js(
        "const [common, a, b] = arguments, {model} = live, cache = model.new_cache();"
        "const last = (ids, cache) => Array.from(ids.map((id) => model.logits(id, cache)).at(-1));"
        "last(common, cache);"
        "const fork = cache.fork(3), of_a = last(a, cache), of_b = last(b, fork);"
        "const apart = (xs, ys) => Math.max(...xs.map((x, i) => Math.abs(x - ys[i])));"
        "return [apart(of_a, last([...common, ...a], model.new_cache())),"
        "        apart(of_b, last([...common.slice(0, 3), ...b], model.new_cache()))]", common, a, b,
    )  # fmt: skip
    assert max(errors) < 1e-4
