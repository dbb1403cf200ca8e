"""safetensors files, mapped into memory rather than read.

A file is a header (JSON) and the bytes of its arrays one after the other. So an array can be a view
of the mapped file: opening a model costs nothing, no weight is copied, and pages come from the disk
when they are first used. Nothing is unpickled, and all that a header promises is checked first.
Format: https://huggingface.co/docs/safetensors
"""

import json
import math
import mmap
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from loading.config import parse_object

DTYPES = {  # by the format's names; bfloat16, which NumPy does not know, as its bits: see float32
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
FLOATS = [np.dtype(DTYPES[name]) for name in ("F64", "F32", "F16", "BF16")]
CONVERT = (  # the remedy for a folder without model.safetensors
    "other formats are not opened, for they can run code; with transformers,"
    " AutoModelForCausalLM.from_pretrained(NAME).save_pretrained(FOLDER) writes one (for T5 and"
    " BART AutoModelForSeq2SeqLM), AutoTokenizer likewise"
)
MAX_HEADER = 10_000_000  # bytes, ten times what large models have; as Python objects it takes more


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """File -> ({name: array}, metadata). The arrays are read-only views of the mapped file.

    Raises ValueError for a file that is cut, altered, or something else.
    """
    if path.stat().st_size == 0:  # so has a pipe, and opening it would block
        raise ValueError(f"{path.name} is empty")
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(mapped[:8], "little")
    if mapped[:8] == b"version ":
        raise ValueError(f"{path.name} is a Git LFS pointer: `git lfs pull` fetches the file")
    if length > min(len(mapped) - 8, MAX_HEADER):
        raise ValueError(f"{path.name} is cut off, or not a safetensors file")
    header = parse_object(mapped[8 : 8 + length])
    data = np.frombuffer(mapped, np.uint8)[8 + length :]
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise ValueError(f"{path.name}: the metadata are not a JSON object")
    entries = sorted(read_entry(name, entry) for name, entry in header.items())
    begins, ends = [begin for begin, *_ in entries], [end for _, end, *_ in entries]
    if [*begins, len(data)] != [0, *ends]:
        raise ValueError(f"{path.name} is cut off, or its arrays overlap or leave gaps")
    tensors = {}
    for begin, end, name, dtype, shape in entries:
        array = data[begin:end].view(dtype).reshape(shape)
        tensors[name] = np.require(array, requirements="A")  # a copy only where it is not aligned
    return tensors, metadata


def read_entry(name: str, entry: Any) -> tuple[int, int, str, np.dtype, tuple]:
    """One array's entry of a header -> (begin, end, name, dtype, shape), or ValueError."""
    entry = entry if isinstance(entry, dict) else {}
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    for numbers in (shape, offsets):
        is_list = isinstance(numbers, list) and len(numbers) <= 8
        if not is_list or not all(type(n) is int and 0 <= n < 2**48 for n in numbers):
            raise ValueError(f"{name}: shape {shape} at {offsets} is not a place in the file")
    if entry.get("dtype") not in list(DTYPES):
        raise ValueError(f"{name}: the dtype {entry.get('dtype')!r} is not known")
    dtype = np.dtype(DTYPES[entry["dtype"]])
    if len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: the shape {shape} does not fill the bytes {offsets}")
    return *offsets, name, dtype, tuple(shape)


def read_checkpoint(folder: Path) -> dict[str, np.ndarray]:
    """model.safetensors of a folder, or the shards that its index names -> {name: array}.

    Raises ValueError when damaged, FileNotFoundError when there is neither.
    """
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return read_safetensors(folder / "model.safetensors")[0]
    if not index.is_file():
        raise FileNotFoundError(f"it has no model.safetensors; {CONVERT}")
    tensors, places = dict[str, Any](), read_index(index)
    for shard in sorted(set(places.values())):
        found = read_safetensors(folder / shard)[0]
        check_names([name for name in places if places[name] == shard], found)
        tensors |= found
    return tensors


def read_index(index: Path) -> dict[str, str]:
    """model.safetensors.index.json -> {name: the file that has this array}. Raises ValueError, also
    for a file that is not in the index's own folder, or not called so."""
    places = parse_object(index.read_bytes()).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ValueError(f"{index.name} has no weight_map of names and files")
    for shard in set(places.values()):
        if not re.fullmatch(r"\w[\w.-]*\.safetensors", shard, re.ASCII):
            raise ValueError(f"{index.name}: {shard!r} is not a file of this folder")
    return places


def write_safetensors(
    path: Path, shapes: dict[str, tuple], tensor: Callable[[str], np.ndarray], metadata: dict
) -> None:
    """Write float32 arrays, one in memory at a time; `path` is there whole or not at all.

    shapes: {name: shape}; tensor(name) gives the array when its turn comes; metadata: {str: str}.
    """
    entries, end = {"__metadata__": metadata}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-(8 + len(header)) % 64)  # aligns the data to 64 bytes
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for name in shapes:
                file.write(np.ascontiguousarray(tensor(name), "<f4").data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def float32(name: str, array: np.ndarray, shape: tuple) -> np.ndarray:
    """A stored array as float32, which itself is not copied. Raises ValueError when it has another
    shape, or holds no floats."""
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has the shape {list(array.shape)}, expected {list(shape)}")
    if array.dtype not in FLOATS:
        raise ValueError(f"{name} holds {array.dtype}, not floating-point numbers")
    if array.dtype == np.uint16:  # bfloat16 is the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # a float64 past float32's range becomes inf
        return array.astype(np.float32, copy=False)


def check_names(wanted: Iterable[str], found: Iterable[str]) -> None:
    """Raises ValueError that lists the first names that are missing or not known."""
    wanted, found = set(wanted), set(found)
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    for names, fault in ((missing, "missing"), (extra, "unknown")):
        if names:
            more = ", ..." if len(names) > 3 else ""
            raise ValueError(f"{len(names)} arrays are {fault}: {', '.join(names[:3])}{more}")
