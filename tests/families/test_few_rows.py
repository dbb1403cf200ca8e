"""In families/few_rows.py, every way to compute a product gives the same result for every shape,
and blocks are used only where they are faster."""

import os
from contextlib import nullcontext
from functools import partial
from threading import Thread
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpt2
import utils
from families import few_rows
from families.few_rows import Weight, product
from tests.support.commands import python


def whole_numbers(*shape, seed=0, dtype=np.float32):
    """Return small random integers. Sums of their products have no rounding errors."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


@pytest.fixture
def pays(monkeypatch):
    """Return a function: after pays(x), blocks_pay() returns x."""
    return lambda pays: monkeypatch.setattr(few_rows, "blocks_pay", lambda: pays)


LAYOUTS = {  # memory layouts of a weight [n_out, n_in]
    "rows": np.ascontiguousarray,
    "columns, as in GPT-2's files": np.asfortranarray,
    "part of a larger array": lambda w: np.hstack([w[:, :1], w, w])[:, 1 : 1 + w.shape[1]],
}


@settings(max_examples=200)
@given(
    n_rows=st.integers(1, 40),
    n_in=st.sampled_from([1, 5, 31, 32, 64, 70, 96]),
    n_out=st.integers(1, 300),
    layout=st.sampled_from(list(LAYOUTS)),
    small=st.sampled_from([1, 500, 20_000, 10**6]),
    blocks=st.booleans(),
    share=st.sampled_from([10, 1000, 10**9]),
    n_threads=st.integers(1, 3),
    dtype=st.sampled_from(["f4", "f4", "f8", "i8", "i1"]),
)
@example(16, 64, 100, "rows", 10**6, True, 10**9, 1, "f4")  # a block has more than 8, less than 32
def test_every_form_gives_the_product(
    n_rows, n_in, n_out, layout, small, blocks, share, n_threads, dtype
):
    rows = whole_numbers(n_rows, n_in, dtype=dtype)
    w = LAYOUTS[layout](whole_numbers(n_out, n_in, seed=1))
    before = rows.copy(), w.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_rows, "SMALL", small)
        patch.setattr(few_rows, "SHARE", share)
        patch.setattr(few_rows, "n_threads", lambda: n_threads)
        patch.setattr(few_rows, "blocks_pay", lambda: blocks)
        y = rows @ w.view(Weight).T
    assert type(y) is np.ndarray and y.dtype == (rows @ w.T).dtype and y.shape == (n_rows, n_out)
    np.testing.assert_array_equal(y, rows.astype(float) @ w.T.astype(float))
    np.testing.assert_array_equal(rows.tolist() @ w.view(Weight).T, rows @ w.T)
    np.testing.assert_array_equal(np.stack([rows, rows]) @ w.view(Weight).T, [y, y])  # a batch
    y += 1  # raises an error if the result is read-only
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(w, before[1])


@pytest.mark.parametrize("n_rows, forms", [(1, ""), (2, "oi"), (32, "oi"), (33, "")])
def test_blocks_are_used_for_a_few_rows_if_they_pay(monkeypatch, pays, n_rows, forms):
    seen = []
    for name in ("blocks_of_outputs", "blocks_of_inputs"):
        f = getattr(few_rows, name)
        monkeypatch.setattr(few_rows, name, lambda *a, n=name[10], f=f: seen.append(n) or f(*a))
    rows, w = whole_numbers(n_rows, 64), whole_numbers(7, 64)
    for chosen in (False, True):
        pays(chosen)
        product(rows, w.T)  # a weight [n_out, n_in] whose rows are contiguous
        product(rows, np.ascontiguousarray(w.T))  # a weight whose columns are contiguous
    assert "".join(seen) == forms


@pytest.mark.parametrize("n_threads, n_others", [(1, 0), (2, 1), (8, 4)])
def test_each_thread_takes_a_part_of_a_large_weight(monkeypatch, pays, n_threads, n_others):
    pays(True)
    workers = Mock(wraps=few_rows.pool(0))
    monkeypatch.setattr(few_rows, "n_threads", lambda: n_threads)
    # A thread gets at least SHARE numbers of a weight. The weight w below has 5.3 times as many.
    monkeypatch.setattr(few_rows, "SHARE", 64 * 10)

    monkeypatch.setattr(few_rows, "pool", lambda process: workers)
    rows, w = whole_numbers(3, 64), whole_numbers(53, 64)
    np.testing.assert_array_equal(product(rows, w.T), rows @ w.T)
    sizes = [part.shape[1] for call in workers.map.call_args_list for part in call.args[1]]
    assert len(sizes) == n_others  # the calling thread takes the first part
    assert all(53 // 6 < size < 53 for size in sizes)
    monkeypatch.setattr(few_rows, "pool", Mock(side_effect=RuntimeError("the program is ending")))
    np.testing.assert_array_equal(product(rows, w.T), rows @ w.T)  # without new threads


FORK = """
import multiprocessing, os, threading, numpy as np
import utils
from families import few_rows
few_rows.n_threads, few_rows.SHARE, few_rows.blocks_pay = lambda: 2, 1, lambda: True
product = lambda: few_rows.product(np.ones((2, 32)), np.ones((32, 8)))
wait = threading.Barrier(2).wait
[*few_rows.pool(os.getpid()).map(lambda _: wait(), range(2))]  # two threads, which then are idle
child = multiprocessing.get_context("fork").Process(target=product)
child.start()
child.join(20)
print(child.exitcode)
child.kill()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_makes_its_own_threads():
    assert python("-c", FORK).stdout == "0\n"


@pytest.mark.parametrize("setting, error", [("raise", True), ("ignore", False)])
def test_a_thread_has_the_error_settings_of_its_caller(monkeypatch, pays, setting, error):
    pays(True)
    monkeypatch.setattr(few_rows, "n_threads", lambda: 2)
    monkeypatch.setattr(few_rows, "SHARE", 1)
    rows, w = np.full((2, 64), 1e30, np.float32), np.full((64, 8), 1e30, np.float32)
    with np.errstate(all=setting), pytest.raises(FloatingPointError) if error else nullcontext():
        assert np.isinf(product(rows, w)).all()


def test_a_small_model_runs_on_one_thread_and_a_large_one_beside_it_does_not(monkeypatch, pays):
    pays(False)
    _, small = utils.load("stories-draft")  # n_embd is 64; n_vocab * n_embd is 213,056
    _, large = utils.load("stories")  # 224; 745,696
    _, translator = utils.load("en-de")  # 192; 768,000
    seen, linear = [], gpt2.linear
    monkeypatch.setattr(few_rows, "SMALL_MODEL", (200, 750_000))
    blas = SimpleNamespace(num_threads=4)  # like threadpoolctl's controller of a library
    blas.set_num_threads = partial(setattr, blas, "num_threads")
    monkeypatch.setattr(few_rows, "BLAS", SimpleNamespace(lib_controllers=[blas]))

    def seeing(*given, **more):
        seen.append(few_rows.n_threads())
        return linear(*given, **more)

    monkeypatch.setattr(gpt2, "linear", seeing)

    def during(run):  # -> the numbers of threads in its products
        seen.clear()
        run()
        return {*seen}

    assert during(lambda: small([1, 2])) == {1} and few_rows.n_threads() == 4
    assert during(lambda: large([1, 2])) == {4}
    assert during(lambda: translator.read([1, 2])) == {4}
    monkeypatch.setattr(few_rows, "SMALL_MODEL", (200, 800_000))
    assert during(lambda: translator.read([1, 2])([1])) == {1} and few_rows.n_threads() == 4
    small.params["wte"][7], small.params["wte"][:2]  # looking at embeddings is not a pass
    assert few_rows.n_threads() == 4
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(small, "activation", lambda x: 1 / 0)
        small([1, 2])
    thread = Thread(target=lambda: small([1, 2]))  # this thread has the limit, and keeps it
    thread.start()
    thread.join()
    assert few_rows.n_threads() == 1
    assert during(lambda: large([1, 2])) == {4}
