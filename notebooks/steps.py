"""Run pico.forward and read ready pages, for what the site shows of them."""

import base64
import json
import re
import sys
import zlib
from inspect import getsourcelines
from linecache import getline
from pathlib import Path

sys.path.append(f"{Path(__file__).resolve().parent.parent}")
from page.pack import label
from page.sources import files_of
from page.trace import recording
from pico import forward, load

DATA = re.compile(r'<script id="data" type="application/json">(.+?)</script>', re.DOTALL)


def data_of(page):
    return json.loads(DATA.search(page)[1])


def functions(page):  # a page that steps through code -> the functions in which it stops
    code = json.loads(zlib.decompress(base64.b64decode(data_of(page)["code"][1])))
    return {code["nodes"][node][1] for node, *_ in code["stops"]}


class Steps:
    """A run of pico.forward, which adds one token to a prompt. record: see page/trace.py."""

    def __init__(self, prompt):
        self.tokenizer, model = load("stories", forward.gpt2)
        self.ids = self.tokenizer.encode(prompt)
        with recording(files_of()) as self.record:
            list(forward.generate(model, self.ids, 1))

    def shown(self, line, nth=0):
        """Return what the first page shows of the nth stop at the line that begins so: the lines
        from the function's first one on, and the result's rows, with a label and numbers each."""
        stops = [(self.record.nodes[node], entries) for node, *_, entries in self.record.stops]
        stops = [x for x in stops if line in getline(forward.__file__, x[0][3])]
        (_, function, _, last, *_), entries = stops[nth]
        lines, first = getsourcelines(getattr(forward, function))
        lines = [(n, text.rstrip()) for n, text in enumerate(lines, first) if n <= last]
        ids, rows = self.ids, self.record.values[entries[-1][1]]["array"]
        shape = [*rows.shape]
        if rows.ndim == 1:  # a score for each token of the vocabulary: one row for each token
            ids = rows.argsort()[::-1][:5]
            rows = rows[ids, None]
        labelled = [(label(self.tokenizer, id), row.tolist()) for id, row in zip(ids, rows)]
        return {"function": function, "lines": lines, "shape": shape, "rows": labelled}
