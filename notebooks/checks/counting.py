"""Checks: FLOPs of a pass, the passes of both loops, padding, a prompt in chunks, a window."""

import lessons
import numpy as np

from page.recorder import counted
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/counting.ipynb pass_flops]
without the factor 2: a multiplication and an addition
    24 * d**2 * n_new, 4 * d -> 12 * d**2 * n_new, 2 * d
    2 * d * n_vocab -> d * n_vocab
with one of attention's two products
    4 * d * n_new -> 2 * d * n_new
with the new keys alone: a query meets all keys
    n_new * n_all -> n_new * n_new
with the cached tokens in every product: only the new ones meet the weight matrices
    d**2 * n_new -> d**2 * n_all
with logits of all rows: one row is computed
    d * n_vocab -> d * n_vocab * n_new
[notebooks/counting.ipynb cached_passes]
with cached_passes one token too early: n_all counts the new token, too
    range(L + 1, L + G) -> range(L, L + G - 1)
[notebooks/counting.ipynb naive_passes]
with naive_passes one token too late: the first pass is over the prompt
    range(L, L + G) -> range(L + 1, L + G + 1)
[notebooks/counting.ipynb wasted]
of the share of tokens: attention grows with the square of the length
    sum(pass_flops(STORIES, n, n) for n in lengths) / padded
    -> sum(lengths) / (len(lengths) * longest)
[notebooks/counting.ipynb wasted window_saves]
of the share that is left
    return 1 - -> return
[notebooks/counting.ipynb chunked]
with a new cache for each chunk: a chunk must see those before it
    , cache, -> , model.new_cache(),
[notebooks/counting.ipynb window_saves]
of the share of attention's FLOPs instead of all
    1 - kept / full -> (full - kept) / sum(4 * shape[0] * shape[1] * i for i in range(1, n + 1))
with a full window from the first token on: the first tokens see fewer tokens
    min(i, w) -> w
""")


def part(names, axes, *cases):
    """Return the Part of functions that return numbers; cases: the arguments of each function."""

    def observe(m, seed):
        for name in names:
            for case in cases:
                found = getattr(m, name)(*case)
                label = f"{name}({', '.join(map(str, case))})"
                yield Seen(label, found if found is None else np.array(found, float), axes)

    return Part(names, observe, WRONG)


def see_chunked(m, seed):
    """Look at the last logits and the FLOPs, with chunks of three sizes."""
    model, ids = lessons.tiny_model(11, seed=3), np.array([3, 1, 4, 1, 5, 9])
    for size in 3, 4, 99:
        logits, flops, _ = counted(model, m.chunked, model, ids, size)
        yield Seen(f"the last logits, in chunks of {size}", logits, "n_vocab")
        yield Seen(f"FLOPs in chunks of {size}", flops, "<=0")


A, B = (5, 224, 3329), (12, 768, 50257)  # shapes
exercise_pass_flops = part(("pass_flops",), "", (A, 1, 1), (A, 5, 9), (B, 5, 5), (B, 1, 500))
exercise_passes = part(("naive_passes", "cached_passes"), "pass, number", (3, 4), (1, 1), (5, 1))
exercise_1 = part(("wasted",), "", ([10, 40, 25],), ([9, 9],), ([1, 300],))
exercise_2 = Part(("chunked",), see_chunked, WRONG)
exercise_3 = part(("window_saves",), "", (A, 300, 64), (B, 500, 1), ((2, 8, 5), 9, 4), (A, 10, 99))
