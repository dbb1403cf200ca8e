"""Steps 8, 9 and 12: the naive loop, drawing and filtering, and the cached loop."""

import numpy as np

from generate import Sequence
from samplers import Sampler
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel


def second(logits):
    """Give all probability to the second-best token, to catch loops that choose the best one."""
    probs = np.zeros_like(logits)
    probs[np.argsort(logits)[-2]] = 1
    return probs


def unless_seen(logits, ids):
    """Lower the logits of tokens that have occurred. This filter needs the whole text."""
    logits = logits.copy()
    logits[list(ids)] -= 2
    return logits


CHOICE = Sampler(unless_seen, to_probs=second)
PROMPT = [3, 1, 4, 1, 5]


def run(loop, n, stop_ids=(), sampler=CHOICE, seed=0, end=None, **more):
    """Run a loop. Return its tokens, the sequence and the model. end: stop after `end` tokens."""
    model, tokens = WatchedModel(stop_ids=stop_ids), []
    sequence = Sequence(model, PROMPT, n, sampler, seed)
    for token in loop(model, sequence, **more):
        tokens.append(token)
        if len(tokens) == end:
            sequence.finish("reader")
        if len(tokens) > n + 9:
            break
    return tokens, sequence, model


def see_loop(loop, name, seed):
    """Yield those results that must be the same for the loops naive and cached."""
    tokens, sequence, model = run(loop, 7)
    yield Seen(f"the tokens of {name}", tokens)
    yield Seen("the text after the loop", sequence.ids)
    text = Sequence(WatchedModel(), PROMPT, 7, CHOICE)
    next(iter(loop(WatchedModel(), text)), None)
    yield Seen(f"sequence.ids, when {name} yields the first token", text.ids)
    tokens, sequence, model = run(loop, 7, stop_ids=(tokens[3],))
    yield Seen("the tokens when a stop id is drawn", tokens)
    tokens, *_ = run(loop, 7, end=3)
    yield Seen("the tokens when the reader ends the text after 3", tokens)
    tokens, *_ = run(loop, 0)
    yield Seen("the tokens when 0 are wanted", tokens)
    first = [run(loop, 1, sampler=Sampler(), seed=[seed, i])[0] for i in range(250)]
    yield Seen("the first token of 250 texts", first, "~")
    again = [run(loop, 6, sampler=Sampler(), seed=1)[0] for _ in range(2)]
    yield Seen("the same seed gives the same text", again[0] == again[1])


def see_naive(m, seed):
    yield from see_loop(m.naive, "naive", seed)
    _, _, model = run(m.naive, 7)
    yield Seen("passes through the model for 7 tokens", len(model.passes), "<=")
    yield Seen("tokens run through the model for 7 new tokens", model.n_rows, "<=")


LOOP_WRONG = mistakes(r"""
[generate.py naive]
best logit: with the best token (argmax) instead of a draw from what the sampler gives
    draw(probabilities, sequence.rng) -> int(np.argmax(logits))
best probability: with the most probable token instead of a draw
    draw(probabilities, sequence.rng) -> int(np.argmax(probabilities))
draws from logits: of a draw from the logits, without the sampler
    draw(probabilities -> draw(np.exp(logits) / np.exp(logits).sum()
softmax twice: with a softmax of the probabilities
    draw(probabilities -> draw(np.exp(probabilities) / np.exp(probabilities).sum()
softmax first: with a softmax before the sampler
    sampler(logits, -> sampler(np.exp(logits) / np.exp(logits).sum(),
sampler without the prompt: with only the new tokens given to the sampler
    sampler(logits, sequence.ids) -> sampler(logits, sequence.new_ids)
sampler with the prompt alone: with only the prompt given to the sampler
    sampler(logits, sequence.ids) -> sampler(logits, sequence.ids[: sequence.n_prompt])
sampler with the last token: with only the last token given to the sampler
    sampler(logits, sequence.ids) -> sampler(logits, sequence.ids[-1:])
sampler without ids: with no text given to the sampler
    sampler(logits, sequence.ids) -> sampler(logits, [])
not appended: of a loop that does not add tokens to the text: call sequence.append(token)
    => yield draw(probabilities, sequence.rng)
ids.append: of a loop that appends to sequence.ids: only sequence.append notices the end
    => token = draw(probabilities, sequence.rng); sequence.ids.append(token); yield token
appended twice: with each token appended twice
    => token = draw(probabilities, sequence.rng); sequence.append(token); yield
        sequence.append(token)
yielded first: with each token yielded before it is appended: append it, then yield it
    => token = draw(probabilities, sequence.rng); yield token; sequence.append(token)
not yielded: of a loop that yields nothing
    => sequence.append(draw(probabilities, sequence.rng))
return: of a return instead of a yield, which ends the loop at its first token
    yield sequence -> return sequence
list of one: of a loop that yields lists
    => yield [sequence.append(draw(probabilities, sequence.rng))]
the whole text: of a loop that yields the text instead of its new token
    => sequence.append(draw(probabilities, sequence.rng)); yield list(sequence.ids)
n_left: of a loop that runs while n_left > 0, but a stop id or the caller may end the text earlier
    while sequence.running -> while sequence.n_left > 0
a list: of a loop that returns all tokens at the end, so that its caller cannot end it earlier
    while sequence.running: -> tokens = []\n    while sequence.running:
    => tokens.append(sequence.append(draw(probabilities, sequence.rng)))\n    return tokens
one token: of a loop that ends after its first token
    while sequence -> if sequence
one too few: of a loop that ends one token too early
    while sequence.running -> while sequence.running and sequence.n_left > 1
stop id left out: of a loop that does not yield the stop id
    => token = sequence.append(draw(probabilities, sequence.rng)); yield from [] if token in
        sequence.stop_ids else [token]
a seed of its own: with a new rng that has no seed
    sequence.rng -> np.random.default_rng()
a new rng for each token: with a new rng for each token, always with the same seed
    sequence.rng -> np.random.default_rng(0)
""")
NAIVE_WRONG = LOOP_WRONG + mistakes(r"""
[generate.py naive]
first position: with the logits of the first position instead of the last
    last=1)[-1] -> last=None)[0]
last but one: with the logits of the position before the last
    last=1)[-1] -> last=None)[-2]
all positions: with the logits of all positions instead of the last one
    last=1)[-1] -> last=None)
all positions, last=1: with logits [1, n_vocab] instead of [n_vocab]
    last=1)[-1] -> last=1)
last token only: with only the last token given to the model: without a cache it needs all
    np.array(sequence.ids) -> np.array(sequence.ids[-1:])
prompt only: with only the prompt given to the model each time
    np.array(sequence.ids) -> np.array(sequence.ids[: sequence.n_prompt])
without the last token: with the text given to the model without its last token
    np.array(sequence.ids) -> np.array(sequence.ids[:-1])
new tokens only: with only the new tokens given to the model
    np.array(sequence.ids) -> np.array(sequence.new_ids)
one too many: of a loop that goes on once after the end of the text
    while sequence.running:
    -> yield sequence.append(draw(sequence.sampler(model(np.array(sequence.ids), last=1)[-1],
        sequence.ids), sequence.rng))\n    while sequence.running:
passed twice: with two passes through the model for each token
    logits = model -> model(np.array(sequence.ids)); logits = model
""")
NAIVE = Part(("naive",), "generate.py", see_naive, NAIVE_WRONG)


# --- draws and filters ----------------------------------------------------------------------------


def see_draw(m, seed):
    probs = np.array([0.08, 0.32, 0, 0.15, 0.3, 0, 0.15], np.float32)
    rng = np.random.default_rng(seed)
    token = m.draw(probs, rng)
    yield Seen("draw gives a whole number", isinstance(token, int | np.integer))
    yield Seen("draw from [0 0 1]", m.draw(np.array([0, 0, 1], np.float32), rng))
    yield Seen("draw from [1 0 0]", m.draw(np.array([1, 0, 0], np.float32), rng))
    yield Seen(
        "2000 draws from 0.08 0.32 0 0.15 0.3 0 0.15",
        [int(m.draw(probs, rng)) for _ in range(2000)],
        "~",
    )
    twice = [
        [int(m.draw(probs, rng)) for _ in range(9)] for rng in map(np.random.default_rng, (5, 5))
    ]
    yield Seen("two generators with the same seed give the same draws", twice[0] == twice[1])
    yield Seen("the argument of draw after the call", probs, "n_vocab")


DRAW_WRONG = mistakes(r"""
[samplers.py draw]
best: of the most probable token each time
    => return int(np.argmax(probs))
uniform: of draws in which all tokens are equally probable
    => return int(rng.integers(len(probs)))
uniform, where possible: of draws in which all possible tokens are equally probable
    => return int(rng.choice(np.flatnonzero(probs)))
softmax: of a softmax of the probabilities
    np.cumsum(probs -> np.cumsum(np.exp(probs) / np.exp(probs).sum()
one to the right: of the token after the right one
    side="right")) -> side="right")) + 1
one to the right, at most the last: of the token after the right one
    => return min(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")) + 1,
        len(probs) - 1)
one to the left: of the token before the right one
    => return max(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")) - 1,
        0)
no rng: of draws that do not use rng, so that they cannot be repeated
    rng.random() -> np.random.default_rng().random()
one seed: of a random generator that starts again at each draw
    rng.random() -> np.random.default_rng(0).random()
not accumulated: of a random number compared with probabilities, not with their running sum
    => return int(np.argmax(probs > rng.random()))
first above its own u: of the first token whose own random number is below its probability
    => return int(np.argmax(np.append(rng.random(len(probs)) < probs, True)))
one u for each: of the largest p * u, with a random number u for each token
    => return int(np.argmax(probs * rng.random(len(probs))))
normal: of a random number that is not uniform
    rng.random() -> min(abs(rng.normal()), 0.999999)
squared: of the squares of the probabilities
    np.cumsum(probs -> np.cumsum(probs**2
rare ones: of 1 - p instead of p
    np.cumsum(probs, -> np.cumsum((1 - probs) / (1 - probs).sum(),
sorted: of the rank of a token, largest first, instead of the token
    np.cumsum(probs, -> np.cumsum(np.sort(probs)[::-1],
sorted upwards: of the rank of a token, smallest first, instead of the token
    np.cumsum(probs, -> np.cumsum(np.sort(probs),
the probability: of the probability of the token instead of the token
    => return float(probs[np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")])
last never: of draws that never give the last token
    rng.random() * -> rng.random() * (1 - probs[-1]) *
an array: of an array instead of a whole number
    => return np.searchsorted(cumulative, [rng.random() * cumulative[-1]], side="right")
one-hot: of a one-hot vector instead of a whole number
    => return rng.multinomial(1, probs.astype(float) / probs.astype(float).sum())
argument overwritten: of a draw that writes the running sum over its argument
    cumulative = np.cumsum(probs, dtype=np.float64)
    -> cumulative = np.cumsum(probs, dtype=np.float64); probs[...] = cumulative
no return: of a function that returns nothing
    return int -> int
""")
DRAW = Part(("draw",), "samplers.py", see_draw, DRAW_WRONG)

SCORES = np.array([0.3, 1.1, -0.6, 0.9, 0.7, -0.2, 1.6], np.float32)


def see_filter(make, name, settings):
    logits = SCORES.copy()
    for setting in settings:
        yield Seen(f"{name}({setting}) of {SCORES}", make(setting)(logits, [1, 2]), "n_vocab")
    yield Seen(f"the argument of {name}'s filter after the call", logits, "n_vocab")
    hidden = np.where(SCORES > 0.5, SCORES, np.float32(-np.inf))
    yield Seen(f"{name} where three are -inf", make(settings[0])(hidden, [1]), "n_vocab")
    low = make(settings[0])(SCORES - 4, [1])
    yield Seen(f"{name}({settings[0]}) of {SCORES - 4}", low, "n_vocab")


def see_temperature(m, seed):
    yield from see_filter(m.temperature, "temperature", (0.5, 2.0, 3.0))


def see_top_k(m, seed):
    yield from see_filter(m.top_k, "top_k", (3, 1, 6, 7, 9))


def see_top_p(m, seed):
    yield from see_filter(m.top_p, "top_p", (0.8, 0.3, 0.9, 0.5, 0.99, 1.0, 0.05, 0.15, 0.7))


TEMPERATURE_WRONG = mistakes(r"""
[samplers.py temperature]
multiplied: with the logits multiplied by t instead of divided
    logits / scale -> logits * scale
not used: with the logits unchanged
    logits / scale -> logits
subtracted: with t subtracted
    logits / scale -> logits - scale
root: divided by the root of t
    logits / scale -> logits / np.sqrt(scale)
square: divided by t^2
    logits / scale -> logits / scale**2
1 + t: divided by 1 + t
    logits / scale -> logits / (1 + scale)
power: of logits to the power of 1/t
    logits / scale -> logits ** (1 / scale)
probabilities: of probabilities, but a filter returns logits
    logits / scale -> np.exp(logits / scale) / np.exp(logits / scale).sum()
probabilities divided: of probabilities, divided by t
    logits / scale -> np.exp(logits) / np.exp(logits).sum() / scale
exponentials: of e^(logits / t), but a filter returns logits
    logits / scale -> np.exp(logits / scale)
in place: of a filter that changes its argument
    => return lambda logits, ids: np.divide(logits, scale, out=logits)
logits, not a filter: of t itself, but temperature(t) must return a function
    => return t
no ids: of a filter that takes only the logits, but it is called with logits and ids
    lambda logits, ids: -> lambda logits:
no return: of a function that returns nothing
    return lambda -> lambda
""")
TEMPERATURE = Part(("temperature",), "samplers.py", see_temperature, TEMPERATURE_WRONG)
TOP_K_WRONG = mistakes(r"""
[samplers.py keep_top_k]
one too few: with one logit too few: the k-th largest is not kept
    logits >= np -> logits > np
one too many: with one logit too many
    np.partition(logits, -k)[-k] -> np.sort(logits)[max(-k - 1, -len(logits))]
k - 1: with the k - 1 largest logits kept
    logits >= np.partition(logits, -k)[-k] -> logits >= np.sort(logits)[-k + 1 :].min()
smallest: with the k smallest logits kept
    logits >= np.partition(logits, -k)[-k] -> logits <= np.sort(logits)[k - 1]
k smallest removed: with the k smallest removed instead of the k largest kept
    logits >= np.partition(logits, -k)[-k] -> logits > np.sort(logits)[k - 1]
k largest removed: with the k largest removed
    logits >= np.partition(logits, -k)[-k] -> logits < np.partition(logits, -k)[-k]
first k: with the first k tokens kept
    logits >= np.partition(logits, -k)[-k] -> np.arange(len(logits)) < k
last k: with the last k tokens kept
    logits >= np.partition(logits, -k)[-k] -> np.arange(len(logits)) >= len(logits) - k
best only: with only the best token kept
    logits >= np.partition(logits, -k)[-k] -> logits >= logits.max()
0 instead of -inf: with 0 instead of -inf: e^0 is 1
    => return np.where(logits >= np.partition(logits, -k)[-k], logits, np.float32(0))
-1e10 instead of -inf: with -1e10 instead of -inf
    => return np.where(logits >= np.partition(logits, -k)[-k], logits, np.float32(-1e10))
-1e9 instead of -inf: with -1e9 instead of -inf
    => return np.where(logits >= np.partition(logits, -k)[-k], logits, np.float32(-1e9))
the k logits: of only k logits, but a filter returns all n_vocab
    => return np.sort(logits)[::-1][:k]
the k tokens: of the k tokens instead of logits
    => return np.argsort(logits)[::-1][:k]
sorted: of logits in a different order
    => x = np.sort(logits)[::-1]; return keep(x, x >= np.partition(x, -k)[-k])
ranks for tokens: with argsort used as the ranks of the tokens
    logits >= np.partition(logits, -k)[-k] -> np.argsort(-logits) < k
large k: of a filter that fails where k is larger than the vocabulary
    if k >= len(logits): -> if False:
large k, sorted: of a sort with fewer than k logits: use min(k, len(logits))
    if k >= len(logits): -> if False:
    np.partition(logits, -k)[-k] -> np.sort(logits)[-k]
probabilities: of probabilities, but a filter returns logits
    => e = np.where(logits >= np.partition(logits, -k)[-k], np.exp(logits), 0); return e / e.sum()
not used: with the logits unchanged
    => return logits
in place: of a filter that changes its argument
    => logits[logits < np.partition(logits, -k)[-k]] = -np.inf; return logits
[samplers.py top_k]
no return: of a function that returns nothing
    => keep_top_k
""")
TOP_K = Part(("top_k",), "samplers.py", see_top_k, TOP_K_WRONG)
TOP_P_WRONG = mistakes(r"""
[samplers.py keep_top_p]
one too few: without the token that reaches p, so that the kept tokens sum to less than p
    probs >= falling[last] -> probs >= falling[max(last - 1, 0)]
one too many: with one token too many
    probs >= falling[last] -> probs >= falling[min(last + 1, len(mass) - 1)]
least probable first: with the least probable tokens kept until they sum to p
    last = np.searchsorted(mass[:-1], p - 1e-6)
    -> rising = falling[::-1]; last = min(int(np.searchsorted(np.cumsum(rising,
        dtype=np.float64), p)), len(mass) - 1)
    probs >= falling[last] -> probs <= rising[last]
1 - p: with 1 - p instead of p
    p - 1e-6 -> 1 - p
at least p: with all tokens kept that have a probability of at least p
    p >= 1 or not -> not
    probs >= falling[last] -> probs >= p
at least p of the best: with the tokens at least p times as probable as the best one, which
        is min_p
    p >= 1 or not -> not
    probs >= falling[last] -> probs >= p * falling[0]
the rest: with the nucleus removed and the rest kept
    probs >= falling[last] -> probs < falling[last]
beyond the last: without the last token of the nucleus, but the token that reaches p must be kept
    probs >= falling[last] -> probs > falling[last]
not sorted: with the tokens in the order of their ids instead of their probabilities
    last = np.searchsorted(mass[:-1], p - 1e-6) -> last = 0
    probs >= falling[last] -> np.cumsum(probs) - probs < p
not sorted, up to p: with the tokens in the order of their ids, kept while their running sum
        is at most p
    last = np.searchsorted(mass[:-1], p - 1e-6) -> last = 0
    probs >= falling[last] -> np.cumsum(probs) <= p
sorted, not put back: with the first ids kept, because ranks are used as ids
    probs >= falling[last] -> np.arange(len(logits)) <= last
ranks for tokens: with argsort used as the ranks of the tokens
    probs >= falling[last] -> np.argsort(-logits) <= last
logits summed: with the logits summed instead of the probabilities
    probs = softmax(logits) -> probs = logits
exponentials summed: with e^logits summed instead of the probabilities
    probs = softmax(logits) -> probs = np.exp(logits)
0 instead of -inf: with 0 instead of -inf: e^0 is 1
    => return np.where(probs >= falling[last], logits, np.float32(0))
-1e10 instead of -inf: with -1e10 instead of -inf
    => return np.where(probs >= falling[last], logits, np.float32(-1e10))
-1e9 instead of -inf: with -1e9 instead of -inf
    => return np.where(probs >= falling[last], logits, np.float32(-1e9))
probabilities: of probabilities, but a filter returns logits
    => return np.where(probs >= falling[last], probs, 0)
probabilities, normalised: of probabilities, but a filter returns logits
    => probs = np.where(probs >= falling[last], probs, 0); return probs / probs.sum()
best only: with only the best token kept
    probs >= falling[last] -> probs >= falling[0]
not used: with the logits unchanged
    return keep(logits, probs -> return (logits, logits)[0]; (logits, probs
in place: of a filter that changes its argument
    => logits[probs < falling[last]] = -np.inf; return logits
[samplers.py top_p]
no return: of a function that returns nothing
    => keep_top_p
""")
TOP_P = Part(("top_p",), "samplers.py", see_top_p, TOP_P_WRONG)

# --- the cached loop ------------------------------------------------------------------------------


def see_advance(m, seed):
    model, ids = WatchedModel(), [3, 1, 4, 1, 5, 2, 6]
    cache = model.new_cache()
    yield Seen("advance with an empty cache", m.advance(model, ids[:4], cache), "n_vocab")
    yield Seen("the length of the cache", cache.length)
    yield Seen("advance by three more tokens", m.advance(model, ids, cache), "n_vocab")
    yield Seen("the texts in the cache", cache.rows)
    yield Seen("ids after the call", ids)
    yield Seen("passes (tokens before, new tokens)", model.passes)
    model = WatchedModel()
    found = m.advance(model, ids, model.new_cache(), chunk=3)
    yield Seen("advance with chunk=3", found, "n_vocab")
    yield Seen("passes with chunk=3 (tokens before, new tokens)", model.passes)
    model = WatchedModel()
    found = m.advance(model, ids[:6], model.new_cache(), chunk=3)
    yield Seen("advance by 6 tokens with chunk=3", found, "n_vocab")
    yield Seen("passes of 6 tokens with chunk=3", model.passes)


ADVANCE_WRONG = mistakes(r"""
[generate.py advance]
all ids passed: with all ids run through the model, even those in the cache
    range(cache.length, -> range(0,
all ids in one pass: with all ids run through the model at once, even those in the cache
    start : start + chunk] -> :]
    ids.shape[-1], chunk) -> cache.length + 1)
last id only: with only the last id run through the model
    range(cache.length, -> range(ids.shape[-1] - 1,
chunk not used: with all tokens in one pass, whatever chunk is
    start : start + chunk] -> start:]
    ids.shape[-1], chunk) -> start + 1, 1)
    for start in range(cache.length, -> start = cache.length\n    for start in range(start,
chunks to the end: with each chunk reaching to the end of the text, so that later tokens run twice
    start : start + chunk] -> start:]
chunks too short: with chunks that lack their last token
    start + chunk] -> start + max(chunk - 1, 1)]
one chunk only: with only one chunk run through the model
    ids.shape[-1], chunk) -> min(cache.length + 1, ids.shape[-1]), chunk)
without the last chunk: without the last chunk if it is shorter than the others
    ids.shape[-1], chunk)
    -> ids.shape[-1] - chunk + 1, chunk) if ids.shape[-1] - cache.length >= chunk else
        range(cache.length, ids.shape[-1], chunk)
chunks overlap: with chunks that overlap by one token
    start + chunk] -> start + chunk + 1]
one token too few: without the last token
    ids.shape[-1], chunk -> ids.shape[-1] - 1, chunk
    start + chunk] -> start + chunk][..., : ids.shape[-1] - 1 - start]
one at a time: with one token in each pass, which is slow
    ids.shape[-1], chunk) -> ids.shape[-1], 1)
    start + chunk] -> start + 1]
without a cache: without the cache given to the model
    cache, last=1 -> None, last=1
whole text without a cache: with the whole text run through the model without the cache
    for start in -> logits = model(ids, None, last=1); return logits[-1]\n    for start in
a row of one: of logits [1, n_vocab] instead of [n_vocab]
    => return logits
first logits: of the logits of the first token of the last pass
    cache, last=1) -> cache)
    => return logits[..., 0, :]
all logits: of the logits of all tokens in the last pass
    cache, last=1) -> cache)
    => return logits
first pass: of the logits of the first pass
    for start -> first = None\n    for start
    cache, last=1) -> cache, last=1); first = logits if first is None else first
    return logits -> return first
""")
ADVANCE = Part(("advance",), "generate.py", see_advance, ADVANCE_WRONG)


def see_cached(m, seed):
    yield from see_loop(m.cached, "cached", seed)
    _, _, model = run(m.cached, 7)
    yield Seen(
        "tokens run through the model for a prompt of 5 and 7 new tokens", model.n_rows, "<="
    )
    yield Seen("passes through the model", len(model.passes), "<=")
    model = WatchedModel()
    cache = model.new_cache()
    model(PROMPT[:3], cache)
    sequence = Sequence(model, PROMPT, 5, CHOICE)
    yield Seen(
        "the tokens with a cache that already contains 3", list(m.cached(model, sequence, cache))
    )
    yield Seen("tokens run through the model with 3 in the cache", model.n_rows, "<=")
    yield Seen("the texts in the given cache", cache.rows)


CACHED_WRONG = tuple(wrong._replace(function="cached") for wrong in LOOP_WRONG) + mistakes(r"""
[generate.py cached]
whole text each time: with the whole text run through the model each time, as in naive
    logits = advance(model, sequence.ids, cache)
    -> logits = advance(model, sequence.ids, model.new_cache())
given cache ignored: with a new cache even if one is given
    cache = model.new_cache() if cache is None else cache -> cache = model.new_cache()
no new cache: without a new cache if none is given
    cache = model.new_cache() if cache is None else cache -> pass
prompt not passed: with only the last token run through the model, even at the beginning
    logits = advance(model, sequence.ids, cache)
    -> logits = model(np.array(sequence.ids[-1:]), cache, last=1)[-1]
prompt's last token twice: with the last token of the prompt run through the model twice
    logits = advance(model, sequence.ids, cache)
    -> logits = model(np.array(sequence.ids[-1:]), cache, last=1)[-1]
    while sequence
    -> if sequence.running: model(np.array(sequence.ids), cache)\n    while sequence
whole text into the cache: with the whole text added to the cache each time
    logits = advance(model, sequence.ids, cache)
    -> logits = model(np.array(sequence.ids), cache, last=1)[-1]
one pass too many: with a pass for the last token, whose logits nobody needs
    => yield sequence.append(draw(probabilities, sequence.rng)); advance(model, sequence.ids,
        cache); cache.cut(len(sequence.ids) - 1) if sequence.running else 0
one at a time: with the prompt run through the model one token at a time
    logits = advance(model, sequence.ids, cache)
    -> logits = advance(model, sequence.ids, cache, 1)
logits of the first: with the logits of the first new token instead of the last
    logits = advance(model, sequence.ids, cache)
    -> logits = model(np.array(sequence.ids[cache.length :]), cache)[0]
the prompt each time: with the logits of the prompt used for every token
    logits = advance(model, sequence.ids, cache)
    -> logits = advance(model, sequence.ids, cache) if cache.length < sequence.n_prompt else
        logits
""")
CACHED = Part(("cached",), "generate.py", see_cached, CACHED_WRONG)
