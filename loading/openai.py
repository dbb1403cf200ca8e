"""OpenAI's release of GPT-2: fetched, and rewritten once from a TensorFlow checkpoint as a folder
in Hugging Face's layout, which load_gpt2, and other programs, read."""

import base64
import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from loading.config import read_json
from loading.errors import UserError, explained
from loading.gpt2 import load_gpt2

RELEASE = "https://openaipublic.blob.core.windows.net/gpt-2/models"
SIZES = {"124M": 124439808, "355M": 354823168, "774M": 774030080, "1558M": 1557611200}  # parameters
DATA = "model.ckpt.data-00000-of-00001"
FILES = {  # their name -> our name, and the SHA-256 of files that are the same for every size
    "hparams.json": ("hparams.json", None),
    "encoder.json": (
        "vocab.json", "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    ),
    "vocab.bpe": (
        "merges.txt", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    ),
    "model.ckpt.index": ("model.ckpt.index", None),
    DATA: (DATA, None),
}  # fmt: skip


def fetch(size: str, folder: Path) -> Path:
    """Download an official model and write it as a folder, which is there whole or not at all.
    -> the folder. Raises UserError."""
    if importlib.util.find_spec("tensorflow") is None:  # before half a gigabyte is fetched
        raise UserError(
            "OpenAI's checkpoints are read with TensorFlow, once: pip install tensorflow; or use"
            " the Hugging Face hub's: gpt2, gpt2-medium, gpt2-large, gpt2-xl"
        )
    with (
        explained(f"cannot fetch {size} into {folder}", "run this again", (OSError,)),
        tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder.parent) as temporary,
    ):
        released, made = Path(temporary, "released"), Path(temporary, "made")
        released.mkdir()
        for theirs, (ours, sha256) in FILES.items():
            n_bytes = 4 * SIZES[size] if theirs == DATA else None  # float32, and nothing else
            download(f"{RELEASE}/{size}/{theirs}", released / ours, n_bytes, sha256)
        print(f"writing {folder} in Hugging Face's layout (only this once)", file=sys.stderr)
        rewrite(released, made)
        if not folder.is_dir():  # another process may have made it by now
            made.rename(folder)
    return folder


def download(url: str, path: Path, n_bytes: int | None, sha256: str | None) -> None:
    """Fetch a file, with a progress bar, and compare its size and checksums with those that are
    known and those that the server sends. Raises OSError."""
    import requests
    from tqdm import tqdm

    md5, sha = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with requests.get(url, stream=True, timeout=30) as reply, open(path, "wb") as file:
        reply.raise_for_status()
        told = int(reply.headers.get("Content-Length", 0))
        with tqdm(desc=path.name, total=n_bytes or told, unit="B", unit_scale=True) as bar:
            for chunk in reply.iter_content(2**20):
                file.write(chunk)
                md5.update(chunk)
                sha.update(chunk)
                bar.update(len(chunk))
        sums = base64.b64encode(md5.digest()).decode(), sha.hexdigest(), file.tell()
    expected = reply.headers.get("Content-MD5"), sha256, n_bytes or told
    if any(known and known != found for known, found in zip(expected, sums)):
        raise OSError(f"{url} was changed, or cut off, on the way")


def rewrite(released: Path, folder: Path) -> None:
    """A TensorFlow checkpoint, hparams.json and the tokenizer's files -> a folder in Hugging Face's
    layout. UserError for a damaged checkpoint."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # silence TensorFlow's start-up log
    import tensorflow as tf  # type: ignore
    from safetensors.numpy import save_file

    sizes = read_json(released / "hparams.json")
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "eos_token_id": 50256,
        "vocab_size": sizes.pop("n_vocab"), "n_positions": sizes["n_ctx"], **sizes,
    }  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in ("vocab.json", "merges.txt"):
        (folder / name).write_bytes((released / name).read_bytes())
    try:
        reader = tf.train.load_checkpoint(str(released / "model.ckpt"))
        arrays = {their_name(name): reader.get_tensor(name)
                  for name in reader.get_variable_to_shape_map()}  # fmt: skip
        arrays = {
            name: a[0] if a.ndim == 3 else a for name, a in arrays.items()
        }  # [1, n_in, n_out]
        save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
        load_gpt2(folder, config)  # checks every name and shape
    except Exception as error:  # TensorFlow raises many kinds of exception
        raise UserError(f"the checkpoint is damaged: {error!s:.500}; run this again") from None


def their_name(name: str) -> str:
    """model/h0/mlp/c_fc/w -> h.0.mlp.c_fc.weight, model/wte -> wte.weight"""
    name = re.sub(r"^model/(h(?=\d))?", lambda match: "h." if match[1] else "", name)
    name = re.sub("/[gw]$|(?<=^w[tp]e)$", ".weight", name)
    return re.sub("/b$", ".bias", name).replace("/", ".")
