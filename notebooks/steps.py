"""Read what the first page shows out of the ready pages: stops of a run, and a story's words."""

import base64
import json
import re
import zlib
from html import unescape
from math import prod

import numpy as np

DATA = re.compile(r'<script id="data" type="application/json">(.+?)</script>', re.DOTALL)
SOURCE = re.compile(r'<pre id="(.+?)">\n(.+?)</pre>', re.DOTALL)


def pieces(page):  # the page of a text -> the texts of its tokens
    return json.loads(DATA.search(page)[1])["pieces"]


class Steps:
    """A page that steps through code: see `about` in page/code.py.

    A stop is [node, frame, pass, part, [name or operation, value, axes, ...]], a node is [file,
    function, kind, line, ...], and the last value of a stop is its result."""

    def __init__(self, page):
        packed = json.loads(DATA.search(page)[1])
        self.raw = {kind: zlib.decompress(base64.b64decode(x)) for kind, (_, x) in packed.items()}
        halves = np.frombuffer(self.raw["f2"], "u1").reshape(2, -1)  # low bytes, then high bytes
        self.raw["f2"] = halves.T.tobytes()
        self.data = json.loads(self.raw["code"])
        self.lines = {name: unescape(text).split("\n") for name, text in SOURCE.findall(page)}
        self.nodes = [self.data["nodes"][node] for node, *_ in self.data["stops"]]

    def functions(self):  # yields each function and the address of its first stop
        for function in dict.fromkeys(name for _, name, *_ in self.nodes):
            yield function, self.address([name for _, name, *_ in self.nodes].index(function))

    def address(self, i):
        """Return the end of a link that leads to a stop: its pass, part, and place in the part."""
        places = [(stop[2] + 1, stop[3]) for stop in self.data["stops"][: i + 1]]
        return "#pass={}&part={}&line={}".format(*places[-1], places.count(places[-1]))

    def shown(self, line, nth=0):
        """Return what the first page shows of the nth stop at the line that begins so: the lines
        from the function's first one on, and the result's rows, with a label and numbers each."""
        sources = [self.lines[file][at - 1] for file, _, _, at, *_ in self.nodes]
        i = [i for i, source in enumerate(sources) if source.strip().startswith(line)][nth]
        file, function, _, last, *_ = self.nodes[i]
        _, _, n_pass, _, entries = self.data["stops"][i]
        lines = [*enumerate(self.lines[file][:last], 1)]
        first = max(k for k, text in lines if text.startswith("def "))
        result = self.data["values"][entries[-2]]
        ids, rows = self.data["passes"][n_pass][2], self.numbers(result)
        if "ids" in result:  # a score for each token of the vocabulary: one row for each token
            ids, rows = self.read("i4", result["ids"], rows.size), rows.T
        labels = [self.data["labels"][str(id)] for id in ids]
        return {"file": file, "function": function, "lines": lines[first - 1 :], "ids": [*ids],
                "shape": result["shape"], "rows": [*zip(labels, rows.tolist())],
                "at": self.address(i)}  # fmt: skip

    def numbers(self, value):  # -> [n_rows, n], where a row over the vocabulary has n numbers
        *rows, n = value["shape"]
        n = value.get("n", n)
        return self.read(value["type"], value["at"][0], prod(rows) * n).reshape(-1, n)

    def read(self, kind, at, size):
        return np.frombuffer(self.raw[kind], kind)[at : at + size]
