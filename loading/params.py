"""Stored arrays -> a model's tree of parameters.

A tree of shapes looks like the tree of parameters in gpt2.py or seq2seq.py, with a shape for each
array. A name is a path in that tree, such as encoder.blocks.0.attn.q.w; checkpoints have another
name for each part of the path.
"""

from collections.abc import Callable, Iterable
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


def gpt2_shapes(
    n_vocab: int, n_ctx: int, n_embd: int, n_layer: int, n_inner: int, tied: bool = True
) -> Any:
    """The tree of parameters, with a shape in the place of each array."""

    def dense(n_in, n_out):  # x [..., n_in] -> x @ w.T + b [..., n_out]
        return {"w": (n_out, n_in), "b": (n_out,)}

    norm = {"g": (n_embd,), "b": (n_embd,)}
    block = {
        "ln_1": norm,
        "attn": {"c_attn": dense(n_embd, 3 * n_embd), "c_proj": dense(n_embd, n_embd)},
        "ln_2": norm,
        "mlp": {"c_fc": dense(n_embd, n_inner), "c_proj": dense(n_inner, n_embd)},
    }
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    embeddings = {"wte": (n_vocab, n_embd), "wpe": (n_ctx, n_embd)}
    return {**embeddings, "blocks": [block] * n_layer, "ln_f": norm, **head}


def llama_shapes(
    n_vocab: int, n_embd: int, n_layer: int, n_inner: int, n_head: int, n_kv_head: int, d_head: int,
    tied: bool = False, biases: str = "", norms: Iterable[str] = ("attn_norm", "mlp_norm"),
    qk_norm: str = "",
) -> Any:  # fmt: skip
    """The tree of parameters, with a shape in the place of each array.

    biases: which of the matrices "qkvo" have one, and with "m" those of the MLP; norms: of a block;
    qk_norm: queries and keys have a norm, "head" for each head, "all" for all heads together.
    """

    def dense(n_in, n_out, name):  # x [..., n_in] -> x @ w.T (+ b) [..., n_out]
        return {"w": (n_out, n_in)} | ({"b": (n_out,)} if name in biases else {})

    n_q, n_kv, norm = n_head * d_head, n_kv_head * d_head, {"g": (n_embd,)}
    attn = {"q": dense(n_embd, n_q, "q"), "k": dense(n_embd, n_kv, "k"),
            "v": dense(n_embd, n_kv, "v"), "o": dense(n_q, n_embd, "o")}  # fmt: skip
    if qk_norm:
        q_size, k_size = (n_q, n_kv) if qk_norm == "all" else (d_head, d_head)
        attn |= {"q_norm": {"g": (q_size,)}, "k_norm": {"g": (k_size,)}}
    mlp = {"c_fc": dense(n_embd, n_inner, "m"), "gate": dense(n_embd, n_inner, "m"),
           "c_proj": dense(n_inner, n_embd, "m")}  # fmt: skip
    block = {"attn": attn, "mlp": mlp} | dict.fromkeys(norms, norm)
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    return {"wte": (n_vocab, n_embd), "blocks": [block] * n_layer, "norm": norm, **head}


def n_parameters(tree: Any) -> int:
    """How many numbers a tree of parameters holds."""
    if isinstance(tree, dict | list | tuple):
        return sum(map(n_parameters, tree.values() if isinstance(tree, dict) else tree))
    return np.size(tree)
