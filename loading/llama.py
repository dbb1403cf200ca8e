"""Llama and its relatives from a folder in the layout of Hugging Face.

Sources: the names, defaults and rules of configuration_*.py and modeling_*.py of transformers 5.23.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from encoder import Tokenizer
from families.llama import Llama, llama3_frequencies, rotary_frequencies
from loading.config import read_activation, read_count, read_generation_config, read_number
from loading.gpt2 import read_stop_ids
from loading.params import build_params, llama_shapes, rename, without_padding
from loading.tokenizers import read_tokenizer
from loading.weights import read_weights

DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False}
QWEN = {"num_key_value_heads": 32, "use_sliding_window": False, "sliding_window": 4096}
GEMMA = {
    "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
    "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
}  # fmt: skip
FAMILIES: dict[str, dict] = {  # model_type -> values of the keys that config.json leaves out
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": QWEN,
    "qwen3": QWEN | {"head_dim": 128},
    "smollm3": {"num_key_value_heads": 4, "use_sliding_window": False, "rope_theta": 2e6,
                "tie_word_embeddings": True},
    "olmo2": {"rms_norm_eps": 1e-5},
    "gemma2": GEMMA | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3_text": GEMMA | {"rope_theta": 1e6, "rope_local_base_freq": 1e4},
}  # fmt: skip
AFTER = {"norms": ("attn_post_norm", "mlp_post_norm")}
AROUND = {"norms": ("attn_norm", "attn_post_norm", "mlp_norm", "mlp_post_norm")}
PARTS: dict[str, dict] = {  # model_type -> arguments of llama_shapes
    "qwen2": {"biases": "qkv"},
    "qwen3": {"qk_norm": "head"},
    "olmo2": AFTER | {"qk_norm": "all"},
    "gemma2": AROUND,
    "gemma3_text": AROUND | {"qk_norm": "head"},
}
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


def load_llama(folder: Path, config: dict) -> tuple[Tokenizer, Llama]:
    """A model of one of these families -> (tokenizer, model). Raises ValueError."""
    tokenizer = read_tokenizer(folder)
    model = read_llama(folder, config, tokenizer.n_vocab)
    model.generation_config = read_generation_config(folder)
    n_vocab = config["vocab_size"]
    model.stop_ids = read_stop_ids(config | model.generation_config, tokenizer, n_vocab)
    return tokenizer, model


def read_llama(folder: Path, config: dict, n_tokens: int) -> Llama:
    """The model without its tokenizer, which has n_tokens: rows of the embedding past them are left
    out. Raises ValueError."""
    family = config["model_type"]
    config = DEFAULTS | FAMILIES[family] | config
    for key in ("quantization_config", "use_bidirectional_attention"):
        if config.get(key):
            raise ValueError(f"{key} is not supported")
    sizes = read_sizes(config)
    settings = read_settings(config, sizes["d_head"])
    n_head, n_ctx = sizes["n_head"], read_count(config, "max_position_embeddings")

    tied, parts = config["tie_word_embeddings"] is True, read_parts(config)
    names = NAMES | (POST_NAMES if "attn_post_norm" in parts.get("norms", ()) else {})
    tensors = read_tensors(folder, tied, is_gemma=family.startswith("gemma"))
    shapes = llama_shapes(**sizes, tied=tied, **parts)
    params = build_params(tensors, shapes, lambda name: rename(name, names))
    return Llama(without_padding(params, n_tokens), n_head, n_ctx, **settings)


def read_sizes(config: dict) -> dict:
    """The numbers that llama_shapes takes. Raises ValueError."""
    keys = {
        "n_vocab": "vocab_size", "n_embd": "hidden_size", "n_layer": "num_hidden_layers",
        "n_inner": "intermediate_size", "n_head": "num_attention_heads",
    }  # fmt: skip
    sizes = {name: read_count(config, key) for name, key in keys.items()}
    n_head = sizes["n_head"]
    n_kv_head = read_count(config, "num_key_value_heads", n_head)
    d_head = read_count(config, "head_dim", sizes["n_embd"] // n_head)
    if n_head % n_kv_head or d_head % 2:
        raise ValueError(f"{n_head} heads of {d_head} numbers cannot share {n_kv_head} of keys")
    return sizes | {"n_kv_head": n_kv_head, "d_head": d_head}


def read_parts(config: dict) -> dict:
    """The optional parts that llama_shapes takes: biases and norms."""
    biases = "qkvo" * bool(config.get("attention_bias")) + "m" * bool(config.get("mlp_bias"))
    return {"biases": biases} | PARTS.get(config["model_type"], {})


def read_settings(config: dict, d_head: int) -> dict:
    """The other arguments of Llama. Raises ValueError."""
    types = read_layer_types(config)
    settings: dict = {
        "frequencies": read_frequencies(config, d_head, types),
        "windows": read_windows(config, types),
        "activation": read_activation(config, "silu", "hidden_act"),
        "eps": read_number(config, "rms_norm_eps"),
    }
    if not config["model_type"].startswith("gemma"):
        return settings
    keys = ["attn_logit_softcapping", "final_logit_softcapping"]
    caps = [None if config.get(key) is None else read_number(config, key) for key in keys]
    if config["model_type"] == "gemma3_text":
        caps[0] = None  # its code ignores the key
    return settings | {
        "activation": read_activation(config, "gelu_pytorch_tanh", "hidden_activation"),
        "scale": 1 / math.sqrt(read_number(config, "query_pre_attn_scalar")),
        "embed_scale": math.sqrt(config["hidden_size"]),
        "caps": caps,
    }


def read_tensors(folder: Path, tied: bool, is_gemma: bool) -> dict[str, np.ndarray]:
    """The folder's weights -> {name: array}, those that are used. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_weights(folder).items()
        if not name.endswith("rotary_emb.inv_freq")
    }
    if tied:
        tensors.pop("lm_head.weight", None)  # a second copy of the embedding
    if is_gemma:  # stores g - 1
        norms = {name for name in tensors if name.endswith("norm.weight")}
        tensors |= {name: tensors[name] + np.float32(1) for name in norms}
    return tensors


def read_layer_types(config: dict) -> list[str]:
    """For each layer, whether it sees a window of the last tokens, sliding_attention, or all,
    full_attention. Raises ValueError."""
    types, n_layer = config.get("layer_types"), read_count(config, "num_hidden_layers")
    if types is None:
        types = [["full_attention", "sliding_attention"][slides(config, i)] for i in range(n_layer)]
    known = "full_attention", "sliding_attention"
    if not isinstance(types, list) or len(types) != n_layer or any(t not in known for t in types):
        raise ValueError(f"layer_types = {types!r:.200}")
    return types


def slides(config: dict, layer: int) -> bool:
    """Has this layer a sliding window, where layer_types is absent?"""
    match config["model_type"]:
        case "mistral":
            return True
        case "qwen2" | "qwen3":
            return layer >= read_count(config, "max_window_layers", 28)
        case "smollm3":
            return not rotates(config, layer)
        case "gemma2":
            return layer % 2 == 0
        case "gemma3_text":
            return (layer + 1) % read_count(config, "sliding_window_pattern", 6) != 0
    return False


def read_windows(config: dict, types: list[str]) -> list[int | None]:
    """For each layer its window in tokens, or None. Raises ValueError."""
    window = None
    is_used = "use_sliding_window" not in FAMILIES[config["model_type"]]  # these ignore the key
    is_used = is_used or config["use_sliding_window"]
    if is_used and config.get("sliding_window") is not None:
        window = read_count(config, "sliding_window")
    return [window if kind == "sliding_attention" else None for kind in types]


def read_frequencies(config: dict, d_head: int, types: list[str]) -> list[np.ndarray | None]:
    """For each layer the frequencies of its rotary positions, or None. Raises ValueError."""
    by_type = {kind: type_frequencies(config, d_head, kind) for kind in set(types)}
    return [by_type[kind] if rotates(config, i) else None for i, kind in enumerate(types)]


def rotates(config: dict, layer: int) -> bool:
    """Has this layer rotary positions? In SmolLM3 every fourth has none."""
    if config["model_type"] != "smollm3":
        return True
    listed = config.get("no_rope_layers")  # 1 where a layer has them, in spite of the name
    if listed is None:
        return (layer + 1) % read_count(config, "no_rope_layer_interval", 4) != 0
    if not isinstance(listed, list) or len(listed) <= layer:
        raise ValueError(f"no_rope_layers = {listed!r:.200}")
    return bool(listed[layer])


def read_rope(config: dict, kind: str) -> dict:
    """What rope_parameters, as transformers 5 writes them (for Gemma 3: by type of layer), or
    rope_theta and rope_scaling say of layers of one type. Raises ValueError."""
    is_local = kind == "sliding_attention" and "rope_local_base_freq" in config  # in Gemma 3
    theta = config["rope_local_base_freq" if is_local else "rope_theta"]
    rope = read_object(config.get("rope_scaling") or config.get("rope_parameters"))
    if is_local or kind in rope:
        rope = read_object(rope.get(kind))
    factors = rope.get("partial_rotary_factor"), config.get("partial_rotary_factor")
    if any(factor not in (None, 1.0) for factor in factors):
        raise ValueError("partial_rotary_factor is not supported")
    return {"rope_theta": theta, "rope_type": rope.get("type", "default")} | rope


def read_object(rope: Any) -> dict:
    """{} for none. ValueError for what is not an object."""
    if rope and not isinstance(rope, dict):
        raise ValueError(f"rope_scaling = {rope!r:.200}")
    return rope or {}


def type_frequencies(config: dict, d_head: int, kind: str) -> np.ndarray:
    """The frequencies of layers of one type. Raises ValueError."""
    rope = read_rope(config, kind)
    theta, name = read_number(rope, "rope_theta"), rope["rope_type"]
    if name == "default":
        return rotary_frequencies(d_head, theta)
    if name == "linear":
        return rotary_frequencies(d_head, theta, read_number(rope, "factor"))
    if name != "llama3":
        raise ValueError(f"rope_type is {name}, known are default, linear, llama3")
    keys = "factor", "low_freq_factor", "high_freq_factor"
    factor, low, high = (read_number(rope, key) for key in keys)
    n_old = read_count(
        rope, "original_max_position_embeddings", config.get("max_position_embeddings")
    )
    if low >= high:
        raise ValueError(f"low_freq_factor = {low}, high_freq_factor = {high}")
    return llama3_frequencies(rotary_frequencies(d_head, theta), factor, low, high, n_old)
