"""A repository of the Hugging Face hub -> its folder in Hugging Face's cache.

The library huggingface_hub downloads, resumes, locks and authenticates; it reads HF_HOME,
HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE. What it needs for that is imported only if
something is missing: it takes longer than a model's start.
"""

from pathlib import Path

from loading.errors import UserError
from loading.weights import weight_files

FILES = [  # those that are read here, and the chat template
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
    "added_tokens.json", "chat_template.jinja", "model.safetensors", "model-*.safetensors",
    "model.safetensors.index.json",
]  # fmt: skip


def cached(name: str) -> Path | None:
    """The repository's folder in the cache, or None: it is not there, or not whole."""
    try:
        from huggingface_hub import constants
    except ModuleNotFoundError:  # `fetch` says so, where it is needed
        return None
    place = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")
    main = place / "refs" / "main"
    if not main.is_file():
        return None
    folder = place / "snapshots" / main.read_text().strip()
    wanted = [folder / "config.json", *weight_files(folder)]
    has_tokenizer = (folder / "tokenizer.json").is_file() or (folder / "merges.txt").is_file()
    return folder if has_tokenizer and all(path.is_file() for path in wanted) else None


def fetch(name: str) -> Path:
    """Download the repository -> its folder in the cache. Raises UserError."""
    from huggingface_hub import errors, hf_hub_download, snapshot_download

    try:
        snapshot_download(name, allow_patterns=FILES)
        # It comes last: if config.json is there, all the rest is.
        return Path(hf_hub_download(name, "config.json")).parent
    except errors.GatedRepoError:
        page = f"https://huggingface.co/{name}"
        raise UserError(f"{name} is gated: accept its terms on {page}, set HF_TOKEN") from None
    except errors.RepositoryNotFoundError:
        why = "or it is private; check the name, or set HF_TOKEN to a valid token"
        raise UserError(f"the hub has no {name}, {why}") from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "cannot be reached; check the network, HF_ENDPOINT and HF_HUB_OFFLINE"
        raise UserError(f"{name} is not here, and the hub {why}") from None
    except Exception as error:  # the library raises its own, its HTTP library's, and the system's
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"cannot download {name}: {reason:.200}; run this again") from None
