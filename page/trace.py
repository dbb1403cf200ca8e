"""Record a run of the code line by line, with the value of every operation inside a line.

    with recording([gpt2, generate, samplers], model) as record:
        list(cached(model, sequence))

Python's `ast` reads a module's source as a tree. Two kinds of calls are added: `_at(k)` before
each statement k, and `_see(k, value)`, which returns the value, around each operation k. Thus
`return softmax(x @ w)` becomes `_at(6); return _see(8, softmax(_see(7, x @ w)))`. While the block
runs, each function that was made from this source has the new code: `f.__code__ = new`. It stays
the same function, with its closure. Each operation is still evaluated once, in the same order.
"""

import ast
import contextlib
import gc
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from page.live import arrays_in

OPERATIONS = ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Subscript, ast.Attribute, ast.IfExp
SKIPPED = {"__init__", "check_prompt", "_check_length", "running", "n_left", "finish"}  # plumbing
MOST_PASSES = 4


class Adder(ast.NodeTransformer):
    """Adds the calls to a tree, and for each call a node to `nodes`: [file, function, kind, line,
    column, last line, last column]. Of a statement with a body, only the head counts."""

    def __init__(self, file, nodes):
        self.file, self.nodes, self.scope, self.inside = file, nodes, [], False

    def call(self, name, node, *value):  # -> the tree of _at(k) or _see(k, value)
        place = [node.lineno, node.col_offset, node.end_lineno, node.end_col_offset]
        if name == "_at" and (body := getattr(node, "body", None)):
            place[2:] = max(node.lineno, body[0].lineno - 1), 999
        # kind: of x @ y, "MatMult"; of what is read or written, "Load" or "Store"
        kind = type(getattr(node, "op", getattr(node, "ctx", node))).__name__
        self.nodes.append([self.file, ".".join(self.scope), kind, *place])
        k = ast.Constant(len(self.nodes) - 1)
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [k, *value], []), node)

    def visit(self, node: Any):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            return node
        if isinstance(node, ast.Call):
            vars(node.func)["is_called"] = True
        new = super().visit(node)
        if not self.inside:
            return new  # the statements of a module or a class do not run again
        if isinstance(node, ast.Lambda):  # _at returns None
            new.body = ast.BoolOp(ast.Or(), [self.call("_at", node.body), new.body])
        elif isinstance(node, ast.While):  # a stop before each test
            new.test = ast.BoolOp(ast.Or(), [self.call("_at", node), new.test])
        elif isinstance(node, ast.stmt):
            at = ast.copy_location(ast.Expr(self.call("_at", node)), node)
            return [at, new, *map(self.again, filter(is_write, getattr(node, "targets", [])))]
        return self.call("_see", node, new) if is_operation(node) else new

    def again(self, target):
        """Return a statement that records what the one before it has written to a target."""
        read = ast.parse(ast.unparse(target), mode="eval").body
        return ast.copy_location(ast.Expr(self.call("_see", target, read)), target)

    def visit_FunctionDef(self, node: Any):  # without decorators, default values and annotations
        if node.name in SKIPPED:
            return node
        outer = self.scope, self.inside
        self.scope, self.inside = [*self.scope, node.name], isinstance(node, ast.FunctionDef)
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
    return isinstance(node, OPERATIONS) and is_read and not (is_number or is_own or is_function)


def is_write(node):  # self.kv[layer] = ...: of all of self.kv, a record has only the shape
    is_part = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
    return is_part and isinstance(node.ctx, ast.Store)


class Record:
    """stops: [node, frame, pass, part, entries] of each statement that ran. part: "in", a layer's
    number, "out"; outside of a pass "loop", "draw". entries: (name, value) if assigned or changed;
    then (node, value) of operations. frames: (caller, place) of each function call; place: lines
    that lead to it from a model's __call__. values: each different value once; elsewhere, a value
    is its index here. passes: (is it not a draft model's?, number of cached tokens, new ids)."""

    def __init__(self, model):
        self.model, self.done, self.weights = model, False, set()
        self.nodes, self.stops, self.frames, self.values, self.passes = [], [], [], [], []
        self.indices: dict = {}  # content -> the index of a value
        self.states: dict = {}  # Python's frame -> the state of a function call
        self.outside = types.SimpleNamespace(number=None, place=(), part=None, began=0, calls=0)

    def at(self, k):
        """Record that statement k is about to run."""
        frame = sys._getframe(1)
        state = self.states.get(frame) or self.enter(frame, self.nodes[k][1])
        if self.done:
            return
        if self.nodes[k][2] == "While":
            state.began = len(self.passes)  # a round begins
        n_pass, part = len(self.passes) - 1, state.part
        if part is None:
            n_pass, part = (n_pass, "draw") if n_pass >= state.began else (state.began, "loop")
        names = {x: (self.store(v, "." in x), id(v)) for x, v in local_names(frame).items()}
        new = [(x, found[0]) for x, found in names.items() if state.names.get(x) != found]
        state.names, state.node, state.stop, state.calls = names, k, len(self.stops), 0
        self.stops.append([k, state.number, n_pass, part, new])

    def enter(self, frame, function):
        """Return the state of a new function call."""
        caller, names = self.state(frame.f_back), frame.f_locals
        caller.calls += 1  # one line may call several functions
        state = types.SimpleNamespace(**vars(caller) | {"number": len(self.frames), "names": {}})
        state.place = caller.place and (*caller.place, caller.node, caller.calls)
        if function == "GPT2.__call__":
            state.part, state.place = "in", (names["last"] is None,)
            n_cached, model = getattr(names["cache"], "length", 0), names["self"]
            self.weights |= {id(root(x)) for x in arrays_in(model.params)}
            new = model is self.model, n_cached, np.ravel(names["ids"]).tolist()
            self.done |= sum(one[0] for one in [*self.passes, new]) > MOST_PASSES
            self.passes += [] if self.done else [new]
        elif function == "GPT2.block" and not self.done:
            state.part, caller.part = names["layer"], "out"
            self.stops[caller.stop][3] = state.part
        self.frames.append((caller.number, state.place))
        self.states[frame] = state
        return state

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
        """Return the shape of an array, of weights, or of the first of them in a list; else ()."""
        kept = self.values[value]
        return kept.get("shape") or next(filter(None, map(self.shape, kept.get("list", []))), ())


def local_names(frame):
    """Return {name: value} of a frame, with those attributes of self that the function names."""
    names = dict(frame.f_locals)
    own = getattr(names.pop("self", None), "__dict__", {})
    return names | {f"self.{x}": own[x] for x in frame.f_code.co_names if x in own}


def root(x):  # the array of which x is a view
    return root(x.base) if isinstance(x.base, np.ndarray) else x


@contextlib.contextmanager
def recording(modules, model):
    """Yield a Record of what the functions of these modules compute in MOST_PASSES passes."""
    record, plain, added = Record(model), {}, {}
    for module in modules:
        tree = ast.parse(Path(module.__file__).read_text("utf-8"))
        plain |= codes(tree, module.__file__)
        tree = ast.fix_missing_locations(Adder(module.__name__, record.nodes).visit(tree))
        added |= codes(tree, module.__file__)
        module._at, module._see = record.at, record.see
    exchange(added)
    try:
        yield record
    finally:
        exchange(plain)
        record.states.clear()
        for module in modules:
            del module._at, module._see


def codes(tree, file):
    """Compile a module's tree. Return {(file, line, name): code} for all of its functions."""
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
