"""JSON files: config.json and its like, whose counts and names are checked before they are used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from families.layers import ACTIVATIONS
from loading.errors import UserError, explained

TOKENIZERS = {  # config.json's model_type -> the files of its tokenizer, or those in their place
    "gpt2": ("vocab.json merges.txt", "tokenizer.json"),
    "t5": ("spiece.model",),
    "bart": ("vocab.json merges.txt", "tokenizer.json"),
    "mbart": ("sentencepiece.bpe.model",),
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "gemma2", "gemma3_text"),
        ("tokenizer.json", "tokenizer.model"),
    ),
}
ALIASES = {  # names that any config.json may use -> those of the families
    "hidden_size": ("n_embd", "d_model"),
    "head_dim": ("d_kv",),
    "num_attention_heads": ("n_head", "num_heads", "encoder_attention_heads"),
    "num_hidden_layers": ("n_layer", "num_layers", "encoder_layers"),
    "max_position_embeddings": ("n_positions",),
}


def read_config(path: Path) -> dict:
    """config.json with the names of its family; where it has both, its family's count. UserError
    for a file that is damaged, or a model_type that cannot be loaded."""
    config = read_json(path)
    if (model_type := str(config.get("model_type"))) not in TOKENIZERS:
        known = ", ".join(TOKENIZERS)
        raise UserError(f"{path}: model_type is {model_type[:50]}, only {known} can be loaded")
    names = {name: config[alias] for alias in ALIASES.keys() & config for name in ALIASES[alias]}
    return names | config


def read_generation_config(folder: Path) -> dict:
    """generation_config.json, {} where there is none. Raises UserError."""
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict:
    """A JSON file that holds an object -> dict. Raises UserError."""
    with explained(f"{path} is damaged", "fetch or save it again"):
        return parse_object(path.read_bytes())


def parse_object(data: bytes) -> dict:
    """bytes -> dict. ValueError for anything but a JSON object without duplicate names."""

    def once(pairs):  # [(name, value), ...] -> dict
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        value = json.loads(data, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_count(config: dict, key: str, default: int | None = None) -> int:
    """A positive int within reason: structures are sized by it before any weight is checked. Raises
    ValueError."""
    value = config.get(key)
    value = default if value is None else value
    most = 1000 if "layer" in key else 10**5 if key == "head_dim" else 10**9
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{key} = {value!r}")
    return value


def read_number(config: dict, key: str) -> float:
    """A positive number that float32 can hold. Raises ValueError."""
    value: Any = config.get(key)
    if type(value) not in (int, float) or not 1e-38 < value < 1e38:
        raise ValueError(f"{key} = {value!r}")
    return value


def read_eps(config: dict, default: float) -> float:
    """A small number that keeps a norm from dividing by 0. Raises ValueError."""
    eps = config.get("layer_norm_epsilon", default)
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise ValueError(f"layer_norm_epsilon = {eps!r}")
    return eps


def read_activation(
    config: dict, default: str, key: str = "activation_function"
) -> Callable[[np.ndarray], np.ndarray]:
    """An activation by its name -> function. Raises ValueError for an unknown one."""
    name = str(config.get(key, default))
    if name not in ACTIVATIONS:
        raise ValueError(f"{key} is {name}, known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
