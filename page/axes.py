"""Name the axes of recorded arrays, as the comments in the source do: [n_head, n_new, d_head].

An axis has a name if it has this name's size in each pass. Two names may have the same size in all
passes. So a tiny copy of the model runs, too, in which no two sizes are equal: there, an axis of
size 13 can only be n_new. An array has the same axes in both runs if it stands at the same place:
the same lines called its function, one from the other, from the beginning of the pass on. An axis
that could still be two things has no name.
"""

import copy

import numpy as np

from generate import begin
from page.trace import parameters, recording, words_of

# The sizes of the tiny model: of its parameters' shapes in words, and of its attributes.
TINY = dict(n_vocab=11, n_ctx=20, n_slots=23, n_embd=46, d_model=46, d=46, n_head=10, n_kv_head=5)
TINY |= dict(n_head_encoder=10, d_head=14, n_q=140, n_kv=70, n_qkv=420, n_inner=560, n_buckets=34)
TINY |= {"q_norm": 14, "k_norm": 14, "frequencies": 7, "1": 1}
N_LAYERS, N_CACHED, N_NEW, N_SOURCE = 19, 4, 13, 18
WORDS = {"n_vocab": "n_vocab", "d": "n_embd", "n_slots": "n_ctx", "n_q": "n_head d_head"}
WORDS |= {"n_kv": "n_kv_head d_head", "n_qkv": "3 n_embd", "n_inner": "n_inner"}
WORDS |= {"n_buckets": "n_buckets"}  # in a parameter's shape -> the axis
CACHE = [("k|v", 2), ("n_layer", 19), ("n_slots", 8), ("n_slots", 20)]  # it grows from 8 slots
CACHE += [("n_more", 12)]
GROUPS = [["n_new", "n_all"], ["n_embd", "n_head d_head", "n_kv_head d_head"]]
GROUPS += [["n_head", "n_kv_head"], ["4 n_embd", "n_inner"]]  # if always equal: the first name


def axes_in(record):
    """Return {(place, node, (name or operation, count)): axes} of a record's arrays. An axis
    without a name is None. count: how often the stop ran the operation before."""
    found = named(record)
    for model in record.models.values():
        if hasattr(model, "new_cache") or hasattr(model, "read"):
            with recording(record.files, most=9, texts=9) as twin:
                run(tiny(model))
            n_new = [len(one.ids) for one in twin.passes]
            twin.stops = [stop for stop in twin.stops if n_new[stop[2]] != N_CACHED]
            found |= named(twin, CACHE)
    return found


def named(record, more=()):
    """Name the axes in a record by their sizes. more: further pairs of a name and a size."""
    fits: dict = {}
    sizes = [[*sizes_of(i, record), *more] for i in range(len(record.passes))]
    for node, frame, n_pass, _, entries in record.stops:
        for key, value in numbered(entries) if n_pass < len(sizes) else []:
            place, shape = (record.frames[frame][1], node, key), record.shape(value)
            if not shape:  # a number, or None
                continue
            now = [{name for name, size in sizes[n_pass] if size == n} for n in shape]
            old = fits.get(place, now)
            fits[place] = [a & b for a, b in zip(old, now)] if len(old) == len(now) else []
    return {place: tuple(map(chosen, names)) for place, names in fits.items()}


def chosen(names):  # of a set of names that fit -> one of them, or None
    for group in [[*names][:1], *GROUPS]:
        if names and names <= {*group}:
            return next(name for name in group if name in names)
    return None


def sizes_of(n_pass, record):
    """Yield (name, size) for the axes of arrays in a pass. A name may have several sizes."""
    one, encoders = record.passes[n_pass], record.encoders
    words: dict = {}  # of parameters' shapes -> their sizes
    for shape, x in parameters(one.params):
        words |= zip(shape, x.shape)
    words = {word: size for word, size in words.items() if word in WORDS}
    yield from [(WORDS[word], size) for word, size in words.items()]
    n_new, n_q = len(one.ids), words.get("n_q", words["d"])
    if n_pass in encoders:
        yield "n_source", n_new
    else:
        yield from [("n_new", n_new), ("n_all", one.n_cached + n_new)]
        yield from [("n_source", len(record.passes[i].ids)) for i in encoders if i < n_pass]
    if "last" in one.settings:
        yield "last", one.settings["last"]
    if "n_qkv" in words:
        yield "4 n_embd", 4 * words["d"]
    for n_head in {one.settings[x] for x in ("n_head", "n_head_encoder") if x in one.settings}:
        d_head = n_q // n_head
        n_kv_head = words.get("n_kv", n_q) // d_head
        yield from [("n_head", n_head), ("d_head", d_head), ("d_head / 2", d_head // 2)]
        yield "n_kv_head", n_kv_head
        if n_kv_head < n_head:
            yield "n_group n_new", n_head // n_kv_head * n_new


def numbered(entries):
    """Yield ((key, count), value): a comprehension may run an operation several times in a stop."""
    counts: dict = {}
    for key, value in entries:
        counts[key] = counts.get(key, -1) + 1
        yield (key, counts[key]), value


def run(model):
    """Run a tiny model over N_NEW ids: with N_CACHED others in the cache, and without a cache."""
    model, _ = begin(model, [i % TINY["n_vocab"] for i in range(N_SOURCE)])
    ids = np.arange(N_NEW) % TINY["n_vocab"]
    for last in 3, None:
        cache = model.new_cache()
        model(ids[:N_CACHED], cache, last)
        model(ids, cache, last)
        model(ids, None, last)


def tiny(model):
    """Return a copy of a model with the sizes of TINY. Its arrays are 0: only shapes count."""
    small, sizes = copy.copy(model), TINY | {"n_kv": 70 if hasattr(model, "n_kv_head") else 140}
    if "n_qkv" in {word for words, _ in parameters(model.params) for word in words}:
        sizes |= {"d": 140, "n_embd": 140}  # n_head * d_head, as in GPT-2
    vars(small).update(shrunk(vars(model), sizes))
    return small


def shrunk(tree, sizes, *path):  # path: the keys that lead to this part
    if isinstance(tree, dict):
        return {key: shrunk(part, sizes, *path, key) for key, part in tree.items()}
    if isinstance(tree, list):  # of layers
        return [shrunk(part, sizes, *path) for part in (tree * N_LAYERS)[:N_LAYERS]]
    if not isinstance(tree, np.ndarray):
        return sizes.get(path[-1], tree) if isinstance(tree, int) else tree
    words = words_of(*path) or [path[-1]]  # an array that is no parameter has its own size
    return np.zeros([sizes[word] for word in words[: tree.ndim]], np.float32)
