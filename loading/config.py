"""config.json and its like. What they say of sizes is proven by the names and shapes of arrays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from families.layers import ACTIVATIONS
from loading.errors import explained


def read_json(path: Path) -> dict:
    """A JSON file that holds an object -> dict. Raises UserError."""
    with explained(f"{path} is damaged", "fetch or save it again", (ValueError, RecursionError)):
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def read_generation_config(folder: Path) -> dict:
    """generation_config.json, {} where there is none. Raises UserError."""
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else {}


def activation(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """An activation by its name -> function. ValueError for an unknown one."""
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not known, {', '.join(ACTIVATIONS)} are")
    return ACTIVATIONS[name]


def read_stop_ids(config: dict, tokenizer: Any, n_vocab: int) -> tuple[int, ...]:
    """eos_token_id, by default <|endoftext|>: an id, a list of ids, or none. No text can end with
    an id from n_vocab on, which has no row in the model."""
    ids = config.get("eos_token_id", tokenizer.end_of_text)
    ids = ids if isinstance(ids, list) else [ids]
    return tuple(id for id in ids if type(id) is int and 0 <= id < n_vocab)
