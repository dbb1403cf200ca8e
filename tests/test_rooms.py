"""The rooms that compute import NumPy, the standard library and one another, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
ROOMS = {  # room -> the rooms it may bring along
    "gpt2": set(),
    "samplers": {"gpt2", "interface"},
    "interface": set(),
    "generate": {"gpt2", "interface", "samplers"},
    "speculative": {"gpt2", "interface", "samplers"},
    "beam": {"interface"},
    "score": {"beam", "interface"},
    "activations": {"gpt2"},
    "seq2seq": {"activations", "gpt2", "interface", "samplers"},
}
SCRIPT = """
import sys, numpy.random
before = set(sys.modules)
import {room}
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_numpy_and_its_neighbours_alone(room):
    script = SCRIPT.format(room=room)
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=HOUSE, capture_output=True, text=True, check=True
    )
    found = set(process.stdout.split())
    assert room in found
    assert found - sys.stdlib_module_names - {"numpy"} - {room} <= ROOMS[room]
