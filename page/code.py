"""Make a page that steps through the code of a run, with the values of its names and operations.

    with recording(MODULES, model) as record:
        ...  # run a loop over a sequence
    page = code_html(record, tokenizer, sequence)

If the page would be too large, it has fewer numbers, and says so."""

import json
from pathlib import Path

import numpy as np

import generate
import gpt2
import samplers
import speculative
from loading.errors import UserError
from page.axes import axes_in
from page.pack import included, label, packed

MODULES = [gpt2, generate, samplers, speculative]
MOST_TOKENS = 64  # of a prompt
MOST_BYTES = 3_000_000
N_BEST = 10  # the page has this many tokens of a row over the vocabulary
WIDE = {"n_embd", "3 n_embd", "4 n_embd", "d_head"}  # arrays with these axes are stored in 16 bits


def check(model, n_prompt):
    """Raise UserError if the page cannot show a run of this model."""
    if type(model) is not gpt2.GPT2:
        raise UserError("--code steps through gpt2.py: this model has other code")
    if n_prompt > MOST_TOKENS:
        raise UserError(f"--code takes {MOST_TOKENS} tokens, not {n_prompt}: shorten the prompt")


def code_html(record, tokenizer, sequence) -> str:
    """Return the page as one string. Raises UserError if a page of MOST_BYTES is too small."""
    if not record.passes:
        raise UserError("--code steps through passes of the model: no new token, no pass")
    axes, inner = axes_in(MODULES), [*range(1, len(sequence.model.params["blocks"]) - 1)]
    for left_out, whole in ([], True), (inner, True), (inner, False):
        packing = Packing(record, axes, sequence, left_out, whole)
        data = {name: getattr(packing, name) for name in ("stops", "values", "left_out", "whole")}
        data |= {"nodes": record.nodes, "passes": record.passes, "goes_on": record.done}
        data |= {"callers": [caller for caller, _ in record.frames], "axes": [*packing.axes]}
        data |= {"files": {m.__name__: Path(str(m.__file__)).read_text("utf-8") for m in MODULES}}
        data |= {"n_prompt": sequence.n_prompt, "ids": sequence.ids}
        data |= {"labels": {int(id): label(tokenizer, id) for id in packing.best}}
        data |= {"pieces": [*map(tokenizer.stream().feed, sequence.ids)]}
        parts = {kind: joined(arrays, kind) for kind, arrays in packing.arrays.items()}
        parts["code"] = np.frombuffer(json.dumps(data).encode(), "u1")
        text = json.dumps({name: packed(part) for name, part in parts.items()})
        page = included("code/code.html").replace("<!-- data -->", text)
        if len(page) <= MOST_BYTES:
            return page
    size = f"{len(page) / 1e6:.1f} MB, and the most is {MOST_BYTES / 1e6:.0f}"
    raise UserError(f"the page would take {size}: shorten the prompt")


class Packing:
    """The data of a page. left_out: layers of which the page has only the shapes. whole: does it
    have all numbers of the layers in the first pass? Else only those that are a line's result."""

    def __init__(self, record, axes, sequence, left_out, whole):
        self.record, self.known_axes, self.left_out, self.whole = record, axes, left_out, whole
        self.ids, self.n_vocab = sequence.ids, sequence.model.n_vocab
        self.values = [{k: x[k] for k in x if k != "array"} for x in record.values]
        self.axes, self.stored = {}, {}  # axes -> their index; (type, bytes) -> their place
        self.arrays = {"f2": [], "f4": [], "i4": [], "u1": []}
        self.best = {*self.ids, *(id for *_, ids in record.passes for id in ids)}  # that are shown
        self.logits = np.zeros(self.n_vocab)  # the latest
        self.length = sequence.n_prompt  # of the text so far
        self.stops = [self.stop(s) for s in record.stops if s.n_pass < len(record.passes)]

    def stop(self, stop):
        """Return [node, frame, pass, part, [name or operation, value, axes, ...]]."""
        is_short = stop.n_pass == 0 and isinstance(stop.part, int) and not self.whole
        found = []
        for key, value in stop.entries:
            axes = self.axes_of(stop, key, value)
            is_result = key == stop.entries[-1][0] and "list" not in self.values[value]
            if stop.part not in self.left_out and (is_result or not is_short):
                self.keep(value, axes)
            found += [key, value, self.axes.setdefault(axes, len(self.axes))]
        _, function, kind, *_ = self.record.nodes[stop.node]
        self.length += (function, kind) == ("Sequence.append", "Return")
        return [*stop[:4], found]

    def axes_of(self, stop, key, value):
        """Return the names of an array's axes."""
        shape, (_, place) = self.record.shape(value), self.record.frames[stop.frame]
        axes = self.known_axes.get((place, stop.node, key), ())
        if not place and shape[-1:] == (self.n_vocab,):
            axes = *["n_new"] * len(shape[1:]), "n_vocab"
        return axes if len(axes) == len(shape) else (None,) * len(shape)

    def keep(self, value, axes):
        """Store the numbers of an array, or of the arrays in a list."""
        x, place = self.record.values[value].get("array"), self.values[value]
        if x is not None and "at" not in place and x.ndim == len(axes) and "n_layer" not in axes:
            place |= self.store(x, axes)  # but not the whole cache: each layer shows its part
        for part in place.get("list", []):
            self.keep(part, axes)

    def store(self, x, axes):
        """Store an array's numbers. Return their type and place."""
        if axes[-1:] == ("n_vocab",):
            return self.store_best(x)
        most = np.abs(x[np.isfinite(x)]).max(initial=0)
        is_wide = WIDE & {*axes} and most < np.finfo(np.float16).max
        kind = {"f": "f2" if is_wide else "f4", "b": "u1"}.get(x.dtype.kind, "i4")
        parts = x if axes[:1] == ("k|v",) else [x]  # keys and values are also shown alone
        return {"type": kind, "at": [self.add(kind, part) for part in parts]}

    def store_best(self, x):  # [..., n_vocab]
        """Store the N_BEST largest numbers of each row, and that of the text's next token. Of equal
        numbers, the one with the larger latest logit comes first. A running sum is shown where it
        grows most, in the order of the vocabulary."""
        found, is_sorted = [], False
        for row in x.reshape(-1, self.n_vocab).astype(float):
            is_sum = np.isfinite(row).all() and (row[1:] >= row[:-1]).all() and row[0] < row[-1]
            size = np.diff(row, prepend=0) if is_sum else row
            is_sorted = is_sorted or size[0] > size[-1] and (size[1:] <= size[:-1]).all()
            best = np.lexsort((-self.logits, -size))[: N_BEST + 1].tolist()
            if (came := self.ids[self.length :][:1]) and came[0] not in best:
                best[-1] = came[0]
            found.append(sorted(best) if is_sum else best)
            if x.dtype.kind == "f" and not is_sorted:
                self.logits = row
        ids = np.array(found)
        self.best |= {*ids.flat}
        numbers = np.take_along_axis(x.reshape(-1, self.n_vocab), ids, -1)
        place = {"type": "f4", "at": [self.add("f4", numbers)], "ids": self.add("i4", ids)}
        place |= {"n": ids.shape[-1], "sorted": bool(is_sorted), "sum": bool(is_sum)}
        return place | {"true": int(np.count_nonzero(x))}

    def add(self, kind, x):
        """Append numbers to those of a type. Return their place; equal numbers share one."""
        content = np.ravel(x).astype(f"<{kind}")
        key = kind, content.tobytes()
        if key not in self.stored:
            self.stored[key] = sum(x.size for x in self.arrays[kind])
            self.arrays[kind].append(content)
        return self.stored[key]


def joined(arrays, kind):
    """Return the stored numbers as one array. Of those of 16 bits, all low bytes come first, then
    all high bytes: this can be compressed better."""
    x = np.concatenate([np.empty(0, f"<{kind}"), *arrays])
    return x.view("u1").reshape(-1, 2).T.ravel() if kind == "f2" else x
