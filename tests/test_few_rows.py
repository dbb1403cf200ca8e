"""few_rows.py: the same product by either form, for every shape, and the choice between them."""

import functools
import os
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import few_rows
from beam import Search, run_together
from drafters import PromptLookup
from few_rows import MOST_ROWS, product, product_in_blocks
from generate import Sequence, cached
from samplers import Sampler, greedy, temperature
from speculative import speculative
from tests.tiny import close, same_greedy, tiny_gpt2

HOUSE = Path(__file__).parent.parent

# --- the product ----------------------------------------------------------------------------------


def whole_numbers(rng, *shape):
    """Small ones, whose products and sums are exact in float32, in any order."""
    return rng.integers(-8, 9, shape).astype(np.float32)


def mapped(w, folder):
    """The same weight, read-only and mapped from a file."""
    np.save(folder / "w.npy", w)
    return np.load(folder / "w.npy", mmap_mode="r")


VIEWS = {
    "whole": lambda w: w.copy(),
    "rows of a larger one": lambda w: np.concatenate([w, w, w])[len(w) : 2 * len(w)],
    "columns of a larger one": lambda w: np.hstack([w[:, :1], w, w])[:, 1 : 1 + w.shape[1]],
    "every other row": lambda w: np.repeat(w, 2, axis=0)[::2],
    "transposed": lambda w: w.T.copy().T,
    "backwards": lambda w: w[::-1].copy()[::-1],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


@settings(max_examples=150)
@given(
    n_rows=st.integers(1, 40),
    n_in=st.integers(1, 70),
    n_out=st.integers(1, 300),
    n_threads=st.integers(1, 4),
    share=st.sampled_from([1, 100, 5000, 2**20]),
    small=st.sampled_from([1, 500, 20_000, 10**6]),
    view=st.sampled_from([*VIEWS, "mapped"]),
    view_of_rows=st.sampled_from(list(VIEWS)),
)
@example(5, 16, 257, 2, 100, 10**6, "mapped", "whole")
@example(2, 3, 1, 4, 1, 10**6, "whole", "whole")  # more threads than rows of w
@example(32, 70, 33, 4, 1, 1, "whole", "transposed")
def test_blocks_give_the_product(
    folder, n_rows, n_in, n_out, n_threads, share, small, view, view_of_rows
):
    rng = np.random.default_rng([n_rows, n_in, n_out])
    rows = VIEWS[view_of_rows](whole_numbers(rng, n_rows, n_in))
    w = whole_numbers(rng, n_out, n_in)
    w = mapped(w, folder) if view == "mapped" else VIEWS[view](w)
    before = rows.copy(), w.copy()
    expected = rows.astype(float) @ w.T.astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_rows, "n_threads", n_threads)
        patch.setattr(few_rows, "SHARE", share)
        patch.setattr(few_rows, "SMALL", small)
        for form in (False, True):
            patch.setattr(few_rows, "blocks_pay", lambda form=form: form)
            y = product(rows, w)
            assert y.dtype == np.float32 and y.shape == (n_rows, n_out)
            np.testing.assert_array_equal(y, expected)
            y += 1  # it may be written to, as a bias is added
        np.testing.assert_array_equal(product_in_blocks(rows, w), expected)  # of any size
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(w, before[1])


@pytest.mark.parametrize("n_rows", [2, 5, 17])
def test_blocks_give_the_product_at_the_size_of_a_vocabulary(n_rows):
    """50257 rows of w are no multiple of a block; two threads."""
    rng = np.random.default_rng(0)
    w, rows = whole_numbers(rng, 50257, 64), whole_numbers(rng, n_rows, 64)
    np.testing.assert_array_equal(product_in_blocks(rows, w), rows @ w.T)


@settings(max_examples=30)
@given(st.integers(2, 32), st.integers(1, 500), st.integers(1, 100))
def test_real_numbers_differ_only_by_rounding(n_rows, n_in, n_out):
    rng = np.random.default_rng(n_rows)
    rows, w = (rng.normal(size=(n, n_in)).astype(np.float32) for n in (n_rows, n_out))
    close(product_in_blocks(rows, w), rows @ w.T)


def test_no_weight_is_copied(folder):
    w = mapped(whole_numbers(np.random.default_rng(0), 5000, 256), folder)
    rows = np.ones((4, 256), np.float32)
    product_in_blocks(rows, w)
    tracemalloc.start()
    try:
        product_in_blocks(rows, w)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < w.nbytes / 20  # its result has 1/64 of the numbers


# --- threads --------------------------------------------------------------------------------------


class Lazy:
    """In the place of a pool of threads: a job runs when its result is asked for."""

    def __init__(self):
        self.n_jobs = 0

    def submit(self, f, *args):
        self.n_jobs += 1
        return SimpleNamespace(result=functools.partial(f, *args))


@pytest.mark.parametrize(
    "n_out, n_threads, n_jobs", [(70, 4, 3), (70, 2, 1), (70, 1, 0), (25, 4, 1), (19, 4, 0)]
)
def test_each_thread_has_a_share_of_the_weight_and_is_waited_for(
    monkeypatch, n_out, n_threads, n_jobs
):
    lazy = Lazy()
    monkeypatch.setattr(few_rows, "pool", lambda: lazy)
    monkeypatch.setattr(few_rows, "n_threads", n_threads)
    monkeypatch.setattr(few_rows, "SHARE", 10 * 6)
    rng = np.random.default_rng(0)
    w, rows = whole_numbers(rng, n_out, 6), whole_numbers(rng, 3, 6)
    np.testing.assert_array_equal(product_in_blocks(rows, w), rows @ w.T)
    assert lazy.n_jobs == n_jobs  # the first share is this thread's own


def test_an_error_in_a_thread_is_raised(monkeypatch):
    def fails(rows, w, out):
        if len(w) != 30:
            raise MemoryError("in a thread")

    monkeypatch.setattr(few_rows, "small_products", fails)
    monkeypatch.setattr(few_rows, "n_threads", 2)
    monkeypatch.setattr(few_rows, "SHARE", 1)
    with pytest.raises(MemoryError, match="in a thread"):
        product_in_blocks(np.ones((2, 3), np.float32), np.ones((61, 3), np.float32))


# --- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pays", [False, True])
def test_blocks_are_for_a_few_rows_where_they_pay(monkeypatch, pays):
    in_blocks = []

    def note(rows, w):
        in_blocks.append(len(rows))
        return rows @ w.T

    monkeypatch.setattr(few_rows, "product_in_blocks", note)
    monkeypatch.setattr(few_rows, "blocks_pay", lambda: pays)
    w = np.ones((9, 4), np.float32)
    for n in range(45):
        assert product(np.ones((n, 4), np.float32), w).shape == (n, 9)
    assert in_blocks == (list(range(2, 33)) if pays else [])
    assert MOST_ROWS == 32


class Clock:
    """Time passes only in the two products, so much in each call."""

    def __init__(self, blocks, plain):
        self.now, self.n_calls, self.costs = 0.0, 0, {"blocks": blocks, "plain": plain}

    def product(self, name):
        def run(rows, w):
            cost = self.costs[name]
            self.n_calls += 1
            self.now += cost.pop(0) if isinstance(cost, list) else cost

        return run


def set_clock(monkeypatch, blocks, plain):
    clock = Clock(blocks, plain)
    monkeypatch.setattr(few_rows.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(few_rows, "product_in_blocks", clock.product("blocks"))
    numpy = SimpleNamespace(ones=np.ones, float32=np.float32, matmul=clock.product("plain"))
    monkeypatch.setattr(few_rows, "np", numpy)
    return clock


@pytest.mark.parametrize(
    "blocks, plain, pays",
    [(1, 2, True), (1, 1, False), (2, 1, False), (0.74, 1, True), (0.76, 1, False),
     ([9, 9, 1, 9, 9], [2] * 5, True),  # a disturbance does not count: the fastest of each
     ([1] * 5, [9, 9, 1.1, 9, 9], False)],
)  # fmt: skip
def test_blocks_pay_where_they_take_less_than_three_quarters(monkeypatch, blocks, plain, pays):
    set_clock(monkeypatch, blocks, plain)
    assert few_rows.blocks_pay.__wrapped__() is pays


def test_it_is_measured_once(monkeypatch):
    clock = set_clock(monkeypatch, 1, 2)
    try:
        few_rows.blocks_pay.cache_clear()
        assert few_rows.blocks_pay() and clock.n_calls == 10
        assert few_rows.blocks_pay() and clock.n_calls == 10
    finally:
        few_rows.blocks_pay.cache_clear()  # what the next measures is this machine's again


# --- a model --------------------------------------------------------------------------------------

MODEL = tiny_gpt2(n_vocab=37, n_embd=24, n_ctx=40)
PROMPTS = [[1, 2, 3, 1, 2], [30], [5, 6, 5, 6, 5], [n % 9 for n in range(20)]]


def by_cached(sampler):
    rows = [Sequence(MODEL, prompt, 12, sampler, seed) for seed, prompt in enumerate(PROMPTS)]
    list(cached(MODEL, rows))
    return [row.new_ids for row in rows]


def by_speculation(sampler):
    rows = [Sequence(MODEL, prompt, 12, sampler, seed) for seed, prompt in enumerate(PROMPTS)]
    list(speculative(MODEL, rows, lambda row: PromptLookup(MODEL.n_vocab)))
    return [row.new_ids for row in rows]


def by_beams():
    searches = [Search(MODEL, prompt, 12, 3, 1.0, False) for prompt in PROMPTS]
    run_together(MODEL, searches)
    return [search.finished[0].ids for search in searches]


@pytest.fixture
def in_blocks(monkeypatch):
    """-> a function that chooses the form."""
    monkeypatch.setattr(few_rows, "SHARE", 64)  # threads, too
    monkeypatch.setattr(few_rows, "n_threads", 2)
    return lambda pays: monkeypatch.setattr(few_rows, "blocks_pay", lambda: pays)


def test_a_model_has_the_same_logits_in_either_form(in_blocks):
    for ids in ([[1], [2], [3]], PROMPTS[3], [[1, 2, 3]] * 5, [[4, 5]] * 16, [[4, 5, 6]] * 11):
        in_blocks(False)
        plain = MODEL(ids)
        in_blocks(True)
        close(MODEL(ids), plain)


@pytest.mark.parametrize("loop", [by_cached, by_speculation])
@pytest.mark.parametrize("sampler", [greedy, Sampler(temperature(0.8))], ids=["greedy", "warm"])
def test_a_batch_has_the_same_ids_in_either_form(in_blocks, loop, sampler):
    in_blocks(False)
    plain = loop(sampler)
    in_blocks(True)
    for prompt, ids, expected in zip(PROMPTS, loop(sampler), plain, strict=True):
        if sampler is greedy:
            same_greedy(MODEL, prompt, ids, expected)
        else:
            assert ids == expected


def test_beams_are_the_same_in_either_form(in_blocks):
    in_blocks(False)
    plain = by_beams()
    in_blocks(True)
    assert by_beams() == plain


def test_a_wide_weight_is_one_product(monkeypatch):
    """Its blocks would be large products themselves, each packed."""
    monkeypatch.setattr(few_rows, "blocks_pay", lambda: True)
    monkeypatch.setattr(few_rows, "product_in_blocks", None)
    rows, w = np.ones((32, 5000), np.float32), np.ones((3, 5000), np.float32)
    assert few_rows.product(rows, w).tolist() == [[5000] * 3] * 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    script = (
        "import os, numpy as np, few_rows as f; f.n_threads, f.SHARE = 2, 1;"
        "x, w = np.ones((2, 8), np.float32), np.ones((9, 8), np.float32);"
        "f.product_in_blocks(x, w); child = os.fork(); f.product_in_blocks(x, w);"
        "child and os.waitpid(child, 0); print('done')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=HOUSE, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.stdout == "done\n" * 2


def test_a_thread_has_its_callers_errstate(monkeypatch):
    monkeypatch.setattr(few_rows, "n_threads", 2)
    monkeypatch.setattr(few_rows, "SHARE", 1)
    rows, w = np.ones((2, 8), np.float32), np.full((16, 8), np.inf, np.float32)
    w[:, 0] = -np.inf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        assert np.isnan(few_rows.product_in_blocks(rows, w)).all()
