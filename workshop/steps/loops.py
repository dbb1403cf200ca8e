"""Steps 8, 9, 12 and 17: drawing and filtering, the loops, and a real model."""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from generate import Sequence
from samplers import Sampler, greedy
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel

OWN_STEP = '"The loop and its cache": A step of our own.'
TEXT = "The dragon was hungry. He"


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


def run(m, loop, n, stop_ids=(), sampler=CHOICE, seed=0, end=None, **more):
    """Run a loop of m. Return its tokens or an error, the model, the text at the first token, and
    the new tokens of the text. end: stop after `end` tokens."""
    loop, model, first = getattr(m, loop), WatchedModel(m, stop_ids=stop_ids), []
    tokens: Any = []
    sequence = Sequence(model, PROMPT, n, sampler, seed)
    try:
        for token in loop(model, sequence, **more):
            tokens.append(token)
            first = first or list(sequence.ids)
            if len(tokens) == end:
                sequence.finish("reader")
            if len(tokens) > n + 9:
                break
    except Exception as error:
        tokens = error
    return tokens, model, first, sequence.new_ids


def see_loop(m, name, seed):
    """Yield those results that must be the same for the loops naive and cached."""
    tokens, model, first, _ = run(m, name, 7)
    yield Seen(f"the tokens of {name}", tokens)
    yield Seen(f"sequence.ids, when {name} yields the first token", first)
    yield Seen("the tokens when a stop id is drawn", run(m, name, 7, stop_ids=(0,))[0])
    yield Seen("the tokens when the reader ends the text after 3", run(m, name, 7, end=3)[0])
    yield Seen("the tokens when 0 are wanted", run(m, name, 0)[0])
    tokens, *_, new_ids = run(m, name, 20, sampler=Sampler())
    yield Seen(f"{name} yields the tokens in sequence.ids, if they are random", tokens == new_ids)
    first = [run(m, name, 1, sampler=Sampler(), seed=[seed, i])[0] for i in range(250)]
    yield Seen("the first token of 250 texts", first, "~")
    yield Seen("passes through the model for 7 tokens after 5", len(model.passes), "<=")
    yield Seen("tokens run through the model for 7 tokens after 5", model.n_rows, "<=")


def see_naive(m, seed):
    yield from see_loop(m, "naive", seed)


def see_draw(m, seed):
    probs = np.array([0.08, 0.32, 0, 0.15, 0.3, 0, 0.15], np.float32)
    rng = np.random.default_rng(seed)

    def draws(probs, n, rng=rng):
        return [int(m.draw(np.asarray(probs, np.float32), rng)) for _ in range(n)]

    def is_whole():
        return isinstance(m.draw(probs, rng), int | np.integer)

    yield Seen("draw gives a whole number", is_whole)
    yield Seen("400 draws from 1 0 0", lambda: draws([1, 0, 0], 400), "~")
    yield Seen("2000 draws from 0.08 0.32 0 0.15 0.3 0 0.15", lambda: draws(probs, 2000), "~")
    name = "two generators with the same seed give the same draws"
    one, other = (partial(draws, probs, 9, np.random.default_rng(5)) for _ in range(2))
    yield Seen(name, lambda: one() == other())
    yield Seen("the argument of draw after the call", probs, "n_vocab")


SCORES = np.array([0.3, 1.1, -0.6, 0.9, 0.7, -0.2, 1.6], np.float32)


def see_filter(make, name, settings):
    make = lru_cache(make)  # one filter is called again and again

    def see(label, setting, logits):
        return Seen(label, lambda: make(setting)(logits, [1, 2]), "n_vocab")

    for setting in settings:
        logits = SCORES.copy()
        yield see(f"{name}({setting}) of {SCORES}", setting, logits)
    yield Seen(f"the argument of {name}'s filter after the call", logits, "n_vocab")
    hidden = np.where(SCORES > 0.5, SCORES, np.float32(-np.inf))
    yield see(f"{name} where three are -inf", settings[0], hidden)


def see_temperature(m, seed):
    yield from see_filter(m.temperature, "temperature", (0.5, 2.0))


def see_top_k(m, seed):
    yield from see_filter(m.top_k, "top_k", (1, 6, 9, 3))


def see_top_p(m, seed):
    yield from see_filter(m.top_p, "top_p", (0.8, 0.3, 0.99, 1.0, 0.05, 0.5))


def see_advance(m, seed):
    model, ids = WatchedModel(m), [3, 1, 4, 1, 5, 2, 6]
    cache = model.new_cache()
    yield Seen("advance with an empty cache", lambda: m.advance(model, ids[:4], cache), "n_vocab")
    yield Seen("advance by three more tokens", lambda: m.advance(model, ids, cache), "n_vocab")
    yield Seen("the texts in the cache", model.texts)
    yield Seen("ids after the call", ids)
    yield Seen("passes (tokens before, new tokens)", model.passes)
    yield Seen("rows of logits that the passes compute", model.n_logits, "<=")
    model = WatchedModel(m)
    cache = model.new_cache()
    found = partial(m.advance, model, ids, cache, chunk=3)
    yield Seen("advance by 7 tokens with chunk=3", found, "n_vocab")
    yield Seen("the texts in the cache with chunk=3", model.texts)
    yield Seen("the longest pass with chunk=3", max([n for _, n in model.passes], default=0), "<=")
    yield Seen("passes of 7 tokens with chunk=3", len(model.passes), "<=")
    yield Seen("rows of logits with chunk=3", model.n_logits, "<=")


def see_cached(m, seed):
    yield from see_loop(m, "cached", seed)
    both = ("cached", "naive") if m.naive.__module__ == m.cached.__module__ else ("cached",)
    texts = {str(run(m, name, 20, sampler=Sampler())[0]) for name in both}
    yield Seen("cached and naive yield the same tokens with the same seed", len(texts) == 1)
    model = WatchedModel(m)
    cache = model.new_cache()
    model(PROMPT[:3], cache)
    name, text = "the tokens with a cache that contains 3", Sequence(model, PROMPT, 5, CHOICE)
    yield Seen(name, lambda: list(m.cached(model, text, cache)))
    yield Seen("tokens run through the model with 3 in the cache", model.n_rows, "<=")
    yield Seen("the texts in the given cache", model.texts)


def see_stories(m, seed):
    tokenizer, model = m.model()
    ids = tokenizer.encode(TEXT)
    name = "the logits of the stories (see the steps before)"
    yield Seen(name, partial(model, ids), "n_new, n_vocab")
    tokens = m.cached(model, Sequence(model, ids, 24, greedy))
    yield Seen(f"24 tokens after {TEXT!r}", lambda: tokenizer.decode(list(tokens)))


WRONG = mistakes(r"""
[generate.py naive cached]
with the most probable token instead of a draw
    draw(probabilities, sequence.rng) -> int(np.argmax(probabilities))
of a draw from the logits, without the sampler
    draw(probabilities -> draw(np.exp(logits) / np.exp(logits).sum()
of a loop that appends to sequence.ids: only sequence.append notices the end
    => sequence.ids.append(next_id); yield next_id
of two draws for each token: one is appended, the other is yielded
    => sequence.append(draw(probabilities, sequence.rng)); yield next_id
of a loop that runs while n_left > 0, but a stop id or the caller may end the text earlier
    while sequence.running -> while sequence.n_left > 0
with a new rng for each token, always with the same seed
    sequence.rng -> np.random.default_rng(0)
[generate.py cached]
with the whole text run through the model each time, as in naive
    logits = advance(model, sequence.ids, cache)
    -> logits = advance(model, sequence.ids, model.new_cache())
with only the last token run through the model, even at the beginning
    logits = advance(model, sequence.ids, cache)
    -> logits = model(np.array(sequence.ids[-1:]), cache, last=1)[-1]
[samplers.py draw]
of the most probable token each time
    => return int(np.argmax(probs))
of tokens that are all equally probable: probs are not used
    => return int(rng.integers(len(probs)))
of draws that do not use rng, so that they cannot be repeated
    rng.random() -> np.random.default_rng().random()
of a new random number for each token, compared with its probability
    => return next((i for i, p in enumerate(probs) if rng.random() < p), len(probs) - 1)
[samplers.py temperature]
of probabilities, but a filter returns logits
    logits / scale -> np.exp(logits / scale) / np.exp(logits / scale).sum()
[samplers.py keep]
of probabilities, but a filter returns logits
    => return np.where(kept, softmax(logits), 0)
with argsort used as the ranks of the tokens
    => return np.where(np.argsort(-logits) < kept.sum(), logits, np.float32(-np.inf))
[samplers.py keep_top_k]
with the k smallest logits kept
    logits >= np.partition(logits, -k)[-k] -> logits <= np.sort(logits)[k - 1]
[samplers.py keep_top_p]
without the token that reaches p, so that the kept tokens sum to less than p
    probs >= falling[last] -> probs >= falling[max(last - 1, 0)]
    # Biohub/esm, pull request 360; rasbt/reasoning-from-scratch, issue 164
with all tokens kept that have a probability of at least p
    p in (0, 1) or not -> not
    probs >= falling[last] -> probs >= min(p, falling[0])
[generate.py advance]
with all ids run through the model, even those in the cache
    range(cache.length, -> range(0,
with only the last id run, although more may be new
    range(cache.length, ids.shape[-1], -> range(ids.shape[-1] - 1, ids.shape[-1],
""")


TRUNCATION = '"Samplers": The second way: truncation.'
DRAW = (
    Part(("draw",), see_draw, WRONG, '"Samplers": The draw.'),
    Part(("temperature",), see_temperature, WRONG, '"Samplers": The first way: temperature.'),
    Part(("top_k",), see_top_k, WRONG, TRUNCATION, ("keep", "keep_top_k")),
    Part(("top_p",), see_top_p, WRONG, TRUNCATION, ("keep", "keep_top_p")),
)
NAIVE = Part(("naive",), see_naive, WRONG, '"The loop and its cache": Predict, append, repeat.')
ADVANCE = Part(("advance",), see_advance, WRONG, OWN_STEP)
CACHED = ADVANCE, Part(("cached",), see_cached, WRONG, OWN_STEP)
OWN = (
    "softmax layer_norm gelu linear attention causal_mask split_heads merge_heads self_attention"
    " feed_forward GPT2.block GPT2.__call__ draw advance cached model"
).split()
STORIES = Part(
    (*OWN, "Cache"),
    see_stories,
    lesson='"The loop and its cache": The same in generate.py.',
    needs=(*OWN, "Cache.extend", "Cache.append"),
    libraries=("regex", "safetensors"),
)
