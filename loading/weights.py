"""Loads a folder's safetensors files as float32 arrays, mapped into memory rather than read.

The library `safetensors` checks a file against its JSON header. A float32 array is then a view of
the mapped file, so loading is fast. Weights of 16 bits are converted each time they are loaded.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from loading.config import read_json
from loading.errors import MALFORMED, UserError, again, explained

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # other types are ignored


def read_index(folder: Path) -> dict[str, str]:
    """Return {array: file}, or {} if there are no shards, only model.safetensors. Raises UserError
    if the index is damaged, or names a file in another folder."""
    path = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not path.is_file():
        return {}
    with explained(f"{path} is damaged", again(path), MALFORMED):
        places = read_json(path)["weight_map"]
        if outside := [file for file in places.values() if Path(file).name != file]:
            raise ValueError(f"{outside[0]!r} is not a file of this folder")
        return places


def read_weights(folder: Path, prefix: str, unused: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return {name without prefix: float32 array}, except names that end with one of `unused`. Of
    two names of an array, the first in the alphabet counts, as in transformers. Raises UserError if
    a file is missing or damaged."""
    places, found = read_index(folder), {}
    for file in sorted({*places.values()}) or ["model.safetensors"]:
        if not (folder / file).is_file():
            remedy = "other formats can run code; transformers' save_pretrained(FOLDER) writes it"
            raise UserError(f"{folder} has no {file}; {remedy}")
        for name, array in read_safetensors(folder / file).items():
            if places.get(name, file) == file and not name.endswith(unused):
                found[name] = array
    return {name.removeprefix(prefix): found[name] for name in sorted(found, reverse=True)}


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Return {name: float32 array}; arrays stored as float32 are read-only views of the file."""
    with explained(f"{path} is damaged", again(path), (SafetensorError,)), safe_open(path, "np"):
        pass
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    return {
        name: float32(data[start:][slice(*entry["data_offsets"])], entry["dtype"], entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] in DTYPES
    }


def float32(data: np.ndarray, dtype: str, shape: list[int]) -> np.ndarray:
    """Return an array's bytes as float32. If they are float32 and aligned, nothing is copied."""
    array = data.view(DTYPES[dtype]).reshape(shape)
    if dtype == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes inf
        return np.require(array, np.float32, "A")
