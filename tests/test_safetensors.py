"""safetensors files, good, damaged and hostile ones."""

import errno
import json
import mmap
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from loading.safetensors import float32, read_safetensors, write_safetensors
from tests.checkpoints import ROOT


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    values = np.array([[1.5, -2.0, 0.0, -0.0], [3e38, 1e-40, np.inf, 2**-7]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_raw(tmp_path / "file", {"x": ["BF16", [2, 4], [0, 16]]}, bits.tobytes())
    stored, _ = read_safetensors(tmp_path / "file")
    widened = float32("x", stored["x"], (2, 4))
    assert widened.dtype == np.float32
    assert np.array_equal(widened, (bits.astype(np.uint32) << 16).view(np.float32))
    assert list(widened[0]) == [1.5, -2.0, 0.0, 0.0] and widened[1, 2] == np.inf


def write_raw(path, entries, data, metadata=None, length=None):
    """A safetensors file as it is told: {name: [dtype, shape, offsets]}."""
    header = {} if metadata is None else {"__metadata__": metadata}
    for name, entry in entries.items():
        header[name] = dict(zip(("dtype", "shape", "data_offsets"), entry))
    header = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)
    return path


GOOD = {"a": ["F32", [2, 1], [0, 8]], "b": ["I64", [], [8, 16]], "c": ["F16", [0, 3], [16, 16]]}


def test_what_the_reference_writes_is_read_and_what_we_write_it_reads(tmp_path):

    rng = np.random.default_rng(0)
    arrays = {
        "f32": rng.normal(size=(3, 5)).astype(np.float32), "scalar": np.array(2.5),
        "f16": rng.normal(size=7).astype(np.float16), "i64": np.arange(6).reshape(1, 2, 3),
        "bool": np.array([True, False]), "empty": np.zeros((0, 4), np.float32),
    }  # fmt: skip
    save_file(arrays, tmp_path / "theirs", metadata={"format": "pt"})
    found, metadata = read_safetensors(tmp_path / "theirs")
    assert metadata == {"format": "pt"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)

    shapes = {name: array.shape for name, array in arrays.items()}
    write_safetensors(tmp_path / "ours", shapes, arrays.get, {"by": "us"})
    theirs = load_file(tmp_path / "ours")
    for name, array in arrays.items():
        assert theirs[name].dtype == np.float32
        assert np.array_equal(theirs[name], array.astype(np.float32))


def test_arrays_are_views_of_the_mapped_file(tmp_path):
    write_safetensors(
        tmp_path / "file", {"a": (3, 4)}, lambda name: np.ones((3, 4), np.float32), {}
    )
    array = read_safetensors(tmp_path / "file")[0]["a"]
    assert type(array) is np.ndarray and not array.flags.writeable and array.flags.aligned
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
    assert array.ctypes.data % 64 == 0


def test_an_unaligned_array_is_copied_into_line(tmp_path):
    raw = np.arange(3, dtype=np.float32).tobytes()
    entries = {"a": ["U8", [1], [0, 1]], "b": ["F32", [3], [1, 13]]}
    found, _ = read_safetensors(write_raw(tmp_path / "file", entries, b"\0" + raw))
    assert found["b"].flags.aligned and list(found["b"]) == [0, 1, 2]


def test_the_good_example_is_good(tmp_path):
    found, _ = read_safetensors(write_raw(tmp_path / "file", GOOD, bytes(16)))
    assert {name: array.shape for name, array in found.items()} == {
        "a": (2, 1), "b": (), "c": (0, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    "entries, n_bytes",
    [
        (GOOD, 15),  # cut
        (GOOD, 17),  # too much
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [2], [4, 12]]}, 12),  # overlap
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [1], [12, 16]]}, 16),  # gap
        ({"a": ["F32", [2], [4, 12]]}, 12),  # gap at the beginning
        ({"a": ["F32", [2], [8, 0]]}, 8),
        ({"a": ["F32", [2], [-8, 0]]}, 8),
        ({"a": ["F32", [3], [0, 8]]}, 8),
        ({"a": ["F32", [-1, -2], [0, 8]]}, 8),
        ({"a": ["F32", [2.0], [0, 8]]}, 8),
        ({"a": ["F32", [True, 2], [0, 8]]}, 8),
        ({"a": ["F32", "2", [0, 8]]}, 8),
        ({"a": ["F32", None, [0, 8]]}, 8),
        ({"a": ["F32", [2], [0, 8, 8]]}, 8),
        ({"a": ["F32", [2], [0]]}, 8),
        ({"a": ["F32", [2], [0, 2**63]]}, 8),
        ({"a": ["F32", [2**40], [0, 2**42]]}, 8),  # a terabyte and more
        ({"a": ["F32", [2**60, 2**60], [0, 8]]}, 8),
        ({"a": ["F32", [0, 2**62], [0, 0]]}, 0),
        ({"a": ["F32", [1] * 70 + [2], [0, 8]]}, 8),
        ({"a": ["F33", [2], [0, 8]]}, 8),
        ({"a": [["F32"], [2], [0, 8]]}, 8),
        ({"a": []}, 0),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, entries, n_bytes):
    write_raw(tmp_path / "file", entries, bytes(n_bytes))
    with pytest.raises(ValueError):
        read_safetensors(tmp_path / "file")


@pytest.mark.parametrize("length", [2**40, 2**64 - 1, 10**8 + 1, 200, 1, 0])
def test_a_header_length_that_lies_allocates_nothing(tmp_path, length, monkeypatch):
    write_raw(tmp_path / "file", GOOD, bytes(16), length=length)
    with pytest.raises(ValueError):
        read_safetensors(tmp_path / "file")


def test_a_header_past_the_formats_limit_is_not_read(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.write(struct.pack("<Q", 2**32))
        file.truncate(2**33)  # a sparse file: no disk is used
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_safetensors(tmp_path / "file")


@pytest.mark.parametrize("header", [[], {"a": 1}, {"__metadata__": 1}, {"__metadata__": None}])
def test_a_header_of_another_kind_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError):
        read_safetensors(tmp_path / "file")


def test_every_truncation_is_refused(tmp_path):
    whole = write_raw(tmp_path / "file", GOOD, bytes(16)).read_bytes()
    for n in range(len(whole)):
        (tmp_path / "file").write_bytes(whole[:n])
        with pytest.raises(ValueError):
            read_safetensors(tmp_path / "file")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_altered_files_are_refused_or_still_whole(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "altered"
    whole = bytearray(write_raw(path, GOOD, bytes(range(16))).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        found, _ = read_safetensors(path)
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) == 16


def test_writing_leaves_the_whole_file_or_none(tmp_path, monkeypatch):
    path, shapes = tmp_path / "file", {"a": (2,), "b": (2,)}

    def fail_at_b(name):
        if name == "b":
            raise OSError(errno.ENOSPC, "No space left on device")
        return np.zeros(2, np.float32)

    with pytest.raises(OSError):
        write_safetensors(path, shapes, fail_at_b, {})
    assert os.listdir(tmp_path) == []
    write_safetensors(path, shapes, lambda name: np.zeros(2, np.float32), {})
    with pytest.raises(OSError):
        write_safetensors(path, shapes, fail_at_b, {})
    assert os.listdir(tmp_path) == ["file"]
    assert list(read_safetensors(path)[0]) == ["a", "b"]


KILLED = """
import os, sys, numpy as np
from loading.safetensors import write_safetensors
from pathlib import Path
def die_at_b(name):
    return os._exit(9) if name == "b" else np.zeros(2, np.float32)
write_safetensors(Path(sys.argv[1]), {"a": (2,), "b": (2,)}, die_at_b, {})
"""


def test_a_process_killed_while_writing_leaves_nothing_that_hinders(tmp_path):
    path = tmp_path / "file"
    process = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT)
    assert process.returncode == 9 and not path.exists()
    shapes = {"a": (2,), "b": (2,)}
    write_safetensors(path, shapes, lambda name: np.zeros(2, np.float32), {})
    assert os.listdir(tmp_path) == ["file"]
