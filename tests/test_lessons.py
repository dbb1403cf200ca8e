"""The notebooks' own small module."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "notebooks"))

import lessons  # noqa: E402


def test_medians_take_turns_after_a_round_that_does_not_count(monkeypatch):
    clock, order = [0.0], []
    monkeypatch.setattr(lessons.time, "perf_counter", lambda: clock[0])

    def action(name, costs):
        def run():
            order.append(name)
            clock[0] += next(costs)

        return run

    quick = action("quick", iter([50, 1, 9, 2]))  # the first is the warm-up
    slow = action("slow", iter([90, 8, 7, 60]))
    assert lessons.medians({"quick": quick, "slow": slow}, rounds=3) == {"quick": 2, "slow": 8}
    assert order == ["quick", "slow"] * 4
