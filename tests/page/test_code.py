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
from page.recorder import counted
from samplers import greedy, make_sampler
from terminal import command
from tests.support.pages import drafted

TAB, UP, RIGHT, DOWN = "\ue004\ue013\ue014\ue015"


def run(prompt="The dragon was", n=3, sampler=greedy, loop=generate.cached):
    tokenizer, model = utils.load("stories")
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    sequence = Sequence(model, ids, n, sampler, 3)
    with stepping(model, len(ids)) as record:
        list(loop(model, sequence))
    return record, tokenizer, sequence


def page_of(record, tokenizer, sequence):
    return code_html(record, tokenizer, sequence.ids, sequence.n_prompt)


VISIT = """visit(TOUR.find((place) =>
    place.dataset.name === arguments[0] && stopOf(place) !== undefined));"""


@pytest.fixture(scope="module")
def made():
    return run(sampler=make_sampler(temperature=0.7, top_k=40, top_p=0.8))


@pytest.fixture(scope="module")
def html(made):
    return page_of(*made)


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


def test_a_table_has_the_best_tokens_the_next_one_and_those_beside_each_cut(browser, html, made):
    _, tokenizer, sequence = made
    browser.open(html)
    for i, logits in enumerate(sequence.model(sequence.ids[:-1])[2:]):
        browser.js("goTo(0); goToPass(arguments[1]);" + VISIT, "temperature", i)
        shown = [text.strip() for text in browser.texts("#names .best th")]
        best = [tokenizer.decode([id]).strip() for id in np.argsort(-logits)]
        came = tokenizer.decode([sequence.ids[i + 3]]).strip()
        assert {*best[:8], came, *best[39:41]} <= {*shown}  # top-k 40
        browser.js("goTo(stops.findIndex((s) => s.pass === arguments[0] && /keep_top_p return keep/"
                   ".test(s.text)))", i)  # fmt: skip
        numbers = browser.texts("#chosen .best td:nth-child(2)")
        assert "−∞" in numbers and numbers[0] != "−∞"


def test_the_random_number_falls_between_two_rows_of_the_running_sum(browser, html, made):
    browser.open(html)
    browser.js(VISIT, "draw")
    ids, sums, number = browser.js("""
        const {value} = namesAt(state.at).find(({name}) => name === "cumulative");
        const {ids, n} = data.values[value], {operations} = stops[state.at];
        const product = operations.find(({label}) => label === "rng.random() * cumulative[-1]");
        return [[...stored.i4.subarray(ids, ids + n)], numbers(value), wordsOf(product)]""")
    assert ids == sorted(ids) and len(ids) > 2
    assert ids[np.searchsorted(sums, float(number), side="right")] == made[2].ids[3]


@pytest.mark.slow
def test_a_long_prompt_keeps_the_first_and_the_last_layer(browser):
    tokenizer, _ = utils.load("stories")
    ids = tokenizer.encode("Once upon a time, there was a girl." * 9)
    for n, whole in (16, True), (64, False):
        html = page_of(*run(ids[:n], 4))
        assert len(html) <= 3_000_000
        browser.open(html, 360)
        assert ("what each line computes" in browser.text("#limits")) == (not whole)
        browser.js("goTo(stops.findIndex((s) => s.part === 2));" + VISIT, "activation")
        browser.all(".operation .shape:not(:empty)")[0].click()
        assert "not in this page" in browser.text("#chosen")
        browser.js(VISIT, "softmax")  # narrow arrays are there even so
        assert len(browser.all("#chosen .heads canvas")) == (7 if whole else 0)


def test_what_the_page_cannot_show_is_refused():
    with pytest.raises(UserError, match="64 tokens, not 65: shorten"):
        run([5] * 65)
    with pytest.raises(UserError, match="no pass"):
        page_of(*run(n=0))
    record, tokenizer, sequence = run(n=1)
    with pytest.raises(UserError, match="shorten the prompt"):
        code_html(record, tokenizer, sequence.ids, 3, most=1000)


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


@pytest.mark.slow
def test_each_stop_is_drawn_and_its_address_leads_back(browser, html):
    browser.open(html, 360)
    wide = browser.js("""return [...stops.keys()].filter((i) => i % 4 === 0).filter((i) => {
            goTo(i);
            [...document.querySelectorAll(".operation")].at(-1)?.click();
            return document.documentElement.scrollWidth > innerWidth;
        })""")  # fmt: skip
    assert wide == []
    browser.js("goTo(stops.findIndex((s) => s.pass === 1 && s.part === 2) + 9);" + VISIT, "softmax")
    browser.js("set({head: 3})")
    browser.wait("return /^#pass=2&part=2&line=\\d+&head=3&bookmark=softmax/.test(location.hash)")
    at, address = place(browser), browser.js("return location.hash")
    browser.open(html, address=address)
    assert place(browser) == at and browser.text("mark").startswith("softmax(")


@pytest.mark.slow
def test_bookmarks_ask_only_what_is_true_of_the_run(browser, html):
    browser.open(html)
    expected = "GPT2.__call__ GPT2.__call__ GPT2.self_attention Cache.append attention attention "
    expected += "attention GPT2.self_attention GPT2.block gelu GPT2.__call__ GPT2.__call__ "
    expected += "temperature top_k.keep_top_k draw GPT2.__call__"
    for button, function in zip(browser.all("#bookmarks button"), expected.split(), strict=True):
        button.click()
        assert place(browser)[2] == function
        assert browser.text("#places details:not([hidden]) > summary").endswith("?")
        assert not browser.all("#places details[open]")
    assert place(browser)[0] == 1  # the next pass
    press(browser, RIGHT)  # a bookmark ends where the reader goes on
    assert not browser.all("mark, #bookmarks [aria-pressed=true]")
    assert browser.text("#places").startswith("Begin with")
    browser.open(page_of(*run(n=1)))
    assert browser.texts("#bookmarks button:disabled") == ["13 temperature", "14 top-k"]


def test_heads_stand_side_by_side_and_rows_say_where_they_come_from(browser, html, made):
    record, _, sequence = made
    browser.open(html)
    browser.js("goTo(stops.findIndex((s) => s.pass === 1 && s.part === 2));" + VISIT, "softmax")
    value, axes = browser.js("return [state.chosen.value, state.chosen.axes]")
    weights = record.values[value]["array"]
    browser.js("document.querySelector('#chosen table').focus()")
    press(browser, RIGHT)  # the weight of the second token, in each head
    shown = [float(text) for text in browser.texts("#chosen .heads span")]
    assert axes == ["n_head", "n_new", "n_all"]
    assert shown == pytest.approx(weights[:, 0, 1], rel=0.02)
    browser.js(VISIT, "cache")
    assert browser.text("#chosen h2") == "What the line writes"
    press(browser, RIGHT)
    assert browser.texts("#chosen .ends")[0].split() == ["pass", "1"] * 3 + ["new"]
    browser.js(VISIT, "residual")
    x = record.values[browser.js("return stops[state.at].operations.at(-1).value")]["array"]
    before, part = (record.values[i]["array"] for i in browser.js("return operandsOf(state.at, "
        "stops[state.at].operations.at(-1)).map((x) => x.value)"))  # fmt: skip
    sizes = [float(np.sqrt((a * a).mean())) for a in (before, x, part)]
    words = browser.text("#chosen .ends").split()  # rms 0.14 → 0.19 added 0.13
    assert words[::2][:3] == ["rms", "→", "added"]
    assert [float(word) for word in words[1:6:2]] == pytest.approx(sizes, rel=0.05)


@pytest.mark.parametrize("loop", [generate.naive, generate.cached, drafted])
def test_a_line_says_what_it_costs_and_which_rows_are_computed_again(browser, loop):
    record, tokenizer, sequence = run(loop=loop)
    browser.open(page_of(record, tokenizer, sequence))
    costs = browser.js("""const all = stops.filter(({caller}) => caller === undefined);
        return ["flop", "bytes"].map((name) => sum(all.map((stop) => stop[name])))""")
    again = generate.Sequence(sequence.model, sequence.ids[:3], 3, greedy, 3)
    _, flops, n_bytes = counted(sequence.model, lambda: [*loop(sequence.model, again)])
    assert costs == [flops, n_bytes]
    repeated = browser.js("return data.passes.map(({again}) => again.filter(Boolean).length)")
    assert repeated == ([0, 3, 4] if loop is generate.naive else [0] * len(repeated))


def project_twice(model, ids):  # as a reader may write it
    logits = model(ids)
    return logits @ model.params["wte"].T


def test_an_error_leads_to_the_line_that_failed_and_names_the_axes_of_both_operands(browser):
    tokenizer, model = utils.load("stories")
    with stepping(model, 3, project_twice) as record:
        project_twice(model, tokenizer.encode("The dragon was"))
    assert isinstance(record.raised, ValueError)
    browser.open(code_html(record, tokenizer))
    assert browser.text("#source .now span").strip() == 'return logits @ model.params["wte"].T'
    assert browser.text("#chosen h2").startswith("ValueError: matmul")
    left, right = browser.texts("#chosen .shape")
    assert "[n_new 3, n_vocab 3329]" in left and "[n_embd 224, n_vocab 3329]" in right
    with pytest.raises(ValueError, match="matmul"):
        page.display(record, "")


def test_the_keyboard_reaches_every_control_and_each_has_a_name(browser, html):
    browser.open(html)
    browser.js(VISIT, "softmax")
    names = browser.js("""return [...document.querySelectorAll("button, input, [tabindex]")]
        .filter((x) => x.offsetParent && !x.disabled).map((x) =>
            (x.ariaLabel || x.textContent || x.labels?.[0]?.textContent || "").trim())""")
    assert len(names) > 40 and all(names)
    browser.js("document.activeElement.blur()")
    press(browser, *[TAB] * 8)  # each group is one stop
    assert browser.js("return document.activeElement.closest('#chosen table') !== null")
    browser.js("document.querySelector('.cells').focus()")
    press(browser, RIGHT, DOWN)
    shown = browser.js("return document.activeElement.closest('.array').innerText")
    assert re.search(r"\[0, 1, 1\] = \S+ \(head 0,  ?dragon\)", shown)
