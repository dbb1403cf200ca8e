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
from page.live import arrays_in
from page.trace import SKIPPED, Record, local_names, recording, root
from samplers import make_sampler
from speculative import speculative
from tests.support.tiny import tiny_gpt2

FILES = {module.__file__: module.__name__ for module in MODULES}
ONCE = "append|extend|cut|draw|random|reserve|model|advance|propose|learn|verify|block|attention"
NAMED = {"n_head", "d_head", "n_new", "n_all", "n_embd", "n_vocab"}  # not "n" or "n_in"


def run(method):
    """Return (sequence, its models, a loop that has not begun)."""
    tokenizer, model = utils.load("stories")
    sampler = make_sampler(temperature=0.7, top_k=40, top_p=0.9)
    sequence = Sequence(model, tokenizer.encode("Once upon a"), 3, sampler, 3)
    if method != "speculative":
        return sequence, [model], lambda: getattr(generate, method)(model, sequence)
    small = utils.load("stories-draft")[1]
    drafter = DraftModel(small, sampler, np.random.default_rng(1))
    return sequence, [model, small], lambda: speculative(model, sequence, drafter)


@functools.cache
def recorded(method):
    sequence, models, loop = run(method)
    with recording(MODULES, models[0]) as record:
        list(loop())
    return record, sequence


class Debugger:
    """Follows a plain run with sys.settrace, and compares each stop of a record with it."""

    def __init__(self, record, models):
        self.record, self.plain = record, Record(models[0])
        self.plain.weights = {id(root(x)) for model in models for x in arrays_in(model.params)}
        self.next, self.frames, self.last, self.names, self.lines = 0, {}, {}, {}, set()
        self.n_names = self.n_operations = 0

    def trace(self, frame, event, _):
        code = frame.f_code
        if code.co_filename not in FILES or code.co_name in SKIPPED:
            return None
        if event == "line" and (code.co_name[0] != "<" or code.co_name == "<lambda>"):
            self.line(frame, (FILES[code.co_filename], frame.f_lineno))
        return self.trace

    def line(self, frame, place):
        self.lines.add(place)
        node, number, _, _, entries = self.record.stops[min(self.next, len(self.record.stops) - 1)]
        file, _, kind, line, *_ = self.record.nodes[node]
        self.frames.setdefault(frame, number)
        again = self.last.get(frame) == node and kind != "While"
        if (file, line) == place and self.frames[frame] == number and not again:
            self.next += 1
            self.last[frame] = node
            return self.compare(frame, entries)
        # It is the head of a `for` again, or a further line of the same statement.
        loops = {(node[0], node[3]) for node in self.record.nodes if node[2] == "For"}
        _, _, _, first, _, last, _ = self.record.nodes[self.last[frame]]
        assert place in loops or first <= frame.f_lineno <= last, place
        self.last[frame] = None if place in loops else self.last[frame]

    def compare(self, frame, entries):
        known, names = self.names.setdefault(frame, {}), local_names(frame)
        known.update((key, value) for key, value in entries if isinstance(key, str))
        assert names.keys() == known.keys()
        for name in names:
            self.same(names[name], known[name], name)
            self.n_names += 1
        for key, value in entries:
            text = "" if isinstance(key, str) else segment(self.record.nodes[key])
            if text and ":=" not in text and not re.search(rf"\b({ONCE})\(", text):
                try:
                    again = eval(text, frame.f_globals, dict(frame.f_locals))
                except NameError:
                    continue  # a comprehension's variable
                self.same(again, value, text)
                self.n_operations += 1

    def same(self, value, number, what):
        ours = self.plain.store(value, what.startswith("self."))
        assert content(self.plain, ours) == content(self.record, number), what


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
    nodes = [record.nodes[node] for node, *_ in record.stops]
    assert debugger.lines <= {(n[0], line) for n in nodes for line in range(n[3], n[5] + 1)}


def test_the_modules_are_as_before_even_after_an_error():
    model, code = tiny_gpt2(), gpt2.attention.__code__.co_code
    before = [vars(module).copy() for module in MODULES]
    with pytest.raises(IndexError), recording(MODULES, model):
        model([99])
    assert [vars(module) for module in MODULES] == before
    assert gpt2.attention.__code__.co_code == code
    with recording(MODULES, model) as record:
        sampler = make_sampler(top_k=2)
        assert len([*generate.cached(model, Sequence(model, [1], 9))]) == 9
    assert len(record.passes) == 4 and record.done  # the text goes on, the record does not
    assert sampler(np.arange(4, dtype=np.float32), []).tolist()[:2] == [0, 0]  # made in the block


def test_the_names_of_the_axes_are_those_of_gpt2_s_comments():
    """A comment says the axes of a function's arguments, or of what a line computes."""
    record, _ = recorded("cached")
    axes, text, begun, checked = axes_in(MODULES), source("gpt2"), set(), set()
    tree = ast.walk(ast.parse("\n".join(text)))
    functions = {node.name: node for node in tree if isinstance(node, ast.FunctionDef)}
    for node, frame, _, _, entries in record.stops:
        file, name, _, line, *_ = record.nodes[node]
        if file != "gpt2" or not entries:
            continue
        found = {key: axes.get((record.frames[frame][1], node, key)) for key, _ in entries}
        said, head = shapes(text[line - 1]), functions[name.split(".")[-1]]
        pairs = [(found[entries[-1][0]], *said)] if len(said) == 1 else []
        if frame not in begun:
            arrays = [found[a.arg] for a in head.args.args if found.get(a.arg)]
            pairs += zip(arrays, shapes(text[head.lineno - 1].partition("->")[0]))
        begun.add(frame)
        for ours, theirs in pairs:
            for a, b in zip(ours[::-1], theirs[::-1]):
                assert b not in NAMED or a == b or (a, b) == ("last", "n_new"), (line, ours)
                checked |= {(line, b)} if b in NAMED else set()
    assert len(checked) >= 20


def shapes(text):  # 2 x [..., n, d] -> [[..., n, d], [..., n, d]]
    found = re.findall(r"(?:(\d) x )?\[([^\]]*)\]", text.partition("  # ")[2])
    return [axes.split(", ") for n, axes in found for _ in range(int(n or 1))]
