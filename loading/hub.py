"""Finds a repository of the Hugging Face hub in Hugging Face's cache, or downloads it there.

The library huggingface_hub downloads the files and locks the cache. It reads HF_HOME, HF_HUB_CACHE,
HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Its slow parts are imported only if a file is missing.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loading.errors import UserError
from loading.weights import read_index

EXTRAS = """generation_config.json tokenizer_config.json chat_template.jinja added_tokens.json
    tokenizer.json""".split()  # files that many repositories do not have


def missing(folder: Path) -> Iterator[str]:
    """Yield each file that loading would read and that is neither in the cache nor known to be
    missing on the hub. What comes later depends on the earlier files: download them at once."""

    def lacks(*files):
        absent = folder.parents[1] / ".no_exist" / folder.name  # where huggingface_hub notes it
        return [f for f in files if not (folder / f).is_file() and not (absent / f).is_file()]

    yield from lacks("config.json", *EXTRAS)
    if not (folder / "tokenizer.json").is_file():
        yield from lacks("vocab.json", "merges.txt")
    if not (folder / "model.safetensors").is_file():
        yield from lacks("model.safetensors.index.json")
        yield from lacks(*sorted({*read_index(folder).values()} or {"model.safetensors"}))


def cached(name: str) -> Path | None:
    """Return the repository's folder in the cache, or None if it is missing or incomplete."""
    try:
        from huggingface_hub import constants
    except ModuleNotFoundError:  # `fetch` reports this if the package is needed
        return None
    place = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")
    try:
        folder = place / "snapshots" / (place / "refs" / "main").read_text().strip()
        return None if any(missing(folder)) else folder
    except UserError:  # a damaged index, which loading will name
        return folder
    except (OSError, ValueError):  # nothing is there, or it cannot be read
        return None


def fetch(name: str) -> Path:
    """Download what the cache lacks, and return the repository's folder. Without a network, a cache
    without some of EXTRAS is used, and a note says so. Raises UserError."""
    from huggingface_hub import errors, hf_hub_download

    folder = None
    try:
        folder = Path(hf_hub_download(name, "config.json")).parent
        for file in missing(folder):
            with contextlib.suppress(errors.RemoteEntryNotFoundError):
                hf_hub_download(name, file, revision=folder.name)
        return folder
    except errors.RepositoryNotFoundError:  # or the repository is gated
        what = "accept the terms on its page and set a valid HF_TOKEN"
        raise UserError(f"you may not read {name}, or it does not exist: {what}") from None
    except Exception as error:  # from the hub, its HTTP library or the system
        cause: Any = error.__cause__ or error
        reason = f"{cause}".partition("\n")[0]
        if folder:
            lost = [*missing(folder)]
            if not (needed := [file for file in lost if file not in EXTRAS]):
                print(f"note: {name} is used without {', '.join(lost)}: {reason}", file=sys.stderr)
                return folder
            name = f"{needed[0]}, which {folder} lacks"
        remedy = "check the network, then run this again"
        if isinstance(cause, errors.HfHubHTTPError) or getattr(cause, "errno", None):
            remedy = "mend that, or run this again later"  # an answer of the hub, or the disk
        raise UserError(f"cannot download {name}: {reason:.200}; {remedy}") from None
