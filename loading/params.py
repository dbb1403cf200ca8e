"""Stored arrays -> a model's tree of parameters.

A tree of shapes looks like the tree of parameters in gpt2.py or seq2seq.py, with a shape for each
array. A name is a path in that tree, such as encoder.blocks.0.attn.q.w; checkpoints have another
name for each part of the path.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from loading.safetensors import check_names, float32

Shapes = Any  # a tree of parameters with a shape, a tuple, in the place of every array
Params = Any  # the tree itself: dicts, lists of blocks, and float32 arrays


def tree_map(f: Callable[[str, tuple], Any], shapes: Shapes, name: str = "") -> Params:
    """A tree of shapes -> the same tree with f(name, shape) in the place of each shape."""
    if isinstance(shapes, tuple):
        return f(name, shapes)
    if isinstance(shapes, list):
        return [tree_map(f, part, f"{name}.{i}") for i, part in enumerate(shapes)]
    return {key: tree_map(f, part, f"{name}.{key}".lstrip(".")) for key, part in shapes.items()}


def flatten(shapes: Shapes) -> dict[str, tuple]:
    """The tree as {name: shape}."""
    found: dict[str, tuple] = {}
    tree_map(found.__setitem__, shapes)
    return found


def rename(name: str, parts: dict[str, str]) -> str:
    """The name with each part replaced as the table says; "" leaves the part out."""
    return ".".join(filter(None, (parts.get(part, part) for part in name.split("."))))


def build_params(
    tensors: dict[str, np.ndarray], shapes: Shapes, their_name: Callable[[str], str] = str,
    transposed: bool = False,
) -> Params:  # fmt: skip
    """Stored arrays -> the tree of parameters, float32. ValueError unless they are exactly those of
    the tree. their_name(our name) -> the name in the file; transposed: the file holds matrices as
    [n_in, n_out]."""
    wanted = [their_name(name) for name in flatten(shapes)]
    check_names(wanted, tensors)

    def parameter(name, shape):  # our name, our shape -> float32 of this shape
        theirs = their_name(name)
        if transposed and name.endswith(".w"):
            return np.ascontiguousarray(float32(theirs, tensors[theirs], shape[::-1]).T)
        return float32(theirs, tensors[theirs], shape)

    return tree_map(parameter, shapes)


def without_padding(params: Params, n_tokens: int) -> Params:
    """The parameters without rows past the last token: vocabularies are often padded to a round
    number of rows, and an id without a token could be drawn, but not decoded."""
    rows = {name: params[name][:n_tokens] for name in ("wte", "lm_head") if name in params}
    if "logits_bias" in params:  # [1, n_vocab]
        rows["logits_bias"] = params["logits_bias"][:, :n_tokens]
    return params | rows
