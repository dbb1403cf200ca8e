"""Records the calls of a model's functions as they run, with their shapes and numbers.

Python reports each call and return to a profile function. The recorder is one, so a model needs no
hooks. It records every function in the model's files, gpt2.py and layers.py, except _private ones.

The views need `params`, a method `block`, and functions with the names and arguments of gpt2.py:
self_attention (or attend), attention with q and k, softmax, merge_heads, feed_forward, layer_norm
(or rms_norm), and linear with x and w. --trace also shows functions with other names.
"""

import contextlib
import math
import sys
import time
from pathlib import Path

import numpy as np

import gpt2
from families import layers

BLOCKS = "block", "decoder_block"
SUBLAYERS = {"self_attention": "attn", "attend": "attn", "feed_forward": "mlp"}  # name -> params


class Call:
    """One call. name, file, line: of the function; owner: the object of a method; inputs: {name:
    shape} of the array arguments; output: the shape of the first result; norms: of the last rows of
    the first array and of the result; calls: the calls inside; arguments, value: if kept."""

    def __init__(self, frame, keep):
        code, given = frame.f_code, dict(frame.f_locals)
        self.name, self.line = code.co_name, code.co_firstlineno
        self.file, self.owner, self.calls = Path(code.co_filename).name, given.get("self"), []
        arrays = {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
        self.inputs = {name: x.shape for name, x in arrays.items()}
        self.norms = [norm(x) for x in [*arrays.values()][:1]]
        self.arguments, self.output = given if keep else {}, None
        self.seconds = -time.perf_counter()

    def finish(self, result, keep):
        """Record what the function returned, which is None after an error."""
        self.seconds += time.perf_counter()
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, np.ndarray):
            self.output, self.norms = first.shape, [*self.norms, norm(first)]
        self.value = keep(first) if keep and first is not None else None

    def walk(self):
        """Yield this call and all calls inside it, in the order in which they began."""
        yield self
        for call in self.calls:
            yield from call.walk()

    def named(self, *names):
        """Return the calls of functions with these names, in the order of `walk`."""
        return [call for call in self.walk() if call.name in names]

    @property
    def multiply_adds(self) -> int:
        """Return how many multiply-adds the products x @ w.T, q @ k.T and weights @ v take."""
        linear, attention = self.named("linear"), self.named("attention")
        n = sum(math.prod(call.inputs["x"]) * call.inputs["w"][0] for call in linear)
        return n + sum(2 * math.prod(c.inputs["q"]) * c.inputs["k"][-2] for c in attention)


@contextlib.contextmanager
def recording(model, keep=(), also=()):
    """Yield a list, and append each outermost call of the functions in the model's files, gpt2.py,
    layers.py and `also`. keep: names of functions whose arguments and results are kept. Results are
    copied; if keep is a dict {name: f}, f(result) is kept instead."""
    if not hasattr(model, "params"):
        raise ValueError("the recorder looks into models with layers: this one has none")
    keeps = keep if isinstance(keep, dict) else dict.fromkeys(keep, np.copy)
    codes = {function.__code__ for function in also}
    methods = (f for kind in type(model).__mro__ for f in vars(kind).values())
    files = {f.__code__.co_filename for f in methods if hasattr(f, "__code__")}
    files |= {gpt2.__file__, layers.__file__}
    outermost, stack = [], []

    def profile(frame, event, result):  # as sys.setprofile calls it
        name = frame.f_code.co_name
        own = name[0].isalpha() or name == "__call__"  # not <genexpr>, not _helpers
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


def passes(calls, model):
    """Return the passes of this model, without those of a draft model."""
    return [c for c in calls if c.name == "__call__" and c.owner.params is model.params]


def norm(x):  # [..., n] -> the norm of the last row; 0 for ids
    return float(np.linalg.norm(x[(-1,) * (x.ndim - 1)])) if x.dtype.kind == "f" and x.size else 0.0
