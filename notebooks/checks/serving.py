"""Checks: the loop, numbers of passes, enough rows for a load."""

import itertools

import lessons
import numpy as np

from decoding.batching import continuous
from generate import Sequence, generate
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes


def exercise_loop(serve_all):
    """Check serve_all(model, sequences, max_rows), a generator of (sequence, token).

    This is no Part, because a wrong loop may never end: the search for its name would hang.
    """
    tiny, lengths = lessons.tiny_model(8, seed=3), (5, 1, 7, 2, 4, 1)  # the last: its first token
    prompts = [[i + 1] + [7 - i] * (i % 3) for i in range(len(lengths))]
    alone = [list(generate(tiny, *pair)) for pair in zip(prompts, lengths)]
    for max_rows in (1, 2, 4):
        ours, theirs = lessons.Watched(tiny), lessons.Watched(tiny)
        list(continuous([Sequence(ours, *pair) for pair in zip(prompts, lengths)], max_rows))
        sequences = [Sequence(theirs, *pair) for pair in zip(prompts, lengths)]
        pairs = list(itertools.islice(serve_all(theirs, sequences, max_rows), 99))
        rows = f"with {max_rows} row{'s' * (max_rows > 1)}"
        most = max((len(ids) for _, ids in theirs.passes if np.ndim(ids) > 1), default=0)
        assert most <= max_rows, f"{rows}, there was a pass over {most} rows"
        for number, (sequence, right) in enumerate(zip(sequences, alone)):
            assert sequence.new_ids, f"{rows}, request {number} never got a row"
            assert not sequence.running, f"{rows}, request {number} was not finished"
            assert sequence.new_ids == right, (
                f"{rows}, request {number} does not get the text that it gets alone: does its row"
                " leave the cache when it ends, and not before, even after its first token?"
            )
            given = [token for owner, token in pairs if owner is sequence]
            assert given == right, f"{rows}, a token of request {number} was not yielded just once"
        done, needed = len(theirs.passes), len(ours.passes)
        assert done <= needed, (
            f"{rows}, you need {done} passes instead of {needed}: does the next request get a free"
            " row at once, and does each pass generate a token for every row?"
        )


def see_passes(m, seed):
    for lengths, n_rows in ([5, 1, 1, 5], 2), ([3, 3, 3, 4, 5], 2), ([4, 1, 6, 2, 5], 3):
        for name, found in zip(("static", "continuous"), m.passes_needed(lengths, n_rows)):
            yield Seen(f"{name} batching of {lengths} in {n_rows} rows", found)


exercise_1 = Part(
    ("passes_needed",),
    see_passes,
    mistakes("""
[notebooks/serving.ipynb passes_needed]
of perfect packing, but no request can be cut in pieces
    max(free_at) -> max(-(-sum(lengths) // n_rows), max(lengths))
with the longest request first: they come in the given order
    length in lengths -> length in sorted(lengths, reverse=True)
with the sum of a batch's lengths: a batch lasts as long as its longest request
    sum(map(max, groups)) -> sum(map(sum, groups))
"""),
)


def see_rows(m, seed):
    steps = {
        "0.01 s": lambda rows: 0.01,
        "0.01 s + 0.002 s a row": lambda rows: 0.01 + 0.002 * rows,
        "0.01 s a row": lambda rows: 0.01 * rows,
    }
    for (name, step), rate, most in itertools.product(steps.items(), (4.9, 5, 5.1, 12), (1, 3, 32)):
        case = f"{rate} requests a second, passes of {name}, most = {most}"
        yield Seen(case, m.rows_needed(rate, 20, step, most))


exercise_2 = Part(
    ("rows_needed",),
    see_rows,
    mistakes("""
[notebooks/serving.ipynb rows_needed]
with the time of one row: a pass over more rows takes longer
    step(rows) -> step(1)
of the tokens per second of one request: all rows write at the same time
    rows / (n -> 1 / (n
with `most` never tried
    most + 1 -> most
"""),
)
