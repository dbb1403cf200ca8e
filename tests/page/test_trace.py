"""A record of lines and operations equals what a debugger sees in a second, plain run."""

import ast
import functools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import generate
import gpt2
import utils
from decoding.drafters import DraftModel
from generate import Sequence
from page.axes import axes_in
from page.code import MODULES
from page.trace import SKIPPED, recording
from samplers import make_sampler
from speculative import speculative
from tests.support.tiny import tiny_gpt2

FILES = {module.__file__: module.__name__ for module in MODULES}
ONCE = "append|extend|cut|draw|random|reserve|model|advance|propose|learn|verify|block|attention"


def run(method, n=3):
    """Return (sequence, its models, a loop that has not begun)."""
    tokenizer, model = utils.load("stories")
    sampler = make_sampler(temperature=0.7, top_k=40, top_p=0.9)
    sequence = Sequence(model, tokenizer.encode("Once upon a"), n, sampler, 3)
    if method != "speculative":
        return sequence, [model], lambda: getattr(generate, method)(model, sequence)
    small = utils.load("stories-draft")[1]
    drafter = DraftModel(small, sampler, np.random.default_rng(1))
    return sequence, [model, small], lambda: speculative(model, sequence, drafter)


@functools.cache
def recorded(method):
    sequence, models, loop = run(method)
    with recording(MODULES, *models) as record:
        list(loop())
    return record, sequence


class Debugger:
    """Follows a plain run with sys.settrace, and compares each stop of a record with it."""

    def __init__(self, record, models):
        self.record, self.compare = record, recording_of(models)
        self.next, self.frames, self.last, self.lines = 0, {}, {}, set()
        self.names, self.n_names, self.n_operations = {}, 0, 0

    def trace(self, frame, event, _):
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name in SKIPPED:
            return None
        if event == "line" and frame.f_code.co_name[0] != "<" or "lambda" in frame.f_code.co_name:
            self.line(frame)
        return self.trace

    def line(self, frame):
        place = FILES[frame.f_code.co_filename], frame.f_lineno
        self.lines.add(place)
        stops = self.record.stops
        if self.next < len(stops) and frame not in self.frames:
            self.frames[frame] = stops[self.next].frame
        stop = stops[min(self.next, len(stops) - 1)]
        file, _, kind, line, *_ = self.record.nodes[stop.node]
        again = self.last.get(frame) == stop.node and kind != "While"
        if (file, line) == place and self.frames[frame] == stop.frame and not again:
            self.next += 1
            self.last[frame] = stop.node
            self.stop(frame, stop)
        else:  # the head of a `for` again, or a further line of a statement
            _, _, kind, first, _, last, _ = self.record.nodes[self.last[frame]]
            loops = {n[3] for n in self.record.nodes if n[0] == place[0] and n[2] == "For"}
            assert first <= frame.f_lineno <= last or frame.f_lineno in loops, place
            self.last[frame] = None if frame.f_lineno in loops else self.last[frame]

    def stop(self, frame, stop):
        known = self.names.setdefault(frame, {})
        known.update((key, value) for key, value in stop.entries if isinstance(key, str))
        names = dict(frame.f_locals)
        own = getattr(names.pop("self", None), "__dict__", {})
        names |= {f"self.{x}": own[x] for x in frame.f_code.co_names if x in own}
        assert names.keys() == known.keys()
        for name, value in names.items():
            self.same(value, known[name], name)
            self.n_names += 1
        for key, value in stop.entries:
            text = isinstance(key, int) and segment(self.record.nodes[key])
            if text and not re.search(rf"\b({ONCE})\(", text) and ":=" not in text:
                try:
                    again = eval(text, frame.f_globals, dict(frame.f_locals))
                except NameError:
                    continue  # a comprehension's variable
                self.same(again, value, text)
                self.n_operations += 1

    def same(self, value, number, what):
        ours = content(self.compare, self.compare.store(value, what.startswith("self.")))
        assert ours == content(self.record, number), what


def recording_of(models):
    with recording([], *models) as record:
        return record


def content(record, number):
    value = dict(record.values[number])
    array = value.pop("array", None)
    parts = [content(record, part) for part in value.pop("list", [])]
    return value, parts, None if array is None else array.tobytes()


@functools.cache
def source(file):
    return Path(sys.modules[file].__file__).read_text("utf-8").splitlines()


def segment(node):
    file, _, _, line, column, last, end = node
    lines = source(file)[line - 1 : last]
    return "(" + "\n".join([*lines[:-1], lines[-1][:end]])[column:] + ")"


@pytest.mark.parametrize("method", ["naive", "cached", "speculative"])
def test_a_record_is_what_a_debugger_sees_in_a_plain_run(method):
    record, written = recorded(method)
    sequence, models, loop = run(method)
    debugger = Debugger(record, models)
    sys.settrace(debugger.trace)
    try:
        list(loop())
    finally:
        sys.settrace(None)
    assert sequence.ids == written.ids and debugger.next == len(record.stops)
    assert debugger.n_names > 2000 and debugger.n_operations > 1000
    nodes = [record.nodes[stop.node] for stop in record.stops]
    assert debugger.lines <= {(n[0], line) for n in nodes for line in range(n[3], n[5] + 1)}


def test_the_modules_are_as_before_even_after_an_error():
    model = tiny_gpt2()
    before = [vars(module).copy() for module in MODULES]
    codes = gpt2.attention.__code__, generate.Sequence.append.__code__
    with pytest.raises(IndexError), recording(MODULES, model):
        model([99])
    assert [vars(module).copy() for module in MODULES] == before
    assert gpt2.attention.__code__.co_code == codes[0].co_code
    sequence = Sequence(model, [1], 9)
    with recording(MODULES, model) as record:
        assert len(list(generate.cached(model, sequence))) == 9
    assert len(record.passes) == 4 and record.done  # the text goes on, the record does not


def test_filters_that_were_made_during_the_record_work_after_it():
    with recording(MODULES, tiny_gpt2()):
        sampler = make_sampler(top_k=2)
    assert sampler(np.arange(4, dtype=np.float32), []).tolist()[:2] == [0, 0]


def test_the_names_of_the_axes_are_those_of_gpt2_s_comments():
    """A comment says the axes of a function's arguments, or of what a line computes."""
    record, _ = recorded("cached")
    axes, text, functions = axes_in(MODULES), source("gpt2"), defs()
    begun, checked = set(), set()
    for stop in record.stops:
        file, function, _, line, *_ = record.nodes[stop.node]
        name, place = function.split(".")[-1], record.frames[stop.frame][1]
        if file != "gpt2" or not stop.entries:
            continue
        found = {key: axes.get((place, stop.node, key)) for key, _ in stop.entries}
        said = shapes(text[line - 1])
        pairs = [(found[stop.entries[-1][0]], *said)] if len(said) == 1 else []
        if stop.frame not in begun:
            arrays = [found[a.arg] for a in functions[name].args.args if found.get(a.arg)]
            pairs += zip(arrays, shapes(text[functions[name].lineno - 1].partition("->")[0]))
        begun.add(stop.frame)
        for ours, theirs in pairs:
            for a, b in zip(ours[::-1], theirs[::-1]):
                if b in NAMED:
                    assert a == b or (a, b) == ("last", "n_new"), (function, line, ours, theirs)
                    checked.add((line, b))
    assert len(checked) >= 20


NAMED = {"n_head", "d_head", "n_new", "n_all", "n_embd", "n_vocab"}  # not "n" or "n_in"


def defs():
    tree = ast.parse("\n".join(source("gpt2")))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def shapes(text):  # 2 x [..., n, d] -> [[..., n, d], [..., n, d]]
    found = re.findall(r"(?:(\d) x )?\[([^\]]*)\]", text.partition("  # ")[2])
    return [axes.split(", ") for n, axes in found for _ in range(int(n or 1))]
