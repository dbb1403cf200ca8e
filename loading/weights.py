"""A folder's weights as float32 arrays, mapped into memory where they can be.

NumPy computes in float32, and has no bfloat16. So a checkpoint of 16-bit floats is converted once,
into a file beside it, which every later start maps.
"""

import os
import sys
from pathlib import Path

import numpy as np

from loading.download import locked
from loading.errors import clear_errors, explained
from loading.safetensors import float32, read_checkpoint, read_safetensors, write_safetensors

CONVERTED = "tokenwise.safetensors"
SMALL = 2**25  # bytes that are converted at each start instead, in a few hundredths of a second


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """The folder's weights -> {name: float32 array}. Raises ValueError for a damaged file, and
    UserError if the converted file cannot be written."""
    tensors = read_checkpoint(folder)
    halves = {name: array for name, array in tensors.items() if array.dtype.itemsize == 2}

    def converted(name):
        return float32(name, halves[name], halves[name].shape)

    path, metadata = folder / CONVERTED, {"format": "tokenwise", "source": fingerprint(folder)}
    n_bytes = sum(array.nbytes for array in halves.values())
    if n_bytes < SMALL or not (is_current(path, metadata) or os.access(folder, os.W_OK)):
        return tensors | {name: converted(name) for name in halves}
    with locked(folder):  # another process may be writing it
        if not is_current(path, metadata):
            print(f"converting {folder} to 32 bits (only this once)", file=sys.stderr)
            shapes = {name: array.shape for name, array in halves.items()}
            with clear_errors(path):
                write_safetensors(path, shapes, converted, metadata)
    return tensors | read_safetensors(path)[0]


def is_current(path: Path, metadata: dict) -> bool:
    """Is the converted file here, and made of these files? UserError if it is damaged."""
    with explained(f"{path} is damaged", "delete it, and it is made again"):
        return path.is_file() and read_safetensors(path)[1] == metadata


def fingerprint(folder: Path) -> str:
    """The names, sizes and times of the checkpoint's files: a changed file changes them."""
    files = sorted(path for path in folder.glob("*.safetensors") if path.name != CONVERTED)
    stats = ((path.name, path.stat()) for path in files)
    return " ".join(f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats)
