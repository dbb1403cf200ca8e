"""Steps 11 and 13: keys and values, and a batch whose rows differ in length."""

import numpy as np

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.model import GPT2
from workshop.steps.inputs import attempt, heard, numbers, parameters, tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def passed(model, cache, ids):
    """Run the model. Return its logits, and the results and layers of all cache.append calls."""
    seen, layers = [], []

    def note(both, layer, k, v):
        layers.append(layer)
        for name, kept in zip(("keys", "values"), both):
            if isinstance(kept, np.ndarray):
                label = f"what append returns for block {layer} ({name})"
                axes = "text, n_head, row, number".split(", ")[-kept.ndim :]
                seen.append((label, kept.copy(), ", ".join(axes)))

    with heard(cache, "append", note):
        return model(ids, cache), seen, layers


def see_pass(model, cache, ids, name):
    """Run the model. Yield its logits, its append calls' results and layers, and cache.length."""
    logits, seen, layers = passed(model, cache, ids)
    yield Seen(f"intermediate results for {name}", seen, "stages")
    yield Seen(f"the logits of {name}", logits, "n_new, n_vocab")
    yield Seen(f"the layers of the calls of cache.append for {name}", layers)
    yield Seen(f"cache.length after {name}", cache.length)


def see_one(m):
    model = tiny(m)
    yield Seen("the model without a cache (see the steps before)", model(IDS), "n_new, n_vocab")
    cache = model.new_cache()
    yield Seen("the length of an empty cache", cache.length)
    for i in range(4):
        yield from see_pass(model, cache, IDS[i : i + 1], f"token {i} alone")
    yield from see_pass(model, model.new_cache(), IDS[5:6], "a first token in another cache")


def see_several(m):
    model = tiny(m)
    cache = model.new_cache()
    yield from see_pass(model, cache, IDS[:3], "three tokens at once")
    yield from see_pass(model, cache, IDS[3:5], "two tokens after three")
    yield from see_pass(model, cache, IDS[5:6], "one token after five")
    found = model(IDS[:4], model.new_cache(), last=2)
    yield Seen("the logits with last=2", found, "n_new, n_vocab")


def see_batch(m):
    model = tiny(m)
    cache, two = model.new_cache(2), np.array([IDS[:3], IDS[2:5]])
    yield Seen("the logits of two texts", model(two, cache), "batch, n_new, n_vocab")
    more = model(two[:, :2], cache)
    yield Seen("the logits of two texts, continued", more, "batch, n_new, n_vocab")


def see_context(m):
    model = tiny(m, n_ctx=5)
    for before, new in ((0, 4), (0, 5), (3, 3), (0, 6)):
        cache, raised = model.new_cache(), False
        if before:
            model(IDS[:before], cache)
        try:
            cache.extend(new)
        except ValueError:
            raised = True
        name = f"{new} tokens after {before}, n_ctx = 5"
        yield Seen(f"a ValueError for {name}", raised)
        if raised:
            yield Seen(f"cache.length after {name}", cache.length)


def see_appended(m, name, *actions):
    """Do each action, ("append", n) or ("cut", n). Yield append's last result for each block. If
    neither extend nor append counts the new tokens, do it as GPT2.__call__ might."""
    cache = tiny(m).new_cache()
    for number, (action, n) in enumerate(actions):
        if action == "cut":
            cache.cut(n)
            continue
        before = cache.length
        cache.extend(n)
        new = [numbers(2, 3, n, 4, seed=10 * number + layer) for layer in range(3)]
        both = [cache.append(layer, *new[layer]) for layer in range(3)]
        if cache.length == before:
            cache.length = before + n
    for label, i in ("keys", 0), ("values", 1):
        for layer in range(3):
            axes = "n_head, n_all, d_head"
            what = f"the {label} that append returns for block {layer} {name}"
            yield Seen(what, both[layer][i], axes)


def see_keys(m, seed):
    yield from attempt(see_one(m), "one token at a time")
    yield from attempt(see_several(m), "several tokens at once")
    yield from attempt(see_batch(m), "a batch")
    yield from attempt(see_context(m), "the end of the context")
    twice = see_appended(m, "in a second pass", ("append", 3), ("append", 2))
    yield from attempt(twice, "append")


def see_cut(m, seed):
    one = see_appended(m, "after cut(2)", ("append", 4), ("cut", 2), ("append", 1))
    yield from attempt(one, "append after cut")
    yield from attempt(see_passes_after_cut(m), "passes after cut")


def see_passes_after_cut(m):
    model = tiny(m)
    cache = model.new_cache()
    model(IDS[:6], cache)
    cache.cut(3)
    yield Seen("cache.length after cut(3) of 6", cache.length)
    yield from see_pass(model, cache, IDS[6:8], "two other tokens after cut(3)")
    yield from see_pass(model, cache, IDS[:1], "one more token")
    cache.cut(20)
    yield Seen("cache.length after cut(20) of 6", cache.length)
    yield from see_pass(model, cache, IDS[1:2], "a token after cut(20)")
    cache.cut(0)
    yield Seen("cache.length after cut(0)", cache.length)
    yield from see_pass(model, cache, IDS[:2], "two tokens after cut(0)")


KEYS_WRONG = mistakes(r"""
[workshop/model.py extend]
positions from 0: with positions from 0 in each pass, not after the tokens in the cache
    => return np.arange(n_new)
positions + 1: with positions from 1
    => return np.arange(self.length + 1, n_all + 1)
positions + 1 after others: with positions one too large after tokens in the cache
    => return np.arange(self.length, n_all) + (self.length > 0)
positions - 1 after others: with positions one too small after tokens in the cache
    => return np.arange(self.length, n_all) - (self.length > 0)
first position for all: with the first new position for all new tokens
    => return np.full(n_new, self.length)
last position for all: with the last new position for all new tokens
    => return np.full(n_new, n_all - 1)
all positions: of the positions of all tokens instead of only the new ones
    => return np.arange(n_all)
n_ctx not checked: without the ValueError past n_ctx
    if n_all > self.n_ctx: -> if False:
n_ctx one too early: with the ValueError raised for n_ctx tokens, which still fit
    n_all > self.n_ctx: -> n_all >= self.n_ctx:
n_new checked: with n_new compared with n_ctx instead of all tokens
    if n_all > self.n_ctx: -> if n_new > self.n_ctx:
[workshop/model.py append]
length never: with a length that stays 0
    self.length = n_all -> pass
length + 1: with the length growing by 1 for each pass
    self.length = n_all -> self.length += 1
length of the last pass: with only the last pass counted in the length
    self.length = n_all -> self.length = k.shape[-2]
keys of all blocks in one place: with the keys of all blocks stored in one array
    self.kv[:, layer, ..., self.length : n_all, :] = k, v
    -> self.kv[0, 0, ..., self.length : n_all, :] = k
        \n        self.kv[1, layer, ..., self.length : n_all, :] = v
    => return self.kv[0, 0, ..., :n_all, :], self.kv[1, layer, ..., :n_all, :]
keys of all blocks kept for block 0: with the keys of all blocks stored as those of block 0
    self.kv[:, layer, ..., self.length : n_all, :] = k, v
    -> self.kv[0, 0, ..., self.length : n_all, :] = k
        \n        self.kv[1, layer, ..., self.length : n_all, :] = v
all blocks kept for block 0: with the keys and values of all blocks stored as those of block 0
    self.kv[:, layer, ..., self.length : n_all, :] = k, v
    -> self.kv[:, 0, ..., self.length : n_all, :] = k, v
new ones only: with only the new keys and values: those of earlier tokens are not used
    => return k, v
old ones only: with the new keys and values left out, so that a new token does not see itself
    => return self.kv[:, layer, ..., : max(n_all - k.shape[-2], 1), :]
k and v exchanged: with keys and values swapped
    = k, v -> = v, k
keys as values: with the keys as the values, too
    = k, v -> = k, k
values as keys: with the values as the keys, too
    = k, v -> = v, v
one place for all blocks: with the keys and values of all blocks stored in one array
    self.kv[:, layer, ..., self.length : n_all, :] = k, v
    -> self.kv[:, 0, ..., self.length : n_all, :] = k, v
    return self.kv[:, layer -> return self.kv[:, 0
block before: with the keys and values of the block before
    return self.kv[:, layer -> return self.kv[:, max(layer - 1, 0)
last overwritten: with the new keys and values written over the last ones
    n_all = self.length + k.shape[-2]
    -> n_all = self.length + k.shape[-2]; n_all -= self.length > 0
    self.length : n_all -> n_all - k.shape[-2] : n_all
not kept: with keys and values that are not stored for later passes
    self.kv[:, layer, ..., self.length : n_all, :] = k, v
    -> self.kv[:, layer, ..., :n_all, :] = 0; both = self.kv[:, layer, ..., :n_all, :].copy();
        both[..., self.length :, :] = k, v
    => return both
no return: of an append that returns nothing
    return self.kv -> self.kv
[workshop/model.py Cache]
length in each block: with the length growing in each block instead of once in a pass
    n_head, 0, -> n_head, 99,
    if layer == self.kv.shape[1] - 1: -> if True:
one slot too late: with the new keys and values in later slots: extend has updated the length
    n_head, 0, -> n_head, 99,
    self.length : n_all, :] -> n_all : n_all + k.shape[-2], :]
one slot too late, returned: with the new keys and values in later slots: extend has
        updated the length, so the new slots begin at length - n_new
    n_head, 0, -> n_head, 99,
    self.length : n_all, :] -> n_all : n_all + k.shape[-2], :]
    layer, ..., :n_all, :] -> layer, ..., : n_all + k.shape[-2], :]
[workshop/model.py self_attention]
cache not used: without cache.append: self_attention does not call it or gets no cache
    if cache is not None: -> if False:
append's result not used: with only the new keys and values in attention: append's result is
        not used
    k, v = cache.append -> cache.append
layer not passed on: with layer 0 for all blocks, so that they share keys and values
    cache.append(layer, -> cache.append(0,
appended before the heads: with keys and values stored before the heads are split
    q, k, v = (split_heads(part, n_head) for part in qkv)
    -> q, k, v = qkv; q = split_heads(q, n_head)
    # 2 x [..., n_head, n_all, d_head] -> ; k, v = split_heads(k, n_head), split_heads(v, n_head)
queries kept: with the queries stored instead of the keys
    append(layer, k, v) -> append(layer, q, v)
appended twice: with append called twice in a pass
    k, v = cache.append(layer, k, v)
    -> old = k, v; cache.append(layer, *old); k, v = cache.append(layer, *old)
[workshop/model.py __call__]
wpe from 0: with the embeddings of positions 0, 1, 2, ... but the right mask
    ["wpe"][positions] -> ["wpe"][np.arange(ids.shape[-1])]
no wpe with a cache: without wpe after tokens in the cache
    ["wpe"][positions] -> ["wpe"][positions] * np.float32(positions.flat[0] == 0)
mask from 0: with a mask for positions from 0, which has keys only for the new tokens
    mask = causal_mask(positions) -> mask = causal_mask(np.arange(ids.shape[-1]))
no mask with a cache: without the mask if there is a cache
    mask = causal_mask(positions)
    -> mask = causal_mask(positions) if cache is None else np.float32(0)
no mask after others: without the mask after tokens in the cache
    mask = causal_mask(positions)
    -> mask = causal_mask(positions) if positions.flat[0] == 0 else np.float32(0)
cache for the first block: with the cache used only in the first block
    mask=mask, cache=cache, -> mask=mask, cache=cache if layer == 0 else None,
[workshop/reference.py GPT2.block]
layer 0 in every block: with layer 0 for all blocks: GPT2.block does not pass `layer` on
    layer=layer -> layer=0
cache not passed on: without a cache in self_attention: GPT2.block does not pass it on
    cache=cache -> cache=None
[workshop/reference.py Cache.__init__]
keys and values in one list: with one list for the keys and the values
    => self.values = self.keys
[workshop/reference.py Cache.extend]
length left as it is: with a length that stays 0, so that all positions begin at 0
    self.length += n_new -> pass
    => return np.arange(self.length, self.length + n_new)
positions after the growth: with positions computed after the length has grown
    => return np.arange(self.length, self.length + n_new)
length grows by 1: with a length that grows by 1, whatever n_new is
    self.length += n_new -> old = self.length; self.length += 1
    => return np.arange(old, old + n_new)
length of this pass alone: with the length of this pass instead of all passes
    self.length += n_new -> old = self.length; self.length = n_new
    => return np.arange(old, old + n_new)
[workshop/reference.py Cache.append]
last pass alone kept: with only the keys and values of the last pass stored
    self.keys[layer], self.values[layer] = k, v -> pass
    if self.keys[layer] is not None: -> old = self.keys[layer], self.values[layer]
        \n        self.keys[layer], self.values[layer] = k, v\n        if old[0] is not None:
    [self.keys[layer], k] -> [old[0], k]
    [self.values[layer], v] -> [old[1], v]
first pass alone kept: with only the keys and values of the first pass stored
    self.keys[layer], self.values[layer] = k, v
    -> self.keys[layer], self.values[layer] = (
        (k, v) if self.keys[layer] is None else (self.keys[layer], self.values[layer]))
new before old: with the new keys and values before the old ones
    [self.keys[layer], k] -> [k, self.keys[layer]]
    [self.values[layer], v] -> [v, self.values[layer]]
new keys before old: with the new keys before the old ones, and the values after them
    [self.keys[layer], k] -> [k, self.keys[layer]]
new values before old: with the new values before the old ones, and the keys after them
    [self.values[layer], v] -> [v, self.values[layer]]
joined along -1: with old and new joined along d_head instead of the tokens
    k], axis=-2) -> k], axis=-1)
    v], axis=-2) -> v], axis=-1)
joined along -3: with old and new joined along the heads instead of the tokens
    k], axis=-2) -> k], axis=-3)
    v], axis=-2) -> v], axis=-3)
joined along 1: with old and new joined along axis 1, which is that of the heads in a batch
    k], axis=-2) -> k], axis=1)
    v], axis=-2) -> v], axis=1)
one list for all blocks: with one list for the keys and values of all blocks
    self.keys[layer] is not None -> self.keys[0] is not None
    [self.keys[layer], k] -> [self.keys[0], k]
    [self.values[layer], v] -> [self.values[0], v]
    self.keys[layer], self.values[layer] = k, v -> self.keys[0], self.values[0] = k, v
stored exchanged: with keys and values swapped when they are stored
    self.keys[layer], self.values[layer] = k, v
    -> self.keys[layer], self.values[layer] = k, v = v, k
keys of the values: with the keys joined to the old values, and the values to the old keys
    [self.keys[layer], k] -> [self.values[layer], k]
    [self.values[layer], v] -> [self.keys[layer], v]
values not joined: with the keys joined, but only the values of the last pass
    v = np.concatenate([self.values[layer], v], axis=-2) -> pass
keys not joined: with the values joined, but only the keys of the last pass
    k = np.concatenate([self.keys[layer], k], axis=-2) -> pass
length in append, too: with the length growing again in each block's append
    => self.length += k.shape[-2]; return k, v
""")
CUT_WRONG = mistakes(r"""
[workshop/reference.py Cache.cut]
length alone cut: with the length cut, but not the keys and values
    self.keys = [k[..., :length, :] for k in self.keys] -> pass
    => pass
keys alone cut: with the length and the keys cut, but not the values
    => pass
values alone cut: with the length and the values cut, but not the keys
    self.keys = [k[..., :length, :] for k in self.keys] -> pass
arrays alone cut: with the keys and values cut, but not the length
    self.length = length -> pass
d_head cut: with d_head cut instead of the tokens
    k[..., :length, :] -> k[..., :length]
    v[..., :length, :] -> v[..., :length]
heads cut: with the heads cut (the first axis) instead of the tokens
    k[..., :length, :] -> k[:length]
    v[..., :length, :] -> v[:length]
last ones kept: with the last `length` tokens kept instead of the first
    k[..., :length, :] -> k[..., -length:, :]
    v[..., :length, :] -> v[..., -length:, :]
one more kept: with one token too many kept
    k[..., :length, :] -> k[..., : length + 1, :]
    v[..., :length, :] -> v[..., : length + 1, :]
first block alone: with only the keys and values of the first block cut
    for k in self.keys] -> for k in self.keys[:1]] + self.keys[1:]
    for v in self.values] -> for v in self.values[:1]] + self.values[1:]
last block alone: with only the keys and values of the last block cut
    [k[..., :length, :] for k in self.keys] -> [*self.keys[:-1], self.keys[-1][..., :length, :]]
    [v[..., :length, :] for v in self.values]
    -> [*self.values[:-1], self.values[-1][..., :length, :]]
number of tokens cut: with `length` tokens cut off instead of kept
    self.length = length -> length = self.length = self.length - length
longer than before: with a length that a cut can make longer
    if length < self.length: -> if True:
[workshop/model.py cut]
nothing: of a cut that does nothing
    => pass
one too many: with one token too many left in the cache
    min(self.length, length) -> min(self.length, length + 1)
one too few: with one token too few left in the cache
    min(self.length, length) -> min(self.length, max(length - 1, 0))
one too few, also below 0: with one token too few left in the cache
    min(self.length, length) -> min(self.length, length - 1)
longer: with a length that can grow by a cut
    min(self.length, length) -> length
number of tokens: with `length` tokens removed instead of `length` tokens left
    min(self.length, length) -> max(self.length - length, 0)
all: with all tokens forgotten
    min(self.length, length) -> 0
the first ones: with the first tokens forgotten instead of the last ones
    => length = min(length, self.length); self.kv[..., :length, :] = self.kv[..., self.length -
        length : self.length, :].copy(); self.length = length
keys alone: with only the keys cut, so that the values of the forgotten tokens remain
    => length = min(self.length, length); self.kv[0, ..., length : self.length, :] = 0; self.length
        = self.length
length kept: with keys and values cut, but not the length
    => self.kv[..., length:, :] = 0
length alone: with the length cut, but not the keys and values, which are then still returned
    => self.length = min(self.length, length); self.append = None
first block: with only the first block cut
    => self.length = min(self.length, length); self.kv[:, 1:, ..., 0, :] += 1
""")
PLACED = "Cache", "self_attention", "GPT2.block", "GPT2.__call__"
WRITTEN = *PLACED[1:], "Cache.extend", "Cache.append"
KEYS = Part(PLACED, "workshop/model.py", see_keys, KEYS_WRONG, WRITTEN)
CUT = Part(PLACED, "workshop/model.py", see_cut, CUT_WRONG, (*WRITTEN, "Cache.cut"))


def see_rows(m, seed):
    model = GPT2(parameters(), 3)
    cache = m.Rows(3, 3, 3, 16, 4)
    yield Seen("the positions of extend(3)", np.array(cache.extend(3)), "n_rows, n_new")
    cache = m.Rows(3, 3, 3, 16, 4)

    def see(name, ids, lengths):  # lengths: the rows' lengths after this pass
        logits, seen, _ = passed(model, cache, np.array(ids))
        ends = np.reshape(lengths, (-1, 1, 1, 1))  # unused slots may contain anything
        used = [
            (label, np.where(np.arange(x.shape[-2])[:, None] < ends, x, 0), axes)
            for label, x, axes in seen
            if x.ndim == 4
        ]
        yield Seen(f"intermediate results for {name}", used, "stages")
        yield Seen(f"the logits of {name}", logits, "n_rows, n_new, n_vocab")
        yield Seen(f"the lengths after {name}", np.array(cache.lengths), "n_rows")

    yield from see("three texts of 5 tokens", [IDS[:5], IDS[2:7], IDS[3:8]], [5, 5, 5])
    cache.cut([3, 4, 2])
    yield Seen("the lengths after cut([3 4 2])", np.array(cache.lengths), "n_rows")
    yield from see("one more token for each of 3, 4 and 2", [[7], [8], [9]], [4, 5, 3])
    yield from see("a second one", [[1], [2], [3]], [5, 6, 4])
    yield from see("two more for each", [[4, 4], [5, 6], [6, 0]], [7, 8, 6])
    cache.cut(np.array([1, 9, 3]))
    yield Seen("the lengths after cut([1 9 3])", np.array(cache.lengths), "n_rows")
    yield from see("a token after cut([1 9 3])", [[7], [8], [9]], [2, 9, 4])


ROWS_WRONG = mistakes(r"""
[workshop/reference.py Rows.extend]
one position for all: with the positions of the longest row for all rows
    self.lengths[:, None] + np.arange(n_new)
    -> self.lengths.max() + np.arange(n_new) + 0 * self.lengths[:, None]
positions of the shortest: with the positions of the shortest row for all rows
    self.lengths[:, None] + np.arange(n_new)
    -> self.lengths.min() + np.arange(n_new) + 0 * self.lengths[:, None]
positions from 0: with positions from 0 in each pass
    self.lengths[:, None] + np.arange(n_new) -> 0 * self.lengths[:, None] + np.arange(n_new)
positions + 1: with positions one too large
    self.lengths[:, None] + np.arange(n_new) -> self.lengths[:, None] + np.arange(n_new) + 1
same positions: with the first new position for all new tokens of a row
    self.lengths[:, None] + np.arange(n_new) -> self.lengths[:, None] + 0 * np.arange(n_new)
longest row's positions returned: with the longest row's positions returned for all rows
    => return 0 * self.positions + self.positions.max(0)
positions from 0 returned: with positions from 0 returned in each pass
    => return 0 * self.positions + np.arange(n_new)
row 0's positions returned: with row 0's positions returned for all rows
    return self.positions -> return 0 * self.positions + self.positions[0]
one row: of positions [n_new] of the longest row instead of [n_rows, n_new]
    => return self.positions[self.lengths.argmax()]
lengths first: with the lengths updated before the positions are computed
    self.positions = self.lengths[:, None] + np.arange(n_new)
    -> self.positions = self.lengths[:, None] + n_new + np.arange(n_new)
lengths not grown: with lengths that do not grow
    self.lengths = self.lengths + n_new -> pass
lengths + 1: with lengths that grow by 1, whatever n_new is
    self.lengths = self.lengths + n_new -> self.lengths = self.lengths + 1
transposed: with positions [n_new, n_rows]
    => return self.positions.T
not along the rows: without an axis for the new tokens: lengths + arange fails or broadcasts wrongly
    self.lengths[:, None] + np.arange -> self.lengths + np.arange
[workshop/reference.py Rows.append]
slots of the longest: with the new keys and values in the slots after the longest row for all rows
    kept[rows, :, self.positions]
    -> kept[rows, :, self.positions.max(0, keepdims=True) + 0 * self.positions]
keys in the slots of the longest: with the new keys, but not the values, in the slots after the
        longest row for all rows
    kept[rows, :, self.positions]
    -> kept[rows, :, self.positions if new is v else 0 * self.positions + self.positions.max(0)]
slots of row 0: with the new keys and values in the slots after row 0 for all rows
    kept[rows, :, self.positions] -> kept[rows, :, self.positions[:1] + 0 * self.positions]
slots of the shortest: with the new keys and values in the slots after the shortest row for all
        rows
    kept[rows, :, self.positions]
    -> kept[rows, :, self.positions.min(0, keepdims=True) + 0 * self.positions]
n_all of the shortest: with as many slots returned as the shortest row has
    self.positions.max() + 1 -> self.positions[:, -1].min() + 1
n_all of row 0: with as many slots returned as row 0 has
    self.positions.max() + 1 -> self.positions[0, -1] + 1
all slots: with all n_ctx slots returned
    :n_all] -> :]
one slot too few: with one slot too few returned: the newest token of the longest row is missing
    self.positions.max() + 1 -> self.positions.max() + 1 - 1
one slot more: with one slot too many returned
    self.positions.max() + 1 -> self.positions.max() + 1 + 1
k and v exchanged: with keys and values swapped
    (k, v) -> (v, k)
new ones only: with only the new keys and values: those of earlier tokens are not used
    => return k, v
one place for all blocks: with the keys and values of all blocks stored in one array
    self.kv[:, layer], -> self.kv[:, 0],
    return self.kv[:, layer -> return self.kv[:, 0
first new only: with only the first new token stored
    kept[rows, :, self.positions] = new.swapaxes(1, 2)
    -> kept[rows, :, self.positions[:, :1]] = new.swapaxes(1, 2)[:, :1]
not kept: with keys and values that are not stored
    kept[rows, :, self.positions] = new.swapaxes(1, 2) -> pass
row 0 alone: with only row 0 stored
    kept[rows, :, self.positions] = new.swapaxes(1, 2)
    -> kept[0, :, self.positions[0]] = new[0].swapaxes(0, 1)
lengths as slots: with the new token one slot too far: lengths[i] includes the new token
    kept[rows, :, self.positions] -> kept[rows, :, self.positions + 1]
no return: of an append that returns nothing
    return self.kv -> self.kv
[workshop/reference.py Rows]
lengths in each block: with lengths that grow in each block instead of once in a pass
    self.lengths = self.lengths + n_new -> pass
    return self.kv[:, layer, :, :, :n_all] -> found = self.kv[:, layer, :, :, :n_all]
        \n        self.lengths = self.lengths + k.shape[2]
        \n        self.positions = self.positions + k.shape[2]; return found
after their own slots: with the new keys and values in later slots: extend has updated lengths
    kept[rows, :, self.positions] -> kept[rows, :, self.positions + k.shape[2]]
[workshop/reference.py Rows.cut]
cut empties: with all keys and values erased by a cut
    row, :, length:] -> row, :, :]
nothing cut: of a cut that does nothing
    self.lengths = np.minimum(self.lengths, lengths) -> pass
cut to the longest: with all rows cut to the largest of the lengths
    np.minimum(self.lengths, lengths) -> np.minimum(self.lengths, max(lengths))
cut to the shortest: with all rows cut to the smallest of the lengths
    np.minimum(self.lengths, lengths) -> np.minimum(self.lengths, min(lengths))
cut to the longest, or longer: with all rows set to the largest of the lengths
    np.minimum(self.lengths, lengths) -> np.full_like(self.lengths, max(lengths))
can grow: with a length that can grow by a cut
    np.minimum(self.lengths, lengths) -> np.array(lengths)
cut one too late: with one token too many left in each row
    np.minimum(self.lengths, lengths) -> np.minimum(self.lengths, np.array(lengths) + 1)
cut one too early: with one token too few left in each row
    np.minimum(self.lengths, lengths) -> np.minimum(self.lengths, np.array(lengths) - 1)
number removed: with lengths[i] tokens removed instead of left
    np.minimum(self.lengths, lengths) -> np.maximum(self.lengths - lengths, 0)
list kept: of lengths that a cut turns into a list
    np.minimum(self.lengths, lengths) -> lengths
""")
ROWS_METHODS = "Rows.extend", "Rows.append", "Rows.cut"
ROWS = Part(("Rows",), "workshop/reference.py", see_rows, ROWS_WRONG, ROWS_METHODS)


class BatchModel:
    """A model that records the shape of the ids in each pass. Call it with a Rows as cache."""

    def __init__(self):
        self.model, self.shapes, self.n_vocab = GPT2(parameters(), 3), [], 11

    def __call__(self, ids, cache=None, last=None):
        self.shapes.append(list(np.shape(ids)))
        if len(self.shapes) > 50:
            raise RuntimeError("50 passes through the model, and prefill has not ended")
        return self.model(ids, cache, last)


def see_prefill(m, seed):
    model, cache = BatchModel(), m.Rows(3, 3, 3, 16, 4)
    prompts = [IDS[:2], IDS[2:7], IDS[4:7]]
    found = m.prefill(model, prompts, cache)
    yield Seen("prefill of prompts of 2, 5 and 3 tokens", found, "n_rows, n_vocab")
    yield Seen("the lengths after prefill", np.array(cache.lengths), "n_rows")
    yield Seen("the shapes of the passes through the model", model.shapes)
    yield Seen("the prompts after the call", prompts)
    more = model(np.array([[7], [8], [9]]), cache)
    yield Seen("the logits of one more token", more, "n_rows, n_new, n_vocab")


PREFILL_WRONG = mistakes(r"""
[workshop/reference.py prefill]
last column: with the logits of the last column, which belong to the padding in shorter rows
    => return logits[:, -1]
first column: with the logits of the first column
    => return logits[:, 0]
one too far: with the logits of the token after the right one
    lengths - 1] -> np.minimum(lengths, lengths.max() - 1)]
one too early: with the logits of the token before the right one
    lengths - 1] -> lengths - 2]
index out of bounds: with the logits of column lengths[i], one too far
    lengths - 1] -> lengths]
all logits: of the logits of all columns
    => return logits
every row with every length: of logits of [n_rows, n_rows] tokens: index rows and columns together
    => return logits[:, lengths - 1]
filled at the beginning: with shorter rows padded at the beginning
    [*prompt, *[0] * (lengths.max() - len(prompt))]
    -> [*[0] * (lengths.max() - len(prompt)), *prompt]
filled at the beginning, last column: with shorter rows padded at the beginning
    [*prompt, *[0] * (lengths.max() - len(prompt))]
    -> [*[0] * (lengths.max() - len(prompt)), *prompt]
    => return logits[:, -1]
not cut: with the padding left in the cache
    cache.cut(lengths) -> pass
cut to the shortest: with the cache cut to the shortest prompt
    cache.cut(lengths) -> cache.cut(0 * lengths + lengths.min())
cut one too early: with the last token of each prompt forgotten
    cache.cut(lengths) -> cache.cut(lengths - 1)
no cache: without the cache given to the model
    model(ids, cache) -> model(ids)
cut off: with longer prompts cut to the length of the shortest
    (lengths.max() - len(prompt))] -> (lengths.max() - len(prompt))][: lengths.min()]
    lengths - 1] -> lengths.min() - 1]
one by one: with a separate pass for each prompt
    return logits[ -> for _ in prompts[1:]: model(ids); \n    return logits[
prompts changed: of a prefill that pads the lists in prompts
    return logits -> prompts[:] = ids.tolist(); return logits
""")
PREFILL = Part(("prefill",), "workshop/reference.py", see_prefill, PREFILL_WRONG)
