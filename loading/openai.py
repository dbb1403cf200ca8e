"""Downloads OpenAI's release of GPT-2. Converts its TensorFlow checkpoint, once, into a folder in
Hugging Face's layout, which other programs can read, too."""

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from loading.errors import UserError, explained
from loading.gpt2 import read_gpt2

RELEASE = "https://openaipublic.blob.core.windows.net/gpt-2/models"
SIZES = {"124M": "gpt2", "355M": "gpt2-medium", "774M": "gpt2-large", "1558M": "gpt2-xl"}
CHECKPOINT = "hparams.json", "model.ckpt.index", "model.ckpt.data-00000-of-00001"
# The SHA-256 of encoder.json and of vocab.bpe, which are the same for every size.
VOCAB = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
MERGES = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"


def fetch(size: str, folder: Path) -> Path:
    """Download an official model into `folder`, completely or not at all. Raises UserError."""
    if importlib.util.find_spec("tensorflow") is None:  # check before downloading half a gigabyte
        remedy = f"use --model {SIZES[size]}, which has the same weights"
        if sys.version_info < (3, 14):  # TensorFlow has no package for newer Pythons
            remedy = f"pip install tensorflow (uv run --group openai ...), or {remedy}"
        raise UserError(f"OpenAI's checkpoints are read with TensorFlow, once: {remedy}")
    from huggingface_hub.utils import WeakFileLock

    for left in folder.parent.glob(".fetched-*"):
        with contextlib.suppress(TimeoutError), WeakFileLock(left / "lock", timeout=0.1):
            shutil.rmtree(left, ignore_errors=True)  # a killed process has left it
    with (  # TensorFlow raises many kinds of exceptions
        explained(f"cannot fetch {size} into {folder}", "run this again", (Exception,)),
        tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder.parent) as temporary,
        WeakFileLock(Path(temporary, "lock")),
    ):
        (made := Path(temporary, "made")).mkdir()
        download(f"{RELEASE}/{size}/encoder.json", made / "vocab.json", VOCAB)
        download(f"{RELEASE}/{size}/vocab.bpe", made / "merges.txt", MERGES)
        for name in CHECKPOINT:
            download(f"{RELEASE}/{size}/{name}", Path(temporary, name), None)
        rewrite(Path(temporary), made)
        if not folder.is_dir():  # another process may have made it meanwhile
            made.rename(folder)
    return folder


def download(url: str, path: Path, sha256: str | None) -> None:
    """Download a file, with a progress bar. Raises OSError if its size or checksum is wrong.
    sha256: the expected checksum, or None if only the MD5 that the server sends is known."""
    import requests
    from tqdm import tqdm

    md5, sha = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with requests.get(url, stream=True, timeout=30) as reply, open(path, "wb") as file:
        reply.raise_for_status()
        n_bytes = int(reply.headers.get("Content-Length", 0))
        with tqdm(desc=path.name, total=n_bytes, unit="B", unit_scale=True) as bar:
            for chunk in reply.iter_content(2**20):
                bar.update(file.write(chunk))
                md5.update(chunk)
                sha.update(chunk)
        found = base64.b64encode(md5.digest()).decode(), sha.hexdigest(), reply.raw.tell()
    if path.suffix == ".json" and path.read_bytes()[:1] != b"{":
        raise OSError(f"{url} is no JSON, but perhaps a web page to log in to your network")
    expected = reply.headers.get("Content-MD5"), sha256, n_bytes
    if any(known and known != sum for known, sum in zip(expected, found)):
        raise OSError(f"{url} was changed, or cut off, on the way")


def rewrite(released: Path, folder: Path) -> None:
    """Convert the checkpoint and hparams.json in `released` to model.safetensors and config.json in
    `folder`, which has the tokenizer's files. Raises UserError if the checkpoint is damaged."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # silence TensorFlow's start-up log
    import tensorflow as tf  # type: ignore
    from safetensors.numpy import save_file

    sizes = json.loads((released / "hparams.json").read_bytes())
    n_vocab, n_ctx = sizes.pop("n_vocab"), sizes["n_ctx"]
    ends = {"vocab_size": n_vocab, "eos_token_id": n_vocab - 1, "n_positions": n_ctx}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **ends, **sizes}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    reader, arrays = tf.train.load_checkpoint(str(released / "model.ckpt")), {}
    for name in reader.get_variable_to_shape_map():
        array = reader.get_tensor(name)  # a linear layer's matrix is [1, n_in, n_out]
        arrays[hub_name(name)] = array[0] if array.ndim == 3 else array
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    read_gpt2(folder, config, n_vocab)  # this checks every array


def hub_name(name: str) -> str:
    """Rename an array: model/h0/mlp/c_fc/w -> h.0.mlp.c_fc.weight, model/wte -> wte.weight."""
    name = re.sub(r"/[gw]$|(?<=w[tp]e)$", ".weight", re.sub("/b$", ".bias", name))
    return re.sub(r"^h(\d+)", r"h.\1", name.removeprefix("model/").replace("/", "."))
