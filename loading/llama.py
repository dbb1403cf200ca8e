"""Llama and its relatives from a folder in the layout of Hugging Face.

Sources: the names, defaults and rules of configuration_*.py and modeling_*.py of transformers 5.23.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from families.llama import Llama, llama3_frequencies, rotary_frequencies
from loading.config import activation, read_generation_config, read_stop_ids
from loading.parameters import Params, build_params, drop_padding, list_blocks, settle_head
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

DEFAULTS = {"rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": False}
QWEN = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
GEMMA = {
    "sliding_window": 4096, "query_pre_attn_scalar": 256, "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh",
}  # fmt: skip
FAMILIES: dict[str, dict] = {  # model_type -> values of the keys that config.json leaves out
    "llama": {},
    "mistral": {"sliding_window": 4096},
    "qwen2": QWEN,
    "qwen3": QWEN,
    "smollm3": {"use_sliding_window": False, "no_rope_layer_interval": 4, "rope_theta": 2e6,
                "tie_word_embeddings": True},
    "olmo2": {"rms_norm_eps": 1e-5},
    "gemma2": GEMMA | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3_text": GEMMA | {"rope_theta": 1e6, "rope_local_base_freq": 1e4,
                            "sliding_window_pattern": 6},
}  # fmt: skip
WORDS = [  # layers.0.self_attn.q_proj.w -> blocks.0.attn.q.w
    ("embed_tokens", "wte"), ("layers", "blocks"),
    ("self_attn", "attn"), (r"\b([qkvo])_proj", r"\1"), ("down_proj", "c_proj"),
    ("gate_proj", "c_fc"), ("up_proj", "gate"),  # activation(gate_proj x) * up_proj x
    ("input_layernorm", "attn_norm"),
]  # fmt: skip
BEFORE = [("post_attention_layernorm", "mlp_norm")]
AFTER = [  # where sublayers have norms after them, the same name is that of another norm
    ("post_attention_layernorm", "attn_post_norm"), ("pre_feedforward_layernorm", "mlp_norm"),
    ("post_feedforward_layernorm", "mlp_post_norm"),
]  # fmt: skip


def load_llama(folder: Path, config: dict) -> tuple[Any, Llama]:
    """A model of one of these families -> (tokenizer, model). Raises ValueError."""
    tokenizer = read_tokenizer(folder, config["model_type"])
    model = read_llama(folder, config, tokenizer.n_vocab)
    model.generation_config = read_generation_config(folder)
    model.stop_ids = read_stop_ids(config | model.generation_config, tokenizer, model.n_vocab)
    return tokenizer, model


def read_llama(folder: Path, config: dict, n_tokens: int) -> Llama:
    """The model without its tokenizer, which has n_tokens: rows of the embedding past them are left
    out. Raises ValueError."""
    config = DEFAULTS | FAMILIES[config["model_type"]] | config
    for key in ("quantization_config", "use_bidirectional_attention", "partial_rotary_factor"):
        if config.get(key) not in (None, False, 1.0):
            raise ValueError(f"{key} is not supported")
    params = read_params(folder, is_gemma=config["model_type"].startswith("gemma"))
    list_blocks(params, config["num_hidden_layers"])
    settle_head(params, config["tie_word_embeddings"])
    drop_padding(params, n_tokens)
    n_head, n_q = config["num_attention_heads"], len(params["blocks"][0]["attn"]["q"]["w"])
    if n_q % (2 * n_head):
        raise ValueError(f"{n_q} queries are not for {n_head} heads")
    settings = read_settings(config, d_head=n_q // n_head)
    return Llama(params, n_head, config["max_position_embeddings"], **settings)


def read_params(folder: Path, is_gemma: bool) -> Params:
    """The folder's weights -> the tree of parameters. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_weights(folder).items()
        if not name.endswith("rotary_emb.inv_freq")
    }
    if is_gemma:  # stores g - 1
        norms = {name for name in tensors if name.endswith("norm.weight")}
        tensors |= {name: tensors[name] + np.float32(1) for name in norms}
    has_after = any("post_feedforward_layernorm" in name for name in tensors)
    return build_params(tensors, WORDS + (AFTER if has_after else BEFORE))


def read_settings(config: dict, d_head: int) -> dict:
    """The other arguments of Llama. Raises ValueError."""
    types, family = read_layer_types(config), config["model_type"]
    by_type = {kind: read_frequencies(config, kind, d_head) for kind in set(types)}
    # Qwen and SmolLM3 have the key use_sliding_window; the others ignore it.
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
    score_cap = config["attn_logit_softcapping"] if family == "gemma2" else None  # 3 ignores it
    return settings | {
        "activation": activation(config["hidden_activation"]),
        "scale": 1 / math.sqrt(config["query_pre_attn_scalar"]),
        "embed_scale": math.sqrt(config["hidden_size"]),
        "caps": (score_cap, config.get("final_logit_softcapping")),
    }


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


def rotates(config: dict, layer: int) -> bool:
    """Has this layer rotary positions? In SmolLM3 every fourth has none."""
    if config["model_type"] != "smollm3":
        return True
    listed = config.get("no_rope_layers")  # 1 where a layer has them, in spite of the name
    return bool(listed[layer] if listed else (layer + 1) % config["no_rope_layer_interval"])


def read_frequencies(config: dict, kind: str, d_head: int) -> np.ndarray:
    """The frequencies of layers of one type, from rope_parameters, as transformers 5 writes them
    (for Gemma 3: by type of layer), or rope_theta and rope_scaling. Raises ValueError."""
    is_local = kind == "sliding_attention" and "rope_local_base_freq" in config  # in Gemma 3
    theta = config["rope_local_base_freq" if is_local else "rope_theta"]
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if is_local or kind in rope:
        rope = rope.get(kind) or {}
    if rope.get("partial_rotary_factor") not in (None, 1.0):
        raise ValueError("partial_rotary_factor is not supported")
    theta = rope.get("rope_theta", theta)
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
