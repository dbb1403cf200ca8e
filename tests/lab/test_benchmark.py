"""The benchmark runs with a small model, and the report has a column for each machine. The measured
times do not matter here."""

import json
import math
import shutil
import sys

import pytest

from benchmarks import benchmark, contender
from tests.support.checkpoints import ROOT


@pytest.mark.slow
def test_the_benchmark_measures_and_writes(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "models/stories", tmp_path / "checkpoints" / "124M")
    (tmp_path / "results.json").write_text(json.dumps({"another machine": RUN}))
    monkeypatch.setattr(benchmark.checkpoints, "MODELS", {"124M": None})
    monkeypatch.setattr(benchmark, "PROMPTS", [10])
    monkeypatch.setattr(contender, "installed", lambda: ["tokenwise"])
    words = ["--repeats", "1", "--threads", "1", "--machine", "mine", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmark", *words])
    benchmark.main()
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["another machine"] == RUN
    assert results["mine"]["threads"] == 1 and results["mine"]["rounds"] == 3
    found = results["mine"]["measures"]
    assert found["124M"]["tokenwise"].keys() == contender.PASSES.keys()
    assert len(found) == 3
    numbers = [x for tools in found.values() for tool in tools.values() for x in tool.values()]
    assert all(0 < x < math.inf for x in numbers)
    told = capsys.readouterr().out
    for measured in ("decode at 900", "wavefront 512", "naive", "peak memory", "another machine"):
        assert measured in told


RUN = {
    "date": "2026-01-02",
    "measures": {
        "124M": {"tokenwise": {"decode at 64": 0.02}, "transformers": {"decode at 64": 0.05}},
        "command": {"tokenwise": {"peak memory": 2e6}, "transformers": {"peak memory": 3e6}},
    },
}


def test_without_transformers_there_are_no_checkpoints_and_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(contender, "installed", lambda: ["tokenwise"])
    monkeypatch.setattr(sys, "argv", ["benchmark", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="pip install -r benchmarks/requirements.txt"):
        benchmark.main()
    assert not [*tmp_path.iterdir()]
