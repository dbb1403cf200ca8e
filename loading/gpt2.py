"""GPT-2 from a folder in the layout of Hugging Face, or with random weights."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from gpt2 import GPT2
from loading.config import activation, read_generation_config, read_stop_ids
from loading.parameters import (
    Params, Shapes, as_weight, build_params, dense, is_tied, rename, tree_map, without_padding,
)  # fmt: skip
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

NAMES = {  # blocks.0.ln_1.g -> h.0.ln_1.weight
    "blocks": "h", "g": "weight", "w": "weight", "b": "bias", "wte": "wte.weight",
    "wpe": "wpe.weight", "lm_head": "lm_head.weight",
}  # fmt: skip


def load_gpt2(folder: Path, config: dict) -> tuple[Any, GPT2]:
    """Any GPT-2 (gpt2, distilgpt2, our stories) -> (tokenizer, model). Raises ValueError."""
    tensors = {
        name.removeprefix("transformer."): array
        for name, array in read_weights(folder).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # the causal mask
    }
    n_vocab, n_embd, n_head = config["vocab_size"], config["n_embd"], config["n_head"]
    if n_embd % n_head:
        raise ValueError(f"n_embd = {n_embd} is not a multiple of n_head = {n_head}")
    n_inner = config.get("n_inner") or 4 * n_embd
    tied = is_tied(tensors, config.get("tie_word_embeddings", True), "wte.weight")
    shapes = gpt2_shapes(n_vocab, config["n_positions"], n_embd, config["n_layer"], n_inner, tied)
    params = build_params(tensors, shapes, lambda name: rename(name, NAMES), transposed=True)
    scale_queries(params, n_head, config)

    tokenizer = read_tokenizer(folder, config["model_type"])
    generation_config = read_generation_config(folder)
    model = GPT2(
        without_padding(params, tokenizer.n_vocab),
        n_head,
        read_stop_ids(config | generation_config, tokenizer.end_of_text, n_vocab),
        activation(config.get("activation_function", "gelu_new")),
        float(config.get("layer_norm_epsilon", 1e-5)),
    )
    model.generation_config = generation_config
    return tokenizer, model


def gpt2_shapes(
    n_vocab: int, n_ctx: int, n_embd: int, n_layer: int, n_inner: int, tied: bool = True
) -> Shapes:
    """GPT-2's parameters as a tree of shapes."""
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


def scale_queries(params: Params, n_head: int, config: dict) -> None:
    """Variants that do not scale scores by 1/sqrt(d_head): fold the difference into the queries."""
    n_embd = params["wte"].shape[1]
    for layer, block in enumerate(params["blocks"]):
        scale = 1 if config.get("scale_attn_weights", True) else math.sqrt(n_embd / n_head)
        if config.get("scale_attn_by_inverse_layer_idx", False):
            scale /= layer + 1
        if scale != 1:
            rows = np.repeat(np.array([scale, 1, 1], np.float32), n_embd)  # queries, keys, values
            c_attn = block["attn"]["c_attn"]
            block["attn"]["c_attn"] = {"w": c_attn["w"] * rows[:, None], "b": c_attn["b"] * rows}


def random_gpt2(
    n_vocab: int, n_ctx: int, n_embd: int, n_layer: int, n_head: int, scale: float = 0.02,
    seed: int = 0, tied: bool = True,
) -> GPT2:  # fmt: skip
    """A GPT-2 with random weights, as slow as a trained one: drawn from N(0, scale), the gains of
    norms from N(1, scale)."""
    shapes = gpt2_shapes(n_vocab, n_ctx, n_embd, n_layer, 4 * n_embd, tied)
    rng = np.random.default_rng(seed)

    def tensor(name, shape):
        array = rng.normal(1 if name.endswith(".g") else 0, scale, shape).astype(np.float32)
        return as_weight(array) if len(shape) == 2 else array

    return GPT2(tree_map(tensor, shapes), n_head)
