"""Whatever a model's files contain, loading either works or raises an error of one clear line. The
examples are random, but the same in every run."""

import json
import math
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import utils
from tests.support.checkpoints import copied

pytestmark = pytest.mark.slow

NAMES = ["one_head", "plain", "t5", "mbart", "gemma3"]  # "plain" has two files of weights
weird = st.sampled_from(
    [None, True, 0, 1, -1, 2, 3, 2**31, 10**6, 10**9, 10**30, 0.0, -0.5, 1e308, math.nan, math.inf]
    + ["", "x", "relu", "gated-gelu", "F32", "two\nlines", "\x1b[2J", "\ud800", "long " * 10_000]
    + ["../x", "/etc/passwd", "a/b", "nul\0", "*", "loop", "config.json"]
    + [[], [0], [1, 2], [None], ["x"], [[[]]], {}, {"a": 1}, [10**9] * 1000]
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Return {name: the path of an intact model folder}."""
    folders = {name: copied(name, tmp_path_factory.mktemp("intact")) for name in NAMES}
    assert all(map(utils.load, folders.values()))
    return folders


def places(part, at=()):
    """Yield the path of each value in a JSON object, a tuple of keys. Of a vocabulary, yield 3."""
    part = dict(enumerate(part)) if isinstance(part, list) else part
    keys = list(part)[:3] if at[-1:] in (("vocab",), ("merges",)) else part
    for key in keys if isinstance(part, dict) else ():
        yield (*at, key)
        yield from places(part[key], (*at, key))


def spoiled(file, data):
    """Change one value anywhere in a JSON object, or remove it. Return the JSON as bytes."""
    *way, key = data.draw(st.sampled_from([*places(file), ("eos_token_id",), ("head_dim",)]))
    part = file
    for step in way:
        part = part[step]
    part[key] = data.draw(weird)
    if data.draw(st.integers(0, 4)) == 0:
        del part[key]
    return json.dumps(file).encode()


def damaged(path, whole, data):
    """Write a damaged version of a file, whose bytes are `whole`."""
    kind = data.draw(st.sampled_from(["json"] * 9 + ["cut", "insert", "folder"]))
    at = data.draw(st.integers(0, min(64, len(whole))) | st.integers(0, len(whole)))
    if kind == "folder":
        path.mkdir()
    elif kind == "json" and path.suffix == ".json":
        path.write_bytes(spoiled(json.loads(whole), data))
    elif kind == "json" and path.suffix == ".safetensors":  # its header is JSON
        start = 8 + struct.unpack("<Q", whole[:8])[0]
        header = spoiled(json.loads(whole[8:start]), data)
        path.write_bytes(struct.pack("<Q", len(header)) + header + whole[start:])
    else:
        rest = whole[at:] if kind == "insert" else b""
        path.write_bytes(whole[:at] + data.draw(st.binary(max_size=12)) + rest)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80)
@given(data=st.data())
def test_a_damaged_file_works_or_gives_one_line(intact, name, data):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(intact[name], Path(temporary, "copy")))
        path = folder / data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
        whole = path.read_bytes()
        path.unlink()
        damaged(path, whole, data)
        try:
            utils.load(folder)
        except utils.UserError as error:
            assert str(error).isprintable() and len(str(error)) < 2000
