"""Tests of the page in a headless Chromium: panels, sliders, layout, keyboard and text."""

import functools
import re

import numpy as np
import pytest

import page
import utils
from samplers import make_sampler, min_length
from tests.support.chromium import CHROMIUM, DRIVER, Browser
from tests.support.pages import METHODS, by_method, drafted, recorded

pytest.importorskip("selenium", reason="the page's tests need selenium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="the page's tests need chromium and its chromedriver"
    ),
]
SETTINGS = [  # settings of the sliders
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 2.0},
    {"temperature": 0},
    {"temperature": 0.8, "top_k": 40},
    {"temperature": 1.0, "top_p": 0.9},
    {"top_p": 0.5},
    {"min_p": 0.05},
    {"temperature": 1.5, "top_k": 100, "top_p": 0.7, "min_p": 0.02},
]
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
STYLE = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return request.param


@functools.cache
def run(name):
    """Record a run of the model `stories` for a page, and return the page's data."""
    tokenizer, model = utils.load("stories")
    record = functools.partial(recorded, tokenizer, model)
    named = {"model": "stories", "method": "cached"}
    if name == "filtered":  # two filters act before those of the sliders, one after them
        [the], [a] = tokenizer.encode(" the"), tokenizer.encode(" a")

        def without(token):
            def ban(logits, ids):
                return np.where(np.arange(len(logits)) == token, -np.inf, logits)

            return ban

        first, last = [min_length(40, model.stop_ids), without(the)], [without(a)]
        settings = {"temperature": 0.8, "top_k": 20, "first": first, "last": last}
        return record("The cat sat on", 8, named=named, **settings)
    if name == "greedy":
        return record("Once upon a time", 30, temperature=0, named=named)
    if name == "long":
        first = [min_length(400, model.stop_ids)]
        return record("Once upon a", 260, first=first, temperature=0.8, named=named)
    assert name == "drafts"
    named |= {"method": "speculative", "draft": "stories-draft", "gamma": 4}
    return record("Once upon a time", 40, drafted, temperature=0.9, named=named)


@pytest.mark.parametrize("width", [360, 800, 1280, 1600])
def test_a_page_loads_without_errors_or_requests_and_fits(browser, tmp_path, method, width):
    data = by_method(method)
    browser.open(tmp_path, page.html(data), width)
    assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth")
    assert len(browser.all("#text .token")) == len(data["ids"])
    shown = {section.get_attribute("id") for section in browser.all("section:not([hidden])")}
    more = {"beam": {"beams"}, "en-de": {"beams", "alignment"}, "speculative": {"drafts"}}
    expected = {"candidates", "why", "attention", "lens", "cache"} | more.get(method, set())
    assert shown == expected


def test_the_heading_says_what_happened(browser, tmp_path, method):
    browser.open(tmp_path, page.html(by_method(method)))
    says = {
        "naive": "The model “stories” wrote this, drawing one token at a time at temperature 0.8.",
        "cached": "The model “stories” wrote this, drawing one token at a time at temperature 0.8.",
        "speculative": "The model “stories” wrote this, with drafts by stories-draft, up to"
        " 4 at a time, at temperature 0.8.",
        "beam": "The model “stories” wrote this, following the 3 likeliest beginnings at once.",
        "en-de": "The model “en-de” wrote this from its source, following the 3 likeliest"
        " beginnings at once.",
    }
    assert browser.text("h1") == says[method]
    own = {"model": "stories", "loop": "mine.py:plain", "method": "cached"}
    tokenizer, model = utils.load("stories")
    browser.open(tmp_path, page.html(recorded(tokenizer, model, "Once", 1, temperature=0)))
    assert browser.text("h1").endswith("taking the best token each time.")
    assert "1 token given, 1 new" in browser.text("#facts")
    data = recorded(tokenizer, model, "Once", 2, named=own | {"loop": "/home/me/mine.py:plain"})
    browser.open(tmp_path, page.html(data))
    says = "The model “stories” wrote this, in a loop of its user's, mine.py:plain."
    assert browser.text("h1") == says
    assert "method" not in browser.text("#facts")


def test_a_click_selects_a_token_and_arrows_move_on(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    browser.all("#text .token")[6].click()
    selected = '#text [aria-selected="true"]'
    assert browser.value(selected, "id") == "token-6"
    surprise = -data["logprobs"][5] / np.log(2)
    assert f"{surprise:.1f} bits" in browser.text("#selected")
    browser.all("#text .token")[6].send_keys("\ue014")  # the right arrow key
    assert browser.value(selected, "id") == "token-7"
    assert browser.js("return document.activeElement.id") == "token-7"
    browser.all("#previous")[0].click()
    browser.all("#previous")[0].click()
    assert browser.value(selected, "id") == "token-5"
    browser.all("#text .token")[0].click()  # not possible: nothing predicts the first token
    assert browser.value(selected, "id") == "token-5"


# --- the address, and play ------------------------------------------------------------------------


def test_the_address_holds_the_state_of_the_page(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    browser.js("select(9)")
    browser.all('[data-head="4.6"]')[0].click()
    browser.slide("top_p", 0.9)
    browser.wait("return location.hash === '#token=9&head=4.6&top_p=0.9'")
    url = browser.js("return location.href")
    browser.driver.get("about:blank")
    browser.driver.get(url)
    browser.wait("return document.documentElement.dataset.ready")
    assert browser.value('#text [aria-selected="true"]', "id") == "token-9"
    assert browser.value(".heads [aria-pressed=true]", "data-head") == "4.6"
    assert browser.text("[for=top_p][data-is]") == "0.9"


@pytest.mark.parametrize(
    "address",
    [
        "token=999&head=9.9&top_p=7",
        "token=1.5",
        "token=-1&head=a.b",
        "top_k=0.5&temperature=x",
        "&&&=%",
        "head=constructor.length",
    ],
)
def test_any_address_is_harmless(browser, tmp_path, address):
    browser.open(tmp_path, page.html(by_method("cached")))
    browser.driver.get("about:blank")
    browser.driver.get((tmp_path / "page.html").as_uri() + "#" + address)
    browser.wait("return document.documentElement.dataset.ready")
    assert browser.driver.get_log("browser") == []
    assert len(browser.all('#text [aria-selected="true"]')) == 1


def test_play_lets_the_text_grow_to_its_end(browser, tmp_path):
    data = by_method("speculative")
    passes = [one | {"seconds": 0.0} for one in data["passes"]]
    browser.open(tmp_path, page.html(data | {"passes": passes}))
    browser.js("select(1)")
    browser.all("#play")[0].click()
    hidden = (
        "return [...document.querySelectorAll('#text .token')].filter((token) =>"
        " getComputedStyle(token).visibility === 'hidden').length"
    )
    assert browser.js(hidden) > 5
    assert browser.value("#play", "aria-pressed") == "true"
    browser.wait("return state.selected === n_rows && !growing")
    assert browser.js(hidden) == 0
    assert browser.value("#play", "aria-pressed") == "false"
    browser.js("select(n_rows); play()")
    browser.all("#previous")[0].click()  # the user stops the playback
    assert not browser.js("return growing")


def test_each_token_appears_with_the_pass_that_made_it(browser, tmp_path, method):
    data = by_method(method)
    browser.open(tmp_path, page.html(data))
    new = range(data["n_prompt"], len(data["ids"]))
    made = [browser.js("return passOf(arguments[0])", token) for token in new]
    assert made == sorted(made) and made[-1] <= len(data["passes"]) - 1
    seconds = sum(browser.js("return secondsBefore(arguments[0])", token) for token in new)
    steps = data["passes"][: len(new)] if data["beams"] else data["passes"]
    assert seconds == pytest.approx(sum(one["seconds"] for one in steps), abs=1e-3)


# --- the sampler ----------------------------------------------------------------------------------


def test_settings_between_the_sliders_steps_are_kept(browser, tmp_path):
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time", 4, temperature=0.73, top_p=0.925)
    browser.open(tmp_path, page.html(data))
    assert not browser.all("#restore")[0].is_displayed()
    for change in ("{temperature: 0.5, top_p: 0.3}", "{die: 0.5}"):
        browser.js(f"change({change})")
        browser.all("#restore")[0].click()
        assert browser.text("[for=temperature][data-is]") == "0.73"
        assert browser.text("[for=top_p][data-is]") == "0.925"
        browser.js("select(arguments[0])", data["n_prompt"])
        assert browser.text("#dice").startswith("The run's die showed")


def test_the_sliders_reach_the_run_s_top_k_and_ignore_words_in_the_address(browser, tmp_path):
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time", 4, temperature=0.7, top_k=200)
    browser.open(tmp_path, page.html(data))
    assert browser.js("return find('#top_k').value") == "200"
    browser.js("location.hash = '#top_k=150&min_p=abc'; followAddress()")
    assert browser.js("return [state.top_k, state.min_p]") == [150, 0]


def test_sliders_give_the_probabilities_of_samplers(browser, tmp_path):
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 8, temperature=0.8)
    browser.open(tmp_path, page.html(data))
    logits = model(data["ids"][:-1])
    for token in (5, 9):
        browser.all("#text .token")[token].click()
        best = np.argsort(-logits[token - 1], kind="stable")[:10]
        for settings in SETTINGS:
            for name, value in (PLAIN | settings).items():
                browser.slide(name, value)
            expected = make_sampler(**settings)(logits[token - 1], [])
            bars = browser.bars()
            assert [*bars][:10] == best.tolist()
            np.testing.assert_allclose([bars[id] for id in best], expected[best], atol=1e-5)
            n_left = (expected > 0).sum()
            assert "falls among the others" not in browser.text(".handle")
            if settings.get("temperature") != 0 and 0 < n_left < 200:
                assert browser.value(".handle", "data-kept") == f"{n_left}"


def test_the_page_samples_like_samplers_at_every_position(browser, tmp_path):
    """Where the page says that its probabilities are not exact, they are at most 1e-3 off."""
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 20, temperature=1.3)
    browser.open(tmp_path, page.html(data))
    exact = 0
    for row, logits in enumerate(model(data["ids"][:-1])):
        for settings in SETTINGS:
            found = chain(browser, row, settings)
            ids = [token["id"] for token in found["tokens"]]
            expected = make_sampler(**settings)(logits, [])[ids]
            error = np.abs(np.array([token["p"] for token in found["tokens"]]) - expected).max()
            assert found["others"] == pytest.approx(1 - expected.sum(), abs=1e-4)
            assert error < (1e-5 if found["exact"] else 1e-3), (row, settings)
            exact += found["exact"]
    assert exact > 0.9 * len(SETTINGS) * (len(data["ids"]) - 1)


def chain(browser, row, settings):
    return browser.js("return chain(arguments[0], arguments[1])", row, PLAIN | settings)


def test_the_page_follows_the_user_s_own_filters(browser, tmp_path):
    """The page has the model's probabilities and those after all filters. It marks the tokens that
    the user's own filters removed."""
    data, (tokenizer, model) = run("filtered"), utils.load("stories")
    browser.open(tmp_path, page.html(data))
    [the], [a] = tokenizer.encode(" the"), tokenizer.encode(" a")
    seen = set()
    for i in range(data["n_prompt"], len(data["ids"])):
        found = chain(browser, i - 1, {"temperature": 0.8, "top_k": 20})
        logits = model(data["ids"][:i])[-1]
        plain = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        banned = np.where(np.arange(len(logits)) == the, -np.inf, logits)
        p = make_sampler(temperature=0.8, top_k=20)(banned, [])
        p[a] = 0
        for token in found["tokens"]:
            assert token["model"] == pytest.approx(plain[token["id"]], abs=1e-4)
            assert token["p"] == pytest.approx(p[token["id"]] / p.sum(), abs=1e-4)
        browser.js("select(arguments[0])", i)
        for token, early in ((the, True), (a, False)):
            for row in browser.all(f'#candidates tr.removed[data-token="{token}"]'):
                chip = "arguments[0].querySelector('code')"
                line = browser.js(f"return getComputedStyle({chip}).textDecoration", row)
                assert "line-through" in line
                assert "✕ run" in row.text and row.get_attribute("data-p") == "0"
                seen.add(early)
    assert seen == {True, False}


def test_the_page_s_die_falls_on_the_token_of_the_run(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    for token, (_, u, low, high) in enumerate(data["draws"], data["n_prompt"]):
        browser.js("select(arguments[0])", token)
        assert browser.value("#candidates tr.drawn", "data-token") == f"{data['ids'][token]}"
        says = browser.text("#dice")
        shown = [float(number) for number in re.findall(r"\d\.\d{4,}", says)]
        np.testing.assert_allclose(shown, [u, low, high], atol=1e-4)
        assert shown[1] <= shown[0] < shown[2] and "so it came" in says
        assert float(browser.value("#die", "value")) == pytest.approx(u, abs=1e-4)
    browser.slide("temperature", 0.5)
    assert browser.all("#candidates tr.drawn") == [] and browser.all("#die[hidden]")
    assert browser.text("#dice").endswith("Throw a die to see what could come with them.")
    browser.all("#roll")[0].click()
    assert browser.text("#dice").startswith("Your own die")
    browser.all("#restore")[0].click()
    assert browser.text("[for=temperature][data-is]") == "0.8"
    assert browser.text("#dice").startswith("The run's die showed")


def test_a_die_falls_where_samplers_draw_puts_it(browser, tmp_path):
    """The page can place the die if a cut has removed all tokens that the page does not store."""
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 12, temperature=0.9, top_p=0.9)
    browser.open(tmp_path, page.html(data))
    logits, draws = model(data["ids"][:-1]), dict(enumerate(data["draws"], data["n_prompt"]))
    fell = set()
    for token, (_, u, _, _) in draws.items():
        browser.js("select(arguments[0])", token)
        for settings in ({"temperature": 0.9}, {"temperature": 0.9, "top_k": 5}):
            for name, value in (PLAIN | settings).items():
                browser.slide(name, value)
            if "top_k" not in settings:  # without a cut, the page cannot place the die
                assert "Throw a die to see" in browser.text("#dice")
                continue
            probabilities = make_sampler(**settings)(logits[token - 1], [])
            expected = int(np.searchsorted(np.cumsum(probabilities), u, side="right"))
            assert browser.value("#candidates tr.drawn", "data-token") == f"{expected}"
            label = data["labels"][expected]
            assert browser.text("#dice").endswith(f"would have fallen on {label}.")
            browser.slide("die", 0.5)
            expected = int(np.searchsorted(np.cumsum(probabilities), 0.5, side="right"))
            assert browser.value("#candidates tr.drawn", "data-token") == f"{expected}"
            fell.add(expected)
        browser.all("#restore")[0].click()
        assert browser.value("#candidates tr.drawn", "data-token") == f"{data['ids'][token]}"
    assert len(fell) > 3


@pytest.mark.parametrize(
    "name, says",
    [
        ("greedy", "Greedy"),
        ("beam", "Beam search threw no die"),
        ("drafts", "see Speculation"),
    ],
)
def test_no_die_is_shown_if_none_was_thrown(browser, tmp_path, name, says):
    data = by_method("beam") if name == "beam" else run(name)
    browser.open(tmp_path, page.html(data))
    for token, draw in enumerate(data["draws"], data["n_prompt"]):
        browser.js("select(arguments[0])", token)
        if draw[0] != "drawn":
            assert browser.all("#die[hidden]") and says in browser.text("#dice")
            assert not browser.js("return document.querySelector('th.draw').offsetWidth")
    browser.js("select(1)")
    assert browser.all("#die[hidden]") and "A token of the prompt" in browser.text("#dice")


def test_the_cut_line_moves_the_slider(browser, tmp_path):
    from selenium.webdriver import ActionChains

    def drag(place):  # drag the line to the lower edge of a candidate
        row = browser.all("#candidates .candidate")[place]
        browser.js("arguments[0].scrollIntoView({block: 'center'})", browser.all(".handle")[0])
        chain = ActionChains(browser.driver).click_and_hold(browser.all(".handle")[0])
        chain.move_to_element(row).move_by_offset(0, 10).release().perform()

    browser.open(tmp_path, page.html(by_method("cached")))
    drag(3)
    assert browser.text("[for=top_k][data-is]") == browser.value(".handle", "data-kept") == "4"
    rows = "[...document.querySelectorAll('#candidates tbody tr')]"
    rows = browser.js(f"return {rows}.map((row) => row.className)")
    assert rows.index("cut") == 4 and all("removed" in name for name in rows[5:11])
    browser.slide("top_k", 0)
    browser.slide("top_p", 0.5)
    drag(5)  # dragging sets top-k and switches top-p off
    assert browser.text("[for=top_p][data-is]") == "1"
    assert browser.text("[for=top_k][data-is]") == browser.value(".handle", "data-kept") == "6"


def test_a_cancelled_drag_ends(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    browser.js("""
        const row = find("#candidates .candidate"), {x, y} = row.getBoundingClientRect();
        const fire = (name, place) => place.dispatchEvent(new PointerEvent(name,
            {clientX: x + 5, clientY: y + 5, bubbles: true, cancelable: true}));
        fire("pointerdown", find(".handle"));
        fire("pointercancel", window);
        fire("pointermove", window);""")
    assert browser.text("[for=top_k][data-is]") == "0"


def test_the_cut_says_how_many_it_keeps_and_what_they_had(browser, tmp_path):
    """Hard cases: the cut keeps more tokens than the table lists, or an unknown number of them."""
    tokenizer, model = utils.load("stories")
    data = recorded(tokenizer, model, "Once upon a time there", 2, temperature=0.7, top_p=0.9)
    browser.open(tmp_path, page.html(data))
    classes = (
        "return [...document.querySelectorAll('#candidates tbody tr')].map((row) =>"
        " [row.className, row.textContent])"
    )
    browser.js("select(5)")
    for p in (0.5, 0.9, 0.97):
        browser.slide("top_p", p)
        tokens = chain(browser, 4, {"temperature": 0.7, "top_p": p})["tokens"]
        left = [token for token in tokens if token["p"] > 0]
        before = 100 * sum(token["tempered"] for token in left)
        says = browser.text(".handle")
        assert f"keeps {len(left)} of 3,329 tokens. At temperature 0.7 they had" in says
        assert f"had {before:.1f} % together, and the others {100 - before:.1f} %" in says
        rows = browser.js(classes)
        at = [name for name, _ in rows].index("cut")
        assert not any("removed" in name for name, _ in rows[:at])
        assert all("removed" in name or name == "others" for name, _ in rows[at + 1 :])
        assert (f"{len(left) - 10} others" in rows[at - 1][1]) == (len(left) > 11)
        assert f"✕ top-p {p}" in rows[-1][1]
    browser.slide("temperature", 2)  # the cut lies among the tokens that are not stored
    assert "falls among the others" in browser.text(".handle")
    assert browser.js(classes)[-1][0] == "cut"
    browser.slide("temperature", 0)
    assert browser.js(classes)[1][0] == "cut" and "the best alone" in browser.text(".handle")


def test_numbers_are_not_rounded_until_they_are_equal(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    assert browser.js("return digits([0.6838, 0.6792])") == ["0.6838", "0.6792"]
    assert browser.js("return digits([1, 0.99999])") == ["1.00000", "0.99999"]
    assert browser.js("return digits([0.895447, 0.895448, 0.895463])") == [
        "0.895447",
        "0.895448",
        "0.895463",
    ]
    assert browser.js("return [0, 0.00005, 0.603, 0.9996, 1].map(percent)") == [
        "0.0\xa0%",
        "<\xa00.01\xa0%",
        "60.3\xa0%",
        ">\xa099.9\xa0%",
        "100.0\xa0%",
    ]


# --- why, and attention ---------------------------------------------------------------------------


def test_the_parts_in_the_page_add_up(browser, tmp_path, method):
    data = by_method(method)
    browser.open(tmp_path, page.html(data))
    for token in range(1, len(data["ids"])):
        browser.js("select(arguments[0])", token)
        numbers = browser.js("""return [...document.querySelectorAll('#why td.number')]
            .map((cell) => Number(cell.textContent.replace('−', '-')))""")
        assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.06)
        bars = browser.js("""return [...document.querySelectorAll('#why .signed')]
            .map((bar) => Number(bar.style.getPropertyValue('--x')))""")
        np.testing.assert_allclose(bars, np.abs(numbers) / np.abs(numbers).max(), atol=0.02)
        difference = browser.js("""const {tokens, came} = chain(state.selected - 1, given);
            const rival = stored("rivals", state.selected - 1)[0];
            return Math.log(tokens[came].model)
                 - Math.log(tokens.find((token) => token.id === rival).model);""")
        assert numbers[-1] == pytest.approx(difference, abs=0.02)


def test_a_click_on_a_candidate_compares_with_it(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    row = browser.all("#candidates .candidate:not(.chosen)")[2]
    rival = row.get_attribute("data-token")
    row.click()
    assert browser.value("#why select", "value") == rival
    browser.js("select(5)")  # the next selected token is again compared with its own runner-up
    assert browser.js("return state.rival") is None


def test_the_head_with_the_largest_effect_is_shown_first(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    added = np.array(browser.js("return addedAt(state.selected - 1)"))
    names = [(layer, head) for layer in range(5) for head in range(7)]
    effects = {f"{layer}.{head}": added[1 + layer * 8 + head] for layer, head in names}
    most = max(effects, key=lambda name: abs(effects[name]))
    assert browser.value(".heads [aria-pressed=true]", "data-head") == most
    says = browser.text("#attention .lead")
    for x in (effects[most], -abs(effects[most])):  # the real effect, then a negative one
        side = "for" if x > 0 else "against"
        assert says.startswith(
            f"Head {most} had the largest direct effect of all heads: it pushed {side}"
        )
        assert f"{abs(x):.2f}" in says
        browser.js("""const one = addedAt;
            addedAt = (row) => one(row).map((x) => -Math.abs(x)); showAttention()""")
        says = browser.text("#attention .lead")
    weights = browser.js("const row = state.selected - 1; return weightsAt(shownHead(row), row)")
    assert sum(weights) == pytest.approx(1)
    best = int(np.argmax(weights))
    listed = browser.js("return document.querySelector('.looks li .name small').textContent")
    assert listed.strip() == f"{best + 1}"  # positions count from 1


def test_a_token_whose_weights_are_not_stored_has_no_tint(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    tinted = """return [...find("#text").children].filter((token) =>
        Number(token.style.getPropertyValue("--look")) > 0).length"""
    browser.js("select(n_rows)")
    assert browser.js(tinted) > 3
    browser.js("arrays.skipped[0] = 5; select(3)")
    assert browser.js(tinted) == 0
    assert "those from position 7 on are" in browser.text("#attention .lead")


def test_a_head_can_be_chosen_by_mouse_and_by_keys(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    assert browser.value("[name=tint]:checked", "id") == "by-surprise"
    browser.all('[data-head="1.2"]')[0].click()
    assert "Head 1.2 pushed" in browser.text("#attention .lead")
    assert browser.value("[name=tint]:checked", "id") == "by-attention"  # the text is tinted, too
    shadow = "return getComputedStyle(document.querySelector('#text .word')).boxShadow"
    blue = browser.js(shadow)
    browser.all("#by-surprise")[0].click()
    assert browser.js(shadow) != blue
    browser.all('[data-head="1.2"]')[0].send_keys("\ue015")  # down
    assert browser.value(".heads [aria-pressed=true]", "data-head") == "2.2"
    labels = [head.get_attribute("data-head") for head in browser.all(".heads button")]
    assert labels[0] == "0.0" and labels[-1] == "4.6"
    assert browser.js("return document.querySelector('#lens tbody th').textContent") == "0"


def test_a_head_s_pattern_has_a_name(browser, tmp_path):
    """The test replaces the attention weights by a pattern, and reads the pattern's name."""
    browser.open(tmp_path, page.html(by_method("cached")))
    browser.js("""data.ids.splice(0, data.ids.length, ...range(n_rows + 1).map((i) => i % 5));
        globalThis.looksAt = (key) => { weightsAt = (head, row) =>
            range(row + 1).map((i) => Number(i === Math.max(0, key(row)))); };""")
    expected = {
        "row => row": "itself",
        "row => row - 1": "the previous token",
        "row => 0": "the first token",
        "row => row - 5": "the same token before",
        "row => row - 4": "what followed the same token (induction)",
        "row => row - 2": None,
    }
    for key, word in expected.items():
        found = browser.js(f"looksAt({key}); return patternOf(0)")
        assert (found["share"] > 0.5) == (word is not None), key
        assert word is None or found == {"name": word, "share": pytest.approx(1)}


def test_every_head_has_its_pattern_in_words(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    titles = [head.get_attribute("title") for head in browser.all(".heads button")]
    says = r"head \d\.\d, pattern: (.+, \d+\.\d.% of its weight|none)"
    assert len(titles) == 35 and all(re.fullmatch(says, title) for title in titles)
    plain = browser.js(
        "return [...document.querySelectorAll('#patterns li')].map((x) => x.textContent)"
    )
    assert plain == [title for title in titles if not title.endswith("none")]
    assert len(browser.all("#whole canvas")) == 1
    browser.js(
        "patterns = HEADS.map((_, head) => ({name: 'itself', share: head / 40}));"
        "showAttention(); choose(0)"
    )
    assert "Its pattern" not in browser.text("#whole")
    browser.js("choose(34)")
    assert "Its pattern: itself, 85.0 %" in browser.text("#whole")


# --- drafts, beams, the cache ---------------------------------------------------------------------


def test_a_bet_shows_p_q_and_the_die(browser, tmp_path):
    data = run("drafts")
    browser.open(tmp_path, page.html(data))
    readings = len(data["passes"])
    assert browser.text("#drafts .lead").startswith(f"{readings} readings of the weights for 40")
    rejections = 0
    for i, one in enumerate(data["passes"]):
        if not one["bets"]:
            continue
        browser.all(f'#drafts [data-pass="{i}"]')[0].click()
        rows = [row.text for row in browser.all("#bets [data-case=bets] tbody tr")]
        assert len(rows) == len(one["bets"])
        for row, (_, q, p, u) in zip(rows, one["bets"]):
            if u is None:
                assert "not tested" in row
            else:
                least, die = map(float, re.search(r"\(1, p/q\) ([\d.]+), u ([\d.]+)", row).groups())
                assert die < 1 and (die < least) == (u * q < p)
                np.testing.assert_allclose([least, die], [min(1, p / q), u], atol=1e-4)
        bars = browser.all("#residual tbody tr")
        assert len(bars) == len(one["residual"])
        # If a draft was rejected, the token drawn from the residual is marked.
        assert len(browser.all("#residual .chosen")) == bool(bars)
        for bar, (_, p, q, left) in zip(bars, one["residual"]):
            shown = [float(cell.text[:-2]) for cell in bar.find_elements("css selector", "td")[:4]]
            np.testing.assert_allclose(
                np.array(shown) / 100, [p, q, max(0, p - q), left], rtol=0.01, atol=1e-12
            )
        rejections += bool(bars)
    assert rejections > 1
    assert "of the drafter's" in browser.text("#drafts .lead")


def test_drafts_stand_in_columns_and_a_pass_takes_one_line(browser, tmp_path):
    for width in (360, 800, 1280):
        browser.open(tmp_path, page.html(run("drafts")), width)
        lines = "[...document.querySelectorAll('#drafts li')]"
        heights = browser.js(f"return {lines}.map((line) => line.offsetHeight)")
        assert max(heights) < 40
        places = browser.js("""return [...document.querySelectorAll('#drafts li button')].map(
            (line) => [...line.querySelectorAll('.draft')].map((draft) => draft.offsetLeft))""")
        for column in range(1, 5):
            assert len({line[column] for line in places if len(line) > column}) == 1


def test_the_page_shows_the_drafts_and_beams_of_the_run(browser, tmp_path):
    data = by_method("speculative")
    browser.open(tmp_path, page.html(data))
    kinds = browser.js("return passes.map((pass) => outcomes(pass).map(({kind}) => kind))")
    own = [[token for token in line if token in ("accepted", "own")] for line in kinds]
    assert sum(map(len, own)) == len(data["ids"]) - data["n_prompt"]
    assert len(browser.all("#drafts li")) == sum(map(bool, kinds))

    data = by_method("beam")
    browser.open(tmp_path, page.html(data))
    won = browser.js("return steps.flat().filter((node) => node.won).map((node) => node.token)")
    assert won == data["ids"][data["n_prompt"] :]
    n_beams = sum(c[3] != "dropped" for step in data["beams"] for c in step)
    assert len(browser.all("#beams svg g[data-depth]")) == n_beams
    assert browser.all("#beams .edge.dropped") and browser.all("#beams .cut")
    ended = [c for step in data["beams"] for c in step if c[3] == "finished"]
    scores = [float(row.text.split()[-1].replace("−", "-")) for row in browser.all("#finals tr")]
    assert len(scores) == len(ended) and scores == sorted(scores, reverse=True)
    drawn = len(browser.all("#beams svg *"))
    browser.js("dispatchEvent(new Event('resize'))")
    assert len(browser.all("#beams svg *")) == drawn
    browser.js("select(arguments[0])", data["n_prompt"] + 2)
    rows = [row.text for row in browser.all("#step tbody tr")]
    assert len(rows) == len(data["beams"][2])
    for row, (_, _, logprob, status) in zip(rows, data["beams"][2]):
        assert row.startswith(status) and f"−{-logprob:.2f}" in row


def test_a_late_end_is_compared_with_earlier_ends(browser, tmp_path):
    data = by_method("beam")
    one, two, three = data["ids"][-3:]
    steps = [[[0, one, -1.0, "finished"], [0, two, -2.0, "kept"]], [[0, three, -5.5, "finished"]]]
    browser.open(tmp_path, page.html(data | {"beams": steps}))
    behind = browser.js("return steps.map((step) => step.map((node) => node.behind))")
    assert behind == [[0, 1], [4.5]]


def test_the_race_shows_the_selected_step(browser, tmp_path):
    inside = (
        "const {left, right} = arguments[0].getBoundingClientRect();"
        "return left > 0 && right < innerWidth"
    )
    for method, width in (("beam", 360), ("beam", 1280), ("en-de", 360)):
        browser.open(tmp_path, page.html(by_method(method)), width)
        for token in (1, "data.n_prompt + 2", "n_rows"):
            browser.js(f"select({token})")
            assert all(browser.js(inside, node) for node in browser.all("#beams g.selected"))


def test_it_is_said_which_texts_the_limit_stopped(browser, tmp_path):
    data = by_method("beam")
    assert {c[3] for step in data["beams"] for c in step} == {"kept", "dropped", "finished"}
    browser.open(tmp_path, page.html(data))
    says = browser.text("#beams .lead")
    assert "limit of 16 tokens stopped" in says and "All have 16 tokens here" in says
    assert "▸" in browser.all("#beams g.won text")[-1].text
    browser.open(
        tmp_path, page.html(data | {"stop_ids": data["ids"] + [c[1] for c in data["beams"][-1]]})
    )
    assert "stopped" not in browser.text("#beams .lead")
    assert "■" in browser.all("#beams g.won text")[-1].text


def test_the_cache_panel_counts_computed_tokens_with_and_without_a_cache(browser, tmp_path):
    data = by_method("cached")
    browser.open(tmp_path, page.html(data))
    browser.js("select(n_rows)")
    totals = browser.text("#totals")
    n_prompt, n = data["n_prompt"], len(data["ids"])
    assert f"so far {n - 1} positions computed, instead of {sum(range(n_prompt, n))}" in totals
    assert f"holds {round((n - 1) * data['kv_bytes'] / 1000, 2):g} kB" in totals
    picture = "return getComputedStyle(document.querySelectorAll('#grid li')[4]).backgroundImage"
    read, computed = re.findall(r"(?:rgb|color)\([^)]*\)", browser.js(picture))[:3:2]
    assert read != computed
    browser.all("#naive")[0].click()
    read, computed = re.findall(r"(?:rgb|color)\([^)]*\)", browser.js(picture))[:3:2]
    assert read == computed  # without a cache, every token is computed
    assert f"so far {sum(range(n_prompt, n))} positions computed" in browser.text("#totals")
    assert "holds" not in browser.text("#totals")
    browser.all("#naive")[0].click()
    browser.js("document.querySelectorAll('#grid li')[4].click()")
    assert browser.js("return passOf(state.selected)") == 4
    assert len(browser.all("#grid .words span")) == n - 1
    browser.open(tmp_path, page.html(by_method("naive")))
    browser.js("select(n_rows)")
    assert "This run kept none" in browser.text("#cache .lead")
    all_of_them, again = sum(range(n_prompt, n)), sum(range(n_prompt, n - 1))
    assert f"so far {all_of_them} positions computed, {again} of them again" in browser.text(
        "#totals"
    )


def test_drafts_open_on_a_rejection_whose_numbers_can_be_read(browser, tmp_path):
    browser.open(tmp_path, page.html(run("drafts")))
    rejected = browser.text("#bets [data-case=bets] tr.rejected")
    assert min(map(float, re.findall(r"([\d.]+) %", rejected))) > 1


def test_the_cells_of_rejected_drafts_are_not_held(browser, tmp_path):
    data = run("drafts")
    browser.open(tmp_path, page.html(data))
    for token in range(data["n_prompt"], len(data["ids"])):
        browser.js("select(arguments[0])", token)
        i = browser.js("return passOf(state.selected)")
        one = data["passes"][i]
        lost = len(one["bets"]) - one["accepted"]
        held = one["begin"] + one["new"] - lost
        totals = browser.text("#totals")
        assert totals.startswith(f"Pass {i + 1} ")
        assert f"holds {round(held * data['kv_bytes'] / 1000, 2):g} kB" in totals
        assert (f"{lost} of this pass's {one['new']} were rejected drafts" in totals) == (lost > 0)


def test_token_pass_step_and_position_count_alike(browser, tmp_path):
    """New token k has position n_prompt + k. It comes from pass k or, in a beam search, step k."""
    for method in ("cached", "beam"):
        data = by_method(method)
        browser.open(tmp_path, page.html(data))
        browser.js("select(arguments[0])", data["n_prompt"] + 3)
        assert f"new token 4, position {data['n_prompt'] + 4}" in browser.text("#selected")
        assert browser.text("#totals").startswith("Pass 4 ")
    assert browser.text("#step h3").startswith("Step 4")


# --- layout ---------------------------------------------------------------------------------------

IN_SIGHT = """const box = document.querySelector('#text [aria-selected=true]')
    .getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight;"""


@pytest.mark.parametrize("width", [360, 1280])
def test_the_selected_token_is_in_sight(browser, tmp_path, width):
    browser.open(tmp_path, page.html(run("long")), width)
    assert browser.js(IN_SIGHT)
    for token in (250, 3, 140):
        browser.js("select(arguments[0])", token)
        assert browser.js(IN_SIGHT), token
    browser.all("#next")[0].click()
    assert browser.js(IN_SIGHT)
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    gap = browser.js(box, "#panels")["top"] - browser.js(box, "nav")["bottom"]
    assert width > 1000 or 0 <= gap < 60  # on a phone, the panels come directly below the text


def test_a_long_text_s_cache_is_not_taller_than_a_screen(browser, tmp_path):
    browser.open(tmp_path, page.html(run("long")), 1280, 900)
    assert browser.js("return document.querySelector('#grid').clientHeight") < 600


@pytest.mark.parametrize("name", ["drafts", "filtered", "en-de"])
def test_on_a_phone_no_token_is_cut_off(browser, tmp_path, name):
    data = by_method("en-de") if name == "en-de" else run(name)
    labels = dict.fromkeys(data["labels"], "<|endoftext|>")
    for page_of in (data, data | {"labels": labels}):
        browser.open(tmp_path, page.html(page_of), 360)
        cut = browser.js("""return [...document.querySelectorAll(
            '#candidates th, #candidates .gone, .name, .draft, .draft code')].filter((place) =>
            place.checkVisibility() && place.scrollWidth > place.clientWidth)
            .map((place) => place.outerHTML)""")
        assert cut == []


@pytest.mark.parametrize("width", [1280, 1300, 1600])
def test_the_panels_have_two_columns(browser, tmp_path, width):
    browser.open(tmp_path, page.html(by_method("cached")), width)
    offset = "return document.querySelector(arguments[0]).offsetLeft"
    assert browser.js(offset, "#why") < browser.js(offset, "#attention")


def test_tokens_without_letters_can_be_seen_and_chosen(browser, tmp_path):
    data = by_method("cached")
    pieces = ["a", "\n", "\n\n", " ", "", "\t", *data["pieces"][6:]]
    browser.open(tmp_path, page.html(data | {"pieces": pieces}))
    for token in browser.all("#text .token")[1:6]:
        assert token.rect["width"] > 2, token.text
    browser.all("#text .token")[1].click()
    assert browser.value('#text [aria-selected="true"]', "id") == "token-1"


def test_characters_that_reverse_a_line_reverse_only_themselves(browser, tmp_path):
    data = by_method("cached")
    turning = "\u202eabc"
    labels = data["labels"] | {data["ids"][6]: turning}
    pieces = [*data["pieces"][:6], turning, *data["pieces"][7:]]
    browser.open(tmp_path, page.html(data | {"pieces": pieces, "labels": labels}))
    browser.js("select(6)")
    assert "<202E>abc" in browser.text("#selected")
    first, second = (browser.all(f"#token-{i} .word")[0].rect for i in (5, 7))
    assert first["y"] < second["y"] or first["x"] < second["x"]
    assert browser.js(STYLE, "#token-6 .word", "unicodeBidi") == "isolate"


def test_a_page_can_be_printed(browser, tmp_path):
    browser.scheme("dark")
    browser.open(tmp_path, page.html(run("drafts")))
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.command("Emulation.setEmulatedMedia", media="print", features=features)
    assert browser.js(STYLE, "#text", "color") == "rgb(28, 28, 26)"
    assert browser.js(STYLE, ".heads", "maxHeight") == "none"
    for part in (".track", "#candidates td", "canvas", ".token .word", "#alignment"):
        assert browser.js(STYLE, part, "printColorAdjust") == "exact"
    browser.command("Emulation.setEmulatedMedia", media="", features=[])


def test_forced_colours_keep_the_drawings_visible(browser, tmp_path):
    browser.open(tmp_path, page.html(by_method("cached")))
    features = [{"name": "forced-colors", "value": "active"}]
    browser.command("Emulation.setEmulatedMedia", features=features)
    for part in (".track", ".signed", "#candidates td", "svg", ".token .word"):
        assert browser.js(STYLE, part, "forcedColorAdjust") == "none", part
    track = "document.querySelector('.looks .track')"
    bar = browser.js(f"return getComputedStyle({track}, '::before').backgroundColor")
    assert bar not in ("rgba(0, 0, 0, 0)", browser.js(STYLE, "section", "backgroundColor"))
    browser.command("Emulation.setEmulatedMedia", features=[])


# --- keyboard, screen reader, touch ---------------------------------------------------------------


def test_keys_move_the_text_only_if_it_has_the_focus(browser, tmp_path):
    browser.open(tmp_path, page.html(run("long")), 800)
    at = browser.js("return state.selected")
    browser.js("document.querySelector('#cache .scroll').focus()")
    for key in ("\ue014", "\ue011", "\ue010", " "):  # the right arrow, Home, End, space
        browser.driver.switch_to.active_element.send_keys(key)
        assert browser.js("return state.selected") == at
    browser.js("document.activeElement.blur()")
    prevented = """
        const event = () => new KeyboardEvent('keydown',
            {key: arguments[0], bubbles: true, cancelable: true});
        return !dispatchEvent(event()) || !document.body.dispatchEvent(event())"""
    assert not browser.js(prevented, "Home") and not browser.js(prevented, " ")
    assert browser.js(prevented, "ArrowRight")
    browser.js("document.querySelector('#text [tabindex=\"0\"]').focus()")
    browser.driver.switch_to.active_element.send_keys("\ue011")
    assert browser.js("return state.selected") == 1


def test_there_are_few_tab_stops_and_arrows_do_the_rest(browser, tmp_path, method):
    data = run("drafts") if method == "speculative" else by_method(method)
    browser.open(tmp_path, page.html(data))
    stops = browser.js("""return [...document.querySelectorAll(
        'a, button, input, select, [tabindex]')].filter((element) => element.tabIndex >= 0
        && !element.disabled && element.checkVisibility()).length""")
    assert 10 < stops < 40
    if method == "speculative":
        first = browser.all("#drafts [tabindex='0']")[0]
        before = browser.js("return passOf(state.selected)")
        first.send_keys("\ue013" if before > 1 else "\ue015")
        assert browser.js("return document.activeElement.dataset.pass") != f"{before}"


def test_a_screen_reader_hears_names(browser, tmp_path, method):
    browser.open(tmp_path, page.html(by_method(method)))
    assert len(browser.all("h1")) == 1
    unnamed = browser.js("""return [...document.querySelectorAll(
        'section, nav, article, svg, input, select, button, [role]')]
        .filter((element) => element.checkVisibility() && !element.closest('[aria-hidden]')
        && !(element.ariaLabel || element.textContent.trim() || element.labels?.length
             || element.getAttribute('aria-labelledby'))).map((element) => element.outerHTML)""")
    assert unnamed == []
    for section in browser.all("section:not([hidden])"):
        heading = "arguments[0].getAttribute('aria-labelledby')"
        assert browser.js(f"return document.getElementById({heading}).textContent", section)
    tables = browser.js("""return [...document.querySelectorAll('table')].filter((table) =>
        !table.querySelector('thead th') && table.checkVisibility()).length""")
    assert tables == 0
    hidden = browser.js("""return [...document.querySelectorAll('canvas, .track, .signed')]
        .filter((drawing) => !drawing.closest('[aria-hidden]')).length""")
    assert hidden == 0


def test_touch_targets_have_24_pixels(browser, tmp_path, method):
    browser.open(tmp_path, page.html(by_method(method)), 360)
    small = browser.js("""return [...document.querySelectorAll('button, select,'
        + 'input:not([type=radio], [type=checkbox]), label:has(input)')]
        .filter((element) => element.checkVisibility()).map((element) => {
            const {width, height} = element.getBoundingClientRect();
            return [element.id || element.className || element.textContent, width, height];
        }).filter(([, width, height]) => width < 24 || height < 24)""")
    assert small == []


# --- text is text ---------------------------------------------------------------------------------


def test_a_prompt_without_new_tokens_has_a_page(browser, tmp_path):
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
    browser.wait("return document.documentElement.dataset.ready")
    browser.all("#text .token")[2].click()
    assert browser.value('#text [aria-selected="true"]', "id") == "token-2"
    assert browser.driver.get_log("browser") == []
    browser.driver.switch_to.default_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["drafts", "filtered", "beam", "en-de"])
def test_letters_stand_out_from_their_background(browser, tmp_path, scheme, name):
    """The contrast of all text with its background is at least 4.5, as WCAG requires."""
    data = run(name) if name in ("drafts", "filtered") else by_method(name)
    first, _, *rest = data["pieces"]
    pieces = [first, "", *rest]  # a token without text is shown in small letters
    logprobs = [-20.0] * len(data["logprobs"])  # the most surprising tokens have the darkest tint
    browser.scheme(scheme)
    browser.open(tmp_path, page.html(data | {"pieces": pieces, "logprobs": logprobs}))
    found = browser.js(LETTERS)
    assert len(found) > 100
    browser.all("#by-attention")[0].click()
    found += browser.js(LETTERS)
    for text, letters, below in found:
        paper = np.zeros(3)
        for *rgb, alpha in reversed(below):  # paint from the bottom layer up
            paper = alpha * np.array(rgb) + (1 - alpha) * paper
        *rgb, alpha = letters
        ink = alpha * np.array(rgb) + (1 - alpha) * paper
        assert contrast(ink, paper) >= 4.5, (text, letters, below)
    browser.scheme("light")


# This script returns each visible piece of text, its colour, and the colours of the elements behind
# it. A canvas turns colour names into numbers. An element's opacity multiplies the letters' alpha.
LETTERS = """
const context = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
const read = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].map((x) => x / 255);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest('.unseen, script, style')) continue;
    const letters = read(getComputedStyle(element)[element.closest('svg') ? 'fill' : 'color']);
    const below = [];
    let disabled = false;
    for (let up = element; up; up = up.parentElement) {
        const style = getComputedStyle(up);
        letters[3] *= style.opacity;
        disabled ||= up.disabled;
        const image = style.backgroundImage.match(/^linear-gradient\\((color\\(.*?\\))/);
        if (image && up.closest('#candidates')) below.push(read(image[1]));
        below.push(read(style.backgroundColor));
    }
    if (!disabled) found.push([text.slice(0, 30), letters, below]);
}
return found;
"""


def contrast(a, b):
    def luminance(c):
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    darker, lighter = sorted([luminance(a), luminance(b)])
    return (lighter + 0.05) / (darker + 0.05)
