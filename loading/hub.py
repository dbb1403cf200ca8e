"""Finds a repository of the Hugging Face hub in Hugging Face's cache, or downloads it there.

The library huggingface_hub downloads the files and locks the cache. It reads HF_HOME, HF_HUB_CACHE,
HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Its slow parts are imported only if a file is missing.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from loading.errors import UserError
from loading.weights import read_index

EXTRAS = "generation_config.json", "tokenizer_config.json", "chat_template.jinja"  # may not exist


def missing(folder: Path) -> Iterator[str]:
    """Yield each file that loading would read, if the cache neither has it nor knows that the hub
    lacks it. If the caller downloads each one at once, then what it names is found, too."""

    def lacks(file):
        absent = folder.parents[1] / ".no_exist" / folder.name / file  # huggingface_hub's mark
        return not (folder / file).is_file() and not absent.is_file()

    yield from filter(lacks, ("config.json", *EXTRAS, "tokenizer.json"))
    if not (folder / "tokenizer.json").is_file():
        yield from filter(lacks, ("vocab.json", "merges.txt", "added_tokens.json"))
    yield from filter(lacks, ("model.safetensors",))
    if not (folder / "model.safetensors").is_file():
        yield from filter(lacks, ("model.safetensors.index.json",))
        yield from filter(lacks, sorted({*read_index(folder).values()}))


def cached(name: str) -> Path | None:
    """Return the repository's folder in the cache, or None if it is missing or incomplete."""
    try:
        from huggingface_hub import constants
    except ModuleNotFoundError:  # `fetch` reports this if the package is needed
        return None
    place = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")
    if not (main := place / "refs" / "main").is_file():
        return None
    folder = place / "snapshots" / main.read_text().strip()
    with contextlib.suppress(UserError):  # a damaged index, which loading then names
        return None if any(missing(folder)) else folder
    return folder


def fetch(name: str) -> Path:
    """Download the repository, and return its folder in the cache. Raises UserError."""
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
        reason = f"{error.__cause__ or error}".partition("\n")[0]
        if folder:
            lost = [*missing(folder)]
            if {*lost} <= {*EXTRAS}:
                print(
                    f"note: {name} is used without {', '.join(lost)}: {reason:.200}",
                    file=sys.stderr,
                )
                return folder
            name = f"{lost[0]}, which {folder} lacks"
        remedy = "check the network, then run this again"
        raise UserError(f"cannot download {name}: {reason:.200}; {remedy}") from None
