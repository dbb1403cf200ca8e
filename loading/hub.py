"""A repository of the Hugging Face hub -> a folder: in Hugging Face's cache, or downloaded."""

import contextlib
import math
import os
from pathlib import Path

from loading.config import TOKENIZERS, read_config
from loading.download import HUB, NotFound, Refused, download
from loading.errors import UserError, explained
from loading.safetensors import CONVERT, read_checkpoint, read_index

NAMES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", "t5-small", "t5-base",
         "t5-large")  # fmt: skip  # all others are called OWNER/NAME


def snapshot(folder: Path) -> Path:
    """A repository as Hugging Face's libraries cache it (models--OWNER--NAME) -> the folder with
    its files, those of refs/main if they are there; any other folder -> itself."""
    if not (folder / "snapshots").is_dir():
        return folder
    found = [file.parent for file in folder.glob("snapshots/*/config.json") if file.is_file()]
    main = folder / "refs" / "main"
    commit = main.read_bytes().strip() if main.is_file() else b""
    return max(found, key=lambda place: os.fsencode(place.name) == commit, default=folder)


def local(name: str, folder: Path) -> Path | None:
    """The folder if the repository was downloaded into it, or the one in Hugging Face's cache, or
    None: neither is there and complete."""
    if (folder / "config.json").is_file():
        return folder
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE") or f"{home}/hub"))
    folder = snapshot(cache / f"models--{name.replace('/', '--')}")
    with contextlib.suppress(UserError, ValueError, OSError):
        read_checkpoint(folder)
        for files in TOKENIZERS[read_config(folder / "config.json")["model_type"]]:
            if all((folder / file).is_file() for file in files.split()):
                return folder
    return None


def fetch(name: str, folder: Path) -> None:
    """Download configuration, tokenizer, and weights as safetensors. Raises UserError."""
    base = f"{os.environ.get('TOKENWISE_HUB', HUB).rstrip('/')}/{name}/resolve/main"
    config = folder / "config.json.new"  # renamed last: if config.json exists, all the rest does
    config.unlink(missing_ok=True)  # that of a run that failed may be the reason
    absent = f"the hub has no {name}, or it is gated or private"
    remedy = "check the name, accept its terms on its page, set a valid HF_TOKEN"
    with explained(absent, remedy, (Refused,)):
        download(f"{base}/config.json", config)
    fetch_tokenizer(base, folder, TOKENIZERS[read_config(config)["model_type"]])
    for file in ("generation_config.json", "added_tokens.json"):
        with contextlib.suppress(NotFound):
            download(f"{base}/{file}", folder / file)
    fetch_weights(base, folder)
    config.replace(folder / "config.json")


def fetch_tokenizer(base: str, folder: Path, choices: tuple[str, ...]) -> None:
    """The files of the first choice that the hub has. UserError where it has none of them."""
    for files in choices:
        with contextlib.suppress(NotFound):
            for file in files.split():
                download(f"{base}/{file}", folder / file)
            return
    raise UserError(f"{base} has no tokenizer that can be read, {' or '.join(choices)}")


def fetch_weights(base: str, folder: Path) -> None:
    """model.safetensors, or the index and its shards. UserError where there is neither, ValueError
    for a damaged index."""
    with contextlib.suppress(NotFound):
        return download(f"{base}/model.safetensors", folder / "model.safetensors", limit=math.inf)
    index = folder / "model.safetensors.index.json"
    index.unlink(missing_ok=True)  # likewise
    try:
        download(f"{base}/{index.name}", index)
    except NotFound:
        raise UserError(f"{base} has no model.safetensors; {CONVERT}") from None
    for shard in sorted(set(read_index(index).values())):
        download(f"{base}/{shard}", folder / shard, limit=math.inf)
