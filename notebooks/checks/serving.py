"""Checks: the loop, numbers of passes, enough rows for a load."""

import itertools

import lessons
import numpy as np

from generate import Sequence
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/serving.ipynb serve_all]
with the rows of other requests dropped: the rows in `stay` are to stay
    rows.select(stay) -> rows.select(range(len(stay)))
with a row for a request that has ended with its first token
    if sequence.running: -> if True:
of one request at a time: the next one gets a free row at once
    len(running) < max_rows -> not running
with more than max_rows rows
    len(running) < max_rows -> True
without the first token of each request: yield it, too
    yield sequence, draw_next(sequence, logits) -> draw_next(sequence, logits)
[notebooks/serving.ipynb passes_needed]
of perfect packing, but no request can be cut in pieces
    max(free_at) -> max(-(-sum(lengths) // n_rows), max(lengths))
with the longest request first: they come in the given order
    length in lengths -> length in sorted(lengths, reverse=True)
with the sum of a batch's lengths: a batch lasts as long as its longest request
    sum(map(max, groups)) -> sum(map(sum, groups))
[notebooks/serving.ipynb rows_needed]
with the time of one row: a pass over more rows takes longer
    step(rows) -> step(1)
of the tokens per second of one request: all rows write at the same time
    rows / (n -> 1 / (n
with `most` never tried
    most + 1 -> most
""")


def see_loop(m, seed):
    """Look at the texts, the yielded tokens and the passes of one to four rows."""
    tiny, lengths = lessons.tiny_model(8, seed=3), (5, 1, 7, 2, 4, 1)  # the last: its first token
    for max_rows in 1, 2, 4:
        model = lessons.Watched(tiny)
        prompts = ([i + 1] + [7 - i] * (i % 3) for i in range(len(lengths)))
        sequences = [Sequence(model, *pair) for pair in zip(prompts, lengths)]
        pairs = list(itertools.islice(m.serve_all(model, sequences, max_rows), 99))
        for i, sequence in enumerate(sequences):
            at = f"of request {i} with max_rows = {max_rows}"
            yield Seen(f"the text {at}", sequence.new_ids)
            given = [token for owner, token in pairs if owner is sequence]
            yield Seen(f"the yielded tokens {at}", given)
        most = max((len(ids) for _, ids in model.passes if np.ndim(ids) > 1), default=0)
        yield Seen(f"the most rows in a pass with max_rows = {max_rows}", most, "<=0")
        yield Seen(f"passes with max_rows = {max_rows}", len(model.passes), "<=0")


def see_passes(m, seed):
    """Look at the numbers of passes of three queues."""
    for lengths, n_rows in ([5, 1, 1, 5], 2), ([3, 3, 3, 4, 5], 2), ([4, 1, 6, 2, 5], 3):
        for name, found in zip(("static", "continuous"), m.passes_needed(lengths, n_rows)):
            yield Seen(f"{name} batching of {lengths} in {n_rows} rows", found)


def see_rows(m, seed):
    """Look at the rows for four kinds of passes, four rates and three limits."""
    steps = {
        "0.01 s": lambda rows: 0.01,
        "0.01 s + 0.002 s a row": lambda rows: 0.01 + 0.002 * rows,
        "0.01 s a row": lambda rows: 0.01 * rows,
        "0.01 s, or 0.1 s for 2 to 4 rows": lambda rows: 0.1 if 1 < rows < 5 else 0.01,
    }
    for (name, step), rate, most in itertools.product(steps.items(), (4.9, 5, 5.1, 12), (1, 3, 32)):
        case = f"{rate} requests a second, passes of {name}, most = {most}"
        yield Seen(case, m.rows_needed(rate, 20, step, most))


exercise_loop = Part(("serve_all",), see_loop, WRONG)
exercise_1 = Part(("passes_needed",), see_passes, WRONG)
exercise_2 = Part(("rows_needed",), see_rows, WRONG)
