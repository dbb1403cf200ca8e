"""Step 16: beam search."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel


def form(found):
    """Replace each list of ids and each number in a result with a description of its type."""
    if isinstance(found, list | tuple) and not isinstance([*found, None][0], int | np.integer):
        return [form(part) for part in found]
    return "a list of ids" if isinstance(found, list) else "a number"


def see_texts(m, name, n, width, stop_ids=(), seed=2, **more):
    model = WatchedModel(n_vocab=5, stop_ids=stop_ids, seed=seed, scale=1.2, most=60)
    prompt = [3, 1, 4]
    try:
        found = m.beam_search(model, prompt, n, width, **more)
        yield Seen(f"the result {name}", form(found))
    except Exception as error:
        yield Seen(f"the result {name}", error)
        yield Seen(f"the texts in the cache {name}", model.cache and model.cache.rows, "?")
        return
    if not all(len(text) == 3 and np.ndim(text[0]) == 1 for text in found):
        return
    yield Seen(f"the texts in the cache {name}", model.cache.rows, "?")
    yield Seen(f"the texts {name}", [[int(id) for id in ids] for ids, _, _ in found])
    for label, i in ("log P", 1), ("scores", 2):
        scores = np.array([float(text[i]) for text in found], np.float32)
        yield Seen(f"their {label} {name}", scores, "text")
    yield Seen(f"the prompt after the call {name}", prompt)
    yield Seen(f"tokens run through the model {name}", model.n_rows, "<=")
    yield Seen(f"passes through the model {name}", len(model.passes), "<=")


def see_beam(m, seed):
    yield from see_texts(m, "with width 3", 4, 3)
    yield from see_texts(m, "with width 1", 4, 1)
    yield from see_texts(m, "with a stop id", 5, 3, (2,))
    yield from see_texts(m, "with two stop ids", 6, 4, (0, 2))
    yield from see_texts(m, "with width 4 and a stop id", 6, 4, (1,), seed=1)
    yield from see_texts(m, "with length_penalty=2", 6, 4, (1,), length_penalty=2.0)
    yield from see_texts(m, "with length_penalty=0", 6, 4, (1,), length_penalty=0.0)
    yield from see_texts(m, "with width 2, length_penalty=0", 3, 2, (2,), length_penalty=0.0)
    yield from see_texts(m, "with a stop id among the best", 4, 2, (2,), seed=1)
    yield from see_texts(m, "with n=1", 1, 3)


BEAM_WRONG = mistakes(r"""
[workshop/reference.py beam_search]
with only the log probability of the last token
    log_softmax(logits) + np.array([[log_p] for _, log_p in beams]) -> log_softmax(logits)
with probabilities summed instead of their logarithms
    log_softmax(logits) + -> np.exp(log_softmax(logits)) +
with `width` equal beams at the beginning, so that the
        first step keeps the same token `width` times
    cache, beams, finished = model.new_cache(1), [([], 0.0)], []
    -> cache, beams, finished = model.new_cache(width), [([], 0.0)] * width, []
    new = np.array([prompt]) -> new = np.array([prompt] * width)
without cache.select: the rows of the cache do not belong to the beams
    cache.select(parents) -> pass
    # huggingface/transformers, issue 46612: for caches of another name
with the score instead of log P as the beginning of the next sum
    kept.append((ids, log_p)) -> kept.append((ids, log_p / len(ids) ** length_penalty))
with only the best `width` tokens of each beam as candidates
    best = -> worst = -np.sort(-totals)[:, :width][:, -1:]; best =
    -totals, axis=None, kind="stable")
    -> np.where(totals < worst, np.inf, -totals), axis=None, kind="stable")[: width * len(beams)]
of a search that ends with the first finished text
    if not kept: -> if not kept or finished:
of a search that ends as soon as `width` texts are finished
    if not kept: -> if not kept or len(finished) >= width:
with all candidates that end finished, even those beyond the best `width`
    if place < width: -> if True:
with fewer beams after a text is finished: finished candidates take the place of beams
    elif len(kept) < width: -> elif place < width:
with finished texts kept among the beams
    elif len(kept) < width: -> if len(kept) < width and step < n - 1:
with the prompt's tokens counted in the length
    log_p / len(ids) -> log_p / (len(prompt) + len(ids))
    # huggingface/transformers, issue 26624
with the finished texts ranked by log P instead of score
    -text[2] -> -text[1]
with the worst text first
    -text[2] -> text[2]
with the prompt in the texts
    finished.append((ids, -> finished.append(([*prompt, *ids],
""")
BEAM = Part(("beam_search",), see_beam, BEAM_WRONG, '"Search": Try them all.')
