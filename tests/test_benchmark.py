"""The benchmark runs with a tiny model, other libraries compute the same logits, and the report
compares tokenwise with the faster variant of transformers. The measured times do not matter
here."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import benchmark, checkpoints, contender


def numbers(results):
    """Yield all numbers in a nested dict."""
    for value in results.values():
        yield from numbers(value) if isinstance(value, dict) else [value]


def test_the_benchmark_measures_writes_and_plots(tmp_path):
    command = [sys.executable, "-m", "benchmarks.benchmark", "--small", "--rounds", "1"]
    command += ["--repeats", "1", "--threads", "1"]
    command += ["--folder", str(tmp_path / "made"), "--results", str(tmp_path)]
    house = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=house, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results.pop("setting")["threads"] == 1
    assert all(math.isfinite(number) and number > 0 for number in numbers(results))
    assert results["124M"]["tokenwise"].keys() > contender.PASSES.keys()
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")
    for told in ("decode at 900", "a step:", "naive does", "stories, one thread", "verifying"):
        assert told in done.stdout


# The benchmark itself writes the checkpoints that these two libraries read.
@pytest.mark.parametrize("name", ["onnxruntime", "llama.cpp"])
def test_other_libraries_compute_our_logits(name, tmp_path):
    if name not in contender.installed():
        pytest.skip(f"{name} is not installed: pip install -r benchmarks/requirements.txt")
    benchmark.make_gpt2(tmp_path / "made", checkpoints.TINY, [name])
    contender.agrees(name, tmp_path / "made" / contender.CONTENDERS[name][0].layout, 1)


def test_the_report_compares_with_the_better_transformers():
    names = {
        "tokenwise": {"decode at 64": 0.02, "start to first token": 0.5},
        "transformers a": {"decode at 64": 0.04, "start to first token": 4.0},
        "transformers b": {"decode at 64": 0.05, "start to first token": 2.0},
    }
    _, decode, start = benchmark.comparison("124M", names)
    assert decode.split()[-1] == "2.00"  # 2.00 times the tokens/s of the faster transformers
    assert start.split()[-1] == "0.25"  # 0.25 times the seconds of the faster transformers
