"""GPT-2 from a folder in the layout of Hugging Face, or with random weights."""

import math
from pathlib import Path

import numpy as np

from encoder import Tokenizer
from gpt2 import GPT2
from loading.config import read_activation, read_count, read_eps, read_generation_config
from loading.params import Params, gpt2_shapes, build_params, rename, tree_map, without_padding
from loading.tokenizers import read_gpt2_tokenizer
from loading.weights import read_weights

NAMES = {  # blocks.0.ln_1.g -> h.0.ln_1.weight
    "blocks": "h", "g": "weight", "w": "weight", "b": "bias", "wte": "wte.weight",
    "wpe": "wpe.weight", "lm_head": "lm_head.weight",
}  # fmt: skip


def load_gpt2(folder: Path, config: dict) -> tuple[Tokenizer, GPT2]:
    """Any GPT-2 (gpt2, distilgpt2, our stories) -> (tokenizer, model). Raises ValueError."""
    n_head, sizes = read_sizes(config)
    n_inner = read_count(config, "n_inner", default=4 * sizes["n_embd"])
    activation, eps = read_activation(config, "gelu_new"), read_eps(config, 1e-5)
    tied = config.get("tie_word_embeddings", True)
    tensors = {
        name.removeprefix("transformer."): array
        for name, array in read_weights(folder).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # the causal mask
    }
    if tied:
        tensors.pop("lm_head.weight", None)  # a second copy of wte
    shapes = gpt2_shapes(**sizes, n_inner=n_inner, tied=tied)
    params = build_params(tensors, shapes, lambda name: rename(name, NAMES), transposed=True)
    scale_queries(params, n_head, config)
    tokenizer = read_gpt2_tokenizer(folder)
    params = without_padding(params, tokenizer.n_vocab)
    generation_config = read_generation_config(folder)
    stop_ids = read_stop_ids(config | generation_config, tokenizer, sizes["n_vocab"])
    model = GPT2(params, n_head, stop_ids, activation, eps)
    model.generation_config = generation_config
    return tokenizer, model


def read_sizes(config: dict) -> tuple[int, dict]:
    """config.json or hparams.json -> n_head, {n_vocab, n_ctx, n_embd, n_layer}, or ValueError."""
    n_head = read_count(config, "n_head")
    sizes: dict = {name: read_count(config, name) for name in ("n_embd", "n_layer")}
    for name, theirs in ("n_vocab", "vocab_size"), ("n_ctx", "n_positions"):
        sizes[name] = read_count(config, theirs if theirs in config else name)
    if sizes["n_embd"] % n_head:
        raise ValueError(f"n_embd = {sizes['n_embd']} is not a multiple of n_head = {n_head}")
    return n_head, sizes


def read_stop_ids(config: dict, tokenizer: Tokenizer, n_vocab: int) -> tuple[int, ...]:
    """eos_token_id, by default <|endoftext|>: an id, a list of ids, or none. n_vocab: the model's;
    no text can end with an id past it. ValueError for an id without a token."""
    ids = config.get("eos_token_id", tokenizer.end_of_text)
    ids = ids if isinstance(ids, list) else [ids]
    stop_ids = tuple(id for id in ids if type(id) is int and 0 <= id < n_vocab)
    if max(stop_ids, default=0) >= tokenizer.n_vocab:
        raise ValueError(f"eos_token_id = {ids} has no token, added_tokens.json may be missing")
    return stop_ids


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
        mean = 1 if name.endswith(".g") else 0
        return rng.normal(mean, scale, shape).astype(np.float32)

    return GPT2(tree_map(tensor, shapes), n_head)
