"""Whatever a model's files contain, loading either works or raises an error of one clear line. The
examples are random, but the same in every run."""

import json
import math
import shutil
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
    + ["../x", "/etc/passwd", "nul\0"]
    + [[], [0], [1, 2], [None], ["x"], [[[]]], {}, {"a": 1}, [10**9] * 1000]
)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Return {name: the path of an intact model folder}."""
    folders = {name: copied(name, tmp_path_factory.mktemp("intact")) for name in NAMES}
    assert all(map(utils.load, folders.values()))
    return folders


def spoiled(text, data):
    """Change or remove one value anywhere in a JSON object. Return the JSON as bytes."""
    whole = part = json.loads(text)
    while True:
        keys = [*part][:9] if isinstance(part, dict) else range(min(3, len(part)))
        key = data.draw(st.sampled_from([*keys, "eos_token_id"] if part is whole else keys))
        inner = part[key] if key in keys else None
        if not (inner and isinstance(inner, dict | list) and data.draw(st.booleans())):
            break
        part = inner
    part[key] = data.draw(weird)
    if data.draw(st.integers(0, 4)) == 0:
        del part[key]
    return json.dumps(whole).encode()


def damaged(name, whole, data):
    """Return the bytes of a file with damage: a wrong value in JSON, or a cut with other bytes."""
    if name.endswith(".json"):
        return spoiled(whole, data)
    start = 8 + int.from_bytes(whole[:8], "little")
    if name.endswith(".safetensors") and data.draw(st.booleans()):  # its header is JSON
        header = spoiled(whole[8:start], data)
        return len(header).to_bytes(8, "little") + header + whole[start:]
    at = data.draw(st.integers(0, min(64, len(whole))) | st.integers(0, len(whole)))
    return whole[:at] + data.draw(st.binary(max_size=12))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=80)
@given(data=st.data())
def test_a_damaged_file_works_or_gives_one_line(intact, name, data):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(intact[name], Path(temporary, "copy")))
        path = folder / data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
        whole = path.read_bytes()
        path.unlink()  # it may be mapped
        path.write_bytes(damaged(path.name, whole, data))
        try:
            utils.load(folder)
        except utils.UserError as error:
            assert str(error).isprintable() and len(str(error)) < 2000
