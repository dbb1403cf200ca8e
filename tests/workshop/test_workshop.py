"""The workshop tells known mistakes apart, accepts right solutions, and explains its verdicts."""

import ast
import itertools
import json
import random
import re
import subprocess
import sys

import pytest

from generate import Sequence, cached
from tests.workshop.students.mistakes import MISTAKES
from tests.workshop.students.styles import STYLE
from workshop import __main__ as cli
from workshop import hunt
from workshop.compare import RARE, Raised, chance, is_right, is_same, tell
from workshop.engine import Reader, Tape, check, difference, is_empty, right_tape
from workshop.mistakes import build, ending, skeleton
from workshop.steps import STEPS
from workshop.steps.inputs import WatchedModel

HEAD = "from __future__ import annotations\n\nimport math\n\nimport numpy as np\n"
PROJECT = HEAD + hunt.code()
OWN = re.findall(r"^(?:def|class) (\w+)[(:](?!GPT2)", STYLE, re.MULTILINE)
REST = [text for text in PROJECT.split("\n\n\n") if not re.match(rf"\w+ ({'|'.join(OWN)})\b", text)]
RIGHT = "\n\n\n".join([*REST, STYLE])
PARTS = [(step, part) for step in STEPS for part in step.parts]
IDS = [f"{step.name}-{part.names[0]}-{part.observe.__name__}" for step, part in PARTS]
TABLES: dict = {}  # {name: the parts that have the same known mistakes}
for (_, part), name in zip(PARTS, IDS):
    table = next((n for n, parts in TABLES.items() if parts[0].mistakes == part.mistakes), name)
    TABLES.setdefault(table, []).append(part)
del TABLES[IDS[-1]]  # the last step has no known mistakes
STEP = {step.name: step for step in STEPS}


def strictly(a, b):
    """Compare as is_same does, except that counts and messages of errors must be equal."""
    if isinstance(a.value, Raised) and isinstance(b.value, Raised):
        return a.value.error == b.value.error
    return a.value == b.value if b.kind.startswith("<=") else is_same(a, b)


@pytest.mark.parametrize("part", [part for _, part in PARTS], ids=IDS)
def test_the_right_results_are_right_in_all_styles(part):
    right = right_tape(part)
    assert not any(isinstance(look.value, Raised) for look in right)
    assert len(right.by_label) == len(right.seen), "two results have the same label"
    for seed, source in itertools.product((0, 1), {m.source for m in part.mistakes}):
        assert not difference(right, Tape(part, build(source), seed), is_right)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_mistake_differs_from_the_right_answer_and_from_every_other(name):
    seen = {}  # {(message, function): {source: the results of each part}}
    for mistake in TABLES[name][0].mistakes:
        tapes = [(Tape(p, build(mistake.source, mistake)), right_tape(p)) for p in TABLES[name]]
        seen.setdefault((mistake.says, mistake.function), {})[mistake.source] = tapes
    for says, made in seen.items():
        tapes = sum(made.values(), [])
        assert any(difference(tape, right, is_right) for tape, right in tapes), says
        errors = [a.value.error for tape, _ in tapes for a in tape if isinstance(a.value, Raised)]
        assert not any(error.startswith("NameError") for error in errors), (says, errors)
    for (a, one), (b, other) in itertools.combinations(seen.items(), 2):
        pairs = [pair for source in {*one} & {*other} for pair in zip(one[source], other[source])]
        assert not pairs or any(difference(x, y, strictly) for (x, _), (y, _) in pairs), (a, b)


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a text into a file and reads this file as the workshop does."""

    def run(text, encoding="utf-8"):
        path = tmp_path / "mine.py"
        path.write_text(text, encoding=encoding)
        return Reader(path, STEPS)

    return run


@pytest.mark.parametrize("text", [PROJECT, RIGHT], ids=["project", "style"])
def test_right_files_are_right(read, text):
    reader = read(text)
    verdicts = [check(reader, step) for step in STEPS]
    assert [(v.step, v.state) for v in verdicts] == [(step.name, "done") for step in STEPS]


@pytest.mark.slow
@pytest.mark.parametrize("step, name, old, new", MISTAKES, ids=[name for _, name, *_ in MISTAKES])
def test_a_mistake_in_a_file_of_another_style_is_found_and_named(read, step, name, old, new):
    assert RIGHT.count(old) == 1
    verdict = check(read(RIGHT.replace(old, new)), STEP[step])
    assert verdict.state == "wrong" and name in verdict.mistake


def test_chance_knows_a_fair_die():
    rng = random.Random(1)
    right, fair, unfair = (rng.choices(range(n), k=600) for n in (6, 6, 5))
    assert chance(fair[:300], right) == pytest.approx(0.4281824541)  # scipy.stats.chi2_contingency
    assert chance(unfair, right) < RARE and chance([], right) < RARE


SCALE = " / float(np.sqrt(q.shape[-1]))"
GELU = "    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))\n"
SOFTMAX = "return np.moveaxis(e / e.sum(0), 0, -1)"


@pytest.mark.parametrize(
    "step, old, new, says",
    [
        ("layers", "mean = wide.mean(", "mean = nobody(", r"line \d+: mean = nobody.*NameError"),
        ("layers", "x, g, b, eps=1e-5):", "x, gain, b, eps=1e-5):\n    g = gain",
         "Keep the names of the arguments"),
        ("attention", "softmax(scores), v)", "softmax(scores), v[..., :2])", r"2\] instead .*4\]"),
        ("attention", SCALE, "", r'sqrt\(.*See "The forward pass": One block'),
        ("softmax", "e / e.sum(0)", "e / e.sum(0) / 2", "0.5 times"),
        ("rule", "    text = list(ids)", "    ids, text = list(ids), ids", "ids after the call"),
        ("naive", "yield sequence.append(next_id)", "sequence.append(draw(probabilities, "
         "sequence.rng)); yield next_id", "two draws"),
        ("keys", "min(self.length, length)", "length if length <= self.length + 1 else self.length",
         "6 instead of 5"),
        ("keys", "for i in range(k.shape[-2]):", "for i in [0]:", "One new token at a time: right"),
        ("cached", "chunk], cache, last=1)", "chunk], cache, last=int(cache.length + chunk >= "
         "len(ids)))", "rows of logits with chunk=3"),
    ],
)  # fmt: skip
def test_the_verdict_says(read, step, old, new, says):
    assert old in RIGHT
    verdict = check(read(RIGHT.replace(old, new)), STEP[step])
    assert verdict.state == "wrong" and re.search(says, verdict.says), verdict.says


def test_a_line_is_named_in_a_file_with_other_letters_and_line_ends(read):
    text = "\ufeffimport numpy as np\r\n\r\ndef softmax(größe):  # 指數\r\n"
    text += "    e = np.exp(größe - größe.max(0, keepdims=True))\r\n"
    text += "    return e / e.sum(-1, keepdims=True)\r\n"
    says = check(read(text), STEP["softmax"]).mistake
    assert says.endswith("in line 4") and "e.max(0, keepdims=True)` instead" in says


@pytest.mark.parametrize(
    "step, old, new",
    [
        ("softmax", "e = np.exp(rows - rows.max(0))", "a = 1; e = np.cosh(rows)"),
        ("keys", "self.n_ctx, self.length = n_ctx, 0\n", "self.n_ctx, self.length = n_ctx, 1\n\n"
         "    FIRST = 0\n\n    def note(self, first=FIRST):\n        return first + 1\n"),
    ],
)  # fmt: skip
def test_unusual_code_is_only_wrong(read, step, old, new):
    assert old in RIGHT
    assert check(read(RIGHT.replace(old, new)), STEP[step]).state == "wrong"


@pytest.mark.parametrize(
    "step, old, new",
    [
        ("rows", "length in enumerate(self.lengths)",
         "(length, *_) in enumerate(self.extend(n_new))"),
        ("speculation", "        n = min(gamma", "        if ids[1:] and not cache.length:\n"
         "            advance(model, ids[:-1], cache)\n        n = min(gamma"),
    ],
)  # fmt: skip
def test_an_append_may_extend_and_a_prompt_may_have_its_own_pass(read, step, old, new):
    assert old in RIGHT and check(read(RIGHT.replace(old, new)), STEP[step]).state == "done"


def test_of_two_mistakes_the_first_is_mentioned(read):
    text = RIGHT.replace("while sequence.running:", "while sequence.n_left > 0:")
    text = text.replace("probabilities, sequence.rng", "probabilities, np.random.default_rng(0)")
    verdict = check(read(text), STEP["naive"])
    assert "while n_left > 0" in verdict.says and "some of the wrong" in verdict.says


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


@pytest.mark.parametrize("body", ["...", "pass", "raise NotImplementedError", '"""Later."""'])
def test_what_is_not_written_is_not_yet(read, body):
    reader = read(f"\ufeffdef softmax(x):\n    {body}\n")
    assert {check(reader, step).state for step in STEPS} == {"missing"}


def test_a_stub_below_the_readers_own_function_is_told(read):
    reader = read(f"{RIGHT}\n\ndef softmax(x):\n    ...\n")
    assert "replaces yours in line " in check(reader, STEP["softmax"]).says


@pytest.fixture
def run(tmp_path, capfd):
    """Return a function that checks a file with this text on the command line."""

    def on_command_line(text, *argv):
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        status = cli.main([str(path), *argv])
        return status, capfd.readouterr()

    return on_command_line


LOOP = "while True:\n        try:\n            len([])\n        except:\n            pass"


@pytest.mark.slow
def test_a_loop_that_never_ends_is_ended(run, monkeypatch):
    monkeypatch.setattr(cli, "SECONDS", 5.0)
    status, (out, _) = run(RIGHT.replace(SOFTMAX, LOOP), "softmax")
    assert status == 1 and re.search(r"WRONG +line \d+: .*: it does not end within 5 s", out)


@pytest.mark.slow
def test_nothing_in_the_file_reaches_the_judge(run):
    habits = "import os, threading, sys\nnp.seterr(all='raise')\nprint('top')\nnp.exp = np.exp2\n"
    threads = "threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
    status, (out, err) = run(f"{RIGHT}\n{habits}{threads}", "softmax", "--json")
    assert status == 1 and json.loads(out)[0]["state"] == "wrong" and "top" in err
    status, (out, _) = run(RIGHT.replace(SOFTMAX, "import os; os._exit(0)"), "softmax")
    assert status == 1 and "ends Python" in out


def test_new_writes_a_file_in_which_nothing_is_wrong_and_never_overwrites(tmp_path, capsys):
    path = tmp_path / "mine.py"
    assert cli.main(["new", str(path)]) == 0
    capsys.readouterr()
    assert cli.main([str(path), "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [v["step"] for v in verdicts] == list(STEP)
    assert {v["state"] for v in verdicts} == {"missing"}
    with pytest.raises(SystemExit, match="not overwritten"):
        cli.main(["new", str(path)])
    with pytest.raises(SystemExit, match="would hide the module numpy"):
        cli.main(["new", str(tmp_path / "numpy.py")])


def test_the_file_that_new_writes_names_every_function_and_has_no_code_of_ours(read):
    needed = {name for _, part in PARTS for name in part.needs or part.names} - {"model"}
    assert needed <= read(skeleton()).missing.keys()
    given = "__init__", "new_cache", "learn", "model", "fast"
    for node in ast.walk(ast.parse(skeleton())):
        if isinstance(node, ast.FunctionDef) and node.name not in given:
            assert all(map(is_empty, node.body)), node.name
    assert not re.search(r"# ours|\.kv|COUNTED_BY|JOINS", skeleton())


def test_the_fast_loop_of_the_file_that_new_writes_gives_the_text_of_the_plain_one(read):
    text = skeleton()
    fast, model = read(RIGHT + text[text.index("def fast(") :]).module.fast, WatchedModel()
    repeated = [3, 1, 4, 3, 1, 4, 3]
    tokens = list(fast(model, Sequence(model, repeated, 12)))
    assert tokens == list(cached(model, Sequence(model, repeated, 12)))


@pytest.mark.parametrize(
    "argv, says",
    [
        (["nowhere.py"], "cannot read"),
        (["hunt", "prey.py", "--step", "stories"], "stories has no known mistakes"),
        (["hunt", "prey.py", "--seed", "-1"], "the seed is -1"),
        (["mine.py", "sofmax"], "invalid choice: 'sofmax'"),
    ],
)
def test_an_error_of_the_user_is_one_line(argv, says):
    with pytest.raises(SystemExit, match=re.escape(says)) as error:
        cli.main(argv)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text, says", [("def f(:", "line 1"), ("import math\n1 / 0", "1 / 0")])
def test_a_file_that_does_not_run_is_one_line(run, text, says):
    with pytest.raises(SystemExit, match=re.escape(says)):
        run(text)


def test_the_workshop_runs_in_another_folder_and_a_file_may_have_neighbours(tmp_path):
    (tmp_path / "neighbour.py").write_text("WORD = 'softmax'\n")
    (tmp_path / "mine.py").write_text(f"{RIGHT}\nimport neighbour\n", encoding="utf-8")
    python = [sys.executable, str(cli.FOLDER), "mine.py", "softmax"]
    done = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "softmax  done\n"


@pytest.mark.slow
@pytest.mark.parametrize("step", [step.name for step in STEPS[:-1]])
def test_a_hunt_ends_with_the_mistakes_name(tmp_path, step, capsys):
    path = tmp_path / "prey.py"
    cli.main(["hunt", str(path), "--step", step, "--seed", "3"])
    text = path.read_text("utf-8")
    assert check(Reader(path, STEPS), STEP[step]).state == "wrong"
    path.write_text(text[: text.index("from __future__")] + HEAD + hunt.code())
    capsys.readouterr()
    assert cli.main([str(path), step]) == 0
    assert "The mistake was in" in capsys.readouterr().out
    cli.main([str(path), next(name for name in STEP if name != step)])
    assert "mistake" not in capsys.readouterr().out
    assert cli.main([str(path), step, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and "The mistake was in" in err


@pytest.mark.slow
def test_no_hunt_has_code_that_gives_its_mistake_away():
    for step in STEPS[:-1]:
        chosen = [hunt.choose(step.name, seed)[1:] for seed in range(4)]
        assert len({wrong for wrong, _ in chosen}) > 1, "each seed chooses the same mistake"
        for wrong, (a, b) in chosen:
            assert not re.search("; |^ *pass$", wrong.code, re.MULTILINE)
            mine, _, right = tell(a, b).rpartition(": ")[2].partition(" instead of ")
            assert mine != right


@pytest.mark.slow
def test_hints_come_one_at_a_time(run):
    assert {name: len(hints) for name, hints in cli.HINTS.items()} == dict.fromkeys(STEP, 3)
    for number in (1, 2, 3):
        status, (said, _) = run("", "mask", "--hint", str(number))
        assert status == 0
        assert [hint in said for hint in cli.HINTS["mask"]] == [number == n for n in (1, 2, 3)]


def test_the_lessons_that_are_named_have_these_headings():
    readme = (cli.FOLDER / "README.md").read_text(encoding="utf-8")
    notebooks = cli.FOLDER.parent / "notebooks"
    shown = re.findall(r'See (".+?": [^.]+\.)', " ".join(readme.split()))
    assert set(STEP) <= set(re.findall(r"[a-z]+", readme))
    for lesson in {part.lesson for _, part in PARTS} | {*shown}:
        title, heading = re.fullmatch(r'"(.+?)": (.+)\.', lesson).groups()
        index = (notebooks / "README.md").read_text(encoding="utf-8")
        [name] = re.findall(rf"^\| \[\d+\. {title}\]\((.+?)\)", index, re.MULTILINE)
        cells = json.loads((notebooks / name).read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        kind = "(Second session: |Deeper: )?"
        assert re.search(rf"^##+ {kind}{re.escape(heading)}$", text, re.MULTILINE), lesson


def test_a_loop_of_a_known_mistake_counts_its_rounds_anew():
    names, code = {}, "def f(n):\n while n:\n  n, i = n - 1, 2\n  while i:\n   i -= 1\n return n\n"
    exec(ending(code, names), names)
    assert [names["f"](4000) for _ in range(2)] == [0, 0]
    with pytest.raises(StopIteration):
        names["f"](6000)
