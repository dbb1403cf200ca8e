"""Find a model's folder by the model's name, and load the model and its tokenizer.

    >>> tokenizer, model = load("stories")
    >>> tokenizer.encode("Once upon a time")
    [422, 434, 258, 395]

A folder has Hugging Face's layout: config.json, model.safetensors, and the tokenizer's files.
"""

import re
from pathlib import Path
from typing import Any

from loading import hub, openai
from loading.config import read_json, set_ends
from loading.errors import MALFORMED, UserError, again, explained
from loading.gpt2 import read_gpt2
from loading.llama import FAMILIES, read_llama
from loading.seq2seq import read_bart, read_t5
from loading.tokenizer import read_tokenizer

MODELS = Path(__file__).resolve().parent / "models"
KNOWN = ["stories", "stories-llama", "stories-draft", "en-de", "en-de-draft", *openai.SIZES]
KNOWN += [*openai.SIZES.values(), "distilgpt2", "t5-small", "t5-base", "t5-large"]
READERS: dict[str, Any] = {"gpt2": read_gpt2, "t5": read_t5, "bart": read_bart, "mbart": read_bart}
READERS |= dict.fromkeys(FAMILIES, read_llama)  # {model_type in config.json: reader}


def load(name_or_folder: str | Path, fetch: bool = True) -> tuple[Any, Any]:
    """Return (tokenizer, model). If the model is missing and `fetch` is true, download it first.

    name_or_folder: a name from models/README.md, a folder, or OWNER/NAME on the Hugging Face hub.
    Raises UserError if the model cannot be loaded. Its message suggests what to do next.
    """
    with explained(f"cannot load {name_or_folder!s:.100}", "check its name and permissions"):
        folder = find(str(name_or_folder), fetch)
    remedy = f"if a file is damaged, {again(folder)}"
    with explained(f"the model in {folder} cannot be used", remedy, MALFORMED):
        config = read_json(folder / "config.json")
        if (kind := str(config.get("model_type"))) not in READERS:
            raise ValueError(f"model_type is {kind:.50}, not one of {', '.join(READERS)}")
        tokenizer = read_tokenizer(folder, kind)
        model = READERS[kind](folder, config, tokenizer.n_vocab)
        set_ends(model, folder, config, tokenizer)
        if {*range(model.n_vocab, tokenizer.n_vocab)} - {*tokenizer.special.values()}:
            sizes = f"the tokenizer has {tokenizer.n_vocab} tokens, the model {model.n_vocab}"
            raise ValueError(f"{sizes}: one of them belongs to another model")
        return tokenizer, model


def find(name: str, fetch: bool = True) -> Path:
    """Return a model's folder. If the model is missing and `fetch` is true, download it first."""
    for folder in (MODELS / name, Path(name)):
        if (folder / "config.json").is_file():
            return folder
    is_pair = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name, re.ASCII)
    is_path = not is_pair or Path(name).exists() or Path(name).parent.resolve() == MODELS
    if (name not in KNOWN and is_path) or (MODELS / name).exists():
        raise UserError(unknown(name))
    if name not in openai.SIZES and (found := hub.cached(name)):
        return found
    if not fetch:
        raise UserError(f"{name} is not here: download it with --model {name}")
    return openai.fetch(name, MODELS / name) if name in openai.SIZES else hub.fetch(name)


def unknown(name: str) -> str:
    """Return the error message for a name that is not the name of a model."""
    if (path := Path(name)).is_file():
        return f"{name} is a file: name its folder, {path.parent}"
    if path.is_dir() or (MODELS / name).is_dir():
        return f"{name} has no config.json: it is no model in Hugging Face's layout"
    here = sorted(path.parent.name for path in MODELS.glob("*/config.json"))
    known = ", ".join(dict.fromkeys([*KNOWN, *here]))
    return f"no model {name!r:.100}: use {known}, or a folder, or OWNER/NAME on the hub"
