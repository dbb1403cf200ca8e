"""Checks: the least time of a pass, rows at the ridge, a prefill in chunks, the largest batch."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

NUMBERS = 600, 40  # weights, kv
MACHINES = {"slow memory": (100, 1e6), "slow processor": (1e6, 100), "balance": (100, 70)}
WRONG = mistakes("""
[notebooks/roofline.ipynb least_time]
of the sum of both times: reading and computing overlap, so take the longer one
    max(read / bandwidth, work / peak) -> read / bandwidth + work / peak
with the weights read for each text: all texts share one reading
    (weights + n_rows * n_all * kv) -> n_rows * (weights + n_all * kv)
with the cache of the new tokens only: a pass reads the keys and values of all tokens
    n_all -> n_new
with the FLOPs of all tokens: only the new ones run through the model
    n_rows * n_new -> n_rows * n_all
with n_bytes applied to FLOPs: fewer bytes do not change their number
    2 * weights -> n_bytes / 2 * weights
[notebooks/roofline.ipynb rows_at_ridge]
without the caches: each row reads its own
    - n_bytes * n * kv / bandwidth ->
[notebooks/roofline.ipynb prefill_seconds]
with the weights read only once: each chunk is a pass of its own
    spans) -> spans) - (len(ends) - 1) * numbers[0] * 4 / machine[0]
of the longer of two sums: add up the longer time of each chunk
    => machines = (machine[0], np.inf), (np.inf, machine[1]); return max(sum(least_time(
        numbers, one, 1, b - a, b) for a, b in zip([0, *ends], ends)) for one in machines)
with whole chunks only: the last chunk may be shorter
    [*range(chunk, n, chunk), n] -> [*range(chunk, n + chunk, chunk)]
[notebooks/roofline.ipynb most_rows]
with 4 bytes a number in the time, whatever n_bytes is
    rows, 1, n, n_bytes) -> rows, 1, n)
with the time alone: weights and caches must fit the memory
    int((memory / n_bytes - weights) // (n * kv)) -> 99
""")


def see_least_time(m, seed):
    """Look at the times of four passes on three machines."""
    for name, machine in MACHINES.items():
        for passed in (1, 1, 9), (3, 1, 9), (1, 5, 5, 2), (2, 3, 20, 2):
            found = np.array([m.least_time(NUMBERS, machine, *passed)], float)
            yield Seen(f"{name}, n_rows, n_new, n_all, n_bytes = {passed}", found, "seconds")


def see_ridge(m, seed):
    """Look at the ridge for short and long texts, and where there is none."""
    for n, n_bytes in (0, 4), (3, 4), (3, 2), (40, 4):
        found = m.rows_at_ridge(NUMBERS, (100, 200), n, n_bytes)
        yield Seen(f"for n = {n}, n_bytes = {n_bytes}", np.array([found], float), "rows")


def see_prefill(m, seed):
    """Look at the times of whole and of shorter last chunks."""
    for name, machine in MACHINES.items():
        for n, chunk in (12, 4), (10, 4), (3, 8):
            found = np.array([m.prefill_seconds(NUMBERS, machine, n, chunk)], float)
            yield Seen(f"{name}, {n} tokens in chunks of {chunk}", found, "seconds")


def see_rows(m, seed):
    """Look at the rows where memory is the limit, and where time is."""
    for memory, seconds in (9000, 1000), (9000, 60), (9000, 20), (2000, 1000), (4000, 32):
        found = m.most_rows(NUMBERS, (100, 200), 5, memory, seconds)
        yield Seen(f"the rows for {memory} bytes and {seconds} seconds", found)
    found = m.most_rows(NUMBERS, (100, 200), 5, 9000, 20, 2)
    yield Seen("the rows for n_bytes = 2, 9000 bytes and 20 seconds", found)


exercise_least_time = Part(("least_time",), see_least_time, WRONG)
exercise_1 = Part(("rows_at_ridge",), see_ridge, WRONG)
exercise_2 = Part(("prefill_seconds",), see_prefill, WRONG)
exercise_3 = Part(("most_rows",), see_rows, WRONG)
