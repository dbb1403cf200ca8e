"""Reads config.json, generation_config.json and similar files, and checks some of their values."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from families.layers import ACTIVATIONS
from loading.errors import again, explained
from samplers import Filter

FORCED = "forced_bos_token_id", "forced_eos_token_id"


def read_json(path: Path, optional: bool = False) -> dict:
    """Return a JSON file as a dict, or {} if `optional` and missing. UserError if it is damaged."""
    if optional and not path.is_file():
        return {}
    with explained(f"{path} is damaged", again(path), (ValueError, RecursionError)):
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
    """Return config[key], or the default, as a list. Drop, with a note, what is no id."""
    ids = config.get(key, default)
    ids = ids if isinstance(ids, list) else [ids] * (ids is not None)
    lost = [id for id in ids if type(id) is not int or not 0 <= id < n_vocab]
    if lost and key in config:
        what = f"{key} {str(lost)[1:-1]:.100} is no id of the vocabulary"
        print(f"note: {what}: it starts and ends no text", file=sys.stderr)
    return [id for id in ids if type(id) is int and 0 <= id < n_vocab]


def read_ends(folder: Path, config: dict, tokenizer: Any) -> dict:
    """Return a model's arguments `stop_ids` (without eos_token_id: <|endoftext|>) and `config`: the
    settings in generation_config.json, or else in config.json. Raises ValueError."""
    [n_rows] = read_sizes(config, "vocab_size")
    n_vocab = min(n_rows, tokenizer.n_vocab)
    settings = read_json(folder / "generation_config.json", optional=True) or config
    if settings.get("force_bos_token_to_be_generated"):  # only in the first BART summarisers
        settings = {FORCED[0]: settings["bos_token_id"]} | settings
    forced = {key: read_ids(settings, key, n_vocab) for key in FORCED if key in settings}
    settings = settings | {key: (*ids, None)[0] for key, ids in forced.items()}
    stop_ids = read_ids(config | settings, "eos_token_id", n_vocab, tokenizer.end_of_text)
    return {"stop_ids": stop_ids, "config": settings}


def forced_filters(settings: dict, length: int) -> list[Filter]:
    """Return filters for the second and the last token of a text of at most `length` tokens. Some
    checkpoints force these tokens, as BOS and EOS. Apply the filters after all others."""
    places = zip(map(settings.get, FORCED), (1, length - 1))
    return [forced_id(token, place) for token, place in places if token is not None]


def forced_id(token: int, length: int) -> Filter:
    """Return a filter that forces the next token to be `token` if the text has `length` tokens."""

    def force(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        forced = np.where(np.arange(len(logits)) == token, np.float32(0), np.float32(-np.inf))
        return forced if len(ids) == length else logits

    return force
