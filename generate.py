"""Generate text one token at a time: the two loops, and below them the command line.

    python generate.py "Once upon a time"

A loop takes prompts (lists of ids), and for each a sampler and a random generator; it yields
(row, id) as each token is made, and asks `done(row, ids)` whether that row has ended.
"""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from interface import Done, Ids, Loop, Model, Sampler
from samplers import draw, greedy


def naive(
    model: Model, prompts: list[Ids], samplers: list[Sampler], rngs: list[Generator], done: Done
) -> Iterator[tuple[int, int]]:
    """The definition: run the model over all so far, draw the next token, append it, repeat.
    ValueError for an empty prompt."""
    ids = [list(prompt) for prompt in prompts]
    rows = [row for row in range(len(ids)) if not done(row, ids[row])]
    while rows:
        batch = left_pad([ids[row] for row in rows])  # [n_rows, n_seq]
        logits = model.select(rows)(batch, last=1)[:, -1]  # [n_rows, n_vocab]
        for row, row_logits in zip(rows, logits):
            ids[row].append(draw(samplers[row](row_logits, ids[row]), rngs[row]))
            yield row, ids[row][-1]
        rows = [row for row in rows if not done(row, ids[row])]


def cached(
    model: Model, prompts: list[Ids], samplers: list[Sampler], rngs: list[Generator], done: Done
) -> Iterator[tuple[int, int]]:
    """The same, but each token passes through the model once: its keys and values are kept."""
    ids = [list(prompt) for prompt in prompts]
    rows = [row for row in range(len(ids)) if not done(row, ids[row])]
    new = left_pad([ids[row] for row in rows])  # [n_rows, n_seq]
    model = model.select(rows)
    cache = model.new_cache(len(rows))
    while rows:
        logits = model(new, cache, last=1)[:, -1]  # [n_rows, n_vocab]
        for row, row_logits in zip(rows, logits):
            ids[row].append(draw(samplers[row](row_logits, ids[row]), rngs[row]))
            yield row, ids[row][-1]
        alive = [i for i, row in enumerate(rows) if not done(row, ids[row])]
        rows = [rows[i] for i in alive]
        cache.select(alive)
        new = np.array([ids[row][-1:] for row in rows])  # [n_rows, 1]


def left_pad(prompts: list[Ids]) -> np.ndarray:
    """Lists of ids -> [n_rows, n_longest] ints, -1 before the shorter ones."""
    if not all(map(len, prompts)):
        raise ValueError("a prompt needs at least one token")
    longest = max(map(len, prompts), default=0)
    return np.array([[-1] * (longest - len(ids)) + list(ids) for ids in prompts], int)


def generate(
    model: Model, prompt: Ids, n: int, sampler: Sampler = greedy, seed: int = 0, loop: Loop = cached
) -> Iterator[int]:
    """Yield at most n new ids after one prompt (a list of ids), a stop id included. ValueError for
    a prompt that is empty, or longer than the context."""
    if len(prompt) > model.n_ctx:
        raise ValueError(f"a prompt of {len(prompt)} tokens: the context has {model.n_ctx}")

    def done(row, ids):
        stopped = len(ids) > len(prompt) and ids[-1] in model.stop_ids
        return stopped or len(ids) >= min(len(prompt) + n, model.n_ctx)

    for _, token in loop(model, [prompt], [sampler], [np.random.default_rng(seed)], done):
        yield token


if __name__ == "__main__":
    import sys

    try:
        from terminal import cli  # and with it what reads files: the loops need NumPy alone

        sys.exit(cli.main())
    except KeyboardInterrupt:  # before main could see to it
        print("interrupted", file=sys.stderr)
        sys.exit(130)
