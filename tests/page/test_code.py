"""The page that steps through the code: it has the record's numbers, and its controls work."""

import re

import numpy as np
import pytest

import generate
import page
import utils
from generate import Sequence
from loading.errors import UserError
from page.code import code_html, stepping
from samplers import greedy, make_sampler
from terminal import command

END, HOME, UP, RIGHT, DOWN = "\ue010", "\ue011", "\ue013", "\ue014", "\ue015"


def run(prompt="Once upon a", n=3, sampler=greedy):  # prompt: a text, or ids
    tokenizer, model = utils.load("stories")
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    sequence = Sequence(model, ids, n, sampler, 3)
    with stepping(model, len(ids)) as record:
        list(generate.cached(model, sequence))
    return record, tokenizer, sequence


@pytest.fixture(scope="module")
def made():
    return run(sampler=make_sampler(temperature=0.7, top_k=40))


@pytest.fixture(scope="module")
def html(made):
    return code_html(*made)


def test_the_page_has_the_record_s_numbers_rounded(browser, html, made):
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(|<!-- ", html)
    browser.open(html)
    found = browser.js("""return data.values.map((value, i) => value.at && [value.type,
        numbers(i).map((x) => Math.max(x, -1e9)).reduce((sum, x, j) => sum + x * (1 + j % 7), 0),
        value.n && [...stored.i4.subarray(value.ids, value.ids + numbers(i).length)]])""")
    n_arrays = n_best = 0
    for value, shown in zip(made[0].values, found, strict=True):
        if shown:
            kind, sums, ids = shown
            x = value["array"].astype({"f2": np.float16, "f4": np.float32}.get(kind, int))
            if ids:
                x = x.reshape(-1, 3329)
                x = np.take_along_axis(x, np.array(ids).reshape(len(x), -1), -1)
            x = np.maximum(x.astype(float).ravel(), -1e9)
            expected = (x * (1 + np.arange(x.size) % 7)).sum()
            assert sums == pytest.approx(expected, rel=1e-9, abs=1e-6)
            n_arrays, n_best = n_arrays + 1, n_best + bool(ids)
    assert n_arrays > 600 and n_best >= 30


def test_a_table_has_the_tokens_with_the_best_logits_and_the_next_one(browser, html, made):
    _, tokenizer, sequence = made
    browser.open(html)
    for i, logits in enumerate(sequence.model(sequence.ids[:-1])[2:]):
        browser.js("goTo(0); goToPass(arguments[0]); visit(9)", i)
        shown = browser.texts("#names .best th")[:11]
        best = {tokenizer.decode([id]).strip() for id in np.argsort(-logits)[:10]}
        came = tokenizer.decode([sequence.ids[i + 3]]).strip()
        assert best | {came} <= {text.strip() for text in shown}


def test_the_random_number_falls_between_two_rows_of_the_running_sum(browser, html, made):
    browser.open(html)
    browser.js("visit(11)")
    ids, sums, number = browser.js("""
        const {value} = namesAt(state.at).find(({name}) => name === "cumulative");
        const {ids, n} = data.values[value], {operations} = stops[state.at];
        const product = operations.find(({label}) => label === "rng.random() * cumulative[-1]");
        return [[...stored.i4.subarray(ids, ids + n)], numbers(value), wordsOf(product)]""")
    assert ids == sorted(ids) and len(ids) > 3
    assert ids[np.searchsorted(sums, float(number), side="right")] == made[2].ids[3]
    browser.js("visit(10)")
    browser.js("choose(stops[state.at].operations.find((x) => /^np.partition/.test(x.label)))")
    assert "no longer in the order of the ids" in browser.text("#chosen")


def test_axes_that_equal_others_in_size_have_their_own_names(browser, html):
    browser.open(html)
    shown = browser.js("""return stops.filter((stop) => stop.pass === 0).flatMap((stop) =>
        [...stop.names, ...stop.operations].filter(({value}) => isArray(value)).map((x) =>
            `${data.nodes[stop.node][1]} ${x.label ?? x.name} ${shapeOf(x.value, x.axes)}`))""")
    for expected in (
        "advance logits [last 1, n_vocab 3329]",
        "GPT2.self_attention k [n_head 7, n_all 3, d_head 32]",  # as returned by Cache.append
        "Cache.reserve more [k|v 2, n_layer 5, n_head 7, n_more 3, d_head 32]",
    ):
        assert expected in shown


@pytest.mark.slow
def test_a_long_prompt_keeps_the_first_and_the_last_layer(browser):
    tokenizer, _ = utils.load("stories")
    ids = tokenizer.encode("Once upon a time, there was a girl." * 9)
    for n, whole in (16, True), (64, False):
        html = code_html(*run(ids[:n], 4))
        assert len(html) <= 3_000_000
        browser.open(html, 360)
        assert browser.js("return [data.left_out, data.whole]") == [[1, 2, 3], whole]
        assert "layers 1 to 3" in browser.text("#limits")
        browser.js("goTo(stops.findIndex((s) => s.part === 2) + 1)")
        assert "not in this page" in browser.text("#names")


def test_what_the_page_cannot_show_is_refused():
    with pytest.raises(UserError, match="64 tokens, not 65: shorten"):
        run([5] * 65)
    with pytest.raises(UserError, match="other code"):
        page.show_code(*utils.load("stories-llama"), "Once")
    with pytest.raises(UserError, match="no pass"):
        code_html(*run(n=0))
    with pytest.raises(UserError, match="shorten the prompt"):
        code_html(*run(n=1), most=1000)


def test_a_notebook_gets_a_small_page_in_a_frame():
    pytest.importorskip("IPython")
    shown = page.show_code(*utils.load("stories"), "Once upon a").data
    assert shown.startswith("<div><iframe srcdoc=") and len(shown) < 520_000


def test_the_command_writes_the_page_for_drafts_too(tmp_path, capsys):
    file = tmp_path / "code.html"
    words = ["Once upon a", "-n", "3", "--seed", "3", "--temperature", "0.7", "--top-k", "40"]
    command.run(words)
    text = capsys.readouterr().out
    command.run([*words, "--code", f"{file}"])
    assert capsys.readouterr().out == text and file.stat().st_size > 900_000
    command.run([*words, "--code", f"{file}", "--method", "speculative"])
    assert file.stat().st_size > 900_000 and len([*tmp_path.iterdir()]) == 1


# --- stepping -------------------------------------------------------------------------------------


def place(browser):
    return browser.js("""const {pass, part, node} = stops[state.at];
        return [pass, part, data.nodes[node][1]]""")


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser.driver).send_keys(*keys).perform()


def test_steps_by_keys_and_buttons(browser, html):
    browser.open(html)
    assert place(browser) == [0, "loop", "cached"]
    assert browser.text(".made > code") == "advance(model, sequence.ids, cache)"
    assert "shown ahead of the calls in this line" in browser.text("#chosen h2")
    browser.js("goTo(stops.findIndex((s) => s.part === 0))")
    for key, expected in [
        (DOWN, [0, 0, "GPT2.block"]),
        (UP, [0, 0, "GPT2.__call__"]),  # the line that called
        (DOWN, [0, 0, "GPT2.block"]),
        (RIGHT, [0, 0, "layer_norm"]),
        ("]", [0, 1, "layer_norm"]),
        (".", [1, 1, "layer_norm"]),
    ]:
        press(browser, key)
        assert place(browser) == expected, key
    browser.js("goTo(stops.findIndex((s) => s.part === 0))")
    browser.all("#steps button")[3].click()  # over
    for part in 1, 2, 3, 4, "out":  # further layers are folded: one step for each
        assert place(browser) == [0, part, "GPT2.__call__"]
        press(browser, RIGHT)
    press(browser, "3")
    assert browser.js("return state.head") == 3


@pytest.mark.slow
def test_each_stop_is_drawn_and_its_address_leads_back(browser, html):
    browser.open(html, 360)
    wide = browser.js("""return [...stops.keys()].filter((i) => {
            goTo(i);
            [...document.querySelectorAll(".operation")].at(-1)?.click();
            return document.documentElement.scrollWidth > innerWidth;
        })""")  # fmt: skip
    assert wide == []
    browser.js("goTo(stops.findIndex((s) => s.pass === 1 && s.part === 2) + 9)")
    browser.wait("return location.hash.startsWith('#pass=1&part=2&line=10')")
    at, address = place(browser), browser.js("return location.hash")
    browser.open(html, address=address)
    assert place(browser) == at and browser.errors() == []


@pytest.mark.slow
def test_twelve_bookmarks_ask_and_answer(browser, html):
    browser.open(html)
    assert len(browser.texts("#bookmarks button")) == 12
    expected = "causal_mask attention attention attention GPT2.self_attention GPT2.block gelu"
    expected += " GPT2.__call__ GPT2.__call__ temperature top_k.keep_top_k draw"
    for i, function in enumerate(expected.split()):
        browser.all("#bookmarks button")[i].click()
        assert place(browser)[2] == function and browser.text("#question > p").endswith("?")
        assert not browser.all("#question details[open]")
    browser.js("visit(1)")
    scores = "q / math.sqrt(q.shape[-1]) @ k.swapaxes(-1, -2)"
    assert browser.text("mark") == scores
    press(browser, "]", ".")  # the same part of the line, in another layer and pass
    assert browser.text("mark") == scores and "one score" in browser.text("#question")
    press(browser, RIGHT)  # a bookmark ends where the reader goes on
    assert not browser.all("mark, #bookmarks [aria-pressed=true]")
    assert browser.text("#question").startswith("Begin with")
    browser.open(code_html(*run(n=1)))
    assert browser.texts("#bookmarks button:disabled") == ["10 temperature", "11 top-k"]


def test_the_keyboard_reaches_every_control_and_each_has_a_name(browser, html):
    browser.open(html)
    browser.js("visit(1)")
    names = browser.js("""return [...document.querySelectorAll("button, input, [tabindex]")]
        .filter((x) => x.offsetParent && !x.disabled).map((x) =>
            (x.ariaLabel || x.textContent || x.labels?.[0]?.textContent || "").trim())""")
    assert len(names) > 40 and all(names)
    browser.js("document.querySelector('.cells').focus()")
    press(browser, RIGHT, DOWN)
    shown = browser.js("return document.activeElement.closest('.array').innerText")
    assert re.search(r"\[0, 1, 1\] = \S+ \(head 0,  ?upon\)", shown)
    numbers = browser.js("""const {value} = namesAt(state.at).find(({name}) => name === "q");
        return numbers(value)""")
    one_head = numbers[: len(numbers) // 7]
    picture = "document.querySelector('#names .cells')"
    says = f"return {picture}.closest('.array').querySelector('p').textContent.replaceAll('−', '-')"
    browser.js("document.activeElement.blur()")
    assert float(browser.js(says).split("±")[1]) == pytest.approx(max(map(abs, one_head)), rel=0.01)
    browser.js(f"{picture}.focus()")
    for key, number in (HOME, min(one_head)), (END, max(one_head)):
        press(browser, key)
        found = float(browser.js(says).split(" = ")[1].split()[0])
        assert found == pytest.approx(number, rel=1e-3)
