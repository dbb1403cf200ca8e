"""Finds a repository of the Hugging Face hub in Hugging Face's cache, or downloads it there.

The library huggingface_hub downloads the files and locks the cache. It reads HF_HOME, HF_HUB_CACHE,
HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Its slow parts are imported only if a file is missing.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from loading.errors import UserError
from loading.weights import read_index

EXTRAS = """generation_config.json tokenizer_config.json chat_template.jinja added_tokens.json
    tokenizer.json""".split()  # files that many repositories do not have


def missing(folder: Path, extras: Iterable[str] = EXTRAS) -> Iterator[str]:
    """Yield each file that loading would read and that is neither in the cache nor known to be
    missing on the hub. Download each file at once, because the next ones depend on it."""

    def lacks(*files):
        absent = folder.parents[1] / ".no_exist" / folder.name  # where huggingface_hub notes it
        return [f for f in files if not (folder / f).is_file() and not (absent / f).is_file()]

    yield from lacks("config.json", *extras)
    if not (folder / "tokenizer.json").is_file():
        yield from lacks("vocab.json", "merges.txt")
    if not (folder / "model.safetensors").is_file():
        yield from lacks("model.safetensors.index.json")
        yield from lacks(*sorted({*read_index(folder).values()} or {"model.safetensors"}))


def snapshots(name: str) -> list[Path]:
    """Return main's folder in the cache, which may be missing, and those of other commits."""
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")
    main = place / "refs" / "main"
    commit = main.read_text("utf-8", "replace").strip() if main.is_file() else ""
    others = sorted(place.glob("snapshots/*"), key=lambda folder: -folder.stat().st_mtime)
    return [place / "snapshots" / (commit if commit.isalnum() else "main"), *others]


def cached(name: str) -> Path | None:
    """Return the repository's folder in the cache, or None if it is missing or incomplete."""
    try:
        folder = snapshots(name)[0]
        return None if any(missing(folder)) else folder
    except UserError:  # a damaged index, which loading will name
        return folder
    except (ModuleNotFoundError, OSError, ValueError):  # `fetch` reports this if it is needed
        return None


def fetch(name: str) -> Path:
    """Download what the cache lacks, and return the repository's folder. If this fails, use
    a commit in the cache that lacks at most some of EXTRAS, with a note. Raises UserError."""
    from huggingface_hub import errors, hf_hub_download, model_info

    try:
        model_info(name, revision="main")  # without a network, this fails at once
        folder = snapshots(name)[0]
        if any(missing(folder, extras=())):
            folder = Path(hf_hub_download(name, "config.json")).parent  # the newest commit
        for file in missing(folder):
            with contextlib.suppress(errors.RemoteEntryNotFoundError):
                hf_hub_download(name, file, revision=folder.name)
        return folder
    except Exception as error:  # from the hub, its HTTP library or the system
        cause = error.__cause__ or error
        said = getattr(error, "server_message", None) or getattr(cause, "server_message", None)
        reason = f"{said or cause}".partition("\n")[0][:200]
        newest, *others = snapshots(name)
        usable = (x for x in (newest, *others) if not any(missing(x, extras=())))
        if found := next(usable, None):
            lost = [*missing(found), *["its newest commit"] * (found != newest)]
            print(f"note: {name} is used without {', '.join(lost)}: {reason}", file=sys.stderr)
            return found
        if isinstance(error, errors.RepositoryNotFoundError):  # or the repository is gated
            what = "accept the terms on its page and set a valid HF_TOKEN"
            what += f" ({said})" if said else ""
            raise UserError(f"you may not read {name}, or it does not exist: {what}") from None
        if newest.is_dir():
            name = f"{[*missing(newest, extras=())][-1]}, which {newest} lacks"
        remedy = "when that is mended, run this again"
        raise UserError(f"cannot download {name}: {reason}; {remedy}") from None
