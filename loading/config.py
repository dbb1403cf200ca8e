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
    """Return the values of these keys, such as n_layer. Raises ValueError if one is not a size."""
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
    """Return config[key], or the default, as a list. Drop what is not an id, and print a note."""
    given = config.get(key, default)
    given = given if isinstance(given, list) else [given] * (given is not None)
    ids = [id for id in given if type(id) is int and 0 <= id < n_vocab]
    if len(ids) < len(given) and key in config:
        lost = ", ".join(repr(id) for id in given if id not in ids)
        note = f"note: {key} {lost:.100} is no id of the vocabulary: it starts and ends no text"
        print(note, file=sys.stderr)
    return ids


def set_ends(model: Any, folder: Path, config: dict, tokenizer: Any) -> None:
    """Set what starts and ends a model's texts: stop_ids (without eos_token_id: end_of_text), an
    encoder-decoder's start_ids, and generation_config: the settings in generation_config.json, or
    else in config.json. Raises ValueError."""
    if (tokenizer.end_of_text or 0) >= model.n_vocab:  # a token without an embedding
        tokenizer.end_of_text = None
    settings = read_json(folder / "generation_config.json", optional=True) or config
    if settings.get("force_bos_token_to_be_generated"):  # only in the first BART summarisers
        settings = {FORCED[0]: settings["bos_token_id"]} | settings
    forced = {key: read_ids(settings, key, model.n_vocab) for key in FORCED if key in settings}
    settings = settings | {key: (*ids, None)[0] for key, ids in forced.items()}
    model.generation_config = settings
    config, end = config | settings, tokenizer.end_of_text
    model.stop_ids = tuple(read_ids(config, "eos_token_id", model.n_vocab, end))
    if hasattr(model, "read"):
        model.start_ids = read_start(config, model.n_vocab)


def read_start(config: dict, n_vocab: int) -> list[int]:
    """Return the id that starts each answer of an encoder-decoder. Raises ValueError."""
    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    for key in ("decoder_start_token_id", first[config["model_type"]]):
        if ids := read_ids(config, key, n_vocab):
            return ids[:1]
    raise ValueError("no decoder_start_token_id")


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
