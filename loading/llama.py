"""Loads Llama and its relatives from a folder in Hugging Face's layout.

Names, defaults and rules follow configuration_*.py and modeling_*.py of transformers 5.23.
"""

import math
from pathlib import Path

import numpy as np

from families.llama import Llama, llama3_frequencies, rotary_frequencies
from loading.config import activation, read_sizes
from loading.parameters import settle_embeddings, take
from loading.weights import read_weights

DEFAULTS: dict = {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False}
DEFAULTS |= {"head_dim": None, "num_key_value_heads": None}
QWEN: dict = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
SMOLLM: dict = {"use_sliding_window": False, "sliding_window": None, "no_rope_layers": None}
SMOLLM |= {"no_rope_layer_interval": 4, "rope_theta": 2e6, "tie_word_embeddings": True}
GEMMA: dict = {"sliding_window": 4096, "query_pre_attn_scalar": 256, "tie_word_embeddings": True}
GEMMA |= {"head_dim": 256, "final_logit_softcapping": None}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
ROPE = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6}
BIAS, TYPES = {"attention_bias": False}, {"layer_types": None}
FAMILIES: dict[str, dict] = {  # model_type -> its keys, and defaults where config.json lacks them
    "llama": BIAS | {"mlp_bias": False},
    "mistral": TYPES | {"sliding_window": 4096, "num_key_value_heads": 8},
    "qwen2": QWEN | TYPES,
    "qwen3": QWEN | TYPES | BIAS | {"head_dim": 128},
    "smollm3": SMOLLM | TYPES | BIAS | {"mlp_bias": False},
    "olmo2": BIAS | {"rms_norm_eps": 1e-5},
    "gemma2": GEMMA | TYPES | BIAS | CAPS,
    "gemma3_text": GEMMA | TYPES | BIAS | ROPE,
}
OWN = {key for keys in FAMILIES.values() for key in keys} - DEFAULTS.keys()  # other families ignore
BLOCK = """attn.q=self_attn.q_proj{qkv} attn.k=self_attn.k_proj{qkv} attn.v=self_attn.v_proj{qkv}
    attn.o=self_attn.o_proj{o} mlp.gate=mlp.gate_proj{mlp} mlp.c_fc=mlp.up_proj{mlp}
    mlp.c_proj=mlp.down_proj{mlp} """
BEFORE = "attn_norm=input_layernorm mlp_norm=post_attention_layernorm"
AFTER = "attn_post_norm=post_attention_layernorm mlp_post_norm=post_feedforward_layernorm"
BOTH = f"attn_norm=input_layernorm mlp_norm=pre_feedforward_layernorm {AFTER}"
QK = " attn.q_norm=self_attn.q_norm attn.k_norm=self_attn.k_norm"
NORMS = {"olmo2": AFTER + QK, "qwen3": BEFORE + QK, "gemma2": BOTH, "gemma3_text": BOTH + QK}


def read_llama(folder: Path, config: dict, n_tokens: int) -> Llama:
    """Return a model of FAMILIES with n_tokens tokens. Raises ValueError."""
    defaults = DEFAULTS | FAMILIES[config["model_type"]]
    config = defaults | {k: config[k] for k in config if k in defaults or k not in OWN}
    for key in ("quantization_config", "use_bidirectional_attention"):
        if config.get(key):
            raise ValueError(f"{key} is not supported")
    keys = "num_attention_heads", "hidden_size", "num_hidden_layers", "max_position_embeddings"
    n_head, d_model, n_layer, n_ctx = read_sizes(config, *keys)
    config["head_dim"] = config["head_dim"] or d_model // n_head
    config["num_key_value_heads"] = config["num_key_value_heads"] or n_head
    tensors = read_weights(folder, prefix="model.", unused=("rotary_emb.inv_freq",))
    if config["model_type"].startswith("gemma"):  # the file stores g - 1
        norms = {name for name in tensors if name.endswith("norm.weight")}
        tensors |= {name: tensors[name] + np.float32(1) for name in norms}
    embedding, tied = "embed_tokens.weight", config["tie_word_embeddings"]
    block, sizes = layout(config)
    words = f"wte={embedding} norm" + settle_embeddings(tensors, [embedding], tied)
    blocks = [take(tensors, block, sizes, f"layers.{i}.") for i in range(n_layer)]
    params = take(tensors, words, sizes | {"n_tokens": n_tokens}) | {"blocks": blocks}
    return Llama(params, n_head, n_ctx, **read_settings(config))


def layout(config: dict) -> tuple[str, dict[str, int]]:
    """Return the words for a block's parameters, and the sizes in their shapes: see parameters.py.
    Raises ValueError."""
    n_vocab, d, n_inner = read_sizes(config, "vocab_size", "hidden_size", "intermediate_size")
    keys = "num_attention_heads", "num_key_value_heads", "head_dim"
    n_head, n_kv_head, d_head = read_sizes(config, *keys)
    if n_head % n_kv_head or d_head % 2:
        raise ValueError(f"{n_head} heads of {d_head} numbers, {n_kv_head} of keys and values")
    sizes = {"n_vocab": n_vocab, "d": d, "n_inner": n_inner, "q_norm": d_head, "k_norm": d_head}
    sizes |= {"n_q": n_head * d_head, "n_kv": n_kv_head * d_head}
    if (family := config["model_type"]) == "olmo2":  # it normalises all heads together
        sizes |= {"q_norm": sizes["n_q"], "k_norm": sizes["n_kv"]}
    o, mlp = ["+" * bool(config.get(f"{part}_bias")) for part in ("attention", "mlp")]
    block = BLOCK.format(o=o, mlp=mlp, qkv="+" if family == "qwen2" else o)
    return block + NORMS.get(family, BEFORE), sizes


def read_settings(config: dict) -> dict:
    """Return the keyword arguments of Llama as a dict. Raises ValueError."""
    n_layer, family = config["num_hidden_layers"], config["model_type"]
    kinds = "full_attention", "sliding_attention"
    types = config.get("layer_types") or [kinds[slides(config, i)] for i in range(n_layer)]
    if len(types) != n_layer or {*types} - {*kinds}:
        raise ValueError(f"layer_types = {types!r:.200}")
    by_type = {kind: read_frequencies(config, kind) for kind in set(types)}
    window = config.get("sliding_window")
    settings: dict = {
        "frequencies": [by_type[t] if rotates(config, i) else None for i, t in enumerate(types)],
        "windows": [window if kind == "sliding_attention" else None for kind in types],
        "activation": activation(config.get("hidden_act", "silu")),
        "eps": float(config["rms_norm_eps"]),
    }
    if not family.startswith("gemma"):
        return settings
    return settings | {
        "activation": activation(config.get("hidden_activation", "gelu_pytorch_tanh")),
        "scale": 1 / math.sqrt(config["query_pre_attn_scalar"]),
        "embed_scale": math.sqrt(config["hidden_size"]),
        "caps": (config.get("attn_logit_softcapping"), config["final_logit_softcapping"]),
    }


def slides(config: dict, layer: int) -> bool:
    """For a config without layer_types: return whether this layer has a sliding window."""
    if "sliding_window" not in config or not config.get("use_sliding_window", True):
        return False
    if config["model_type"] == "smollm3":
        return not rotates(config, layer)
    if config["model_type"].startswith("gemma"):  # every 2nd or 6th layer of Gemma has no window
        return (layer + 1) % config.get("sliding_window_pattern", 2) != 0
    return layer >= config.get("max_window_layers", 0)  # Qwen's first layers have no window


def rotates(config: dict, layer: int) -> bool:
    """Return whether this layer has rotary positions. Every fourth layer of SmolLM3 has none."""
    listed = config.get("no_rope_layers")  # 1 for a layer that has them, despite the name
    interval = config.get("no_rope_layer_interval")
    return bool(listed[layer]) if listed else not interval or (layer + 1) % interval != 0


def read_frequencies(config: dict, kind: str) -> np.ndarray:
    """Return the frequencies for one kind of layer. Raises ValueError. transformers 5 writes
    rope_parameters (Gemma 3: one for each kind); older files have rope_theta and rope_scaling."""
    is_gemma3, d_head = "rope_local_base_freq" in config, config["head_dim"]
    is_local = is_gemma3 and kind == "sliding_attention"
    theta = config["rope_local_base_freq" if is_local else "rope_theta"]
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if is_local or is_gemma3 and kind in rope:
        rope = rope.get(kind) or {}
    if any(part.get("partial_rotary_factor") not in (None, 1.0) for part in (config, rope)):
        raise ValueError("partial_rotary_factor is not supported")
    theta = rope.get("rope_theta", theta)
    match rope.get("rope_type", rope.get("type", "default")):
        case "default":
            return rotary_frequencies(d_head, theta)
        case "linear":
            return rotary_frequencies(d_head, theta, rope["factor"])
        case "llama3":
            n_old = rope.get("original_max_position_embeddings", config["max_position_embeddings"])
            factor, low, high = (rope[f"{key}factor"] for key in ("", "low_freq_", "high_freq_"))
            return llama3_frequencies(rotary_frequencies(d_head, theta), factor, low, high, n_old)
        case name:
            raise ValueError(f"rope_type is {name}, not one of default, linear, llama3")
