"""The checks of lesson 11's exercises."""

import itertools

import lessons  # noqa: F401, it makes the project's files importable

from drafters import common_prefix


def exercise_1(passes_needed):
    """The answer: passes_needed(lengths, n_rows) -> (static, continuous)."""
    assert passes_needed([3], 2) is not None, "write passes_needed"
    assert len(passes_needed([3], 2)) == 2, "two numbers: static, continuous"
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
            f"{lengths} in {n_rows} rows, by continuous batching: another number of passes"
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
        for rate in (2, 4.9, 5.1, 12, 30, 1000):
            enough = [r for r in range(1, 33) if r / (20 * step(r)) >= rate]
            right = enough[0] if enough else None
            assert rows_needed(rate, 20, step, 32) == right, (
                f"{rate} readers per second who want 20 tokens each, a pass takes {name}, at most"
                " 32 rows: another number of rows"
            )


def exercise_3(arrange):
    """The answer: arrange(prompts): a list of lists of ids -> the same lists, reordered."""
    a, b, c = [1] * 9, [2] * 9, [1] * 4 + [3] * 5
    prompts = [[*a, 5], [*b, 4], [*c, 2], [*b, 7, 7], [*a, 3, 3, 3], [*c, 2]]
    found = arrange([list(prompt) for prompt in prompts])
    assert found is not None, "write arrange"
    assert sorted(map(list, found)) == sorted(prompts), "all prompts, each as often as it came"

    def passed(order):  # an equal prompt's last token passes, too
        kept = sum(common_prefix(one, two[:-1]) for one, two in itertools.pairwise(order))
        return sum(map(len, order)) - kept

    least = min(map(passed, itertools.permutations(prompts)))
    assert passed(list(map(list, found))) == least, (
        "another order of six prompts lets fewer tokens pass"
    )
