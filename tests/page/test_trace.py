"""A record of lines and operations equals what a debugger sees in a second, plain run."""

import ast
import builtins
import functools
import linecache
import re
import sys
from collections import defaultdict

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import generate
import gpt2
import pico
import utils
from generate import Sequence, begin
from loading.errors import UserError
from page import __main__ as stepper
from page.adder import SKIPPED, Adder
from page.axes import axes_in, numbered
from page.flow import Flow
from page.sources import files_of
from page.trace import Record, local_names, recording
from pico import cache, forward
from samplers import make_sampler
from tests.support.pages import drafted
from tests.support.tiny import checkpoint, checkpoints, tiny_gpt2

FILES = files_of()
ONCE = "append|commit|make_room|self_attention|extend|cut|draw|random|model|advance|propose|learn"
ONCE += "|verify|block|attention"


def run(method):
    """Return a sequence, and a loop over it that has not begun."""
    tokenizer, model = utils.load("stories")
    sampler = make_sampler(temperature=0.7, top_k=40, top_p=0.9)
    sequence = Sequence(model, tokenizer.encode("Once upon a"), 3, sampler, 3)
    loop = drafted if method == "speculative" else getattr(generate, method)
    return sequence, functools.partial(loop, model, sequence)


@functools.cache
def recorded(method):
    sequence, loop = run(method)
    with recording(FILES, sequence.model) as record:
        list(loop())
    return record, sequence


class Debugger:
    """Follows a plain run with sys.settrace, and compares each stop of a record with it."""

    def __init__(self, record):
        self.record, self.plain = record, Record({})
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
            is_read = not isinstance(key, str) and self.record.nodes[key][2] != "Store"
            text = segment(self.record.nodes[key]) if is_read else ""
            if text and ":=" not in text and not re.search(rf"\b({ONCE})\(", text):
                try:
                    again = eval(text, frame.f_globals, dict(frame.f_locals))
                except NameError:
                    continue  # a comprehension's variable
                self.same(again, value, text)
                self.n_operations += 1

    def same(self, value, number, what):
        # Of weights, and of the whole cache, only the shape is kept.
        if "of" in self.record.values[number]:
            assert self.record.shape(number) == value.shape
        else:
            ours = content(self.plain, self.plain.store(value))
            assert ours == content(self.record, number), what


def content(record, number):
    value = dict(record.values[number])
    array, parts = value.pop("array", np.array(0)), value.pop("list", [])
    return value, array.tobytes(), [content(record, part) for part in parts]


@functools.cache
def source(file):
    [path] = [path for path, name in FILES.items() if name == file]
    return linecache.getlines(path)


def segment(node):
    file, _, _, line, column, last, end = node
    lines = source(file)[line - 1 : last]
    return "(" + "".join([*lines[:-1], lines[-1][:end]])[column:] + ")"


@pytest.mark.parametrize("method", ["naive", "cached", "speculative"])
@threadpool_limits.wrap(1)  # the debugger's own product for the logits ends the model's limit
def test_a_record_is_what_a_debugger_sees_in_a_plain_run(method):
    record, written = recorded(method)
    sequence, loop = run(method)
    debugger = Debugger(record)
    sys.settrace(debugger.trace)
    try:
        list(loop())
    finally:
        sys.settrace(None)
    assert sequence.ids == written.ids and debugger.next == len(record.stops)
    assert debugger.n_names > 2000 and debugger.n_operations > 1000
    nodes = [record.nodes[node] for node, *_ in record.stops]
    assert debugger.lines <= {(n[0], line) for n in nodes for line in range(n[3], n[5] + 1)}


@pytest.mark.parametrize("words", ["json", "pico.merges 50"])
def test_a_program_without_a_model_is_refused_in_one_line(tmp_path, words):
    name, *rest = words.split()
    with pytest.raises(UserError, match="runs no model that can be shown"):
        stepper.main(name, *rest, f"{tmp_path / 'code.html'}")
    assert not [*tmp_path.iterdir()]


def test_the_modules_are_as_before_even_after_an_error():
    model, code = tiny_gpt2(), gpt2.attention.__code__.co_code
    before = vars(gpt2).copy(), vars(builtins).copy()
    with pytest.raises(IndexError), recording(FILES, model):
        model([99])
    assert (vars(gpt2), vars(builtins)) == before
    assert gpt2.attention.__code__.co_code == code
    with recording(FILES, model) as record:
        sampler = make_sampler(top_k=2)
        assert len([*generate.cached(model, Sequence(model, [1], 9))]) == 9
    assert len(record.passes) == 4 and record.muted  # the text goes on, the record does not
    assert sampler(np.arange(4, dtype=np.float32), []).tolist()[:2] == [0, 0]  # made in the block


def test_of_each_text_a_program_reads_the_first_passes_are_recorded():
    """pico.cache writes its text twice: without a cache, and with one."""
    with recording(files_of()) as record:
        tokenizer, model = pico.load("stories", cache.gpt2)
        ids = tokenizer.encode("The dragon was")
        without = forward.generate(lambda text: model(text, defaultdict(list)), ids, 9)
        for loop in without, cache.cached(model, ids, 9):
            list(loop)
    sizes = [(one.n_cached, len(one.ids)) for one in record.passes]
    assert sizes == [(0, 3), (0, 4), (0, 5), (0, 6), (0, 3), (3, 1), (4, 1), (5, 1)]
    nodes = [record.nodes[node] for node, *_ in record.stops]
    assert ["pico/cache.py", "cached", 22] in [[*node[:2], node[3]] for node in nodes]


def test_token_ids_are_told_by_where_they_come_from_and_go():
    """Not by their names: `best` goes into the text; what `len` and `shape` return does not."""
    cell = """
def mine(model, ids):
    n = len(ids) + np.array(ids).shape[-1]
    best = int(np.argmax(model(ids)[-1]))
    return other(ids + [best]), n

def other(text):
    last, count = text[-1], 5
    return text
"""
    adder = Adder()
    flow = Flow({"": adder.visit(ast.parse(cell))})
    found = {place.split()[-1] for place in flow.ids if str(place)[:1] == " "}
    assert found == {"ids", "best", "text", "last"}


@pytest.mark.slow
@pytest.mark.parametrize("name", checkpoints("gpt2", "llama", "seq2seq"))
def test_every_axis_in_a_pass_has_a_name_in_every_family(name):
    model = checkpoint(name)
    with recording(files_of(), model) as record:
        runs, start = begin(model, [1, 5, 3, 2, 4])
        list(generate.cached(runs, Sequence(runs, start, 2)))
    axes, nameless = axes_in(record), []
    stops = [stop for stop in record.stops if stop[3] not in ("loop", "draw")]
    for node, frame, _, _, entries in stops:
        for key, value in numbered(entries):
            shape, place = record.shape(value), (record.frames[frame][1], node, key)
            names = axes[place] if shape else ()  # in a layer without rotation, it is None
            for axis, n in zip(names, shape, strict=True):
                nameless += [(record.nodes[node], shape)] * (axis is None and n > 1)
    assert nameless == [] and len(stops) > 100


def test_the_names_of_the_axes_are_those_of_gpt2_s_comments():
    """A comment like # [n_new] says the axes of what a line computes."""
    record, _ = recorded("cached")
    axes, checked = axes_in(record), set()
    for node, frame, _, _, entries in record.stops:
        file, _, _, line, *_ = record.nodes[node]
        said = re.findall(r"\[([^\]]*)\]", source(file)[line - 1].partition("  # ")[2])
        if file == "gpt2.py" and entries and len(said) == 1:
            found = axes[record.frames[frame][1], node, [*numbered(entries)][-1][0]]
            for ours, theirs in zip(found[::-1], said[0].split(", ")[::-1]):
                assert theirs in ("...", ours), (line, found)
                checked.add((line, ours))
    assert len(checked) >= 8
