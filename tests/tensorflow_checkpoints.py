"""Makes TensorFlow checkpoints, good and bad ones, in the folder given, loads each of them, and
notes what that says in messages.json. A process of its own: importing TensorFlow takes seconds."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import utils
from loading import openai
from tests.checkpoints import CONFIG, openai_arrays, random_arrays, write_openai
from tests.server import Server, cut

DATA, INDEX = openai.CHECKPOINT[2], openai.CHECKPOINT[1]


def message(folder):
    """What load() has to complain about, or None."""
    try:
        utils.load(folder)
    except utils.UserError as error:
        return str(error)


def alter(path):
    """Change one byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)


def bad_files(folder, good):
    """Copies of a good checkpoint with one file damaged."""
    damage = {
        "no index": lambda copy: (copy / INDEX).unlink(),
        "no data": lambda copy: (copy / DATA).unlink(),
        "cut data": lambda copy: os.truncate(copy / DATA, 10_000),
        "altered data": lambda copy: alter(copy / DATA),
        "altered index": lambda copy: alter(copy / INDEX),
    }
    for name, function in damage.items():
        shutil.copytree(good, folder / name)
        function(folder / name)
        yield name, message(folder / name)


def bad_arrays(folder):
    """Checkpoints that TensorFlow can read and that are no GPT-2."""
    arrays = openai_arrays(random_arrays(CONFIG))
    c_fc = "model/h1/mlp/c_fc/w"
    cases = {
        "missing": {name: array for name, array in arrays.items() if name != "model/wpe"},
        "extra": arrays | {"model/more": np.zeros(3, np.float32)},
        "transposed": arrays | {c_fc: arrays[c_fc].swapaxes(1, 2)},
        "integers": arrays | {"model/wte": arrays["model/wte"].astype(np.int32)},
    }
    for name, changed in cases.items():
        yield name, message(write_openai(folder / name, arrays=changed))


def broken_conversions(folder, good):
    """A disk that is full, and what a process that died in the middle leaves."""

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.copytree(good, folder / "full disk")
    fsync, os.fsync = os.fsync, full
    yield "full disk", message(folder / "full disk")
    os.fsync = fsync
    shutil.copytree(good, folder / "dead process")
    (folder / "dead process" / f"{openai.CONVERTED}.tmp").write_bytes(b"half")
    yield "dead process", message(folder / "dead process")


LOAD = """
import json, os, sys, utils
from loading import openai
openai.SIZES, openai.RELEASED = json.loads(sys.argv[2])
utils.load("124M", sys.argv[1])
"""


def official(folder, good):
    """Two processes fetch and convert at once, from a mirror that breaks off -> exit statuses."""
    released = {}
    for name in openai.RELEASED:
        data = (good / name).read_bytes()
        released[name] = (len(data), hashlib.sha256(data).hexdigest())
    known = json.dumps([{"124M": (good / DATA).stat().st_size // 4}, released])
    files = {f"/124M/{path.name}": path.read_bytes() for path in good.iterdir()}
    with Server(files) as server:
        server.faults[f"/124M/{DATA}"] = [cut(10_000)]
        environment = os.environ | {"TOKENWISE_MIRROR": server.url}
        command = [sys.executable, "-c", LOAD, str(folder), known]
        processes = [subprocess.Popen(command, env=environment) for _ in range(2)]
        return [process.wait() for process in processes]


def main():
    folder = Path(sys.argv[1])
    original = write_openai(folder / "original")
    shutil.copytree(original, folder / "good")
    messages = {
        "good": message(folder / "good"),
        "official": official(folder / "official", original),
        **dict(bad_files(folder, original)),
        **dict(bad_arrays(folder)),
        **dict(broken_conversions(folder, original)),
    }
    (folder / "messages.json").write_text(json.dumps(messages))


if __name__ == "__main__":
    main()
