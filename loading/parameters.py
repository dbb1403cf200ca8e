"""Stored arrays -> a model's tree of parameters.

A tree of shapes looks like a model's tree of parameters, with a shape in the place of each array. A
name is a path in that tree, such as encoder.blocks.0.attn.q.w; checkpoints have another name for
each part of the path.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from loading.few_rows import Weight

Shapes = Any  # a tree of parameters with a shape, a tuple, in the place of every array
Params = Any  # the tree itself: dicts, lists of blocks, and float32 arrays
Tensors = dict[str, np.ndarray]  # arrays by the names of a file


def dense(n_in: int, n_out: int, bias: bool = True) -> dict:
    """The shapes of x @ w.T (+ b)."""
    return {"w": (n_out, n_in)} | ({"b": (n_out,)} if bias else {})


def tree_map(f: Callable[[str, tuple], Any], shapes: Shapes, name: str = "") -> Params:
    """A tree of shapes -> the same tree with f(name, shape) in the place of each shape."""
    if isinstance(shapes, tuple):
        return f(name, shapes)
    if isinstance(shapes, list):
        return [tree_map(f, part, f"{name}.{i}") for i, part in enumerate(shapes)]
    return {key: tree_map(f, part, f"{name}.{key}".lstrip(".")) for key, part in shapes.items()}


def n_parameters(tree: Params) -> int:
    """How many numbers a tree of parameters holds."""
    if isinstance(tree, dict | list):
        return sum(map(n_parameters, tree.values() if isinstance(tree, dict) else tree))
    return np.size(tree)


def rename(name: str, parts: dict[str, str]) -> str:
    """The name with each part replaced as the table says; "" leaves the part out."""
    return ".".join(filter(None, (parts.get(part, part) for part in name.split("."))))


def build_params(
    tensors: Tensors, shapes: Shapes, their_name: Callable[[str], str], transposed: bool = False
) -> Params:
    """Stored arrays -> the tree of parameters. ValueError unless the file has exactly the names and
    shapes of the tree. their_name(our name) -> the name in the file; transposed: the file has
    matrices as [n_in, n_out], and the tree has views of them, [n_out, n_in]."""
    wanted = list[str]()
    tree_map(lambda name, shape: wanted.append(their_name(name)), shapes)
    check_names(wanted, tensors)

    def parameter(name, shape):  # our name, our shape -> the array
        array = tensors[their_name(name)]
        if transposed and name.endswith(".w"):
            array = array.T
        if array.shape != shape:
            raise ValueError(f"{their_name(name)} has the shape {array.shape}, expected {shape}")
        return as_weight(array) if name.endswith((".w", "wte", "lm_head")) else array

    return tree_map(parameter, shapes)


def as_weight(array: np.ndarray) -> Weight:
    """The same numbers, fast to multiply with a few rows too."""
    return array.view(Weight)


def check_names(wanted: Iterable[str], found: Iterable[str]) -> None:
    """ValueError that lists the first names that are missing or not known."""
    wanted, found = set(wanted), set(found)
    for names, fault in ((wanted - found, "missing"), (found - wanted, "unknown")):
        if names:
            more = ", ..." if len(names) > 3 else ""
            raise ValueError(
                f"{len(names)} arrays are {fault}: {', '.join(sorted(names)[:3])}{more}"
            )


def without_padding(params: Params, n_tokens: int) -> Params:
    """The parameters without rows past the last token: vocabularies are often padded to a round
    number of rows, and an id without a token could be drawn, but not decoded."""
    rows = {
        name: as_weight(params[name][:n_tokens]) for name in ("wte", "lm_head") if name in params
    }
    if "logits_bias" in params:  # [1, n_vocab]
        rows["logits_bias"] = params["logits_bias"][:, :n_tokens]
    return params | rows


def is_tied(tensors: Tensors, expected: bool, embedding: str) -> bool:
    """Is the head the embedding? A stored copy of it is left out. A stored head that differs from
    it counts for more than config.json, as in transformers, and a note says so."""
    head = tensors.get("lm_head.weight")
    if not expected or head is None:
        return expected
    if np.array_equal(head, tensors[embedding]):
        del tensors["lm_head.weight"]
        return True
    note = "the file has a head of its own, which is used, though config.json says that it is tied"
    print(note, file=sys.stderr)
    return False
