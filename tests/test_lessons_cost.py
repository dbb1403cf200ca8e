"""Lessons 8 to 11: what they count, where their pictures put it, and the answers that their checks
must refuse."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tiny import tiny_gpt2

sys.path.insert(0, str(Path(__file__).parent.parent / "notebooks"))

import counting  # noqa: E402
import lessons  # noqa: E402
from drawing import (  # noqa: E402
    lesson_07_choosing,
    lesson_08_counting,
    lesson_09_roofline,
    lesson_11_serving,
)

from batching import continuous  # noqa: E402
from generate import Sequence  # noqa: E402


def refused(capsys, lesson, number, *answers):
    """What a check says about an answer, but for the beginning."""
    lessons.check(lesson, number, *answers)
    said = capsys.readouterr().out
    assert said.startswith("not solved yet: ")
    return said.removeprefix("not solved yet: ")


@pytest.mark.parametrize("n_rows, n_past, n_new", [(1, 0, 5), (1, 5, 1), (3, 4, 2)])
def test_the_formulas_count_what_the_running_code_does(n_rows, n_past, n_new):
    model = tiny_gpt2()
    shape, n_all = counting.shape_of(model), n_past + n_new
    cache = model.new_cache(n_rows)
    if n_past:
        model(np.ones((n_rows, n_past), int), cache)
    ids = np.ones((n_rows, n_new), int)
    logits, flops, read = counting.counted(model, model, ids, cache, last=1)
    assert logits.shape == (n_rows, 1, model.n_vocab)
    assert flops == n_rows * counting.pass_flops(shape, n_new, n_all)
    assert read == counting.pass_bytes(shape, n_all, n_rows)


def test_no_two_texts_sit_in_one_row_at_once():
    model, made = tiny_gpt2(), {}
    for n, length in enumerate((5, 2, 7, 1, 3, 4)):
        made[Sequence(model, [1, 2], length, seed=n)] = []
    for turn, (sequence, _) in enumerate(continuous(model, list(made), max_rows=2)):
        made[sequence].append(turn)
    taken = set()
    for _, row, turns in lesson_11_serving.places(made, 2):
        seats = {(row, turn) for turn in range(turns[0], turns[-1] + 1)}
        assert not seats & taken and row in (0, 1)
        taken |= seats


@pytest.mark.parametrize("n", [2, 7, 9])
def test_the_cache_saves_for_a_short_text_too(n):
    def flops(model, ids, *args, **settings):
        return counting.counted(model, model, ids, *args, **settings)[1]

    model, ids = tiny_gpt2(), np.arange(n)
    alt = lesson_08_counting.saving_of(model, ids, flops, lessons.medians)
    lessons.plt.close()
    assert alt.startswith(f"Token {min(n, 8)} of your text")


def test_the_bytes_of_an_arrow_are_named():
    names = {"0123": "0-3", " ": "space", "z": "“z”", "bcz": "b-c, “z”"}
    found = [lesson_07_choosing.label(np.frombuffer(text.encode(), np.uint8)) for text in names]
    assert found == [*names.values()]


def test_a_picture_of_a_text_of_ones_own_says_what_it_shows():
    alt = lesson_09_roofline.roof_of(tiny_gpt2(), [1] * 13, 1e10, 1e11)
    lessons.plt.close()
    assert "a prompt of 8 tokens runs at " in alt


SHAPE = (5, 224, 3329)


def test_counting_refuses_tokens_for_flops_and_a_whole_pass_for_chunks(capsys):
    def tokens(lengths):
        return 1 - sum(lengths) / (len(lengths) * max(lengths))

    def whole(model, ids, size):
        return model(ids, last=1)[-1]

    def all_logits(model, ids, size):
        cache = model.new_cache()
        return [model(ids[i : i + size], cache) for i in range(0, len(ids), size)][-1][-1]

    assert "your share is another" in refused(capsys, "08_counting", 1, tokens)
    assert refused(capsys, "08_counting", 2, whole).startswith("more FLOPs")
    assert refused(capsys, "08_counting", 2, all_logits).startswith("more FLOPs")


def test_counting_refuses_a_window_that_is_always_full(capsys):
    def of_attention(shape, n, w):
        seen = np.arange(1, n + 1)
        return 1 - np.minimum(seen, w).sum() / seen.sum()

    def always_full(shape, n, w):
        full = [counting.pass_flops(shape, 1, i) for i in range(1, n + 1)]
        return max(0, 1 - n * counting.pass_flops(shape, 1, w) / sum(full)) if w < n else 0

    assert "not of attention's" in refused(capsys, "08_counting", 3, of_attention)
    assert "first tokens" in refused(capsys, "08_counting", 3, always_full)


def test_the_roofline_refuses_a_shared_cache_and_a_sum_of_both_limits(capsys):
    def shared_cache(shape, n_rows, n, bandwidth, peak):
        work = n_rows * counting.pass_flops(shape, 1, n)
        return max(counting.pass_bytes(shape, n) / bandwidth, work / peak)

    def both(shape, n, size, bandwidth, peak):
        ends = [min(i + size, n) for i in range(0, n, size)]
        new = np.diff([0, *ends])
        read = sum(counting.pass_bytes(shape, end) for end in ends)
        work = sum(counting.pass_flops(shape, *pair) for pair in zip(new, ends))
        return max(read / bandwidth, work / peak)

    assert "cache of its own" in refused(capsys, "09_roofline", 1, shared_cache)
    assert "of each chunk" in refused(capsys, "09_roofline", 2, both)


def test_the_roofline_refuses_a_product_that_is_not_in_blocks(capsys):
    def plain(rows, w, size):
        return rows @ w.T

    def without_the_rest(rows, w, size):
        n_full = len(w) // size * size
        return (w[:n_full].reshape(-1, size, w.shape[1]) @ rows.T).reshape(n_full, -1).T

    assert "not in blocks" in refused(capsys, "09_roofline", 3, plain)
    assert "the shape" in refused(capsys, "09_roofline", 3, without_the_rest)


def test_speculation_refuses_equal_draws_and_gain_without_cost(capsys):
    def one_hot(p):
        return (np.arange(len(p)) == p.argmax()).astype(float)

    def most_tokens(a, c, b):
        return 16

    def without_residual(p, q):  # both draw the same token
        return 1.0 if p is q else p @ q

    assert "100,000 drafts" in refused(capsys, "10_speculation", 1, without_residual, one_hot)
    assert "is faster at" in refused(capsys, "10_speculation", 2, most_tokens)


def test_speculation_refuses_a_drafter_that_lets_only_one_learn(capsys):
    class One:
        def __init__(self, drafters):
            self.drafters = drafters

        def propose(self, ids, n):
            found = [drafter.propose(ids, n) for drafter in self.drafters]
            return next((pair for pair in found if pair[0]), ([], []))

        def learn(self, *what):
            self.drafters[1].learn(*what)

    assert "has heard nothing" in refused(capsys, "10_speculation", 3, One)


def test_serving_refuses_perfect_packing_free_rows_and_no_order(capsys):
    def packed(lengths, n_rows):
        groups = [lengths[i : i + n_rows] for i in range(0, len(lengths), n_rows)]
        return sum(map(max, groups)), -(-sum(lengths) // n_rows)

    def free_rows(rate, n, step, most=64):
        return next((r for r in range(1, most + 1) if r / (n * step(1)) >= rate), None)

    assert "by continuous batching" in refused(capsys, "11_serving", 1, packed)
    assert "another number of rows" in refused(capsys, "11_serving", 2, free_rows)
    assert "another order" in refused(capsys, "11_serving", 3, list)
