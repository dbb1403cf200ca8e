"""The workshop tells known mistakes apart, accepts right solutions, and explains its verdicts."""

import itertools
import json
import re
import sys
import threading
from pathlib import Path

import pytest

from generate import Sequence, cached
from workshop import __main__ as cli
from workshop import engine
from workshop.compare import Raised, chance, is_right, is_same
from workshop.engine import RARE, Reader, Tape, check, difference
from workshop.mistakes import build
from workshop.steps import STEPS
from workshop.steps.hints import HINTS
from workshop.steps.inputs import WatchedModel

STUDENTS = Path(__file__).with_name("students")
sys.path.append(str(STUDENTS))

from mistakes import MISTAKES  # noqa: E402
from styles import ONE, THREE, TWO, restyle  # noqa: E402

RIGHT = (STUDENTS / "right.py").read_text(encoding="utf-8")
PARTS = [(step, part) for step in STEPS for part in step.parts]
STEP = {step.name: step for step in STEPS}


TOLERATED = {"cut one too early"}  # it counts as right: some right solutions also run a token twice


def strictly(a, b):
    """Compare as is_same does, except that counts must be equal, and that two errors with equal
    messages always count as the same."""
    if isinstance(a.value, Raised) and isinstance(b.value, Raised):
        return a.value.error == b.value.error
    if b.kind.startswith("<=") and isinstance(a.value, int) and isinstance(b.value, int):
        return a.value == b.value
    return is_same(a, b)


def named(part):
    return f"{part[0].name}-{part[1].names[0]}"


@pytest.mark.slow
@pytest.mark.parametrize("step, part", PARTS, ids=map(named, PARTS))
def test_every_mistake_differs_from_the_right_answer_and_from_every_other(step, part):
    right = Tape(part, build(part.source), 0)
    assert not difference(right, Tape(part, build(part.source), 1), strictly), "seeds differ"
    assert not any(isinstance(look.value, Raised) for look in right)
    labels = [look.label for look in right if look.kind != "stages"]
    assert len({*labels}) == len(labels), "two looks have the same label"
    tapes = {m.name: Tape(part, build(m.source, (m,)), 0) for m in part.mistakes}
    assert len(tapes) == len(part.mistakes), "two mistakes have the same name"
    for name, tape in tapes.items():
        assert difference(tape, right, strictly), f"{name} is not found"
        assert name in TOLERATED or difference(tape, right, is_right), f"{name} counts as right"
        errors = [look.value.error for look in tape if isinstance(look.value, Raised)]
        assert not any(error.startswith("NameError") for error in errors), (name, errors)
    for (a, one), (b, other) in itertools.combinations(tapes.items(), 2):
        assert difference(one, other, strictly), f"{a} and {b} give the same results"


@pytest.mark.slow
@pytest.mark.parametrize("step, part", PARTS, ids=map(named, PARTS))
def test_a_source_that_mistakes_change_is_right(step, part):
    for source in {mistake.source for mistake in part.mistakes}:
        ours = Tape(part, build(source), 0)
        assert not difference(ours, Tape(part, build(part.source), 0), is_right)


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a text into a file and reads this file as the workshop does."""

    def run(text):
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return Reader(path, STEPS)

    return run


@pytest.mark.parametrize("style", ["", ONE, TWO, THREE], ids=["right.py", "ONE", "TWO", "THREE"])
def test_right_files_are_right(read, style):
    reader = read(restyle(RIGHT, style))
    verdicts = [check(reader, step) for step in STEPS]
    assert [(v.step, v.state) for v in verdicts] == [(step.name, "done") for step in STEPS]


@pytest.mark.slow
@pytest.mark.parametrize("step, name, old, new", MISTAKES, ids=[name for _, name, *_ in MISTAKES])
def test_a_mistake_in_a_file_of_another_style_is_found_and_named(read, step, name, old, new):
    assert RIGHT.count(old) == 1
    verdict = check(read(RIGHT.replace(old, new)), STEP[step])
    assert (verdict.state, verdict.mistake) == ("wrong", name)


@pytest.mark.slow
def test_no_accident_is_a_mistake(read):
    """Right solutions may draw different samples from the same distribution. All count as right."""
    other = read(restyle(RIGHT, TWO))
    for step, part in PARTS:
        if step.name in ("draw", "naive", "rule"):
            other.place(part)
            for seed in range(3 if step.name == "rule" else 10):
                mine = Tape(part, other.module, seed)
                assert not difference(mine, Tape(part, build(part.source), seed), is_right)


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


# --- what the verdict says ------------------------------------------------------------------------

SCALE = " / math.sqrt(q.shape[-1])"
GELU = """    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / 2 * (1 + np.tanh(inner))
"""
SOFTMAX = "return e / e.sum(axis=-1, keepdims=True)"


@pytest.fixture
def mine(tmp_path, capsys):
    """Return a function that edits a copy of right.py and returns the verdict on one step."""

    def run(step, *changes):
        text = RIGHT
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
    found = mine("layers", "var = x.var(", "var = nobody(")
    assert found["state"] == "wrong" and found["mistake"] is None
    assert "var = nobody(" in found["says"] and "NameError" in found["says"]
    assert re.search(r"line \d+", found["says"])


def test_both_shapes_are_said_with_the_names_of_their_axes(mine):
    found = mine("attention", "weights @ v", "weights @ v[..., :2]")
    assert "[n_new 3, 2] instead of [n_new 3, d 4]" in found["says"]


def test_another_type_is_said(mine):
    found = mine("layers", "math.sqrt(2 / math.pi)", "np.sqrt(2 / np.pi)")
    assert found["mistake"] == "float64" and "gelu" in found["says"]


def test_a_mistake_is_named_with_its_lesson(mine):
    found = mine("attention", SCALE, "")
    assert found["mistake"] == "no scale"
    assert "without the division by sqrt(d)" in found["says"]
    assert 'See "The forward pass": One block' in found["says"]


def test_two_mistakes_are_named(mine):
    found = mine("attention", SCALE, "", "scores + mask", "scores")
    assert found["mistake"] == "no scale + no mask"


@pytest.mark.slow
def test_a_simple_relation_is_said(mine):
    assert "0.5 times" in mine("softmax", SOFTMAX, f"{SOFTMAX} / 2")["says"]
    assert "larger by 3" in mine("layers", "normed * g + b", "normed * g + b + 3")["says"]
    split = "n_head, d_head).swapaxes(-2, -3)"
    turned = mine("heads", split, split.replace(".swap", "[..., ::-1].swap"))
    assert "the right numbers in a wrong order: d_head 0, 1, ... are" in turned["says"]


@pytest.mark.slow
def test_the_first_stage_that_differs_is_said(mine):
    found = mine("model", "(x, **block,", '(x, **self.params["blocks"][layer - layer // 2],')
    assert "x after block 2 differs first" in found["says"]


def test_a_loop_that_never_ends_is_ended(mine, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_PER_RESULT", 0.3)
    found = mine("softmax", SOFTMAX, "while True:\n        pass")
    assert "it never ends" in found["says"] and "line" in found["says"]
    found = mine("naive", "sequence.append(token)\n", "token\n")
    assert found["mistake"] == "not appended"


def test_code_that_waits_is_stopped_too():
    waited = threading.Event()
    with pytest.raises(TimeoutError, match="never ends"), engine.limited(0.02):
        while True:
            waited.wait(0.01)


@pytest.mark.slow
def test_slow_is_wrong(mine):
    found = mine("cached", "logits = model(ids[start", "model(ids[:1]); logits = model(ids[start")
    assert found["state"] == "wrong"
    found = mine("cached", "advance(model, sequence.ids, cache)", "model(sequence.ids)[-1]")
    assert found["mistake"] == "whole text each time"


@pytest.mark.slow
def test_a_wrong_distribution_is_named(mine):
    assert mine("rule", "np.maximum(0, p - q)", "p")["mistake"] == "residual is p"
    seed = "np.random.default_rng(seed)"
    assert mine("speculation", f"{seed}.spawn(1)[0]", seed)["mistake"] == "one seed"


@pytest.mark.parametrize(
    "old, new, wrong",
    [(SCALE, "", "attention"), ("0.044715", "0.4", "layers"), (GELU, "    ...\n", "layers")],
)
def test_a_mistake_in_one_step_does_not_count_in_the_next(read, old, new, wrong):
    """A gelu that is wrong or missing is also replaced where it is a default."""
    assert old in RIGHT
    reader = read(RIGHT.replace(old, new))
    states = {step.name: check(reader, step).state for step in STEPS[:11]}
    assert {name for name, state in states.items() if state != "done"} == {wrong}


@pytest.mark.slow
def test_a_step_alone_is_judged_as_in_a_run_of_all(mine):
    """With this mistake, the cache may already contain the whole text. Then the student's `advance`
    fails, although it is right. The project's `advance` would not fail."""
    found = mine(
        "speculation", "min(len(self.seen), len(ids) - 1)", "min(len(self.seen), len(ids))"
    )
    assert found["state"] == "wrong" and "UnboundLocalError" in found["says"]


def test_a_file_is_read_as_python_reads_it(tmp_path):
    path, settings = tmp_path / "mine.py", "@dataclass\nclass Settings:\n    eps: 'float' = 1e-5\n"
    path.write_text(f"from dataclasses import dataclass\n\n{settings}", "utf-8-sig")
    assert Reader(path, STEPS).module.Settings().eps == 1e-5


# --- the command line, hints and references to lessons --------------------------------------------


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


def test_nothing_is_wrong_in_an_empty_file(read):
    reader = read("")
    assert {check(reader, step).state for step in STEPS} == {"missing"}


def test_the_file_that_new_writes_names_every_function_of_every_step(tmp_path):
    reader = Reader(cli.SKELETON, STEPS)
    needed = {name for step, part in PARTS for name in part.needs or part.names} - {"model"}
    assert needed <= reader.missing


def test_the_fast_loop_of_the_file_that_new_writes_gives_the_text_of_the_plain_one(read):
    skeleton = cli.SKELETON.read_text("utf-8")
    fast, model = read(RIGHT + skeleton[skeleton.index("def fast(") :]).module.fast, WatchedModel()
    repeated = [3, 1, 4, 3, 1, 4, 3]
    tokens = list(fast(model, Sequence(model, repeated, 12)))
    assert tokens == list(cached(model, Sequence(model, repeated, 12)))


@pytest.mark.parametrize(
    "argv, says",
    [
        (["nowhere.py"], "cannot read"),
        ([str(cli.SKELETON), "sofmax"], "did you mean softmax?"),
        ([str(cli.SKELETON), "xyz"], "the steps are softmax, layers"),
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


def test_a_file_that_never_ends_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_PER_RESULT", 0.1)
    path = tmp_path / "mine.py"
    path.write_text("import math\nwhile True:\n    math.pi\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"line [23]: .*it never ends"):
        cli.main([str(path)])


def test_of_two_functions_of_one_name_the_later_counts(read):
    right = "\n\ndef softmax(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    " + SOFTMAX
    stub = "\n\ndef softmax(x):\n    ...\n"
    skeleton = cli.SKELETON.read_text("utf-8")
    for text, state in ((skeleton + right, "done"), (skeleton + right + stub, "missing")):
        assert check(read(text), STEP["softmax"]).state == state


def test_what_a_file_prints_is_no_verdict(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("print('top')\ndef softmax(x):\n    print('inside')\n", encoding="utf-8")
    cli.main([str(path), "softmax", "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["mistake"] == "no return"
    assert "top" in err and "inside" in err


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


def test_the_lessons_that_are_named_have_these_headings():
    readme = Path(cli.__file__).with_name("README.md").read_text(encoding="utf-8")
    notebooks = Path(cli.__file__).parents[1] / "notebooks"
    shown = re.findall(r'See (".+?": [^.]+\.)', " ".join(readme.split()))
    for lesson in {step.lesson for step in STEPS} | {*shown}:
        title, heading = re.fullmatch(r'"(.+?)": (.+)\.', lesson).groups()
        index = (notebooks / "README.md").read_text(encoding="utf-8")
        [name] = re.findall(rf"^\| \[\d+\. {title}\]\((.+?)\)", index, re.MULTILINE)
        path = notebooks / name
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        kind = "(Second session: |Deeper: )?"
        assert re.search(rf"^## {kind}{re.escape(heading)}$", text, re.MULTILINE), lesson
