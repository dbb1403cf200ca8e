"""Steps 11 and 13: keys and values, and a batch whose rows differ in length."""

from functools import partial
from typing import Any

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import build, mistakes, variants
from workshop.steps.inputs import parameters, tiny

GPT2 = build("workshop/reference.py").GPT2
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def recorded(cache):
    """Return a list that gets what the cache's methods return: positions, and shapes of arrays."""
    calls: list = []

    def record(method, show):
        function = getattr(cache, method)

        def call(*arguments, **more):
            n = len(calls)  # an append may call its own extend
            try:
                found = function(*arguments, **more)
                calls[n:] = [f"{method} {show(found)}"]
            except Exception as error:
                calls[n:] = [error]
                raise
            return found

        setattr(cache, method, call)

    record("extend", lambda positions: np.asarray(positions).tolist())
    record("append", lambda both: " ".join(str([*np.shape(one)]) for one in both))
    return calls


def play(model, cache, name, *actions):
    """Do each action with the cache: ids to run, or a method's name and its argument. Yield what it
    does."""
    count, done = "lengths" if hasattr(cache, "lengths") else "length", []
    calls = recorded(cache)

    def call(method, what):
        getattr(cache, method)(what)
        return getattr(cache, count)

    for action in actions:
        if isinstance(action, tuple):
            done.append(f"{action[0]}({action[1]})")
            yield Seen(f"cache.{count} ({name}: {', '.join(done)})", partial(call, *action))
            continue
        n_new = np.shape(action)[-1]
        done.append(f"{n_new} token{'s' * (n_new > 1)}")
        calls.clear()
        label = f"the logits of the last pass ({name}: {', '.join(done)})"
        axes = "text, " * (np.ndim(action) - 1) + "n_new, n_vocab"
        logits: Any
        try:
            logits = model(np.array(action), cache)
        except Exception as error:
            logits = error
        what = logits if any(call is logits for call in calls) else ", ".join(calls)
        yield Seen(f"what extend and append return ({name}: {', '.join(done)})", what)
        yield Seen(label, logits, axes)
        if isinstance(logits, Exception):
            return
        yield Seen(f"cache.{count} ({name}: {', '.join(done)})", getattr(cache, count))


def play_texts(m, name, *actions, batch=()):
    model = tiny(m)
    yield from play(model, model.new_cache(*batch), name, *actions)


def see_one(m, seed):
    """One new token at a time."""
    model = tiny(m)
    name = "the model without a cache (see the steps before)"
    yield Seen(name, lambda: model(IDS), "n_new, n_vocab")
    yield Seen("the length of an empty cache", lambda: model.new_cache().length)
    yield from play_texts(m, "one text", *([id] for id in IDS[:4]))
    yield from play_texts(m, "another cache", IDS[5:6])


def see_several(m, seed):
    """Several new tokens."""
    yield from play_texts(m, "one text", IDS[:3], IDS[3:5], IDS[5:6])
    two = np.array([IDS[:3], IDS[2:5]])
    yield from play_texts(m, "two texts", two, two[:, :2], batch=(2,))
    for before, new in ((0, 4), (0, 5), (3, 3), (0, 6)):
        name = f"cache.length after the ValueError for {new} tokens after {before}, n_ctx = 5"
        yield Seen(name, partial(overflow, m, before, new))


def overflow(m, before, new):
    model = tiny(m, n_ctx=5)
    cache = model.new_cache()
    if before:
        model(IDS[:before], cache)
    try:
        cache.extend(new)
    except ValueError:
        return cache.length
    return "no ValueError"


def see_cut(m, seed):
    yield from play_texts(m, "one text", IDS[:4], ("cut", 3), IDS[4:5])
    more = IDS[:6], ("cut", 2), IDS[6:8], IDS[:1], ("cut", 6), ("cut", 5), IDS[1:2]
    yield from play_texts(m, "another text", *more)
    two = np.array([IDS[:4], IDS[2:6]])
    yield from play_texts(m, "two texts", two, ("cut", 0), two[:, :1], batch=(2,))


def see_select(m, seed):
    first, one = [IDS[:3], IDS[2:5], IDS[4:7]], [[1], [2], [3]]
    actions = first, ("select", [1, 0, 0]), one, ("select", [2, 0]), one[:2]
    yield from play_texts(m, "three texts", *actions, batch=(3,))


def see_rows(m, seed):
    actions = (
        [IDS[:5], IDS[2:7], IDS[3:8]],
        ("cut", np.array([3, 4, 2])),
        [[7], [8], [9]],
        [[1], [2], [3]],
        [[4, 4], [5, 6], [6, 0]],
        ("cut", np.array([1, 9, 3])),
    )
    yield from play(GPT2(parameters(), 3), m.Rows(3, 3, 3, 16, 4), "three texts", *actions)


def see_prefill(m, seed):
    gpt2, cache, shapes = GPT2(parameters(), 3), m.Rows(3, 3, 3, 16, 4), []

    def model(ids, cache=None, last=None):
        shapes.append(list(np.shape(ids)))
        return gpt2(ids, cache, last)

    prompts, last = [IDS[:2], IDS[2:7], [5, 9, 0]], np.array([[7], [8], [9]])
    found = partial(m.prefill, model, prompts, cache)
    yield Seen("prefill of prompts of 2, 5 and 3 tokens", found, "n_rows, n_vocab")
    yield Seen("the lengths after prefill", np.array(cache.lengths), "n_rows")
    yield Seen("the shapes of the passes through the model", shapes)
    yield Seen("the prompts after the call", prompts)
    yield Seen("the logits of one more token", lambda: model(last, cache), "n_rows, n_new, n_vocab")


# Readers differ in how a cache counts and stores its tokens, and a mistake then has other results.
VARIANTS = variants(r"""
joined
    (*batch, n_head, n_ctx, d_head) -> (*batch, n_head, 0, d_head)
    slots[..., start : start + n_new, :] = new -> pass
    both = [slots[..., : start + n_new, :] for slots in kept]
    -> both = [np.concatenate(pair, axis=-2) for pair in zip(kept, (k, v))]; self.kv[layer] = both
    self.length = length
    -> self.length = length; self.kv = [[one[..., :length, :] for one in both] for both in self.kv]
    self.lengths = np.minimum(self.lengths, lengths)
    -> self.lengths = np.minimum(self.lengths, lengths);
        self.kv *= (np.arange(self.n_ctx) < self.lengths[:, None])[:, None, :, None]
counted in append
    self.length = old + n_new  # count them -> pass
    start = self.length - n_new -> start = self.length
    return both
    -> if layer == len(self.kv) - 1: self.length = start + n_new  # count them\n        return both
joined, counted in append
    joined
    counted in append
counted by the model
    self.length = old + n_new  # count them -> pass
    start = self.length - n_new -> start = self.length
    x = x if last -> if cache is not None: cache.length = cache.length + n_new  # count them
        \n        x = x if last
""")
TABLE = r"""
[workshop/reference.py Cache.extend Cache.append GPT2.__call__ Rows.extend]
with a length that stays 0
    + n_new  # count them -> + 0
with a length that grows by 1 for each pass, whatever n_new is
    + n_new  # count them -> + 1
[workshop/reference.py Cache.append]
with the new keys and values in earlier slots: the length does not count the new tokens yet
    start = self.length\n -> start = self.length - n_new\n
    slots[..., start : start + n_new, :] -> slots[..., start : start + n_new, :]
with the new keys and values in later slots: they begin at length - n_new
    start = self.length - n_new -> start = self.length
with the new tokens counted in the first block instead of the last
    if layer == len(self.kv) - 1: -> if layer == 0:
with only the new keys and values returned by append, not the old ones
    self.kv[layer] = both -> pass
[workshop/reference.py Cache.extend]
with positions from 0 in each pass, not those after the tokens in the cache
    np.arange(old, old + n_new) -> np.arange(n_new)
with the length changed before the ValueError
    self.length = old + n_new  # count them -> pass
    if old + n_new -> self.length = old + n_new; if old + n_new
[workshop/reference.py self_attention]
without cache.append: self_attention does not call it, or GPT2.block passes no cache on
    if cache is not None: -> if False:
[workshop/reference.py GPT2.__call__]
with a mask for positions from 0, which has keys only for the new tokens
    mask = causal_mask(positions) -> mask = causal_mask(np.arange(ids.shape[-1]))
    # rasbt/LLMs-from-scratch, pull request 697
with positions from 0 in each pass: those that extend returns are not used
    mask = causal_mask -> positions = np.arange(n_new); mask = causal_mask
    # huggingface/transformers, pull request 15751
with the embeddings of positions 0, 1, 2, ... but the right mask
    ["wpe"][positions] -> ["wpe"][np.arange(ids.shape[-1])]
without the mask if there is a cache
    mask = causal_mask(positions)
    -> mask = causal_mask(positions) if cache is None else np.float32(0)
    # Mikyx-1/TinyLLM, issue 17; QwenLM/Qwen, issue 979
[workshop/reference.py Cache.cut]
with `length` tokens removed instead of `length` tokens left
    if length -> length = max(self.length - length, 0)\n        if length
with the length cut, but not the keys and values
    self.kv = -> _ =
[workshop/reference.py Cache.select]
with the keys selected, but not the values
    [one[rows] for one in both] -> [both[0][rows], both[1]]
[workshop/reference.py Rows.extend]
with positions from 0 in each pass, not those after the tokens in the cache
    old + np.arange -> 0 * old + np.arange
[workshop/reference.py Rows.append]
with the values stored as the keys, too
    zip(self.kv[:, layer], (k, v)) -> zip(self.kv[:, layer], (v, v))
[workshop/reference.py Rows.cut]
with all rows cut to the smallest of the lengths
    (self.lengths, lengths) -> (self.lengths, min(lengths))
[workshop/reference.py prefill]
with the logits of the last column, which belong to the padding in shorter rows
    => return logits[:, -1]
with shorter rows padded at the beginning
    [*prompt, *[0] * (lengths.max() - len(prompt))]
    -> [*[0] * (lengths.max() - len(prompt)), *prompt]
    => return logits[:, -1]
"""
WRONG = mistakes(TABLE, VARIANTS)
PLACED = "Cache", "self_attention", "GPT2.block", "GPT2.__call__"
WRITTEN = *PLACED[1:], "Cache.extend", "Cache.append"


def part(observe, lesson, *functions, title=""):
    needs = tuple(dict.fromkeys((*WRITTEN, *functions)))
    return Part(PLACED, observe, WRONG, lesson, functions, needs, title=title)


OWN_STEP = '"The loop and its cache": A step of our own.'
KEYS = (
    part(see_one, OWN_STEP, *WRITTEN, title="One new token at a time"),
    part(see_several, OWN_STEP, *WRITTEN, title="Several tokens"),
    part(see_cut, '"The loop and its cache": Cutting a cache back.', "Cache.cut"),
)
SELECT = part(see_select, '"Search": Try them all.', "Cache.select")
METHODS = "Rows.extend", "Rows.append", "Rows.cut"
STATIC = '"Serving": Static batches: which request has which row.'
ROWS = (
    Part(("Rows",), see_rows, WRONG, '"Serving": A row for each request.', METHODS, METHODS),
    Part(("prefill",), see_prefill, WRONG, STATIC),
)
