"""A model's name -> its folder -> the model and its tokenizer.

    load(name or folder) -> (tokenizer, model)

Folders are read in two layouts: Hugging Face's (config.json and model.safetensors), and OpenAI's
release of GPT-2 (hparams.json). In both, every array's name and shape is checked.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from loading import hub, openai
from loading.config import read_config
from loading.download import locked
from loading.errors import UserError, explained
from loading.gpt2 import load_gpt2
from loading.llama import FAMILIES, load_llama
from loading.seq2seq import load_bart, load_t5

HERE = Path(__file__).resolve().parent
Loaded = tuple
LOADERS: dict[str, Callable[[Path, dict], tuple]] = {  # by config.json's model_type
    "gpt2": load_gpt2,
    "t5": load_t5,
    "bart": load_bart,
    "mbart": load_bart,
    **dict.fromkeys(FAMILIES, load_llama),
}


def load(
    name_or_folder: str | Path, models_dir: str | Path | None = None, fetch: bool = True
) -> Loaded:
    """Find a model, download it if it is an official one not yet here, and load it.

    name_or_folder, tried in this order: an official size (124M, 355M, 774M, 1558M), an embedded
    model (stories), a folder of `models_dir` by name, the path of any folder with a model, or a
    repository of the Hugging Face hub (t5-small, google/flan-t5-small).
    models_dir defaults to the environment's TOKENWISE_MODELS, or models/ beside this file.
    fetch=False downloads nothing. -> (Tokenizer, model). Raises UserError, with a next step.
    """
    with explained(f"cannot load {name_or_folder}", "check its name and permissions"):
        folder = find(str(name_or_folder), models_dir, fetch)
    remedy = "if a file is damaged, fetch or save it again"
    with explained(f"the model or tokenizer in {folder} cannot be used", remedy):
        return load_folder(folder)


def find(name: str, models_dir: str | Path | None = None, fetch: bool = True) -> Path:
    """The folder of a model; an official size, or a repository of the hub, that is not here yet is
    downloaded first. UserError for an unknown name, and instead of a download unless `fetch`."""
    where = places(models_dir)
    known = in_folders(where)
    path = hub.snapshot(Path(name))
    if name in openai.SIZES:
        source: ModuleType = openai
    elif name in known or has_model(path):
        return known.get(name, path)
    elif name in hub.NAMES or (is_repository(name, where) and not path.exists()):
        source = hub
    else:
        raise UserError(unknown(name, [*sorted(known.keys() - openai.SIZES), *openai.SIZES]))
    folder = where[0] / name
    if found := source.local(name, folder):
        return found
    if not fetch:
        raise UserError(
            f"{name} is not here, and is fetched only where it is named on the command line:"
            f" python generate.py TEXT --model {name}"
        )
    with locked(folder):
        if not source.local(name, folder):  # another process may have made it while we waited
            source.fetch(name, folder)
    return folder


def places(models_dir: str | Path | None) -> tuple[Path, Path]:
    """The folder of the downloads, and that of the models in the repository."""
    chosen = models_dir or os.environ.get("TOKENWISE_MODELS") or HERE / "models"
    return Path(chosen), HERE / "models"


def in_folders(folders: Iterable[Path]) -> dict[str, Path]:
    """{NAME or OWNER/NAME: folder} of the models in these folders."""
    paths = [(place, path) for place in folders for n in ("*", "*/*") for path in place.glob(n)]
    return {path.relative_to(place).as_posix(): path for place, path in paths if has_model(path)}


def names(models_dir: str | Path | None = None) -> dict[str, str]:
    """{name: is it here?} of the models that `load` finds by a name of their own."""
    where = places(models_dir)
    found = dict.fromkeys(sorted(in_folders(where).keys() - openai.SIZES), "here")
    sources = dict.fromkeys(openai.SIZES, openai) | dict.fromkeys(hub.NAMES, hub)
    for name, source in sources.items():
        is_here = name in found or source.local(name, where[0] / name)
        found[name] = "here" if is_here else "downloaded when first used"
    return found


def has_model(folder: Path) -> bool:
    """Does the folder hold a model?"""
    names = "config.json", "hparams.json"
    # Without permission to look, os.path.isfile is False, where Path.is_file may raise an error.
    return any(os.path.isfile(folder / name) for name in names)


def is_repository(name: str, places: Iterable[Path]) -> bool:
    """Is it a hub name, OWNER/NAME, and not a mistyped path such as models/storys?"""
    is_pair = bool(re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name, re.ASCII))
    return is_pair and Path(name).parent.resolve() not in map(Path.resolve, places)


def unknown(name: str, names: list[str]) -> str:
    """The message for a name that is not a model's, with those that are here."""
    if (path := Path(name)).is_file():
        return f"{name} is a file: name its folder, {path.parent}"
    if path.is_dir():
        return f"{name} holds no model: neither config.json nor hparams.json"
    lower = {known.lower(): known for known in (*hub.NAMES, *names)}
    close = difflib.get_close_matches(name.lower(), lower, 1)
    guess = f"did you mean {lower[close[0]]}? Or " if close else ""
    return (
        f"no model {name!r:.100}: {guess}use {', '.join(names)}, or a folder, or of the Hugging"
        f" Face hub {', '.join(hub.NAMES)}, or any OWNER/NAME"
    )


def load_folder(folder: Path) -> Loaded:
    """Choose the loader by the files in the folder -> (tokenizer, model). Raises ValueError."""
    if (folder / "hparams.json").is_file():
        tokenizer, model = openai.load_openai(folder)
    else:
        config = read_config(folder / "config.json")
        tokenizer, model = LOADERS[config["model_type"]](folder, config)
    surplus = set(range(model.n_vocab, tokenizer.n_vocab))  # tokens without an embedding
    if surplus - {*tokenizer.special.values()}:
        raise UserError(
            f"{folder}: the tokenizer has {tokenizer.n_vocab} tokens, the model {model.n_vocab}:"
            " one of them belongs to another model"
        )
    if tokenizer.end_of_text in surplus:
        tokenizer.end_of_text = None
    return tokenizer, model
