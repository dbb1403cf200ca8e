"""Loads Llama and its relatives from a folder in Hugging Face's layout.

Names, defaults and rules follow configuration_*.py and modeling_*.py of transformers 5.23.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from families.llama import Llama, llama3_frequencies, rotary_frequencies
from loading.config import activation
from loading.gpt2 import read_stop_ids
from loading.parameters import build_params, drop_padding, list_blocks, settle_head
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False}
QWEN = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
SMOLLM = {"use_sliding_window": False, "no_rope_layer_interval": 4, "tie_word_embeddings": True}
GEMMA = {"sliding_window": 4096, "query_pre_attn_scalar": 256, "tie_word_embeddings": True}
ROPE = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
FAMILIES: dict[str, dict] = {  # model_type -> defaults of keys that config.json may lack
    "llama": {},
    "mistral": {"sliding_window": 4096},
    "qwen2": QWEN,
    "qwen3": QWEN,
    "smollm3": SMOLLM | {"rope_theta": 2e6},
    "olmo2": {"rms_norm_eps": 1e-5},
    "gemma2": GEMMA | CAPS | {"sliding_window_pattern": 2},
    "gemma3_text": GEMMA | ROPE | {"sliding_window_pattern": 6},
}
# layers.0.self_attn.q_proj.w -> blocks.0.attn.q.w; up_proj is called c_fc, as in gpt2.py
WORDS = r"""embed_tokens=wte layers=blocks self_attn=attn \b([qkvo])_proj=\1
    down_proj=c_proj gate_proj=gate up_proj=c_fc input_layernorm=attn_norm """
BEFORE = "post_attention_layernorm=mlp_norm"  # for families without norms after sublayers
AFTER = """post_attention_layernorm=attn_post_norm pre_feedforward_layernorm=mlp_norm
    post_feedforward_layernorm=mlp_post_norm"""  # for families with norms after sublayers


def load_llama(folder: Path, config: dict) -> tuple[Any, Llama]:
    """Return (tokenizer, model) for a model of FAMILIES. Raises ValueError."""
    tokenizer = read_tokenizer(folder, config["model_type"])
    model = read_llama(folder, config, tokenizer.n_vocab)
    read_stop_ids(model, folder, config, tokenizer)
    return tokenizer, model


def read_llama(folder: Path, config: dict, n_tokens: int) -> Llama:
    """Return the model without its tokenizer, which has n_tokens tokens. Raises ValueError."""
    config = DEFAULTS | FAMILIES[config["model_type"]] | config
    for key in ("quantization_config", "use_bidirectional_attention"):
        if config.get(key):
            raise ValueError(f"{key} is not supported")
    tensors = read_weights(folder, prefix="model.", unused=("rotary_emb.inv_freq",))
    if config["model_type"].startswith("gemma"):  # the file stores g - 1
        norms = {name for name in tensors if name.endswith("norm.weight")}
        tensors |= {name: tensors[name] + np.float32(1) for name in norms}
    has_after = any("post_feedforward_layernorm" in name for name in tensors)
    params = build_params(tensors, WORDS + (AFTER if has_after else BEFORE))
    list_blocks(params, config["num_hidden_layers"])
    settle_head(params, config["tie_word_embeddings"])
    drop_padding(params, n_tokens)
    n_head, n_q = config["num_attention_heads"], len(params["blocks"][0]["attn"]["q"]["w"])
    if n_q % (2 * n_head):
        raise ValueError(f"{n_q} queries are not for {n_head} heads")
    settings = read_settings(config, d_head=n_q // n_head)
    return Llama(params, n_head, config["max_position_embeddings"], **settings)


def read_settings(config: dict, d_head: int) -> dict:
    """Return the keyword arguments of Llama as a dict. Raises ValueError."""
    n_layer, family = config["num_hidden_layers"], config["model_type"]
    kinds = "full_attention", "sliding_attention"
    types = config.get("layer_types") or [kinds[slides(config, i)] for i in range(n_layer)]
    if len(types) != n_layer or {*types} - {*kinds}:
        raise ValueError(f"layer_types = {types!r:.200}")
    by_type = {kind: read_frequencies(config, kind, d_head) for kind in set(types)}
    # Only Qwen and SmolLM3 use the key use_sliding_window; other families ignore it.
    is_used = config["use_sliding_window"] if "use_sliding_window" in FAMILIES[family] else True
    window = config.get("sliding_window") if is_used else None
    settings: dict = {
        "frequencies": [by_type[t] if rotates(config, i) else None for i, t in enumerate(types)],
        "windows": [window if kind == "sliding_attention" else None for kind in types],
        "activation": activation(config.get("hidden_act", "silu")),
        "eps": float(config["rms_norm_eps"]),
    }
    if not family.startswith("gemma"):
        return settings
    score_cap = config["attn_logit_softcapping"] if family == "gemma2" else None  # not Gemma 3
    return settings | {
        "activation": activation(config.get("hidden_activation", "gelu_pytorch_tanh")),
        "scale": 1 / math.sqrt(config["query_pre_attn_scalar"]),
        "embed_scale": math.sqrt(config["hidden_size"]),
        "caps": (score_cap, config.get("final_logit_softcapping")),
    }


def slides(config: dict, layer: int) -> bool:
    """For a config without layer_types: return whether this layer has a sliding window."""
    if config["model_type"] == "smollm3":
        return not rotates(config, layer)
    has_windows = "sliding_window" in FAMILIES[config["model_type"]]
    is_late = layer >= config.get("max_window_layers", 0)  # Qwen's first layers have no window
    pattern = config.get("sliding_window_pattern")  # every 2nd or 6th layer of Gemma has no window
    return has_windows and is_late and not (pattern and (layer + 1) % pattern == 0)


def rotates(config: dict, layer: int) -> bool:
    """Return whether this layer has rotary positions. Every fourth layer of SmolLM3 has none."""
    listed = config.get("no_rope_layers")  # 1 for a layer that has them, despite the name
    interval = config.get("no_rope_layer_interval")
    return bool(listed[layer]) if listed else not interval or (layer + 1) % interval != 0


def read_frequencies(config: dict, kind: str, d_head: int) -> np.ndarray:
    """Return the frequencies for one kind of layer. Raises ValueError. transformers 5 writes
    rope_parameters (Gemma 3: one for each kind); older files have rope_theta and rope_scaling."""
    is_local = kind == "sliding_attention" and "rope_local_base_freq" in config  # in Gemma 3
    theta = config["rope_local_base_freq" if is_local else "rope_theta"]
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if is_local or kind in rope:
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
