"""config.json and its like."""

import json
from collections.abc import Callable
from pathlib import Path

from families.layers import ACTIVATIONS
from loading.errors import explained


def read_json(path: Path, optional: bool = False) -> dict:
    """A JSON file that holds an object -> dict, {} where it may be missing. Raises UserError."""
    if optional and not path.is_file():
        return {}
    with explained(f"{path} is damaged", "fetch or save it again", (ValueError, RecursionError)):
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def activation(name: str) -> Callable:
    """An activation by its name -> function. ValueError for an unknown one."""
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation {name!r} is not known, {', '.join(ACTIVATIONS)} are")
    return ACTIVATIONS[name]


def read_ids(config: dict, key: str, n_vocab: int, default: int | None = None) -> list[int]:
    """An id, a list of ids, or none -> those that have a row in the model; default: if absent."""
    ids = config.get(key, default)
    ids = ids if isinstance(ids, list) else [ids]
    return [id for id in ids if type(id) is int and 0 <= id < n_vocab]
