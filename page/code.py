"""Make a page that steps through the code of a run, with the values of names and operations."""

import json
from html import escape
from pathlib import Path

import numpy as np

import generate
import gpt2
import samplers
import speculative
from loading.errors import UserError
from page.axes import axes_in
from page.pack import included, label, packed
from page.rows import Rows
from page.trace import recording

MODULES = [gpt2, generate, samplers, speculative]
MOST_TOKENS = 64  # of a prompt
MOST_BYTES, SMALL = 3_000_000, 500_000  # of a page in a file, and in a notebook
WIDE = {"n_embd", "3 n_embd", "4 n_embd", "d_head"}  # arrays with these axes are stored in 16 bits

LIMITS = [  # what is left out of a page that would be too large, at each level of Packing
    "",
    "Wide arrays inside a line are left out, except in the first and the last layer.",
    "Wide arrays are left out, except in the first and the last layer.",
    "Wide arrays are left out, except in the first and the last layer. In the layers of the first "
    "pass, only what a line computes is kept.",
]


def stepping(model, n_prompt):
    """Return `recording` for a run of a GPT-2. Raises UserError if it cannot be shown."""
    if type(model) is not gpt2.GPT2:
        raise UserError("--code steps through gpt2.py: this model has other code")
    if n_prompt > MOST_TOKENS:
        raise UserError(f"--code takes {MOST_TOKENS} tokens, not {n_prompt}: shorten the prompt")
    return recording(MODULES, model)


def code_html(record, tokenizer, sequence, most=MOST_BYTES) -> str:
    """Return the page as one string. Raises UserError if it cannot be kept below `most` bytes."""
    if not record.passes:
        raise UserError("--code steps through passes of the model: no new token, no pass")
    axes, inner = axes_in(MODULES), [*range(1, len(sequence.model.params["blocks"]) - 1)]
    for level in range(len(LIMITS)):
        packing = Packing(record, axes, sequence, inner, level)
        data = {name: getattr(packing, name) for name in ("stops", "values")}
        data["limits"] = LIMITS[level]
        data |= {"nodes": record.nodes, "passes": record.passes, "ids": sequence.ids}
        data |= {"n_prompt": sequence.n_prompt, "callers": [x for x, _ in record.frames]}
        data["labels"] = {int(id): label(tokenizer, id) for id in packing.named}
        parts = {t: np.concatenate([np.empty(0, f"<{t}"), *x]) for t, x in packing.arrays.items()}
        parts["f2"] = parts["f2"].view("u1").reshape(-1, 2).T.ravel()  # low bytes first: smaller
        parts["code"] = np.frombuffer(json.dumps(data).encode(), "u1")
        text = json.dumps({name: packed(part) for name, part in parts.items()})
        page = included("code/code.html").replace("<!-- data -->", text)
        page = page.replace("<!-- files -->", "".join(map(source_of, MODULES)))
        if len(page) <= most:
            return page
    raise UserError(f"the page would take {len(page) / 1e6:.1f} MB: shorten the prompt")


def source_of(module):  # in HTML, so that it can be read without JavaScript
    text = escape(Path(str(module.__file__)).read_text("utf-8"))
    return f'<h2>{module.__name__}.py</h2>\n<pre id="{module.__name__}">\n{text}</pre>\n'


class Packing:
    """The data of a page. inner: the layers but the first and the last. level: how much is left
    out. 0: nothing; 1: in inner layers, wide arrays that are no line's result; 2: all their wide
    arrays; 3: also, in the first pass, all arrays in layers that are no line's result."""

    def __init__(self, record, axes, sequence, inner, level):
        self.record, self.known_axes, self.inner, self.level = record, axes, inner, level
        self.ids, self.n_vocab = sequence.ids, sequence.model.n_vocab
        self.values = [{k: x[k] for k in x if k != "array"} for x in record.values]
        self.stored, self.kept = {}, {}  # see add, keep
        self.arrays = {"f2": [], "f4": [], "i4": [], "u1": []}
        self.named = {*self.ids, *(id for *_, ids in record.passes for id in ids)}
        self.length = sequence.n_prompt  # the text's
        self.stops = [self.stop(*s) for s in record.stops if s[2] < len(record.passes)]
        arrays = [record.values[value].get("array") for value in sorted(self.kept)]
        is_row = [x is not None and x.shape[-1:] == (self.n_vocab,) for x in arrays]
        self.rows = Rows([x for x, fits in zip(arrays, is_row) if fits])
        for value, how in sorted(self.kept.items()):  # in the order in which they were computed
            self.store(value, *how)

    def stop(self, node, frame, n_pass, part, entries):
        """Return [node, frame, pass, part, [name or operation, value, axes, ...]]."""
        found, file, place = [], self.record.nodes[node][0], self.record.frames[frame][1]
        for key, value in entries:
            shape = self.record.shape(value)
            axes = self.known_axes.get((place, node, key), ())
            if not place and shape[-1:] == (self.n_vocab,):  # outside of a pass
                axes = *["last" if file == "generate" else "n_new"] * len(shape[1:]), "n_vocab"
            axes = axes if len(axes) == len(shape) else (None,) * len(shape)
            is_result = key == entries[-1][0] and "list" not in self.values[value]
            least = 2 if part in self.inner and WIDE & {*axes} else 4  # the first level without it
            if not is_result and isinstance(part, int):
                least = min(least - 1, 4 if n_pass else 3)
            if self.level < least:
                self.keep(value, axes)
            found += [key, value, axes]
        self.length += self.record.nodes[node][1:3] == ["Sequence.append", "Return"]
        return [node, frame, n_pass, part, found]

    def keep(self, value, axes):
        """Keep the numbers of an array, or of the arrays in a list. (The length is the text's.)"""
        self.kept.setdefault(value, (axes, self.length))
        for part in self.values[value].get("list", []):
            self.keep(part, axes)

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
            self.stored[key] = sum(x.size for x in self.arrays[kind])
            self.arrays[kind].append(content)
        return self.stored[key]
