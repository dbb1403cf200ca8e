"""Loads GPT-2 from a folder in Hugging Face's layout."""

import math
from pathlib import Path

import numpy as np

from gpt2 import GPT2
from loading.config import activation, read_sizes
from loading.parameters import Params, settle_embeddings, take
from loading.weights import read_weights

WHOLE = "wte=wte.weight wpe=wpe.weight ln_f+"
BLOCK = "ln_1+ attn.c_attn+ attn.c_proj+ ln_2+ mlp.c_fc+ mlp.c_proj+"


def read_gpt2(folder: Path, config: dict, n_tokens: int) -> GPT2:
    """Return a GPT-2, such as distilgpt2 or stories, with n_tokens tokens. Raises ValueError."""
    keys = "vocab_size", "n_positions", "n_embd", "n_layer", "n_head"
    n_vocab, n_ctx, d, n_layer, n_head = read_sizes(config, *keys)
    if d % n_head:
        raise ValueError(f"n_embd = {d} is not a multiple of n_head = {n_head}")
    sizes = {"n_vocab": n_vocab, "n_slots": n_ctx, "d": d, "n_qkv": 3 * d, "n_q": d}
    sizes |= {"n_inner": config.get("n_inner") or 4 * d, "n_tokens": n_tokens}
    mask = ".attn.bias", ".attn.masked_bias"  # some files store the causal mask
    tensors = read_weights(folder, prefix="transformer.", unused=mask)
    head = settle_embeddings(tensors, ["wte.weight"], config.get("tie_word_embeddings", True))
    blocks = [take(tensors, BLOCK, sizes, f"h.{i}.", flip=True) for i in range(n_layer)]
    params = take(tensors, WHOLE + head, sizes) | {"blocks": blocks}
    scale_queries(params, n_head, config)
    model = GPT2(params, n_head)
    model.activation = activation(config.get("activation_function", "gelu_new"))
    model.eps = float(config.get("layer_norm_epsilon", 1e-5))
    return model


def scale_queries(params: Params, n_head: int, config: dict) -> None:
    """Scale the queries of a variant whose attention scores are not scaled as in gpt2.py."""
    n_embd = params["wte"].shape[1]
    for layer, block in enumerate(params["blocks"]):
        scale = 1 if config.get("scale_attn_weights", True) else math.sqrt(n_embd / n_head)
        scale /= layer + 1 if config.get("scale_attn_by_inverse_layer_idx") else 1
        if scale != 1:
            rows = np.repeat(np.array([scale, 1, 1], np.float32), n_embd)  # queries, keys, values
            c_attn = block["attn"]["c_attn"]
            block["attn"]["c_attn"] = {"w": c_attn["w"] * rows[:, None], "b": c_attn["b"] * rows}
