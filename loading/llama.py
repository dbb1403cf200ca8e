"""Llama and its relatives from a folder in the layout of Hugging Face.

Sources: the names, defaults and rules of configuration_*.py and modeling_*.py of transformers 5.23.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from llama import Llama, llama3_frequencies, rotary_frequencies
from loading.config import activation, read_generation_config, read_stop_ids
from loading.parameters import (
    Shapes, Tensors, build_params, dense, is_tied, rename, without_padding,
)  # fmt: skip
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False}
QWEN = {
    "num_key_value_heads": 32, "use_sliding_window": False, "sliding_window": 4096,
    "max_window_layers": 28,
}  # fmt: skip
GEMMA = {
    "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
    "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": None,
}  # fmt: skip
AROUND = {"norms": ("attn_norm", "attn_post_norm", "mlp_norm", "mlp_post_norm")}
FAMILIES: dict[str, tuple[dict, dict]] = {
    # model_type -> values of the keys that config.json leaves out, arguments of llama_shapes
    "llama": ({}, {}),
    "mistral": ({"num_key_value_heads": 8, "sliding_window": 4096}, {}),
    "qwen2": (QWEN, {"biases": "qkv"}),
    "qwen3": (QWEN | {"head_dim": 128}, {"qk_norm": "head"}),
    "smollm3": ({"num_key_value_heads": 4, "use_sliding_window": False, "rope_theta": 2e6,
                 "no_rope_layer_interval": 4, "tie_word_embeddings": True}, {}),
    "olmo2": ({"rms_norm_eps": 1e-5},
              {"norms": ("attn_post_norm", "mlp_post_norm"), "qk_norm": "all"}),
    "gemma2": (GEMMA | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}, AROUND),
    "gemma3_text": (GEMMA | {"rope_theta": 1e6, "rope_local_base_freq": 1e4,
                             "sliding_window_pattern": 6}, AROUND | {"qk_norm": "head"}),
}  # fmt: skip
NAMES = {  # blocks.0.attn.q.w -> layers.0.self_attn.q_proj.weight
    "wte": "embed_tokens.weight", "lm_head": "lm_head.weight", "blocks": "layers",
    "attn": "self_attn", "q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj",
    "c_fc": "gate_proj", "gate": "up_proj", "c_proj": "down_proj",  # act(gate_proj x) * up_proj x
    "attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm",
    "g": "weight", "w": "weight", "b": "bias",
}  # fmt: skip
POST_NAMES = {  # where sublayers have norms after them, the same name is that of another norm
    "attn_post_norm": "post_attention_layernorm", "mlp_norm": "pre_feedforward_layernorm",
    "mlp_post_norm": "post_feedforward_layernorm",
}  # fmt: skip


def load_llama(folder: Path, config: dict) -> tuple[Any, Llama]:
    """A model of one of these families -> (tokenizer, model). Raises ValueError."""
    tokenizer = read_tokenizer(folder, config["model_type"])
    model = read_llama(folder, config, tokenizer.n_vocab)
    model.generation_config = read_generation_config(folder)
    settings, n_vocab = config | model.generation_config, config["vocab_size"]
    model.stop_ids = read_stop_ids(settings, tokenizer.end_of_text, n_vocab)
    return tokenizer, model


def read_llama(folder: Path, config: dict, n_tokens: int) -> Llama:
    """The model without its tokenizer, which has n_tokens: rows of the embedding past them are left
    out. Raises ValueError."""
    family = config["model_type"]
    defaults, parts = FAMILIES[family]
    config = DEFAULTS | defaults | config
    for key in ("quantization_config", "use_bidirectional_attention", "partial_rotary_factor"):
        if config.get(key) not in (None, False, 1.0):
            raise ValueError(f"{key} is not supported")
    tensors = read_tensors(folder, is_gemma=family.startswith("gemma"))
    tied = is_tied(tensors, config["tie_word_embeddings"], "embed_tokens.weight")
    biases = "qkvo" * bool(config.get("attention_bias")) + "m" * bool(config.get("mlp_bias"))
    shapes = llama_shapes(**read_sizes(config), tied=tied, **{"biases": biases} | parts)
    names = NAMES | (POST_NAMES if "attn_post_norm" in shapes["blocks"][0] else {})
    params = build_params(tensors, shapes, lambda name: rename(name, names))
    params = without_padding(params, n_tokens)
    n_head, n_ctx = config["num_attention_heads"], config["max_position_embeddings"]
    return Llama(params, n_head, n_ctx, **read_settings(config))


def read_sizes(config: dict) -> dict:
    """The numbers that llama_shapes takes. Raises ValueError."""
    n_embd, n_head = config["hidden_size"], config["num_attention_heads"]
    sizes = {
        "n_vocab": config["vocab_size"], "n_embd": n_embd, "n_layer": config["num_hidden_layers"],
        "n_inner": config["intermediate_size"], "n_head": n_head,
        "n_kv_head": config.get("num_key_value_heads") or n_head,
        "d_head": config.get("head_dim") or n_embd // n_head,
    }  # fmt: skip
    if n_head % sizes["n_kv_head"] or sizes["d_head"] % 2:
        raise ValueError("{n_head} heads of {d_head} cannot share {n_kv_head}".format(**sizes))
    return sizes


def llama_shapes(
    n_vocab: int, n_embd: int, n_layer: int, n_inner: int, n_head: int, n_kv_head: int, d_head: int,
    tied: bool = False, biases: str = "", norms: Iterable[str] = ("attn_norm", "mlp_norm"),
    qk_norm: str = "",
) -> Shapes:  # fmt: skip
    """Llama's parameters as a tree of shapes.

    biases: which of the matrices "qkvo" have one, and with "m" those of the MLP; norms: of a block;
    qk_norm: queries and keys have a norm, "head" for each head, "all" for all heads together.
    """
    n_q, n_kv, norm = n_head * d_head, n_kv_head * d_head, {"g": (n_embd,)}
    attn = {name: dense(n_embd, n_q if name == "q" else n_kv, name in biases) for name in "qkv"}
    attn |= {"o": dense(n_q, n_embd, "o" in biases)}
    if qk_norm:
        q_size, k_size = (n_q, n_kv) if qk_norm == "all" else (d_head, d_head)
        attn |= {"q_norm": {"g": (q_size,)}, "k_norm": {"g": (k_size,)}}
    mlp = {name: dense(n_embd, n_inner, "m" in biases) for name in ("c_fc", "gate")}
    mlp |= {"c_proj": dense(n_inner, n_embd, "m" in biases)}
    block = {"attn": attn, "mlp": mlp} | dict.fromkeys(norms, norm)
    head = {} if tied else {"lm_head": (n_vocab, n_embd)}  # tied: the head is wte
    return {"wte": (n_vocab, n_embd), "blocks": [block] * n_layer, "norm": norm, **head}


def read_tensors(folder: Path, is_gemma: bool) -> Tensors:
    """The folder's weights -> {name: array}, those that are used. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_weights(folder).items()
        if not name.endswith("rotary_emb.inv_freq")
    }
    if is_gemma:  # stores g - 1
        norms = {name for name in tensors if name.endswith("norm.weight")}
        tensors |= {name: tensors[name] + np.float32(1) for name in norms}
    return tensors


def read_settings(config: dict) -> dict:
    """The other arguments of Llama. Raises ValueError."""
    types = read_layer_types(config)
    settings: dict = {
        "frequencies": read_frequencies(config, types),
        "windows": read_windows(config, types),
        "activation": activation(config.get("hidden_act", "silu")),
        "eps": float(config["rms_norm_eps"]),
    }
    if not config["model_type"].startswith("gemma"):
        return settings
    is_2 = config["model_type"] == "gemma2"  # Gemma 3's code ignores the first cap
    return settings | {
        "activation": activation(config["hidden_activation"]),
        "scale": 1 / math.sqrt(config["query_pre_attn_scalar"]),
        "embed_scale": math.sqrt(config["hidden_size"]),
        "caps": (config["attn_logit_softcapping"] if is_2 else None,
                 config["final_logit_softcapping"]),
    }  # fmt: skip


def read_layer_types(config: dict) -> list[str]:
    """For each layer, whether it sees a window of the last tokens, sliding_attention, or all,
    full_attention. Raises ValueError."""
    types, n_layer = config.get("layer_types"), config["num_hidden_layers"]
    if types is None:
        types = [["full_attention", "sliding_attention"][slides(config, i)] for i in range(n_layer)]
    if len(types) != n_layer or {*types} - {"full_attention", "sliding_attention"}:
        raise ValueError(f"layer_types = {types!r:.200}")
    return types


def slides(config: dict, layer: int) -> bool:
    """Has this layer a sliding window, where layer_types is absent?"""
    match config["model_type"]:
        case "mistral":
            return True
        case "qwen2" | "qwen3":
            return layer >= config["max_window_layers"]
        case "smollm3":
            return not rotates(config, layer)
        case "gemma2":
            return layer % 2 == 0
        case "gemma3_text":
            return (layer + 1) % config["sliding_window_pattern"] != 0
    return False


def read_windows(config: dict, types: list[str]) -> list[int | None]:
    """For each layer its window in tokens, or None."""
    # Qwen and SmolLM3 have the key use_sliding_window; the others ignore it.
    is_used = "use_sliding_window" not in FAMILIES[config["model_type"]][0]
    window = config.get("sliding_window") if is_used or config["use_sliding_window"] else None
    return [window if kind == "sliding_attention" else None for kind in types]


def rotates(config: dict, layer: int) -> bool:
    """Has this layer rotary positions? In SmolLM3 every fourth has none."""
    if config["model_type"] != "smollm3":
        return True
    listed = config.get("no_rope_layers")  # 1 where a layer has them, in spite of the name
    return bool(listed[layer] if listed else (layer + 1) % config["no_rope_layer_interval"])


def read_frequencies(config: dict, types: list[str]) -> list[np.ndarray | None]:
    """For each layer the frequencies of its rotary positions, or None. Raises ValueError."""
    by_type = {kind: type_frequencies(config, kind) for kind in set(types)}
    return [by_type[kind] if rotates(config, i) else None for i, kind in enumerate(types)]


def type_frequencies(config: dict, kind: str) -> np.ndarray:
    """The frequencies of layers of one type, from rope_parameters, as transformers 5 writes them
    (for Gemma 3: by type of layer), or rope_theta and rope_scaling. Raises ValueError."""
    is_local = kind == "sliding_attention" and "rope_local_base_freq" in config  # in Gemma 3
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if is_local or kind in rope:
        rope = rope.get(kind) or {}
    if rope.get("partial_rotary_factor") not in (None, 1.0):
        raise ValueError("partial_rotary_factor is not supported")
    theta = rope.get("rope_theta", config["rope_local_base_freq" if is_local else "rope_theta"])
    d_head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    match rope.get("rope_type", rope.get("type", "default")):
        case "default":
            return rotary_frequencies(d_head, theta)
        case "linear":
            return rotary_frequencies(d_head, theta, rope["factor"])
        case "llama3":
            n_old = rope.get("original_max_position_embeddings", config["max_position_embeddings"])
            factors = (rope[key] for key in ("factor", "low_freq_factor", "high_freq_factor"))
            return llama3_frequencies(rotary_frequencies(d_head, theta), *factors, n_old)
        case name:
            raise ValueError(f"rope_type is {name}, known are default, linear, llama3")
