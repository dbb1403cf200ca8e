"""The checks of lesson 11's exercises, and of its loop."""

import itertools

import lessons
import numpy as np

from decoding.batching import continuous
from decoding.drafters import common_prefix
from generate import Sequence, generate


class Watched:
    """A model that notes the shape of its passes, [n_new] or [n_rows, n_new]."""

    def __init__(self, model):
        self.model, self.passes = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache=None, last=None):
        self.passes.append(np.shape(ids))
        return self.model(ids, cache, last)


def exercise_loop(serve_all):
    """The answer: serve_all(model, sequences, max_rows), a generator of (sequence, token)."""
    tiny, lengths = lessons.tiny_model(8, seed=3), (5, 1, 7, 2, 1, 4)
    prompts = [[i + 1] + [7 - i] * (i % 3) for i in range(len(lengths))]
    alone = [list(generate(tiny, *pair)) for pair in zip(prompts, lengths)]
    for max_rows in (1, 2, 4):
        watched = Watched(tiny), Watched(tiny)
        ours, theirs = ([Sequence(model, *pair) for pair in zip(prompts, lengths)]
                        for model in watched)  # fmt: skip
        list(continuous(ours, max_rows))
        found = serve_all(watched[1], theirs, max_rows)
        assert found is not None, "write serve_all"
        pairs = list(found)
        rows = f"with {max_rows} row{'s' * (max_rows > 1)}"
        most = max((shape[0] for shape in watched[1].passes if len(shape) > 1), default=0)
        assert most <= max_rows, f"{rows}, a pass over {most} rows"
        for number, (sequence, right) in enumerate(zip(theirs, alone)):
            assert sequence.new_ids, f"{rows}, text {number} never came to a row"
            assert not sequence.running, f"{rows}, text {number} was not finished"
            assert sequence.new_ids == right, (
                f"{rows}, text {number} is another one than alone: does its row of the cache leave"
                " with it, and only then?"
            )
            given = [token for owner, token in pairs if owner is sequence]
            assert given == right, f"{rows}, not every token of text {number} was yielded, once"
        done, needed = (len(model.passes) for model in watched[::-1])
        assert done <= needed, (
            f"{rows}, {done} passes instead of {needed}: does a free row go to the next text at"
            " once, and does each pass make a token for every row?"
        )


def exercise_1(passes_needed):
    """The answer: passes_needed(lengths, n_rows) -> (static, continuous)."""
    assert passes_needed([3], 2) is not None, "write passes_needed"
    assert np.shape(passes_needed([3], 2)) == (2,), "two numbers: static, continuous"
    for lengths, n_rows in ([5, 1, 1, 5], 2), ([2, 9, 2, 2, 2, 2], 2), ([4, 1, 6, 2, 5], 3):
        static, continuous = passes_needed(lengths, n_rows)
        groups = [lengths[i : i + n_rows] for i in range(0, len(lengths), n_rows)]
        assert static == sum(map(max, groups)), (
            f"static batches of {lengths} in {n_rows} rows: a batch lasts as long as its longest"
        )
        waiting, left, passes = list(lengths), [], 0
        while waiting or left:
            while waiting and len(left) < n_rows:
                left.append(waiting.pop(0))
            left, passes = [n - 1 for n in left if n > 1], passes + 1
        assert continuous == passes, (
            f"{lengths} in {n_rows} rows, by continuous batching: another number of passes. The"
            " texts come in this order, and none can be cut in two"
        )


def exercise_2(rows_needed):
    """The answer: rows_needed(rate, n, step, most=64) -> a number of rows, or None."""
    assert rows_needed(1, 10, lambda rows: 0.01) is not None, "write rows_needed"
    steps = {
        "0.01 s for any number of rows": lambda rows: 0.01,
        "0.01 + 0.002 rows": lambda rows: 0.01 + 0.002 * rows,
        "0.01 rows": lambda rows: 0.01 * rows,
    }
    for name, step in steps.items():
        for rate, most in itertools.product((2, 4.9, 5.1, 12, 30, 1000), (1, 3, 32)):
            enough = [r for r in range(1, most + 1) if r / (20 * step(r)) >= rate]
            right, found = enough[0] if enough else None, rows_needed(rate, 20, step, most)
            case = f"{rate} readers per second who want 20 tokens each, a pass takes {name}"
            assert found is not None or right is None, f"{case}: {right} rows are enough"
            assert found is None or found <= most, f"at most {most} rows, not {found}"
            assert found == right, f"{case}, at most {most} rows: another number of rows"


def exercise_3(arrange):
    """The answer: arrange(prompts): a list of lists of ids -> the same lists, reordered."""
    a, b, c = [1] * 9, [2] * 9, [1] * 4 + [3] * 5
    prompts = [[*a, 5], [*b, 4, 4], [*c, 2], [*b, 4], [*a, 3, 3, 3], [*c, 2]]
    found = arrange([list(prompt) for prompt in prompts])
    assert found is not None, "write arrange"
    assert sorted(map(list, found)) == sorted(prompts), "all prompts, each as often as it came"

    def passed(order):  # an equal prompt's last token passes, too
        kept = sum(common_prefix(one, two[:-1]) for one, two in itertools.pairwise(order))
        return sum(map(len, order)) - kept

    least, done = min(map(passed, itertools.permutations(prompts))), passed(list(map(list, found)))
    assert done == least, (
        f"{done} tokens pass, and in another order {least}. (A prompt that begins another one:"
        " which of the two should come first?)"
    )
