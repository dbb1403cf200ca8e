"""Record the calls of a model's functions while they run, with their shapes and results.

Python reports each call and each return to a profile function. The recorder is such a function, so
a model needs no hooks. It records the functions of gpt2.py, of the families and of the model's own
file, except _private ones.

For the page, a model needs `params`, a method `block`, and functions with gpt2.py's names and
arguments: attention with q and k, softmax, and linear with x and w.
"""

import contextlib
import math
import sys
import time

import numpy as np

import gpt2
from families import layers, llama, seq2seq


class Call:
    """A call of a function. name: the function's name; owner: a method's object; inputs: {name:
    shape} of the arguments that are arrays; calls: the calls inside this one."""

    def __init__(self, frame, keep):
        given = dict(frame.f_locals)
        self.name, self.owner, self.calls = frame.f_code.co_name, given.get("self"), []
        self.inputs = {name: x.shape for name, x in given.items() if isinstance(x, np.ndarray)}
        self.arguments = given if keep else {}
        self.seconds = -time.perf_counter()

    def finish(self, result, keep):
        """Record the function's result, which is None after an error."""
        self.seconds += time.perf_counter()
        first = result[0] if isinstance(result, tuple) and result else result
        self.value = keep(first) if keep and first is not None else None

    def walk(self):
        """Yield this call and all calls inside it, in the order in which they began."""
        yield self
        for call in self.calls:
            yield from call.walk()

    def named(self, name):
        """Return the calls of functions with this name, among this call and those inside it."""
        return [call for call in self.walk() if call.name == name]

    @property
    def products(self):
        """Yield (multiply-adds, numbers read) of the products x @ w.T, q @ k.T and weights @ v. The
        numbers are those of w, k and v."""
        for call in self.walk():
            n = {name: math.prod(shape) for name, shape in call.inputs.items()}
            if call.name == "linear" and {"x", "w"} <= n.keys():
                yield n["x"] * call.inputs["w"][0], n["w"]
            elif call.name == "attention" and {"q", "k", "v"} <= n.keys():
                yield 2 * n["q"] * call.inputs["k"][-2], n["k"] + n["v"]

    @property
    def multiply_adds(self) -> int:
        return sum(n for n, _ in self.products)


@contextlib.contextmanager
def recording(model, keep=(), also=()):
    """Yield a list to which each outermost call is added; a call contains the calls inside it.
    also: more functions to record. keep: names of functions whose calls keep their arguments, and a
    copy of their result as `value`. If keep is a dict {name: f}, `value` is f(result)."""
    keeps = keep if isinstance(keep, dict) else dict.fromkeys(keep, np.copy)
    codes = {function.__code__ for function in also}
    methods = (f for kind in type(model).__mro__ for f in vars(kind).values())
    files = {f.__code__.co_filename for f in methods if hasattr(f, "__code__")}
    files |= {module.__file__ for module in (gpt2, layers, llama, seq2seq)}
    outermost, stack = [], []

    def profile(frame, event, result):  # with the arguments that sys.setprofile expects
        name = frame.f_code.co_name
        own = name[0].isalpha() or name == "__call__"  # neither <genexpr> nor _private
        if frame.f_code not in codes and not (own and frame.f_code.co_filename in files):
            return
        if event == "call":
            calls = stack[-1].calls if stack else outermost
            calls.append(Call(frame, name in keeps))
            stack.append(calls[-1])
        elif event == "return":
            stack.pop().finish(result, keeps.get(name))

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield outermost
    finally:
        sys.setprofile(previous)


def counted(model, f, *args, **settings):
    """Call f(*args, **settings). Return its result, its FLOPs, and how many bytes it reads of
    weights (float32), keys and values. All models count, in any family, but only in this thread."""
    with recording(model) as calls:
        result = f(*args, **settings)
    products = [product for call in calls for product in call.products]
    return result, 2 * sum(n for n, _ in products), 4 * sum(n for _, n in products)


def passes(calls, model):
    """Return the calls that are passes of this model, not of a draft model."""
    called = [c for c in calls if c.name == "__call__" and hasattr(c.owner, "params")]
    return [c for c in called if c.owner.params is model.params]
