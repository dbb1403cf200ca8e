"""Reads config.json and similar files, and checks some of their values."""

import json
from collections.abc import Callable
from pathlib import Path

from families.layers import ACTIVATIONS
from loading.errors import AGAIN, explained


def read_json(path: Path, optional: bool = False) -> dict:
    """Return a JSON file as a dict, or {} if `optional` and missing. UserError if it is damaged."""
    if optional and not path.is_file():
        return {}
    with explained(f"{path} is damaged", AGAIN, (ValueError, RecursionError)):
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def read_sizes(config: dict, *keys: str) -> list[int]:
    """Return the values of these keys, such as n_layer. Raises ValueError if one is no size."""
    for key in keys:
        if type(size := config.get(key)) is not int or size < 1:
            raise ValueError(f"{key} = {size!r:.100} in config.json is not a positive whole number")
    return [config[key] for key in keys]


def activation(name: str) -> Callable:
    """Return the activation function with this name. Raises ValueError for an unknown name."""
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def read_ids(config: dict, key: str, n_vocab: int, default: int | None = None) -> list[int]:
    """Return config[key], or the default, as a list. Drop what is not an id of the vocabulary."""
    ids = config.get(key, default)
    ids = ids if isinstance(ids, list) else [ids]
    return [id for id in ids if type(id) is int and 0 <= id < n_vocab]
