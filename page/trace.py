"""Record a run of the code line by line, with the value of every operation inside a line.

    with recording(files_of(), model) as record:
        list(cached(model, sequence))

While the block runs, each function that was made from these files has the code that adder.py makes
of it: `f.__code__ = new`. It stays the same function, with its closure.

The tracer knows no program by name. A pass is a call of a function that has an argument `ids` (or
`token`) and a loop over blocks: `for block in blocks`. A layer is a round of this loop. The model's
parameters are `self.params`, or else all arguments, if `wte` is among them.
"""

import ast
import builtins
import contextlib
import functools
import linecache
import sys
import traceback
import types
from typing import NamedTuple

import numpy as np

from decoding.drafters import common_prefix
from loading.parameters import SHAPES
from page.adder import Adder, codes, exchange

MOST_PASSES, MOST_TEXTS = 4, 2  # so many passes are recorded of each text; an encoder's is one,
MOST_DRAFTS = 16  # and so many passes of another model before the next pass of the main one
NEVER = 1_000_000  # the number of a pass that is not recorded


class Pass(NamedTuple):
    """model: the id of its wte. settings: the whole numbers among the arguments and the model's
    attributes, such as n_head, by name."""

    model: int
    function: tuple[str, str]  # file and name
    n_cached: int
    ids: list[int]
    params: dict
    settings: dict[str, int]
    text: int = 1  # the number of the text: a program may write several


class Record:
    """stops: [node, frame, pass, part, entries] of each statement that ran. part: "in", a layer's
    number, "out"; outside of a pass "loop", "draw". entries: (name, value) if assigned or changed;
    then (node, value) of operations. frames: (caller, place) of each function call; place: lines
    that lead to it from the pass's first. values: each different value once; elsewhere, a value
    is its index here. passes: the recorded ones; later: the next one. models: {id of wte: the
    object that first ran it}. files: see `files_of`; trees: {name: tree} of the changed source.
    raised: the error that ended the run."""

    def __init__(self, files, model=None, most=MOST_PASSES, texts=MOST_TEXTS):
        self.files, self.model, self.trees = files, model, {}
        self.most, self.most_texts = most, texts
        self.adder, self.weights, self.models, self.sizes = Adder(), set(), {}, {}
        self.nodes = self.adder.nodes
        self.stops, self.frames, self.values, self.passes = [], [], [], []
        self.muted, self.n_texts, self.n_passes, self.n_drafts = False, 0, 0, 0
        self.latest: Pass | None = None  # of the main model; n_passes: of its text
        self.later: Pass | None = None
        self.raised: Exception | None = None
        self.error = None  # [the stop that raised it, its text]
        self.indices: dict = {}  # content -> the index of a value
        self.states: dict = {}  # Python's frame -> the state of a function call
        self.outside = types.SimpleNamespace(
            number=None, place=(), part=None, began=0, calls=0, stop=None
        )
        if model is not None:
            self.learn(model.params, model)

    def learn(self, params, owner):
        """Remember a model's weights: of these, the record has only the shapes."""
        key = id(params["wte"])
        if key not in self.models:
            arrays = [x for _, x in parameters(params)]
            self.weights |= {id(root(x)) for x in arrays}
            self.models[key], self.sizes[key] = owner, sum(x.size for x in arrays)
        return key

    @property
    def first(self):
        """Return the key of the main model, the largest: others draft for it."""
        if self.model:
            return id(self.model.params["wte"])
        return max(self.sizes, key=lambda key: self.sizes[key])

    @functools.cached_property
    def encoders(self):
        """Return the numbers of the passes that compute no logits for the passes after them."""
        scored = set()
        for _, _, i, part, entries in self.stops:
            n_vocab = len(self.passes[i].params["wte"]) if part == "out" else None
            scored |= {i for _, value in entries if n_vocab in self.shape(value)[-1:]}
        return {*range(len(self.passes) - 1)} - scored

    @property
    def texts(self):
        """Return the text that the model has read by the end of each pass."""
        texts, text, encoders = [], [], self.encoders
        for i, one in enumerate(self.passes + [self.later] * bool(self.later)):
            if one.model == self.first and i not in encoders:
                text = text[: one.n_cached] + one.ids
            texts.append(text)
        return texts

    def at(self, k):
        """Record that statement k is about to run."""
        frame = sys._getframe(1)
        state = self.states.get(frame) or self.enter(frame, k)
        state.node = k
        if not self.muted:
            self.stop(state)

    def stop(self, state):
        """Record that a function call has come to its next statement."""
        line, names = self.nodes[state.node][3], {}
        if line <= state.called:  # back to the line that ran the latest pass: a round begins
            state.began = len(self.passes)
        if state.loop and line == state.loop[0]:  # a layer begins
            state.part = 0 if state.part == "in" else state.part + 1
        elif state.loop and line > state.loop[1]:
            state.part = "out"
        n_pass, part = len(self.passes) - 1, state.part
        if part is None:
            n_pass, part = (n_pass, "draw") if n_pass >= state.began else (state.began, "loop")
        for name, value in local_names(state.frame).items():
            names[name] = self.store(value, "." in name), id(value)
        new = [(x, found[0]) for x, found in names.items() if state.names.get(x) != found]
        state.names = names
        state.stop, state.calls = len(self.stops), 0
        self.stops.append([state.node, state.number, n_pass, part, new])

    def enter(self, frame, k):
        """Return the state of a new function call, which begins with statement k."""
        caller, names, function = self.state(frame.f_back), frame.f_locals, tuple(self.nodes[k][:2])
        state = types.SimpleNamespace(**vars(caller) | {"number": len(self.frames), "names": {}})
        if self.muted and caller.part is not None:
            return state  # it is not recorded
        caller.calls += 1  # one line may call several functions
        state.loop, state.called, state.caller = self.adder.loops.get(function), 0, caller
        state.frame, state.stop = frame, None
        owner = names.get("self") or self.model
        params = names if "wte" in names else getattr(owner, "params", None)
        if params:
            self.learn(params, owner)
        if state.loop and params:
            state.part, state.place = "in", (*function, *(x for x in names if names[x] is None))
            self.begin(pass_of(function, names, params, owner), caller)
        elif caller is self.outside:
            state.began, state.place = len(self.passes), function
        else:
            state.place = *caller.place, caller.node, caller.calls
        self.frames.append((caller.number, state.place))
        self.states[frame] = state
        return state

    def begin(self, one, caller):
        """Note that a pass begins. caller: the state of the function that called it."""
        was_muted, callers = self.muted, []
        self.count(one)
        while caller is not self.outside:  # all functions that led to the pass
            callers, caller = [caller, *callers], caller.caller
        for state in callers if was_muted and not self.muted else []:
            state.began = len(self.passes)
            self.stop(state)
        for state in callers:
            state.called = self.nodes[state.node][3]
        if self.muted:
            self.later = self.later or one
            for stop in self.stops[-1:0:-1]:  # what led to this pass is not shown, either
                if stop[2] != len(self.passes):
                    break
                stop[2] = NEVER
        else:
            self.later = None
            self.passes.append(one._replace(text=self.n_texts))

    def count(self, one):
        """Count the passes over a text: after the first ones, the record is muted."""
        if one.model != self.first:
            self.n_drafts += 1
            self.muted = self.muted or self.n_drafts > MOST_DRAFTS
            return
        known = self.latest.ids if self.latest and self.latest.model == one.model else []
        n_same = common_prefix(known, one.ids)
        if one.n_cached == 0 and n_same in (0, len(one.ids)):  # it does not go on, but begins again
            self.n_texts, self.n_passes = self.n_texts + 1, 0
        self.latest, self.n_passes, self.n_drafts = one, self.n_passes + 1, 0
        self.muted = self.n_texts > self.most_texts or self.n_passes > self.most

    def fail(self, error):
        """Remember an error, and the stop that raised it."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        stops = [self.states[frame].stop for frame in frames if frame in self.states]
        found = stops[-1] if stops and not self.muted else None
        self.raised, self.error = error, [found, f"{type(error).__name__}: {error}"]

    def see(self, k, value):
        """Record an operation's value, and return it."""
        stop = None if self.muted else self.state(sys._getframe(1)).stop
        if stop is not None:
            self.stops[stop][4].append((k, self.store(value)))
        return value

    def state(self, frame):
        """Return the state of the nearest recorded frame: a comprehension may have its own."""
        while frame is not None and frame not in self.states:
            frame = frame.f_back
        return self.states.get(frame, self.outside)

    def store(self, value, only_shape=False):
        """Return the index of a value. Of weights, only the shape is kept."""
        if isinstance(value, np.ndarray):
            kept: dict = {"shape": value.shape, "dtype": f"{value.dtype}"}
            if id(root(value)) in self.weights or only_shape:
                kept["of"] = "cache" if only_shape else "weights"
                key: tuple = value.shape, only_shape
            else:
                kept["array"] = value.copy()  # the cache changes its array later
                key = value.shape, kept["dtype"], value.tobytes()
        elif isinstance(value, list | tuple):
            kept = {"list": [self.store(x) for x in value]}
            key = type(value), *kept["list"]
        elif value is None or isinstance(value, bool | int | float | str | np.generic):
            kept = {"text": repr(getattr(value, "item", lambda: value)())}
            key = type(value), kept["text"]
        else:
            kept = {"object": type(value).__name__}
            key = "object", kept["object"]
        if key not in self.indices:
            self.indices[key] = len(self.values)
            self.values.append(kept)
        return self.indices[key]

    def shape(self, value):
        """Return the shape of an array, of weights, or of all arrays in a list; else ()."""
        kept = self.values[value]
        shapes = {self.shape(part) for part in kept.get("list", [])} - {()}
        return kept.get("shape") or (shapes.pop() if len(shapes) == 1 else ())


def pass_of(function, names, params, owner):
    """Return the Pass that a function begins. names: its arguments; owner: its `self`."""
    ids = names["ids"] if "ids" in names else names["token"]
    n_cached = max(length_of(x) for x in names.values() if x is not ids)
    settings = getattr(owner, "__dict__", {}) | names
    settings = {name: x for name, x in settings.items() if isinstance(x, int)}
    return Pass(id(params["wte"]), function, n_cached, np.ravel(ids).tolist(), params, settings)


def length_of(cache):
    """Return the number of tokens in a cache: it has a length, or the keys of each layer."""
    if isinstance(cache, dict):
        cache = [x for x in cache.values() if np.ndim(x) != 1]  # not {"g": [n_embd], ...}
    first = cache[0] if isinstance(cache, list) and cache else None
    if isinstance(first, np.ndarray):  # [..., n, d_head]
        return first.shape[-2] if first.ndim > 1 else len(cache)
    return len(first) if isinstance(first, list) else getattr(cache, "length", 0)


def local_names(frame):
    """Return {name: value} of a frame, with those attributes of self that the function names."""
    names = dict(frame.f_locals)
    own = getattr(names.pop("self", None), "__dict__", {})
    return names | {f"self.{x}": own[x] for x in frame.f_code.co_names if x in own}


def parameters(tree, *path):
    """Yield (shape in words, array) of the parameters in a tree. path: the keys that lead to it."""
    if isinstance(tree, list | dict):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from parameters(part, *path, *[key] * isinstance(key, str))
    elif isinstance(tree, np.ndarray) and (words := words_of(*path)):
        yield words, tree


def words_of(*path):
    """Return the shape of a parameter in words, such as ["n_qkv", "d"], or [] if it is none."""
    *_, outer, name, last = ["", "", "", *path]
    is_layer = last in ("w", "b", "g")
    outer, name = (outer, name) if is_layer else (name, last)
    words = SHAPES.get(f"{outer}.{name}") or SHAPES.get(name) or "d" * is_layer
    return words.split()


def root(x):  # the array of which x is a view
    return root(x.base) if isinstance(x.base, np.ndarray) else x


@contextlib.contextmanager
def recording(files, model=None, most=MOST_PASSES, texts=MOST_TEXTS, keep=False):
    """Yield a Record of what the functions in these files compute. files: see `files_of`; model:
    the main one, if it is known; most: how many passes of the model over each of so many texts;
    keep: an error after the first pass stays in `raised`, so that a page can show it."""
    record, plain, added = Record(files, model, most, texts), {}, {}
    for file, name in files.items():
        tree, record.adder.file = ast.parse("".join(linecache.getlines(file))), name
        plain |= codes(tree, file)
        record.trees[name] = ast.fix_missing_locations(record.adder.visit(tree))
        added |= codes(record.trees[name], file)
    vars(builtins).update(_at=record.at, _see=record.see)
    exchange(added)
    try:
        yield record
    except Exception as error:
        record.fail(error)
        if not (keep and record.passes):
            raise
    finally:
        exchange(plain)
        record.muted = True
        record.states.clear()
        del vars(builtins)["_at"], vars(builtins)["_see"]
