"""Step 16: beam search."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel, attempt


def form(found):
    """Replace each list of ids and each number in a result with a description of its type."""
    if isinstance(found, list | tuple) and not isinstance([*found, None][0], int | np.integer):
        return [form(part) for part in found]
    return "a list of ids" if isinstance(found, list) else "a number"


def see_texts(m, name, n, width, stop_ids=(), seed=2, **more):
    model = WatchedModel(n_vocab=5, stop_ids=stop_ids, seed=seed, scale=1.2, most=60)
    prompt = [3, 1, 4]
    found = m.beam_search(model, prompt, n, width, **more)
    yield Seen(f"the result {name}", form(found))
    if not all(len(text) == 3 and np.ndim(text[0]) == 1 for text in found):
        return
    yield Seen(f"the texts {name}", [[int(id) for id in ids] for ids, _, _ in found])
    for label, i in ("log P", 1), ("scores", 2):
        scores = np.array([float(text[i]) for text in found], np.float32)
        yield Seen(f"their {label} {name}", scores, "text")
    yield Seen(f"the prompt after the call {name}", prompt)
    yield Seen(f"tokens run through the model {name}", model.n_rows, "<=")
    yield Seen(f"passes through the model {name}", len(model.passes), "<=")


def see_beam(m, seed):
    yield from attempt(see_texts(m, "with width 3", 4, 3), "width 3")
    yield from attempt(see_texts(m, "with width 1", 4, 1), "width 1")
    yield from attempt(see_texts(m, "with a stop id", 5, 3, (2,)), "a stop id")
    yield from attempt(see_texts(m, "with two stop ids", 6, 4, (0, 2)), "two stop ids")
    again = see_texts(m, "with width 4 and a stop id", 6, 4, (1,), seed=1)
    yield from attempt(again, "width 4")
    long = see_texts(m, "with length_penalty=2", 6, 4, (1,), length_penalty=2.0)
    yield from attempt(long, "length_penalty=2")
    sums = see_texts(m, "with length_penalty=0", 6, 4, (1,), length_penalty=0.0)
    yield from attempt(sums, "length_penalty=0")
    few = see_texts(m, "with width 2, length_penalty=0", 3, 2, (2,), length_penalty=0.0)
    yield from attempt(few, "width 2")
    yield from attempt(see_texts(m, "with n=1", 1, 3), "one token")


BEAM_WRONG = mistakes(r"""
[workshop/reference.py beam_search]
log P not summed: with only the log probability of the last token
    log_softmax(logits) + np.array([[log_p] for _, log_p in beams]) -> log_softmax(logits)
probabilities summed: with probabilities summed instead of their logarithms
    log_softmax(logits) + -> np.exp(log_softmax(logits)) +
logits summed: with logits summed instead of log probabilities
    log_softmax(logits) + -> logits +
softmax of all beams: with one softmax over all beams together
    log_softmax(logits) + -> log_softmax(logits.ravel()).reshape(logits.shape) +
best of each beam, always: with only the best token of each beam, in the first step, too
    best = np.argsort(-totals, axis=None, kind="stable")
    -> best = np.argsort(np.where(totals == totals.max(1, keepdims=True), -totals, 1e9), axis=None,
        kind="stable")[: len(beams)]
best of each beam: with only the best token of each beam after the first step
    best = np.argsort(-totals, axis=None, kind="stable")
    -> best = np.argsort(np.where(totals == totals.max(1, keepdims=True), -totals, 1e9),
        axis=None, kind="stable")[: max(len(beams), 1)] if step else np.argsort(-totals,
        axis=None, kind="stable")
worst: with the least probable candidates
    np.argsort(-totals -> np.argsort(totals
the same beam each time: with `width` equal beams at the beginning, so that the
        first step keeps the same token `width` times
    cache, beams, finished = model.new_cache(1), [([], 0.0)], []
    -> cache, beams, finished = model.new_cache(width), [([], 0.0)] * width, []
    new = np.array([prompt]) -> new = np.array([prompt] * width)
cache.select left out: without cache.select: a beam has the keys and values of a different beam
    cache.select(parents) -> cache.rows = (cache.rows * width)[: len(parents)]
no cache.select: without cache.select: the rows of the cache do not belong to the beams
    cache.select(parents) -> pass
rows in order: with cache.select of rows 0, 1, 2, ... instead of the parents
    cache.select(parents)
    -> cache.select([min(i, len(cache.rows) - 1) for i in range(len(parents))])
parent by width: with width instead of n_vocab as the divisor that gives a candidate's beam
    divmod(int(index), model.n_vocab)
    -> (int(index) // width % len(beams), int(index) % model.n_vocab)
stop ids ignored: with stop ids treated like any other token
    token in model.stop_ids or step == n - 1 -> step == n - 1
stop id left out: without the stop id in the texts
    finished.append((ids, -> finished.append((ids[:-1] if token in model.stop_ids else ids,
first stop id ends all: of a search that ends with the first finished text
    if not kept: -> if not kept or finished:
ends with width texts: of a search that ends as soon as `width` texts are finished
    if not kept: -> if not kept or len(finished) >= width:
ends when the best is finished: of a search that ends when the best candidate is finished
    if not kept: -> if not kept or int(best[0]) % model.n_vocab in model.stop_ids:
unfinished left out: without the texts that are not finished at step n
    token in model.stop_ids or step == n - 1: -> token in model.stop_ids:
unfinished texts, unranked: with every beam finished at step n, not the best candidates
    or step == n - 1: -> or (step == n - 1 and row == place):
finished beyond the best: with all candidates that end finished, even those beyond the best `width`
    if place < width: -> if True:
fewer beams: with fewer beams after a text is finished: finished candidates take the place of beams
    elif len(kept) < width: -> elif place < width:
fewer beams for all finished: with the width reduced by every finished text
    elif len(kept) < width: -> elif len(kept) < width - len(finished):
finished texts go on: with finished texts kept among the beams
    elif len(kept) < width: -> if len(kept) < width and step < n - 1:
no length penalty: with log P as the score
    log_p / len(ids) ** length_penalty -> log_p
divided by the length: with log P over the length, whatever length_penalty is
    ** length_penalty ->
length times penalty: with length * length_penalty instead of length ** length_penalty
    ** length_penalty -> * (length_penalty or 1)
multiplied: with log P times length ** length_penalty
    log_p / len(ids) -> log_p * len(ids)
prompt counted: with the prompt's tokens counted in the length
    log_p / len(ids) -> log_p / (len(ids) + len(prompt))
one token too few counted: with one token too few counted in the length
    log_p / len(ids) -> log_p / max(len(ids) - 1, 1)
one token too many counted: with one token too many counted in the length
    log_p / len(ids) -> log_p / (len(ids) + 1)
n counted: with n as the length of every text
    log_p / len(ids) -> log_p / n
penalty of Wu: with ((5 + length) / 6) ** length_penalty
    log_p / len(ids) -> log_p / ((5 + len(ids)) / 6)
ranked by log P: with the finished texts ranked by log P instead of score
    -text[2] -> -text[1]
worst first: with the worst text first
    -text[2] -> text[2]
not ranked: with texts in the order in which they were finished
    finished.sort(key=lambda text: -text[2]) -> pass
all texts: of all finished texts instead of `width`
    => return finished
best text only: of only the best text
    => return finished[:1]
the best text, no list: of the best text itself instead of a list
    => return finished[0]
beams: of the beams instead of the finished texts
    => return [(*beam, 0.0) for beam in beams]
score first: of (score, ids, log P)
    finished.append((ids, log_p, log_p / len(ids) ** length_penalty))
    -> finished.append((log_p / len(ids) ** length_penalty, ids, log_p))
    -text[2] -> -text[0]
scores left out: of (ids, log P) without a score
    finished.append((ids, log_p, log_p / len(ids) ** length_penalty))
    -> finished.append((ids, log_p))
    -text[2] -> -text[1] / len(text[0]) ** length_penalty
prompt included: with the prompt in the texts
    finished.append((ids, -> finished.append(([*prompt, *ids],
n + 1 steps: with one step too many
    range(n) -> range(n + 1)
    step == n - 1 -> step == n
n - 1 steps: with one step too few
    range(n) -> range(n - 1)
    step == n - 1 -> step == n - 2
wider: with width + 1 beams
    len(kept) < width -> len(kept) < width + 1
narrower: with width - 1 beams
    len(kept) < width -> len(kept) < max(width - 1, 1)
whole text passed: with each beam's whole text run through the model in each step, without the cache
    logits = model(new, cache)[:, -1]
    -> logits = model(np.array([[*prompt, *ids] for ids, _ in beams]))[:, -1]
first logits: with the logits of the prompt's first token
    cache)[:, -1] -> cache)[:, 0]
one pass too many: with a pass after the last step
    finished.sort -> model(np.array([prompt])); finished.sort
no return: of a function that returns nothing
    => return None
""")
BEAM = Part(("beam_search",), "workshop/reference.py", see_beam, BEAM_WRONG)
