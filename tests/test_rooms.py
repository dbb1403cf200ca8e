"""The rooms that compute import NumPy, the standard library and one another, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
FILES = {"encoder", "step", "utils"}  # text and checkpoints: these use libraries
ROOMS = {  # room -> the rooms that it imports, and those that they import
    "interface": set(),
    "few_rows": set(),
    "gpt2": {"few_rows"},
    "layers": {"few_rows", "gpt2"},
    "samplers": {"few_rows", "gpt2", "interface"},
    "generate": {"few_rows", "gpt2", "interface", "samplers"},
    "drafters": {"few_rows", "gpt2", "interface", "samplers"},
    "speculative": {"few_rows", "generate", "gpt2", "interface", "samplers"},
    "batching": {"drafters", "few_rows", "generate", "gpt2", "interface", "samplers"},
    "beam": {"few_rows", "generate", "gpt2", "interface", "samplers"},
    "score": {"few_rows", "gpt2", "interface"},
    "llama": {"few_rows", "gpt2", "layers"},
    "seq2seq": {"few_rows", "gpt2", "interface", "layers", "samplers"},
}
SCRIPT = """
import sys, numpy.random
before = set(sys.modules)
import {room}
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""


def test_every_room_is_here():
    assert {path.stem for path in HOUSE.glob("*.py")} == ROOMS.keys() | FILES


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_numpy_and_its_neighbours(room):
    script = SCRIPT.format(room=room)
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=HOUSE, capture_output=True, text=True, check=True
    )
    found = set(process.stdout.split())
    assert room in found
    assert found - sys.stdlib_module_names - {"numpy"} - {room} == ROOMS[room]
