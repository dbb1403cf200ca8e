"""The workshop: known mistakes are told apart, right solutions are right, and what is said."""

import itertools
import json
import re
from pathlib import Path

import pytest

from workshop import __main__ as cli
from workshop.compare import Raised, chance, is_right, is_same
from workshop.engine import RARE, Reader, Tape, agree, check
from workshop.mistakes import build
from workshop.steps import STEPS
from workshop.steps.hints import HINTS

RIGHT = Path(__file__).with_name("workshop_right.py")
PARTS = [(step, part) for step in STEPS for part in step.parts]
STEP = {step.name: step for step in STEPS}


def strictly(a, b):
    """is_same, but counts must be equal, and two errors of the same text are the same."""
    if isinstance(a.value, Raised) and isinstance(b.value, Raised):
        return a.value.error == b.value.error
    if b.kind.startswith("<=") and isinstance(a.value, int) and isinstance(b.value, int):
        return a.value == b.value
    return is_same(a, b)


def named(part):
    return f"{part[0].name}-{part[1].names[0]}"


@pytest.mark.parametrize("step, part", PARTS, ids=map(named, PARTS))
def test_every_mistake_differs_from_the_right_answer_and_from_every_other(step, part):
    right = Tape(part, build(part.source), 0)
    assert agree(right, Tape(part, build(part.source), 1), strictly)[1] < 0, "another seed"
    assert not any(isinstance(look.value, Raised) for look in right.seen if look)
    tapes = {m.name: Tape(part, build(m.source, (m,)), 0) for m in part.mistakes}
    assert len(tapes) == len(part.mistakes), "two mistakes have one name"
    for name, tape in tapes.items():
        assert agree(tape, right, strictly)[1] >= 0, f"{name} is not seen"
    for (a, one), (b, other) in itertools.combinations(tapes.items(), 2):
        assert agree(one, other, strictly)[1] >= 0, f"{a} and {b} look the same"


@pytest.mark.parametrize("step, part", PARTS, ids=map(named, PARTS))
def test_the_text_that_a_mistake_changes_is_there_and_the_source_is_right(step, part):
    for source in {mistake.source for mistake in part.mistakes}:
        ours = Tape(part, build(source), 0)
        assert agree(ours, Tape(part, build(part.source), 0), is_right)[1] < 0
    for mistake in part.mistakes:
        assert mistake.says and mistake.changes, mistake.name
        assert not re.search(r"\bmistake\b|!", mistake.says), mistake.name


def test_a_right_file_of_another_style_is_right():
    reader = Reader(RIGHT, STEPS)
    assert [(v.step, v.state) for v in (check(reader, step) for step in STEPS)] == [
        (step.name, "done") for step in STEPS
    ]


def test_no_accident_is_a_mistake():
    """Samples of one distribution, by two styles, with many seeds."""
    reader = Reader(RIGHT, STEPS)
    for step, part in PARTS:
        if step.name in ("draw", "naive", "rule"):
            reader.place(part)
            for seed in range(3 if step.name == "rule" else 10):
                mine = Tape(part, reader.module, seed)
                assert agree(mine, Tape(part, build(part.source), seed), is_right)[1] < 0


def test_chance_knows_a_fair_die():
    def die(seed, sides=6):
        state, rolls = seed, []
        for _ in range(600):
            state = (1103515245 * state + 12345) % 2**31
            rolls.append((state >> 16) % sides)
        return rolls

    assert min(chance(die(seed), die(seed + 1000)) for seed in range(200)) > RARE
    assert chance(die(1), die(2, sides=5)) < RARE
    assert chance(die(1), die(2)) == pytest.approx(chance(die(2), die(1)))
    assert chance([], die(1)) < RARE


# --- what is said ---------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path, capsys):
    """mine(step, old, new) changes the right file, runs one step -> its verdict as a dict."""

    def run(step, *changes):
        text = RIGHT.read_text(encoding="utf-8")
        for old, new in zip(changes[::2], changes[1::2]):
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        status = cli.main([str(path), step, "--json"])
        [verdict] = json.loads(capsys.readouterr().out)
        assert status == (verdict["state"] == "wrong")
        return verdict

    return run


def test_the_readers_own_line_is_named_where_code_does_not_run(mine):
    found = mine("layers", "var = np.var(x", "var = nobody(x")
    assert found["state"] == "wrong" and found["mistake"] is None
    assert "var = nobody(x" in found["says"] and "NameError" in found["says"]
    assert re.search(r"line \d+", found["says"])


def test_both_shapes_are_said_with_the_names_of_their_axes(mine):
    found = mine("attention", "softmax(scores), v)", "softmax(scores), v)[..., :2]")
    assert "[n_new 3, 2] instead of [n_new 3, d 4]" in found["says"]


def test_another_type_is_said(mine):
    found = mine("layers", "math.sqrt(2 / math.pi)", "np.sqrt(2 / np.pi)")
    assert found["mistake"] == "float64" and "gelu" in found["says"]


def test_a_mistake_is_named_with_its_lesson(mine):
    found = mine("attention", " / math.sqrt(d)", "")
    assert found["mistake"] == "no scale"
    assert "without the division by sqrt(d)" in found["says"] and "Lesson 1" in found["says"]


def test_two_mistakes_are_named(mine):
    found = mine("attention", " / math.sqrt(d) + mask", "")
    assert found["mistake"] == "no scale + no mask"


def test_a_simple_relation_is_said(mine):
    assert "0.5 times" in mine("softmax", "return y", "return y / 2")["says"]
    found = mine("heads", "np.split(x, n_head, axis=-1)", "np.split(x, n_head, axis=-1)[1:] * 2")
    assert found["state"] == "wrong"
    assert "larger by 3" in mine("layers", "+ b\n\n\ndef gelu", "+ b + 3\n\n\ndef gelu")["says"]


def test_the_first_stage_that_differs_is_said(mine):
    found = mine("model", '["blocks"][i]', '["blocks"][i - i // 2]')
    assert "x after block 2 differs first" in found["says"]


def test_a_loop_that_never_ends_is_ended(mine):
    found = mine("softmax", "return y", "while True:\n        pass")
    assert "it never ends" in found["says"] and "line" in found["says"]
    found = mine("naive", "sequence.append(token)\n", "token\n")
    assert found["mistake"] == "not appended"


def test_slow_is_wrong(mine):
    found = mine(
        "cached", "model(ids[cache.length", "model(ids[:-1]) and 0; model(ids[cache.length"
    )
    assert found["state"] == "wrong"
    found = mine("cached", "advance(model, sequence.ids, cache)", "model(sequence.ids)[-1]")
    assert found["mistake"] == "whole text each time"


def test_a_wrong_distribution_is_named(mine):
    assert mine("rule", "np.clip(p - q, 0, None)", "p")["mistake"] == "residual is p"
    seed = "np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])"
    assert mine("speculation", seed, "np.random.default_rng(seed)")["mistake"] == "one seed"


def test_a_mistake_in_one_step_does_not_count_in_the_next(tmp_path):
    path = tmp_path / "mine.py"
    text = RIGHT.read_text(encoding="utf-8")
    path.write_text(text.replace(" / math.sqrt(d)", "", 1), encoding="utf-8")
    reader = Reader(path, STEPS)
    states = {step.name: check(reader, step).state for step in STEPS[:7]}
    assert [name for name, state in states.items() if state != "done"] == ["attention"]


# --- the command line -----------------------------------------------------------------------------


def test_new_writes_a_file_in_which_nothing_is_wrong_and_never_overwrites(tmp_path, capsys):
    path = tmp_path / "mine.py"
    assert cli.main(["new", str(path)]) == 0
    capsys.readouterr()
    assert cli.main([str(path), "--json"]) == 0
    assert {v["state"] for v in json.loads(capsys.readouterr().out)} == {"missing"}
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="not overwritten"):
        cli.main(["new", str(path)])
    assert path.read_text(encoding="utf-8") == "mine"


def test_nothing_is_wrong_in_an_empty_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("")
    reader = Reader(path, STEPS)
    assert {check(reader, step).state for step in STEPS} == {"missing"}


def test_the_file_that_new_writes_names_every_function_of_every_step(tmp_path):
    reader = Reader(cli.SKELETON, STEPS)
    needed = {name for step, part in PARTS for name in part.needs or part.names} - {"model"}
    assert needed - {"Cache", "Rows", "DraftModel"} <= reader.empty


@pytest.mark.parametrize(
    "argv, says",
    [
        (["nowhere.py"], "cannot read"),
        ([str(RIGHT), "sofmax"], "did you mean softmax?"),
        ([str(RIGHT), "xyz"], "there are softmax, layers"),
    ],
)
def test_an_error_of_the_user_is_one_line(argv, says):
    with pytest.raises(SystemExit, match=re.escape(says)) as error:
        cli.main(argv)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text, says", [("def f(:", "line 1"), ("import math\n1 / 0", "1 / 0")])
def test_a_file_that_does_not_run_is_one_line(tmp_path, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=re.escape(says)):
        cli.main([str(path)])


def test_hints_come_one_at_a_time(capsys):
    assert {name: len(hints) for name, hints in HINTS.items()} == {name: 3 for name in STEP}
    for number in (1, 2, 3):
        assert cli.main([str(cli.SKELETON), "mask", "--hint", str(number)]) == 0
        said = capsys.readouterr().out
        assert HINTS["mask"][number - 1] in said
        assert not any(hint in said for hint in HINTS["mask"] if hint != HINTS["mask"][number - 1])
    cli.main([str(cli.SKELETON), "--hint"])
    assert "softmax, hint 1 of 3" in capsys.readouterr().out


def test_the_table_of_the_readme_has_every_step():
    readme = Path(cli.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert set(STEP) <= set(re.findall(r"[a-z]+", readme))
