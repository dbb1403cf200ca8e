"""loading/weights.py reads safetensors files, and refuses damaged or malicious files."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from loading.errors import UserError
from loading.weights import read_safetensors, read_weights
from tests.support.checkpoints import write_index, write_shards


def write_raw(path, entries, data):
    """Write a safetensors file with these entries, {name: [dtype, shape, offsets]}."""
    keys = "dtype", "shape", "data_offsets"
    header = json.dumps({name: dict(zip(keys, entry)) for name, entry in entries.items()}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


GOOD = {"a": ["F32", [2, 1], [0, 8]], "b": ["I64", [], [8, 16]], "c": ["F16", [0, 3], [16, 16]]}


def test_floats_of_any_width_become_float32_and_other_types_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "f32": rng.normal(size=(3, 5)).astype(np.float32),
        "scalar": np.array(2.5),
        "f16": rng.normal(size=7).astype(np.float16),
        "empty": np.zeros((0, 4), np.float32),
    }
    others = {"i64": np.arange(6).reshape(1, 2, 3), "bool": np.array([True, False])}
    save_file(arrays | others, tmp_path / "file", metadata={"format": "pt", "dtype": "F32"})
    found = read_safetensors(tmp_path / "file")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == np.float32 and type(found[name]) is np.ndarray
        np.testing.assert_array_equal(found[name], array.astype(np.float32))


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    values = np.array([[1.5, -2.0, 0.0, -0.0], [3e38, 1e-40, np.inf, 2**-7]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    path = write_raw(tmp_path / "file", {"x": ["BF16", [2, 4], [0, 16]]}, bits.tobytes())
    found = read_safetensors(path)["x"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (bits.astype(np.uint32) << 16).view(np.float32))
    assert list(found[0]) == [1.5, -2.0, 0.0, 0.0] and found[1, 2] == np.inf


def test_a_large_float64_becomes_infinite_without_a_warning(tmp_path):
    save_file({"x": np.array([1e300, -1e300, 1.0])}, tmp_path / "file")
    assert list(read_safetensors(tmp_path / "file")["x"]) == [np.inf, -np.inf, 1]


def test_float32_is_a_read_only_view_of_the_mapped_file(tmp_path):
    save_file({"a": np.ones((3, 4), np.float32)}, tmp_path / "file")
    array = base = read_safetensors(tmp_path / "file")["a"]
    assert not array.flags.writeable and array.flags.aligned
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_an_unaligned_array_is_copied(tmp_path):
    raw = np.arange(3, dtype=np.float32).tobytes()
    entries = {"a": ["U8", [1], [0, 1]], "b": ["F32", [3], [1, 13]]}
    found = read_safetensors(write_raw(tmp_path / "file", entries, b"\0" + raw))
    assert found["b"].flags.aligned and list(found["b"]) == [0, 1, 2]


# --- damaged files --------------------------------------------------------------------------------


def test_the_intact_file_is_read(tmp_path):
    found = read_safetensors(write_raw(tmp_path / "file", GOOD, bytes(16)))
    assert {name: array.shape for name, array in found.items()} == {"a": (2, 1), "c": (0, 3)}


@pytest.mark.parametrize(
    "entries, n_bytes",
    [
        (GOOD, 15),  # cut off
        (GOOD, 17),  # too long
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [2], [4, 12]]}, 12),  # the arrays overlap
        ({"a": ["F32", [2], [0, 8]], "b": ["F32", [1], [12, 16]]}, 16),  # a gap between the arrays
        ({"a": ["F32", [2], [8, 0]]}, 8),
        ({"a": ["F32", [2**40], [0, 2**42]]}, 8),  # 4 TiB
        ({"a": ["F33", [2], [0, 8]]}, 8),
        ({"a": []}, 0),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, entries, n_bytes):
    with pytest.raises(UserError, match="file is damaged: .*git lfs pull"):
        read_safetensors(write_raw(tmp_path / "file", entries, bytes(n_bytes)))


def test_every_truncation_is_refused(tmp_path):
    whole = write_raw(tmp_path / "file", GOOD, bytes(16)).read_bytes()
    for n in range(len(whole)):
        (tmp_path / "file").write_bytes(whole[:n])
        with pytest.raises(UserError):
            read_safetensors(tmp_path / "file")


# --- folders --------------------------------------------------------------------------------------


def test_the_prefix_and_unused_arrays_are_left_out(tmp_path):
    one = np.ones(1, np.float32)
    arrays = {"model.a": one, "model.b.mask": one, "c.model.d": one}
    save_file(arrays, tmp_path / "model.safetensors")
    assert read_weights(tmp_path, "model.", (".mask",)).keys() == {"a", "c.model.d"}


def test_the_index_says_where_an_array_lies(tmp_path):
    places = write_shards(tmp_path)
    wanted = {name: np.array(array) for name, array in read_weights(tmp_path, "", ()).items()}
    for file in {*places.values()}:
        arrays = {name: wanted[name] * (file == place) for name, place in places.items()}
        save_file(arrays, tmp_path / file)
    found = read_weights(tmp_path, "", ())
    assert all(np.array_equal(found[name], wanted[name]) for name in places)


def test_a_shard_outside_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    places = write_shards(folder)
    assert read_weights(folder, "", ()).keys() == places.keys()
    shard = next(iter(places.values()))
    (folder / shard).rename(tmp_path / "outside.safetensors")
    for file in ("../outside.safetensors", str(tmp_path / "outside.safetensors"), "a/b"):
        write_index(folder, {key: place.replace(shard, file) for key, place in places.items()})
        with pytest.raises(UserError, match="is not a file of this folder"):
            read_weights(folder, "", ())
