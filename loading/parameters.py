"""Turns a checkpoint's arrays into a model's tree of parameters.

Each loader writes its family's layout: the tree, with the name and the shape that each array has in
the file, such as {"wte": ("wte.weight", 50257, 768), "ln_f": {"g": ("ln_f.weight", 768), ...}}.
"""

import sys
from typing import Any

import numpy as np

from families.few_rows import Weight
from loading.weights import DTYPES

Params = Any  # nested dicts, lists of blocks, and float32 arrays
Layout = Any  # the same tree, with names and shapes instead of arrays: see build_params


def linear(name: str, n_out: int, n_in: int, bias: bool = False) -> Layout:
    """Return the layout of a linear layer, w [n_out, n_in] and perhaps b [n_out]."""
    return {"w": (f"{name}.weight", n_out, n_in)} | ({"b": (f"{name}.bias", n_out)} if bias else {})


def norm(name: str, n: int, bias: bool = False) -> Layout:
    """Return the layout of a norm, g [n] and perhaps b [n]."""
    return {"g": (f"{name}.weight", n)} | ({"b": (f"{name}.bias", n)} if bias else {})


def attention(at: str, names: str, d: int, n_q: int, n_kv: int, bias: bool = False) -> Layout:
    """Return the layout of q, k, v and o. at, names: what begins and what ends their names."""
    q, k, v, o = [at + name for name in names.split()]
    layers = {"q": linear(q, n_q, d, bias), "k": linear(k, n_kv, d, bias)}
    return layers | {"v": linear(v, n_kv, d, bias), "o": linear(o, d, n_q, bias)}


def mlp(at: str, names: str, d: int, n_inner: int, bias: bool = False) -> Layout:
    """Return the layout of c_fc, perhaps gate, and c_proj, in this order in `names`."""
    *inner, c_proj = [at + name for name in names.split()]
    layers = {x: linear(name, n_inner, d, bias) for x, name in zip(("c_fc", "gate"), inner)}
    return layers | {"c_proj": linear(c_proj, d, n_inner, bias)}


def build_params(
    layout: Layout, tensors: dict[str, np.ndarray], transposed: bool = False
) -> Params:
    """Return the tree with the tensors, {name: array}, in their places. In a layout, (name, *shape)
    is an array, and (name, n_layer, block) a list of blocks with the names name.0.*, name.1.* ...
    transposed: the file's matrices w are [n_in, n_out]. Raises ValueError for an array that is
    missing, has another shape, or is not in the layout."""
    left = dict(tensors)

    def build(part, key="", prefix=""):
        match part:
            case dict():
                return {key: build(value, key, prefix) for key, value in part.items()}
            case (name, n_layer, dict(block)):
                return [build(block, "", f"{prefix}{name}.{i}.") for i in range(n_layer)]
        name, *shape = part
        swapped = transposed and key == "w"
        array = take(left, prefix + name, shape[::-1] if swapped else shape)
        array = array.T if swapped else array
        return array.view(Weight) if key in ("w", "wte", "lm_head") else array

    params = build(layout)
    if left:
        raise ValueError(f"config.json asks for no array {min(left)}")
    return params


def take(tensors: dict[str, np.ndarray], name: str, shape: list[int]) -> np.ndarray:
    """Remove an array from the tensors, and return it. Raises ValueError if it does not fit."""
    if name not in tensors:
        raise ValueError(f"the array {name} is missing, or is none of {', '.join(DTYPES)}")
    array = tensors.pop(name)
    if [*array.shape] != shape:
        raise ValueError(f"the array {name} has shape {[*array.shape]}, config.json says {shape}")
    return array


def embeddings(tensors: dict[str, np.ndarray], names: list[str], tied: bool, *shape) -> Layout:
    """Return the layout of the embedding and, if it is another matrix, of the head. A file has the
    embedding under some of these names or, if tied, under the head's. A tied head that differs is
    used, as in transformers, and a note says so. Raises ValueError if embeddings differ."""
    head, (first, *others) = "lm_head.weight", [name for name in names if name in tensors] or names
    if tied and head in tensors:
        if np.array_equal(tensors[head], tensors.setdefault(first, tensors[head])):
            del tensors[head]
        else:
            note = "note: the file's head is used, although config.json ties it to the embedding"
            print(note, file=sys.stderr)
    for name in others:
        if name in tensors and not np.array_equal(tensors.pop(name), tensors[first]):
            raise ValueError(f"{name} is not {first}: only one shared embedding is supported")
    layout = {"wte": (first, *shape)}
    return layout if tied and head not in tensors else layout | {"lm_head": (head, *shape)}


def drop_padding(params: Params, n_tokens: int) -> None:
    """Drop the rows that belong to no token. Embeddings are often padded to a round number of rows.
    An id without a token could be drawn, but not decoded."""
    for name in {"wte", "lm_head"} & params.keys():
        params[name] = params[name][:n_tokens].view(Weight)
    if "logits_bias" in params:  # [1, n_vocab]
        params["logits_bias"] = params["logits_bias"][:, :n_tokens]


def n_parameters(tree: Params) -> int:
    """Return how many numbers a tree of parameters contains."""
    if isinstance(tree, dict | list):
        return sum(map(n_parameters, tree.values() if isinstance(tree, dict) else tree))
    return np.size(tree)
