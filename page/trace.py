"""Record a run of the code line by line, with the value of every operation inside a line.

    with recording(files_of(generate, type(model)), model) as record:
        list(cached(model, sequence))

Python's `ast` reads a file's source as a tree. Two kinds of calls are added: `_at(k)` before
each statement k, and `_see(k, value)`, which returns the value, around each operation k. Thus
`return softmax(x @ w)` becomes `_at(6); return _see(8, softmax(_see(7, x @ w)))`. While the block
runs, each function that was made from this source has the new code: `f.__code__ = new`. It stays
the same function, with its closure. Each operation is still evaluated once, in the same order.

The tracer knows no program by name. A pass is a call of a function that has an argument `ids` (or
`token`) and a loop over blocks: `for block in blocks`. A layer is a round of this loop. The model's
parameters are `self.params`, or else all arguments, if `wte` is among them.
"""

import ast
import builtins
import contextlib
import gc
import linecache
import sys
import traceback
import types
from typing import Any, NamedTuple

import numpy as np

from loading.parameters import SHAPES

OPERATIONS = ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Attribute, ast.IfExp
SKIPPED = {"__init__", "check_prompt", "_check_length", "running", "n_left", "finish"}  # plumbing
SKIPPED |= {"new_ids", "min_length", "make_sampler"}
MOST_PASSES = 4


class Adder(ast.NodeTransformer):
    """Adds the calls to a tree, and for each call a node to `nodes`: [file, function, kind, line,
    column, last line, last column]. Of a statement with a body, only the head counts.

    operands: {node of x + y: [node of x, node of y]}. loops: {(file, function): the first and the
    last line in the loop over blocks} of each function that runs a pass."""

    def __init__(self):
        self.file, self.nodes, self.scope, self.inside = "", list[list](), list[str](), False
        self.operands: dict[int, list] = {}
        self.loops: dict[tuple, tuple] = {}

    def call(self, name, node, *value):  # -> the tree of _at(k) or _see(k, value)
        place = [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]
        if name == "_at" and (body := getattr(node, "body", None)):
            place[2:] = max(node.lineno, body[0].lineno - 1), 999
        # kind: of x @ y, "MatMult"; of what is read or written, "Load" or "Store"
        kind = type(getattr(node, "op", getattr(node, "ctx", node))).__name__
        vars(node)["number"] = len(self.nodes)
        self.nodes.append([self.file, ".".join(self.scope), kind, *place])
        k = ast.Constant(len(self.nodes) - 1)
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [k, *value], []), node)

    def visit(self, node: Any):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            return node
        if isinstance(node, ast.Call):
            vars(node.func)["is_called"] = True
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        for operand in operands:
            vars(operand)["is_operand"] = True
        written = [ast.parse(ast.unparse(x)).body[0] for x in getattr(node, "targets", [])]
        new = super().visit(node)
        if not self.inside:
            return new  # the statements of a module or a class do not run again
        if isinstance(node, ast.Lambda):  # _at returns None
            new.body = ast.BoolOp(ast.Or(), [self.call("_at", node.body), new.body])
        elif isinstance(node, ast.While):  # a stop before each test
            new.test = ast.BoolOp(ast.Or(), [self.call("_at", node), new.test])
        elif isinstance(node, ast.stmt):
            stop = ast.copy_location(ast.Expr(self.call("_at", node)), node)
            return [stop, new, *self.written(node, written)]
        if not is_operation(node):
            return new
        new = self.call("_see", node, new)
        if operands:
            numbers = [getattr(operand, "number", None) for operand in operands]
            self.operands[len(self.nodes) - 1] = numbers
        return new

    def written(self, node, copies):
        """Yield statements that see self.x[i] after the statement self.x[i] = y. copies: of its
        targets. If i calls a function, it is not seen: the function would run twice."""
        for target, copy in zip(getattr(node, "targets", []), copies):
            calls = any(isinstance(part, ast.Call) for part in ast.walk(copy))
            is_part = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute)
            if is_part and not calls:
                yield ast.copy_location(ast.Expr(self.call("_see", target, copy.value)), node)

    def visit_FunctionDef(self, node: Any):  # without decorators, default values and annotations
        if node.name in SKIPPED:
            return node
        outer = self.scope, self.inside
        self.scope, self.inside = [*self.scope, node.name], isinstance(node, ast.FunctionDef)
        if self.inside and {"ids", "token"} & {x.arg for x in node.args.args}:
            for loop in node.body:
                is_for = isinstance(loop, ast.For)
                if is_for and "block" in ast.unparse(loop.target) + ast.unparse(loop.iter):
                    place = self.file, ".".join(self.scope)
                    self.loops[place] = loop.body[0].lineno, loop.end_lineno
        body = ast.Module(node.body, [])
        self.generic_visit(body)
        node.body = body.body
        self.scope, self.inside = outer
        return node

    visit_ClassDef = visit_FunctionDef


def is_operation(node):  # does the page show its value?
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    is_number = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)  # -1
    is_own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    is_function = hasattr(node, "is_called")  # x.mean in x.mean(-1)
    is_operand = hasattr(node, "is_operand")  # x in x @ w.T
    is_shown = isinstance(node, OPERATIONS) or (is_operand and isinstance(node, ast.Name))
    return is_shown and is_read and not (is_number or is_function or (is_own and not is_operand))


class Pass(NamedTuple):
    """model: the id of its wte. settings: the whole numbers among the arguments and the model's
    attributes, such as n_head, by name."""

    model: int
    function: tuple[str, str]  # file and name
    n_cached: int
    ids: list[int]
    params: dict
    settings: dict[str, int]


class Enough(BaseException):
    """Ends a program after the passes that are recorded."""


class Record:
    """stops: [node, frame, pass, part, entries] of each statement that ran. part: "in", a layer's
    number, "out"; outside of a pass "loop", "draw". entries: (name, value) if assigned or changed;
    then (node, value) of operations. frames: (caller, place) of each function call; place: lines
    that lead to it from the pass's first. values: each different value once; elsewhere, a value
    is its index here. passes: the recorded ones; later: those after them. models: {id of wte: the
    object that first ran it}. files: see `files_of`."""

    def __init__(self, files, model=None, most=MOST_PASSES, ends=False):
        self.files, self.model, self.most, self.ends = files, model, most, ends
        self.done = False
        self.adder, self.weights, self.models, self.counts = Adder(), set(), {}, {}
        self.nodes = self.adder.nodes
        self.stops, self.frames, self.values, self.passes = [], [], [], []
        self.later: list[Pass] = []  # the first one that is not recorded
        self.plain: dict = {}  # the functions' own code
        self.error = None  # [the stop that raised it, its text]
        self.indices: dict = {}  # content -> the index of a value
        self.states: dict = {}  # Python's frame -> the state of a function call
        self.outside = types.SimpleNamespace(number=None, place=(), part=None, began=0, calls=0)
        if model is not None:
            self.learn(model.params, model)

    def learn(self, params, owner):
        """Remember a model's weights: of these, the record has only the shapes."""
        key = id(params["wte"])
        if key not in self.models:
            arrays = [x for _, x in parameters(params)]
            self.weights |= {id(root(x)) for x in arrays}
            self.models[key], self.counts[key] = owner, sum(x.size for x in arrays)
        return key

    @property
    def first(self):
        """Return the key of the main model, the largest: others draft for it."""
        if self.model:
            return id(self.model.params["wte"])
        return max(self.counts, key=lambda key: self.counts[key])

    @property
    def encoders(self):
        """Return the numbers of the passes that compute no logits for the passes after them."""
        n_vocabs = [len(one.params["wte"]) for one in self.passes]
        ends = [
            (i, self.shape(x)[-1:])
            for *_, i, part, all in self.stops
            if part == "out"
            for _, x in all
        ]
        scored = {i for i, shape in ends if shape == (n_vocabs[i],)}
        return [i for i in range(len(self.passes) - 1) if i not in scored]

    @property
    def texts(self):
        """Return the text that the model has read by the end of each pass."""
        texts: list[list[int]] = []
        for i, one in enumerate(self.passes + self.later):
            text = texts[-1] if texts else []
            if one.model == self.first and i not in self.encoders:
                text = text[: one.n_cached] + one.ids
            texts.append(text)
        return texts

    def at(self, k):
        """Record that statement k is about to run."""
        frame, (file, function, _, line, *_) = sys._getframe(1), self.nodes[k]
        state = self.states.get(frame) or self.enter(frame, (file, function))
        if self.done:
            return
        if line <= state.called:  # back to the line that ran the latest pass: a round begins
            state.began = len(self.passes)
        if state.loop and line == state.loop[0]:  # a layer begins
            state.part = 0 if state.part == "in" else state.part + 1
        elif state.loop and line > state.loop[1]:
            state.part = "out"
        n_pass, part = len(self.passes) - 1, state.part
        if part is None:
            n_pass, part = (n_pass, "draw") if n_pass >= state.began else (state.began, "loop")
        names = {x: (self.store(v, "." in x), id(v)) for x, v in local_names(frame).items()}
        new = [(x, found[0]) for x, found in names.items() if state.names.get(x) != found]
        state.names, state.line, state.node = names, line, k
        state.stop, state.calls = len(self.stops), 0
        self.stops.append([k, state.number, n_pass, part, new])

    def enter(self, frame, function):
        """Return the state of a new function call. function: (file, name)."""
        caller, names = self.state(frame.f_back), frame.f_locals
        caller.calls += 1  # one line may call several functions
        state = types.SimpleNamespace(**vars(caller) | {"number": len(self.frames), "names": {}})
        state.loop, state.called, state.caller = self.adder.loops.get(function), 0, caller
        owner = names.get("self") or self.model
        params = names if "wte" in names else getattr(owner, "params", None)
        if params:
            self.learn(params, owner)
        if state.loop and params:
            state.part, state.place = "in", (*function, *(x for x in names if names[x] is None))
            self.begin(state, function, names, params, owner)
        elif caller is self.outside:
            state.began, state.place = len(self.passes), function
        else:
            state.place = *caller.place, caller.node, caller.calls
        self.frames.append((caller.number, state.place))
        self.states[frame] = state
        return state

    def begin(self, state, function, names, params, owner):
        """Record that a pass begins. names: its arguments."""
        given = names["ids"] if "ids" in names else names["token"]
        n_cached = max(length_of(x) for x in names.values() if x is not given)
        numbers = getattr(owner, "__dict__", {}) | names
        numbers = {name: x for name, x in numbers.items() if isinstance(x, int)}
        ids, key = np.ravel(given).tolist(), id(params["wte"])
        one = Pass(key, function, n_cached, ids, params, numbers)
        earlier = [p for p in self.passes if p.model == key and p.function == function]
        if len(earlier) == self.most * (1 if key == self.first else 4) and not self.done:
            self.stop()
            if self.ends:
                self.later.append(one)
                raise Enough
        (self.later if self.done else self.passes).append(one)
        while state is not self.outside:  # all functions that led to the pass
            state = state.caller
            state.called = vars(state).get("line", 0)

    def stop(self):
        """Record no more: all functions get their own code back."""
        self.done = True
        exchange(self.plain)

    def fail(self, error):
        """Remember an error, and the stop that raised it."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        states = [self.states[frame] for frame in frames if frame in self.states]
        stops = [state.stop for state in states if not self.done]
        self.error = [stops[-1] if stops else None, f"{type(error).__name__}: {error}"]

    def see(self, k, value):
        """Record an operation's value, and return it."""
        if not self.done:
            self.stops[self.state(sys._getframe(1)).stop][4].append((k, self.store(value)))
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


def root(x):  # the array of which x is a view
    return root(x.base) if isinstance(x.base, np.ndarray) else x


@contextlib.contextmanager
def recording(files, model=None, most=MOST_PASSES, ends=False):
    """Yield a Record of what the functions in these files compute in the first passes. files: see
    `files_of`; model: the main one, if it is known; most: how many passes of the model, and a
    quarter of a draft model's; ends: raise Enough after them."""
    record, added = Record(files, model, most, ends), {}
    for file, name in files.items():
        tree, record.adder.file = ast.parse("".join(linecache.getlines(file))), name
        record.plain |= codes(tree, file)
        added |= codes(ast.fix_missing_locations(record.adder.visit(tree)), file)
    vars(builtins).update(_at=record.at, _see=record.see)
    exchange(added)
    try:
        yield record
    finally:
        record.stop()
        record.states.clear()
        del vars(builtins)["_at"], vars(builtins)["_see"]


def codes(tree, file):
    """Compile a file's tree. Return {(file, line, name): code} for all of its functions."""
    found, rest = {}, [compile(tree, file, "exec", dont_inherit=True)]
    for code in rest:
        found[code.co_filename, code.co_firstlineno, code.co_name] = code
        rest += [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return found


def exchange(new):
    """Give functions their new code, wherever they are: in modules, classes, closures, ..."""
    for f in [x for x in gc.get_objects() if isinstance(x, types.FunctionType)]:
        code = f.__code__
        f.__code__ = new.get((code.co_filename, code.co_firstlineno, code.co_name), code)
