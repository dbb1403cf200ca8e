"""Loads GPT-2 from a folder in Hugging Face's layout."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from gpt2 import GPT2
from loading.config import activation, read_ids, read_json, read_sizes
from loading.parameters import Params, build_params, drop_padding, embeddings, linear, mlp, norm
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights


def load_gpt2(folder: Path, config: dict) -> tuple[Any, GPT2]:
    """Return (tokenizer, model) for a GPT-2, such as distilgpt2 or stories. Raises ValueError."""
    mask = ".attn.bias", ".attn.masked_bias"  # some files store the causal mask
    params = gpt2_params(read_weights(folder, prefix="transformer.", unused=mask), config)
    [n_embd, n_head] = read_sizes(config, "n_embd", "n_head")
    if n_embd % n_head:
        raise ValueError(f"n_embd = {n_embd} is not a multiple of n_head = {n_head}")
    scale_queries(params, n_head, config)

    tokenizer = read_tokenizer(folder, "gpt2")
    drop_padding(params, tokenizer.n_vocab)
    function = activation(config.get("activation_function", "gelu_new"))
    model = GPT2(params, n_head, (), function, float(config.get("layer_norm_epsilon", 1e-5)))
    read_stop_ids(model, folder, config, tokenizer)
    return tokenizer, model


def gpt2_params(tensors: dict, config: dict) -> Params:
    """Return the parameters of a GPT-2 from its arrays, {name: array}. Raises ValueError."""
    keys = "vocab_size", "n_positions", "n_embd", "n_layer"
    n_vocab, n_ctx, d, n_layer = read_sizes(config, *keys)
    n_inner, tied = config.get("n_inner") or 4 * d, config.get("tie_word_embeddings", True)
    attn = {"c_attn": linear("attn.c_attn", 3 * d, d, True)}
    attn |= {"c_proj": linear("attn.c_proj", d, d, True)}
    block = {"attn": attn, "mlp": mlp("mlp.", "c_fc c_proj", d, n_inner, True)}
    block |= {name: norm(name, d, True) for name in ("ln_1", "ln_2")}
    layout = embeddings(tensors, ["wte.weight"], tied, n_vocab, d)
    layout |= {"wpe": ("wpe.weight", n_ctx, d), "ln_f": norm("ln_f", d, True)}
    return build_params(layout | {"blocks": ("h", n_layer, block)}, tensors, transposed=True)


def read_stop_ids(model: Any, folder: Path, config: dict, tokenizer: Any) -> None:
    """Set the model's generation_config, or else config, and stop_ids: eos_token_id or else
    <|endoftext|>."""
    settings = read_json(folder / "generation_config.json", optional=True) or config
    ids = read_ids(config | settings, "eos_token_id", model.n_vocab, tokenizer.end_of_text)
    model.generation_config, model.stop_ids = settings, tuple(ids)


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
