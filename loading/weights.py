"""A folder's weights as float32 arrays, mapped into memory where that is possible.

NumPy computes with float32, and has no bfloat16. So a checkpoint of 16-bit floats is converted
once, into a file beside it that every later start maps.
"""

import os
import sys
from pathlib import Path

import numpy as np

from loading.download import locked
from loading.errors import clear_errors
from loading.safetensors import float32, read_checkpoint, read_safetensors, write_safetensors

CONVERTED = "tokenwise.safetensors"
SMALL = 2**25  # bytes that are converted at each start, in a few hundredths of a second


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """The folder's weights -> {name: float32 array}. Raises ValueError for a damaged file, and
    UserError if the converted file cannot be written."""
    tensors = read_checkpoint(folder)
    halves = {name: array for name, array in tensors.items() if array.dtype.itemsize == 2}

    def converted(name):
        return float32(name, halves[name], halves[name].shape)

    n_bytes = sum(array.nbytes for array in halves.values())
    if n_bytes < SMALL or not os.access(folder, os.W_OK):
        return tensors | {name: converted(name) for name in halves}
    path, metadata = folder / CONVERTED, {"format": "tokenwise", "source": fingerprint(folder)}
    with locked(folder):  # another process may be making it
        if not path.is_file() or read_safetensors(path)[1] != metadata:
            print(f"converting {folder} to 32 bits (only this once)", file=sys.stderr)
            shapes = {name: array.shape for name, array in halves.items()}
            with clear_errors(path):
                write_safetensors(path, shapes, converted, metadata)
    return tensors | read_safetensors(path)[0]


def fingerprint(folder: Path) -> str:
    """The names, sizes and times of the checkpoint's files: when one changes, this does."""
    files = [path for path in folder.glob("*.safetensors") if path.name != CONVERTED]
    stats = [(path.name, path.stat()) for path in sorted(files)]
    return " ".join(f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats)
