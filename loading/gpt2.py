"""GPT-2 from a folder in the layout of Hugging Face, or with random weights."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from gpt2 import GPT2
from loading.config import activation, read_generation_config, read_stop_ids
from loading.few_rows import Weight
from loading.parameters import Params, build_params, drop_padding, list_blocks, settle_head
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights


def load_gpt2(folder: Path, config: dict) -> tuple[Any, GPT2]:
    """Any GPT-2 (gpt2, distilgpt2, our stories) -> (tokenizer, model). Raises ValueError."""
    tensors = {
        name.removeprefix("transformer."): array
        for name, array in read_weights(folder).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # the causal mask
    }
    params = build_params(tensors, [(r"^h\b", "blocks")], transposed=True)
    list_blocks(params, config["n_layer"])
    settle_head(params, config.get("tie_word_embeddings", True))
    n_embd, n_head = params["wte"].shape[1], config["n_head"]
    if n_embd % n_head:
        raise ValueError(f"n_embd = {n_embd} is not a multiple of n_head = {n_head}")
    scale_queries(params, n_head, config)

    tokenizer = read_tokenizer(folder, "gpt2")
    drop_padding(params, tokenizer.n_vocab)
    settings = read_generation_config(folder)
    stop_ids = read_stop_ids(config | settings, tokenizer, len(params["wte"]))
    function = activation(config.get("activation_function", "gelu_new"))
    eps = float(config.get("layer_norm_epsilon", 1e-5))
    model = GPT2(params, n_head, stop_ids, function, eps)
    model.generation_config = settings
    return tokenizer, model


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
    rng = np.random.default_rng(seed)

    def array(*shape, mean=0):
        return rng.normal(mean, scale, shape).astype(np.float32)

    def dense(n_in, n_out):
        return {"w": array(n_out, n_in).view(Weight), "b": array(n_out)}

    def norm():
        return {"g": array(n_embd, mean=1), "b": array(n_embd)}

    def block():
        attn = {"c_attn": dense(n_embd, 3 * n_embd), "c_proj": dense(n_embd, n_embd)}
        mlp = {"c_fc": dense(n_embd, 4 * n_embd), "c_proj": dense(4 * n_embd, n_embd)}
        return {"ln_1": norm(), "attn": attn, "ln_2": norm(), "mlp": mlp}

    params = {"wte": array(n_vocab, n_embd).view(Weight), "wpe": array(n_ctx, n_embd)}
    params |= {"blocks": [block() for _ in range(n_layer)], "ln_f": norm()}
    params |= {} if tied else {"lm_head": array(n_vocab, n_embd).view(Weight)}
    return GPT2(params, n_head)
