"""Make a page that steps through the code of a run, with the values of names and operations.

with stepping(model, len(ids)) as record:
    list(cached(model, sequence))
page = code_html(record, tokenizer, sequence.ids, sequence.n_prompt)
"""

import json
import linecache
from html import escape

import numpy as np

from decoding.drafters import common_prefix
from loading.errors import UserError
from page.axes import axes_in, numbered
from page.flow import Flow
from page.pack import included, label, packed
from page.rows import Rows
from page.sources import files_of
from page.trace import recording

MOST_TOKENS = 64  # of a prompt
MOST_BYTES, SMALL = 3_000_000, 500_000  # of a page in a file, and in a notebook
WIDE = {"n_embd", "3 n_embd", "4 n_embd", "n_inner", "d_head"}  # arrays with these axes are stored
WIDE |= {"n_head d_head", "n_kv_head d_head", "d_head / 2"}  # in 16 bits
NO_PASS = "no pass was seen: a function of ids with a loop over blocks, which --code steps through"
SPELLED = {"n_new": "n_seq", "n_embd": "d_model"}  # our name of an axis -> another file's
LIMITS = [  # what is left out of a page that would be too large, at each level of Packing
    "",
    "To keep it small, the layers between the first and the last lack their widest arrays.",
    "To keep it small, only the first and the last layer have numbers: what each line computes.",
    "To keep it small, only the first five passes have numbers, in the first and the last layer.",
]


def stepping(model, n_prompt, *functions):
    """Return `recording` for a run of a model, by our loops or by functions of the reader. Raises
    UserError if it cannot be shown."""
    if not hasattr(model, "params"):
        raise UserError(NO_PASS)
    if n_prompt > MOST_TOKENS:
        raise UserError(f"--code takes {MOST_TOKENS} tokens, not {n_prompt}: shorten the prompt")
    return recording(files_of(*functions), model, keep=True)


def code_html(record, tokenizer, ids=(), n_prompt=0, most=MOST_BYTES) -> str:
    """Return the page as one string. ids: the text, of which n_prompt tokens are the prompt; by
    default, the text that the passes have read. Raises UserError if there is no pass, or if the
    page cannot be kept below `most` bytes."""
    if not record.passes:
        raise UserError(NO_PASS)
    own = [one.ids for i, one in enumerate(record.passes) if i not in record.encoders]
    ids, n_prompt = list(ids) or record.texts[-1], n_prompt or len(own[0])
    axes = axes_in(record)
    found = Flow({name: record.trees[name] for name in shown_files(record)}).ids
    are_ids = [place for place in found if isinstance(place, int | str)]
    for level, limits in enumerate(LIMITS):
        packing = Packing(record, axes, ids, level)
        first = "The page shows the first passes over a text. " * bool(record.later)
        data = about(record, tokenizer, packing)
        data |= {"n_prompt": n_prompt, "limits": first + limits, "are_ids": are_ids}
        page = included("code/code.html").replace("<!-- data -->", packing.text(data))
        page = page.replace("<!-- files -->", "".join(map(in_html, shown_files(record).items())))
        if len(page) <= most:
            return page
    raise UserError(f"the page would take {len(page) / 1e6:.1f} MB: shorten the prompt")


def about(record, tokenizer, packing):
    """Return the page's data, but for numbers. For example, a pass is [whether it is the model's,
    not a draft model's, 3 cached tokens, new ids [257], the length of the text, whether it is an
    encoder's, the number of the text]; a node is ["gpt2.py", "softmax", "Assign", line, column,
    last line, last column]."""
    passes = [
        [one.model == record.first, one.n_cached, one.ids, length, i in record.encoders, one.text]
        for i, (one, length) in enumerate(zip(record.passes, packing.lengths))
    ]
    source = shown_files(record)[record.passes[-1].function[0]]
    return {
        "stops": packing.stops,
        "values": packing.values,
        "nodes": record.nodes,
        "operands": record.adder.operands,
        "callers": [caller for caller, _ in record.frames],
        "passes": passes,
        "ids": packing.ids,
        "error": record.error,
        "labels": {int(id): label(tokenizer, id) for id in packing.named},
        "spelled": {a: b for a, b in SPELLED.items() if source.count(b) > source.count(a)},
    }


def shown_files(record):
    """Return {name: text} of the files in which a line ran."""
    ran = {record.nodes[node][0] for node, *_ in record.stops}
    names = {name: file for file, name in record.files.items() if name in ran}
    return {name: "".join(linecache.getlines(file)) for name, file in names.items()}


def in_html(file):  # so that it can be read without JavaScript
    name, text = file
    return f'<h2>{name}</h2>\n<pre id="{name}">\n{escape(text)}</pre>\n'


class Packing:
    """The numbers of a page. level: how much is left out. 0: nothing; 1: wide arrays of inner
    layers, neither the first nor the last; 2: all arrays of inner layers; in the other two, wide
    ones that are no line's result and, in the first pass, all that are none; 3: so are all in
    later passes.

    values: as in the record, but of an array's numbers only their type and place: {"shape": [3, 7],
    "dtype": "float32", "type": "f4", "at": [120]} begins at number 120 of arrays["f4"]."""

    def __init__(self, record, axes, ids, level):
        self.record, self.known_axes, self.ids, self.level = record, axes, ids, level
        layers = {part for _, _, _, part, _ in record.stops if isinstance(part, int)}
        self.inner = sorted(layers)[1:-1]
        self.lengths = [common_prefix(text, ids) for text in record.texts]
        self.values = [{k: x[k] for k in x if k != "array"} for x in record.values]
        self.stored: dict = {}  # (type, content) -> its place in `arrays`
        self.kept: dict = {}  # value -> its axes, and the text's length when it was computed
        self.arrays: dict = {"f2": [], "f4": [], "i4": [], "u1": []}
        self.sizes = dict.fromkeys(self.arrays, 0)
        self.named = {*ids, *(id for one in record.passes for id in one.ids)}
        self.stops = [self.stop(*stop) for stop in record.stops if stop[2] < len(record.passes)]
        in_order = sorted(self.kept.items())  # in which they were computed
        arrays = [(record.values[value].get("array"), axes) for value, (axes, _) in in_order]
        self.rows = Rows([x for x, axes in arrays if x is not None and axes[-1:] == ("n_vocab",)])
        for value, how in in_order:
            self.store(value, *how)

    def text(self, data):
        """Return all data as JSON, compressed."""
        parts = {t: np.concatenate([np.empty(0, f"<{t}"), *x]) for t, x in self.arrays.items()}
        parts["f2"] = parts["f2"].view("u1").reshape(-1, 2).T.ravel()  # low bytes first: smaller
        parts["code"] = np.frombuffer(json.dumps(data).encode(), "u1")
        return json.dumps({name: packed(part) for name, part in parts.items()})

    def stop(self, node, frame, n_pass, part, entries):
        """Return [node, frame, pass, part, [name or operation, value, axes, ...]]."""
        if part == "draw" and n_pass in self.record.encoders:
            n_pass, part = n_pass + 1, "loop"  # an encoder draws no token
        place, found = self.record.frames[frame][1], []
        for key, value in numbered(entries):
            shape = self.record.shape(value)
            axes = self.known_axes.get((place, node, key), ())
            axes = axes if len(axes) == len(shape) else (None,) * len(shape)
            is_result = key[0] == entries[-1][0] and "list" not in self.values[value]
            if self.level < self.least(part, n_pass, is_result, bool(WIDE & {*axes})):
                self.keep(value, axes, self.lengths[n_pass])
            found += [key[0], value, axes]
        return [node, frame, n_pass, part, found]

    def least(self, part, n_pass, is_result, is_wide):
        """Return the least level at which an array is left out: see LIMITS."""
        if part in self.inner:
            return 1 if is_wide else 2
        is_left = isinstance(part, int) and not is_result and (is_wide or n_pass == 0)
        return 2 if is_left else 3 + (n_pass < 5)

    def keep(self, value, axes, length):
        """Keep the numbers of an array, or of the arrays in a list."""
        self.kept.setdefault(value, (axes, length))
        for part in self.values[value].get("list", []):
            self.keep(part, axes, length)

    def store(self, value, axes, length):
        """Store the numbers of an array: its type and its place in `arrays`."""
        x, place = self.record.values[value].get("array"), self.values[value]
        if x is None or x.ndim != len(axes) or "n_layer" in axes:
            return  # of the whole cache, each layer shows its part
        if axes[-1:] == ("n_vocab",):
            return place.update(self.rows_of(x, self.ids[length:][:1]))
        most = np.abs(x[np.isfinite(x)]).max(initial=0)
        is_wide = WIDE & {*axes} and most < np.finfo(np.float16).max
        kind = {"f": "f2" if is_wide else "f4", "b": "u1"}.get(x.dtype.kind, "i4")
        parts = x if axes[:1] == ("k|v",) else [x]  # keys and values are also shown alone
        place.update(type=kind, at=[self.add(kind, part) for part in parts])

    def rows_of(self, x, came):  # [..., n_vocab]
        """Store some numbers of each row: see rows.py."""
        rows = x.reshape(-1, x.shape[-1])
        chosen = [self.rows.choose(row, x.ndim > 1, came) for row in rows]
        ids = np.array([ids for _, ids in chosen])
        self.named |= {*ids.flat}
        at, place = [self.add("f4", np.take_along_axis(rows, ids, -1))], self.add("i4", ids)
        more = {"n": ids.shape[-1], "order": chosen[-1][0], "true": int(np.count_nonzero(x))}
        return {"type": "f4", "at": at, "ids": place} | more

    def add(self, kind, x):
        """Append numbers to those of a type. Return their place; equal numbers share one."""
        content = np.ravel(x).astype(f"<{kind}")
        key = kind, content.tobytes()
        if key not in self.stored:
            self.stored[key] = self.sizes[kind]
            self.sizes[kind] += content.size
            self.arrays[kind].append(content)
        return self.stored[key]
