"""Loads a folder's safetensors files as float32 arrays, mapped into memory rather than read.

The library `safetensors` checks a file against its JSON header. A float32 array is then a view of
the mapped file, so loading is fast. Weights of 16 bits are converted each time they are loaded.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from loading.config import read_json
from loading.errors import AGAIN, UserError, explained

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # other types are ignored


def weight_files(folder: Path) -> list[Path]:
    """Return model.safetensors or its shards. Raises UserError for a shard in another folder."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return [folder / "model.safetensors"]
    names = sorted({*read_json(index)["weight_map"].values()})
    if outside := [name for name in names if Path(name).name != name]:
        raise UserError(f"{index}: {outside[0]!r} is not a file of this folder")
    return [folder / name for name in names]


def read_weights(folder: Path, prefix: str, unused: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return {name without prefix: float32 array}, except names that end with one of `unused`.
    Raises UserError if a file is missing or damaged."""
    paths = weight_files(folder)
    if missing := [path.name for path in paths if not path.is_file()]:
        remedy = "other formats can run code; transformers' save_pretrained(FOLDER) writes this one"
        raise UserError(f"{folder} has no {missing[0]}; {remedy}")
    found = [pair for path in paths for pair in read_safetensors(path).items()]
    return {name.removeprefix(prefix): a for name, a in found if not name.endswith(unused)}


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Return {name: float32 array}; arrays stored as float32 are read-only views of the file."""
    with explained(f"{path} is damaged", AGAIN, (SafetensorError,)), safe_open(path, "np"):
        pass
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    return {
        name: float32(data[start:][slice(*entry["data_offsets"])], entry["dtype"], entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") in DTYPES
    }


def float32(data: np.ndarray, dtype: str, shape: list[int]) -> np.ndarray:
    """Return an array's bytes as float32. If they are float32 and aligned, nothing is copied."""
    array = data.view(DTYPES[dtype]).reshape(shape)
    if dtype == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes inf
        return np.require(array, np.float32, "A")
