"""Moves a checkpoint's arrays, {name: array}, into a model's tree of parameters.

A reader lists its family's parameters as words. wpe=wpe.weight is an array, ours=theirs. A layer
attn.q=self_attn.q_proj is {"w": [n_out, n_in]}, and a norm is {"g": [d]}; with a + at the end, it
also has a bias b. Every array must be there, and have its shape in SHAPES. Embeddings are often
padded to a round number of rows. The rows after n_tokens belong to no token and are dropped: an id
without a token could be drawn, but not decoded.
"""

import sys
from typing import Any

import numpy as np

from families.few_rows import Weight
from loading.errors import UserError
from loading.weights import DTYPES

Params = Any  # nested dicts, lists of blocks, and float32 arrays
Tensors = dict[str, np.ndarray]
Sizes = dict[str, int]
SHAPES = {  # our name, or its last part -> its shape, in sizes that the reader knows; norms: d
    **{"wte": "n_vocab d", "lm_head": "n_vocab d", "wpe": "n_slots d", "logits_bias": "1 n_vocab"},
    **{"c_attn": "n_qkv d", "attn.c_proj": "d n_q", "relative_bias": "n_buckets n_head"},
    **{"q": "n_q d", "k": "n_kv d", "v": "n_kv d", "o": "d n_q", "q_norm": "q_norm"},
    **{"c_fc": "n_inner d", "gate": "n_inner d", "c_proj": "d n_inner", "k_norm": "k_norm"},
}
HEAD = "lm_head.weight"


def take(tensors: Tensors, words: str, sizes: Sizes, at: str = "", flip: bool = False) -> Params:
    """Move arrays from the tensors into a tree. words: their names, as above; at: what their names
    in the file begin with; flip: the file's matrices are [n_in, n_out]. Raises ValueError if an
    array is missing or has another shape, or if a call without `at`, the last one, leaves any."""
    params: Params = {}

    def put(place, name, *shape):  # the array `name`, of our shape, at "attn.q.w" in the tree
        if name not in tensors:
            if wrapped := [other for other in tensors if f".{at or name}" in other]:
                prefix = wrapped[0].partition(at or name)[0]
                remedy = "save the model inside the wrapper, or rename them without it"
                raise UserError(f"the arrays' names have a wrapper's prefix, {prefix}: {remedy}")
            raise ValueError(f"the array {name} is missing, or is none of {', '.join(DTYPES)}")
        shape = shape[::-1] if flip else shape  # as in the file
        if (array := tensors.pop(name)).shape != shape:
            found = f"the array {name} has shape {[*array.shape]}"
            raise ValueError(f"{found}, config.json says {[*shape]}")
        array = array.T if flip else array
        *path, last = place.split(".")
        node = params
        for part in path:
            node = node.setdefault(part, {})
        if last in ("wte", "lm_head"):
            array = array[: sizes["n_tokens"]]
        node[last] = array.view(Weight) if last in ("w", "wte", "lm_head") else array

    for word in words.split():
        ours, _, theirs = word.rstrip("+").partition("=")
        named = SHAPES.get(ours) or SHAPES.get(ours.rpartition(".")[2], "d")
        shape, name = [sizes[size] for size in named.split()], at + (theirs or ours)
        if name.endswith((".weight", "_bias")):
            put(ours, name, *shape)
        else:
            put(f"{ours}.{'gw'[len(shape) - 1]}", f"{name}.weight", *shape)
        if word.endswith("+"):
            put(f"{ours}.b", f"{name}.bias", shape[0])
    if tensors and not at:
        raise ValueError(f"config.json asks for no array {min(tensors)}")
    return params


def settle_embeddings(tensors: Tensors, names: list[str], tied: bool) -> str:
    """Call the embedding names[0]; return "lm_head=..." if the head is another matrix, else "". A
    file has the embedding under some of the names or, if tied, under the head's. A tied head that
    differs is used, as in transformers, and a note says so. ValueError if embeddings differ."""
    copies = [tensors.pop(name) for name in names if name in tensors]
    if tied and HEAD in tensors and (not copies or np.array_equal(tensors[HEAD], copies[0])):
        copies.append(tensors.pop(HEAD))
    elif tied and HEAD in tensors:
        note = "note: the file's head is used, although config.json ties it to the embedding"
        print(note, file=sys.stderr)
    if not all(np.array_equal(copies[0], copy) for copy in copies[1:]):
        raise ValueError(f"{' and '.join(names)} differ: only one shared embedding is supported")
    tensors |= dict(zip(names, copies[:1]))
    return "" if tied and HEAD not in tensors else f" lm_head={HEAD}"


def plain(tree: Params) -> Params:
    """Return a tree of parameters with NumPy's own arrays, whose `@` is NumPy's, too."""
    if isinstance(tree, dict):
        return {name: plain(part) for name, part in tree.items()}
    return [plain(part) for part in tree] if isinstance(tree, list) else np.asarray(tree)
