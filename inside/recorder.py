"""A recorder of the running code: each call of a model's functions, its shapes and its numbers.

Python reports every call and return to a profile function. The recorder is one and needs no hooks.
It records every function in the model's files, gpt2.py and layers.py, except _private ones.

The views need `params` with its "blocks" (a decoder's under "decoder"). They also need functions
with the names and arguments of gpt2.py: block, self_attention (or attend), attention with q and k,
softmax, merge_heads, feed_forward, and linear with x and w. A function of a different name is
recorded as well, but only --trace shows it.
"""

import contextlib
import inspect
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpt2
from families import layers
from generate import Model


class Call:
    """A call: the function's name, file and line. owner: the object of a method; inputs: {name:
    shape} of its arrays; output: the shape of its first result; norms: the norms of the last rows
    of its first array and of its result; seconds: its time; calls: the calls inside it. If
    `recording` keeps it, arguments and value are its arguments and its result."""

    def __init__(self, frame: Any, keep: bool):
        code, owner = frame.f_code, frame.f_locals.get("self")
        self.name, self.line, self.owner = code.co_name, code.co_firstlineno, owner
        self.arguments = dict(frame.f_locals) if keep else {}
        self.seconds = -time.perf_counter()
        self.file = Path(code.co_filename).name
        arrays = {name: x for name, x in frame.f_locals.items() if isinstance(x, np.ndarray)}
        self.inputs = {name: x.shape for name, x in arrays.items()}
        self.norms = [norm(x) for x in [*arrays.values()][:1]]
        self.output: Any = None
        self.value: Any = None
        self.calls: list[Call] = []

    def finish(self, result: Any, keep: Callable | None) -> None:
        """Note what the function returned."""
        self.seconds += time.perf_counter()
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, np.ndarray):
            self.output, self.value = first.shape, keep(first) if keep else None
            self.norms.append(norm(first))

    def walk(self) -> Iterator["Call"]:
        """Yield this call and all calls inside it, in the order in which they began."""
        yield self
        for call in self.calls:
            yield from call.walk()

    @property
    def multiply_adds(self) -> int:
        """Return the multiply-adds of the products x @ w.T, q @ k.T and weights @ v inside."""
        calls = [*self.walk()]
        linear = (math.prod(c.inputs["x"]) * c.inputs["w"][0] for c in calls if c.name == "linear")
        attention = (2 * math.prod(c.inputs["q"]) * c.inputs["k"][-2] for c in calls
                     if c.name == "attention")  # fmt: skip
        return sum(linear) + sum(attention)


@contextlib.contextmanager
def recording(
    model: Model, keep: Collection[str] | dict[str, Callable] = (), also: Collection[Callable] = ()
) -> Iterator[list[Call]]:
    """Append to the yielded list each call of a function in the model's files, gpt2.py, layers.py
    or `also`. keep: names of functions whose arguments and results are kept. Results are copied. If
    keep is a dict {name: function}, the function's value for a result is kept instead."""
    if not hasattr(model, "params"):
        raise ValueError("the recorder looks into models with layers: this one has none")
    keeps = keep if isinstance(keep, dict) else dict.fromkeys(keep, np.copy)
    codes = {function.__code__ for function in also}
    methods = (f for kind in type(model).__mro__ for f in vars(kind).values())
    files = {f.__code__.co_filename for f in methods if inspect.isfunction(f)}
    files |= {inspect.getfile(gpt2), inspect.getfile(layers)}
    outermost: list[Call] = []
    stack: list[Call] = []

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


def passes(calls: list[Call], model: Any) -> list[Call]:
    """Return the passes of this model, without the passes of a model that drafts for it."""
    return [c for c in calls if c.name == "__call__" and c.owner.params is model.params]


def norm(x: np.ndarray) -> float:
    """Return the norm of the last row of x [..., n]; 0 for ids."""
    return float(np.linalg.norm(x[(-1,) * (x.ndim - 1)])) if x.dtype.kind == "f" and x.size else 0.0
