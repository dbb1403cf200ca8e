"""Finds a repository of the Hugging Face hub in Hugging Face's cache, or downloads it there.

The library huggingface_hub downloads the files and locks the cache. It reads HF_HOME, HF_HUB_CACHE,
HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. Its slow parts are imported only if a file is missing.
"""

from pathlib import Path

from loading.errors import UserError
from loading.weights import weight_files

FILES = """generation_config.json tokenizer.json tokenizer_config.json vocab.json merges.txt
    added_tokens.json chat_template.jinja model.safetensors model-*.safetensors
    model.safetensors.index.json""".split()


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
    has_tokenizer = (folder / "tokenizer.json").is_file() or (folder / "merges.txt").is_file()
    files = [folder / "config.json", *weight_files(folder)]
    return folder if has_tokenizer and all(path.is_file() for path in files) else None


def fetch(name: str) -> Path:
    """Download the repository, and return its folder in the cache. Raises UserError."""
    from huggingface_hub import errors, hf_hub_download, model_info
    from huggingface_hub.utils import filter_repo_objects

    try:  # one file after the other: snapshot_download's threads would not end at Ctrl-C
        files = [file.rfilename for file in model_info(name, revision="main").siblings or ()]
        # config.json is downloaded last: if it is there, so are all other files.
        for file in [*filter_repo_objects(files, allow_patterns=FILES), "config.json"]:
            path = Path(hf_hub_download(name, file))
        return path.parent
    except errors.RepositoryNotFoundError:  # or the repository is gated
        what = "accept the terms on its page and set a valid HF_TOKEN"
        raise UserError(f"you may not read {name}, or it does not exist: {what}") from None
    except Exception as error:  # from the hub, its HTTP library or the system
        reason = f"{error.__cause__ or error}".partition("\n")[0]
        remedy = "when that is mended, run this again"
        raise UserError(f"cannot download {name}: {reason:.200}; {remedy}") from None
