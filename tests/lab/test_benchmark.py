"""The benchmark runs with a small model, other libraries compute the same logits, and the report
compares tokenwise with the faster variant of transformers. The measured times do not matter
here."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import benchmark, checkpoints, contender

STORIES = Path(__file__).parents[2] / "models" / "stories"


def numbers(results):
    """Yield all numbers in a nested dict."""
    for value in results.values():
        yield from numbers(value) if isinstance(value, dict) else [value]


@pytest.mark.slow
def test_the_benchmark_measures_writes_and_plots(tmp_path, monkeypatch, capsys):
    shutil.copytree(STORIES, tmp_path / "checkpoints" / "124M")
    monkeypatch.setattr(benchmark, "MEASURES", {"124M": ["start", "speeds"]})
    monkeypatch.setattr(contender, "installed", lambda: ["tokenwise"])
    words = ["--rounds", "1", "--repeats", "1", "--threads", "1", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    benchmark.main()
    results = json.loads((tmp_path / "results.json").read_text())
    assert results.pop("setting")["threads"] == 1
    assert all(math.isfinite(number) and number > 0 for number in numbers(results))
    assert results["124M"]["tokenwise"].keys() > contender.PASSES.keys()
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr().out
    for measured in ("decode at 900", "naive", "replay 0.8", "verifying"):
        assert measured in told


@pytest.mark.slow
@pytest.mark.parametrize("name", [*contender.CONTENDERS][1:])
def test_other_libraries_compute_our_logits(name, tmp_path):
    if name not in contender.installed():
        pytest.skip(f"{name} is not installed: pip install -r benchmarks/requirements.txt")
    shutil.copytree(STORIES, tmp_path / "stories")
    if name == "onnxruntime":
        checkpoints.onnx(tmp_path / "stories/onnx", tmp_path / "stories")
    contender.agrees(name, tmp_path / "stories", 1)


def test_the_report_compares_with_the_better_transformers():
    names = {
        "tokenwise": {"decode at 64": 0.02, "start to first token": 0.5},
        "transformers a": {"decode at 64": 0.04, "start to first token": 4.0},
        "transformers b": {"decode at 64": 0.05, "start to first token": 2.0},
    }
    _, decode, start = benchmark.comparison("124M", names)
    assert decode.split()[-1] == "2.00"  # 2.00 times the tokens/s of the faster transformers
    assert start.split()[-1] == "0.25"  # 0.25 times the seconds of the faster transformers
