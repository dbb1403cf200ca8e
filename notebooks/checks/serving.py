"""Checks: the loop, numbers of passes, enough rows for a load, an order of prompts."""

import itertools

import lessons
import numpy as np

from decoding.batching import continuous
from decoding.drafters import common_prefix
from generate import Sequence, generate


def exercise_loop(serve_all):
    """Check serve_all(model, sequences, max_rows), a generator of (sequence, token)."""
    tiny, lengths = lessons.tiny_model(8, seed=3), (5, 1, 7, 2, 1, 4)
    prompts = [[i + 1] + [7 - i] * (i % 3) for i in range(len(lengths))]
    alone = [list(generate(tiny, *pair)) for pair in zip(prompts, lengths)]
    for max_rows in (1, 2, 4):
        ours, theirs = lessons.Watched(tiny), lessons.Watched(tiny)
        list(continuous([Sequence(ours, *pair) for pair in zip(prompts, lengths)], max_rows))
        sequences = [Sequence(theirs, *pair) for pair in zip(prompts, lengths)]
        found = serve_all(theirs, sequences, max_rows)
        assert found is not None, "write serve_all"
        pairs = list(found)
        rows = f"with {max_rows} row{'s' * (max_rows > 1)}"
        most = max((len(ids) for _, ids in theirs.passes if np.ndim(ids) > 1), default=0)
        assert most <= max_rows, f"{rows}, there was a pass over {most} rows"
        for number, (sequence, right) in enumerate(zip(sequences, alone)):
            assert sequence.new_ids, f"{rows}, text {number} never got a row"
            assert not sequence.running, f"{rows}, text {number} was not finished"
            assert sequence.new_ids == right, (
                f"{rows}, text {number} is not what it is alone: does its row of the cache leave"
                " when the text ends, and not before?"
            )
            given = [token for owner, token in pairs if owner is sequence]
            assert given == right, f"{rows}, not every token of text {number} was yielded just once"
        done, needed = len(theirs.passes), len(ours.passes)
        assert done <= needed, (
            f"{rows}, you need {done} passes instead of {needed}: does the next text get a free row"
            " at once, and does each pass generate a token for every row?"
        )


def exercise_1(passes_needed):
    """Check passes_needed(lengths, n_rows) -> two numbers of passes: static, continuous."""
    assert passes_needed([3], 2) is not None, "write passes_needed"
    assert np.shape(passes_needed([3], 2)) == (2,), "return two numbers: static, continuous"
    for lengths, n_rows in ([5, 1, 1, 5], 2), ([2, 9, 2, 2, 2, 2], 2), ([4, 1, 6, 2, 5], 3):
        static, continuous = passes_needed(lengths, n_rows)
        groups = [lengths[i : i + n_rows] for i in range(0, len(lengths), n_rows)]
        right = sum(map(max, groups))
        assert static == right, (
            f"static batches of {lengths} in {n_rows} rows need {right} passes, not {static}: a"
            " batch lasts as long as its longest text"
        )
        waiting, left, passes = list(lengths), [], 0
        while waiting or left:
            while waiting and len(left) < n_rows:
                left.append(waiting.pop(0))
            left, passes = [n - 1 for n in left if n > 1], passes + 1
        assert continuous == passes, (
            f"{lengths} in {n_rows} rows need {passes} passes by continuous batching, not"
            f" {continuous}: the texts begin in this order, and none is split"
        )


def exercise_2(rows_needed):
    """Check rows_needed(rate, n, step, most=64) -> the fewest rows that are enough, or None."""
    assert rows_needed(1, 10, lambda rows: 0.01) is not None, "write rows_needed"
    steps = {
        "0.01 s": lambda rows: 0.01,
        "0.01 s + 0.002 s per row": lambda rows: 0.01 + 0.002 * rows,
        "0.01 s per row": lambda rows: 0.01 * rows,
    }
    for name, step in steps.items():
        for rate, most in itertools.product((2, 4.9, 5.1, 12, 30, 1000), (1, 3, 32)):
            enough = [r for r in range(1, most + 1) if r / (20 * step(r)) >= rate]
            right, found = enough[0] if enough else None, rows_needed(rate, 20, step, most)
            case = f"for {rate} readers a second, 20 tokens each, passes of {name}, most = {most},"
            assert found is not None or right is None, f"{case} the answer is {right}, not None"
            assert found is None or found <= most, f"return at most {most}, not {found}"
            assert found == right, f"{case} the answer is {right}, not {found}"


def exercise_3(arrange):
    """Check arrange(prompts) -> the same prompts in the best order. A prompt is a list of ids."""
    a, b, c = [1] * 9, [2] * 9, [1] * 4 + [3] * 5
    prompts = [[*a, 5], [*b, 4, 4], [*c, 2], [*b, 4], [*a, 3, 3, 3], [*c, 2]]
    found = arrange([list(prompt) for prompt in prompts])
    assert found is not None, "write arrange"
    assert sorted(map(list, found)) == sorted(prompts), "return each prompt as often as you got it"

    def passed(order):
        """Return how many tokens the model reads. It reads at least each prompt's last token."""
        kept = sum(common_prefix(one, two[:-1]) for one, two in itertools.pairwise(order))
        return sum(map(len, order)) - kept

    least, done = min(map(passed, itertools.permutations(prompts))), passed(list(map(list, found)))
    assert done == least, (
        f"the model reads {done} tokens, but only {least} in the best order: if a prompt begins"
        " with another prompt, which of the two should come first?"
    )
