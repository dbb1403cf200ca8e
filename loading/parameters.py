"""Turns a checkpoint's arrays into a model's tree of parameters.

An array's name in the file gives its path in the tree, in different words: h.0.ln_1.weight becomes
params["blocks"][0]["ln_1"]["g"]. An array that the file lacks, such as a bias, is not in the tree.
"""

import math
import re
import sys
from typing import Any

import numpy as np

from loading.few_rows import Weight

Params = Any  # nested dicts, lists of blocks, and float32 arrays
OURS = re.compile(
    r"""(?x) ((en|de)coder\.)? (
        wte | wpe | lm_head | logits_bias | relative_bias | (ln_f | (embed_)?norm)\.[gb]
      | blocks\.\d+\. (ln_[12] | (attn | cross | mlp)(_post)?_norm | attn\.[qk]_norm)\.[gb]
      | blocks\.\d+\. (attn | cross | mlp)\. (c_attn | c_proj | c_fc | gate | [qkvo])\.[wb]
    )"""
)
LEAVES = r"\bbias$=b \b(w[tp]e|lm_head)\.w$=\1"  # renamings for every family: see build_params


def build_params(tensors: dict[str, np.ndarray], words: str, transposed: bool = False) -> Params:
    """Turn {"h.0.ln_1.weight": array} into {"blocks": {"0": {"ln_1": {"g": array}}}}. First, each
    `weight` becomes w, or g in a norm. words: further renamings, as patterns "THEIRS=OURS ...".
    transposed: the file's matrices are [n_in, n_out]. Raises ValueError for an unknown array."""
    tree: dict = {}
    pairs = [word.split("=") for word in f"{words} {LEAVES}".split()]
    for theirs, array in tensors.items():
        name = re.sub(r"\bweight$", "w" if array.ndim == 2 else "g", theirs)
        for pattern, ours in pairs:
            name = re.sub(pattern, ours, name)
        if not OURS.fullmatch(name):
            raise ValueError(f"the array {theirs} is not known")
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        array = array.T if transposed and last == "w" else array
        node[last] = array.view(Weight) if last in ("w", "wte", "lm_head") else array
    return tree


def list_blocks(stack: Params, n_layer: int) -> None:
    """Turn the dict of n_layer blocks, all of the same shapes, into a list. Raises ValueError."""
    blocks = [stack["blocks"][i] for i in sorted(stack["blocks"], key=int)]
    if len(blocks) != n_layer:
        raise ValueError(f"the file has {len(blocks)} layers, config.json says {n_layer}")
    for i, block in enumerate(blocks):
        if shapes(block) != shapes(blocks[0]):
            raise ValueError(f"the arrays of layer {i} are not like those of layer 0")
    stack["blocks"] = blocks


def shapes(tree: Params) -> list[tuple]:
    """Return a sorted list of the shapes of a tree's arrays."""
    if isinstance(tree, dict | list):
        parts = tree.values() if isinstance(tree, dict) else tree
        return sorted(shape for part in parts for shape in shapes(part))
    return [np.shape(tree)]


def n_parameters(tree: Params) -> int:
    """Return how many numbers a tree of parameters contains."""
    return sum(map(math.prod, shapes(tree)))


def settle_head(params: Params, tied: bool) -> None:
    """Drop a tied head (lm_head) if it equals the embedding. If it differs, keep it, as
    transformers does, and print a note. Raises ValueError if an untied head is missing."""
    if not tied and "lm_head" not in params:
        raise ValueError("the array lm_head.weight is missing")
    if tied and np.array_equal(params.get("lm_head"), params["wte"]):
        del params["lm_head"]
    elif tied and "lm_head" in params:
        note = "note: the file's head is used, although config.json ties it to the embedding"
        print(note, file=sys.stderr)


def drop_padding(params: Params, n_tokens: int) -> None:
    """Drop the rows that belong to no token. Embeddings are often padded to a round number of rows.
    An id without a token could be drawn, but not decoded."""
    for name in {"wte", "lm_head"} & params.keys():
        params[name] = params[name][:n_tokens].view(Weight)
    if "logits_bias" in params:  # [1, n_vocab]
        params["logits_bias"] = params["logits_bias"][:, :n_tokens]
