"""Make good and bad TensorFlow checkpoints, and download each from a local server. For each, write
the error message and the names of the files and folders that are left to messages.json.

A test runs this script in a new process, because importing TensorFlow takes seconds.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import utils
from loading import openai
from tests.support.checkpoints import CONFIG, openai_arrays, random_arrays, write_openai
from tests.support.server import Server, cut, garbage

INDEX, DATA = openai.CHECKPOINT[1:]


def released(folder):
    """Return a folder's files as {path on the server: bytes}.

    Also make loading/openai.py expect the hashes of this folder's tokenizer files.
    """
    files = {f"/124M/{path.name}": path.read_bytes() for path in folder.iterdir()}
    openai.VOCAB = hashlib.sha256(files["/124M/encoder.json"]).hexdigest()
    openai.MERGES = hashlib.sha256(files["/124M/vocab.bpe"]).hexdigest()
    return files


def fetched(place, files, faults=None):
    """Download a model to `place`. Return the error message (or None) and the names in `place`."""
    place.mkdir()
    with Server(files) as server:
        server.faults = faults or {}
        openai.RELEASE, message = server.url, None
        try:
            openai.fetch("124M", place / "124M")
        except utils.UserError as error:
            message = str(error)
    return message, sorted(path.name for path in place.iterdir())


def altered(data):
    """Return the data with its middle byte inverted."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


def cases(folder):
    """Yield each checkpoint as (name, files on the server, faults that the server makes)."""
    good = released(write_openai(folder / "released"))
    data, index, vocab = (f"/124M/{name}" for name in (DATA, INDEX, "encoder.json"))
    yield "good", good, {}
    yield "no index", {path: file for path, file in good.items() if path != index}, {}
    yield "cut data", good, {data: [cut(10_000)]}
    yield "data changed on the way", good, {data: [garbage]}
    yield "different vocabulary", good | {vocab: good[vocab].replace(b"the", b"eth")}, {}
    yield "short data", good | {data: good[data][:10_000]}, {}
    yield "altered data", good | {data: altered(good[data])}, {}
    yield "altered index", good | {index: altered(good[index])}, {}
    yield "damaged hparams", good | {"/124M/hparams.json": b"[]"}, {}
    arrays = openai_arrays(random_arrays(CONFIG))
    c_fc = "model/h1/mlp/c_fc/w"
    changes = {
        "missing": {name: array for name, array in arrays.items() if name != "model/wpe"},
        "extra": arrays | {"model/more": np.zeros(3, np.float32)},
        "transposed": arrays | {c_fc: arrays[c_fc].swapaxes(1, 2)},
        "integers": arrays | {"model/wte": arrays["model/wte"].astype(np.int32)},
    }
    for name, changed in changes.items():
        yield name, released(write_openai(folder / f"released {name}", arrays=changed)), {}


def main():
    folder = Path(sys.argv[1])
    messages = {name: fetched(folder / name, *more) for name, *more in cases(folder)}
    (folder / "messages.json").write_text(json.dumps(messages))


if __name__ == "__main__":
    main()
