"""page/tree.py prints the trace of a beam search as a tree."""

import numpy as np

from decoding.beam import Candidate, beam_search
from page.tree import format_tree
from tests.support.tiny import FunctionModel


def candidate(letters, log_probability, status="kept"):
    return Candidate(0, tuple(map(ord, letters)), log_probability, status)


TRACE = [
    [candidate("a", -1.0), candidate("b", -2.0), candidate("c", -3.0, "dropped")],
    [candidate("ax", -1.5), candidate("a.", -2.0, "finished"), candidate("bx", -3.5)],
    [candidate("axy", -2.5), candidate("axz", -2.75)],
    [
        candidate("axy.", -3.0, "finished"),
        candidate("axyy", -3.25, "finished"),
        candidate("axz.", -4.0, "dropped"),
    ],
]


def test_beams_are_drawn_as_a_tree():
    """Tokens share a line until the beams branch. An x marks a beam that the search dropped."""
    lines = format_tree(TRACE, chr, [*map(ord, "axy.")]).split("\n")
    assert lines == [
        "├─ 'a' -1.00",
        "│  ├─ 'x' -1.50",
        "│  │  ├─ 'y' -2.50",
        "│  │  │  ├─ '.' -3.00  <- the best",
        "│  │  │  └─ 'y' -3.25  finished",
        "│  │  └─ 'z' -2.75  x",
        "│  └─ '.' -2.00  finished",
        "└─ 'bx' -3.50  x",
    ]


def test_one_beam_is_one_line():
    steps = [[candidate("a", -1.0)], [candidate("ab", -2.0, "finished")]]
    assert format_tree(steps, chr, [*map(ord, "ab")]) == "└─ 'ab' -2.00  <- the best"


def test_a_long_tree_needs_no_deep_recursion_and_fits_80_columns():
    logits, trace = np.log(np.array([0.6, 0.4], np.float32)), []
    model = FunctionModel(lambda ids: logits, n_vocab=2, n_ctx=1500)
    (found,) = beam_search(model, [0], 1400, 2, trace=trace)
    lines = format_tree(trace, str, found.ids).split("\n")
    assert len(found.ids) == 1400 and max(map(len, lines)) <= 80
    assert sum("<- the best" in line for line in lines) == 1
