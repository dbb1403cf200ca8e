"""The page that steps through the code: it has the record's numbers, and its controls work."""

import json
import re

import numpy as np
import pytest

import generate
import page
import utils
from generate import Sequence
from gpt2 import GPT2
from loading.errors import UserError
from page.code import MODULES, Packing, check, code_html
from page.file import writing_code
from page.trace import recording
from samplers import greedy, make_sampler
from tests.support.tiny import tiny_gpt2

KEYS = {"right": "\ue014", "left": "\ue012", "down": "\ue015", "up": "\ue013", "shift": "\ue008"}
PLACE = "const s = stops[state.at], n = data.nodes[s.node]; return [s.pass, s.part, n[1], n[3]]"


def run(prompt="Once upon a", n=3, sampler=greedy):
    tokenizer, model = utils.load("stories")
    sequence = Sequence(model, tokenizer.encode(prompt), n, sampler, 3)
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
            x = np.maximum(value["array"].astype(kind).ravel(), -1e9).astype(float)
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
        assert [np.float32(y) for y in numbers if y is not None] == [y for y in expected if y > -np.inf]
    assert len(rows) > 40


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


@pytest.mark.slow
def test_a_long_prompt_keeps_the_first_and_the_last_layer(browser):
    record, tokenizer, sequence = run("Once upon a time, there was a girl." * 6, 4)
    sequence_64 = run_ids(tokenizer, sequence.ids[:64])
    for made, whole in (run("Once upon a time, there was a little girl named Lily."), True), (
        sequence_64,
        False,
    ):
        text = code_html(*made)
        assert len(text) <= 3_000_000
        browser.open(text, 360)
        assert browser.js("return [data.left_out, data.whole]") == [[1, 2, 3], whole]
        assert "layers 1 to 3" in browser.text("#limits")
        browser.js("goTo(stops.findIndex((s) => s.part === 2))")
        assert "not in this page" in browser.text("#names")


def run_ids(tokenizer, ids):
    model = utils.load("stories")[1]
    sequence = Sequence(model, ids, 4)
    with recording(MODULES, model) as record:
        list(generate.cached(model, sequence))
    return record, tokenizer, sequence
