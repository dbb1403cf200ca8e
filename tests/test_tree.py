"""terminal/tree.py: the trace of a beam search as lines."""

import numpy as np

from beam import Candidate, beam_search
from terminal.tree import format_tree
from tests.tiny import FunctionModel


def test_the_tree_of_beams():
    def c(letters, log_probability, status="kept"):
        return Candidate(0, tuple(map(ord, letters)), log_probability, status)

    trace = [
        [c("a", -1.0), c("b", -2.0), c("c", -3.0, "dropped")],
        [c("ax", -1.5), c("a.", -2.0, "finished"), c("bx", -3.5, "dropped")],
        [c("axy", -2.5), c("axz", -2.75)],
        [c("axy.", -3.0, "finished"), c("axyy", -3.25, "finished"), c("axz.", -4.0, "dropped")],
    ]
    winner = [*map(ord, "axy.")]
    lines = format_tree(trace, lambda ids: "".join(map(chr, ids)), winner).split("\n")
    assert lines == [
        "└─ 'b' -2.00",
        "'a' -1.00",
        "└─ '.' -2.00 finished",
        "'x' -1.50",
        "└─ 'z' -2.75",
        "'y' -2.50",
        "└─ '.' -3.00 finished, the best",
        "'y' -3.25 finished",
    ]


def test_a_long_tree_needs_no_deep_recursion():
    logits, trace = np.log(np.array([0.6, 0.4], np.float32)), []
    model = FunctionModel(lambda ids: logits, n_vocab=2, n_ctx=1500)
    (found,) = beam_search(model, [0], 1400, 2, trace=trace)
    lines = format_tree(trace, str, found.ids).split("\n")
    assert len(found.ids) == 1400 and max(map(len, lines)) == 80
    assert sum("finished, the best" in line for line in lines) == 1
