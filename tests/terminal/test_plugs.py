"""Users plug in their own filter, loop, drafter or model as FILE.py:EXPRESSION."""

import re
import weakref

import pytest

from terminal import options
from terminal.session import Session
from terminal.shell import Shell

MINE = '''
import dataclasses
import numpy as np
import utils
from decoding.drafters import PromptLookup, one_hots
from generate import cached, naive
from samplers import draw

def only(token, tokenizer):
    def f(logits, ids):
        one = np.full_like(logits, -np.inf)
        one[tokenizer.encode(token)[0]] = 0
        return one
    return f

def first(token, other, tokenizer, n_prompt):
    def f(logits, ids):
        return only(token if len(ids) == n_prompt else other, tokenizer)(logits, ids)
    return f

def but(token, tokenizer):
    def f(logits, ids):
        logits[tokenizer.encode(token)[0]] = -np.inf
        return logits
    return f

@dataclasses.dataclass  # @dataclass needs the module in sys.modules
class Again:
    n_vocab: int
    n: int = 1
    def propose(self, ids, n):
        drafts = ids[-1:] * min(n, self.n)
        return drafts, one_hots(drafts, self.n_vocab)

class Flat:
    """A model that always generates the same token."""
    n_ctx, stop_ids, n_vocab = 50, (), 259
    def __init__(self, best=70):
        self.best = best
    def __call__(self, ids, cache=None, last=None):
        if self.best < 0:
            raise ArithmeticError("no best")
        if cache:
            cache.length += np.shape(ids)[-1]
        logits = np.zeros((*np.shape(ids)[:-1], last or np.shape(ids)[-1], 259), np.float32)
        logits[..., self.best] = 9
        return logits
    def new_cache(self, *batch):
        return Length()

class Length:
    length = 0
    def cut(self, length):
        self.length = min(self.length, length)
    def select(self, rows): pass

def backwards(model, sequence):
    while sequence.running:
        yield sequence.append(70 + len(sequence.new_ids))

def enough(model, sequence, n):
    for token in naive(model, sequence):
        yield token
        if len(sequence.new_ids) == n:
            sequence.finish("enough")

def not_appended(model, sequence):
    while True:
        yield 70

def numpy_tokens(model, sequence):
    while sequence.running:
        token = model(np.array(sequence.ids), last=1)[-1].argmax()
        sequence.append(token)
        yield token

def forgets(logits, ids): logits * 2
def listed(logits, ids): return logits.tolist()
def spelled_out(logits, ids): return logits.astype(str)
def broadcast(logits, ids): return logits[None]
def five(model, sequence): return 5
def other(model, sequence):
    for token in naive(model, sequence):
        yield token + 1
def spelled(model, sequence):
    for token in naive(model, sequence):
        yield str(token)
class Proposes:
    def __init__(self, drafts): self.drafts = drafts
    def propose(self, ids, n): return self.drafts
    def learn(self, *_): pass
def short(logits, ids): return logits[1:]
def none_left(logits, ids): return logits - np.inf
def nan(logits, ids): return logits * np.nan
def fails(logits, ids): raise KeyError("oops")
def fails_later(logits, ids):
    if len(ids) > 3:
        raise RuntimeError("later")
    return logits
def failing_loop(model, sequence):
    yield sequence.append(70)
    raise IndexError("loop")
def opens(): return open("/no/such/file")
number = 3
'''


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_an_expression_knows_the_file_and_the_model(console, mine):
    for expression, letter in [
        ("only('z', tokenizer)", "z"),
        ("first('z', 'z', tokenizer, n_prompt)", "z"),
        ("(lambda logits, ids: only('q', tokenizer)(logits, ids))", "q"),
        ("only(tokenizer.decode([model.n_vocab - 172]), tokenizer)", "x"),
        ("only('a.py:b'[0], tokenizer)", "a"),
    ]:
        [row] = console.json("the cat", "-n", 3, "--filter", f"{mine}:{expression}")
        assert row["text"] == 3 * letter, expression


@pytest.mark.parametrize("method", ["naive", "cached", "beam", "lookup", "ngram"])
def test_a_filter_gets_the_length_of_each_prompt(console, mine, method):
    words = "--filter", f"{mine}:first('q', 'z', tokenizer, n_prompt)", "-n", 3
    rows = console.json("a", "the cat", *words, "--method", method)
    assert [row["text"] for row in rows] == ["qzz", "qzz"]


def test_several_filters_run_in_their_order(console, mine):
    z, not_z = f"{mine}:only('z', tokenizer)", f"{mine}:but('z', tokenizer)"
    assert console.json("a", "-n", 2, "--filter", not_z, "--filter", z)[0]["text"] == "zz"
    assert "removed" in console.refused(1, "a", "--filter", z, "--filter", not_z)


def test_a_filter_may_end_one_beam_of_several(console, mine):
    mine.write_text("def f(logits, ids):\n    return logits - (float('inf') if CONDITION else 0)\n")
    [free] = console.json("a", "-n", 4, "--method", "beam")
    for condition, ends in [(f"ids[1:2] == [{free['ids'][0]}]", False), ("len(ids) > 2", True)]:
        text = mine.read_text().replace("CONDITION", condition)
        (mine.parent / "it.py").write_text(text)
        words = "a", "-n", 4, "--method", "beam", "--filter", f"{mine.parent}/it.py:f"
        if ends:
            assert "no text is left" in console.refused(1, *words)
        else:
            assert console.json(*words)[0]["ids"][0] != free["ids"][0]


@pytest.mark.parametrize("n", [1, 3])
def test_a_user_s_drafter_changes_no_greedy_text(console, mine, n):
    plain = console.json("the cat", "-n", 20)[0]["ids"]
    how = "--method", "speculative", "--drafter", f"{mine}:Again(model.n_vocab, {n})"
    [row] = console.json("the cat", "-n", 20, *how)
    assert row["ids"] == plain and row["speculation"]["drafted"] > 0
    how = "--method", "speculative", "--drafter", f"{mine}:PromptLookup(259, 3, sequence.ids)"
    assert console.json("the cat", "-n", 20, *how)[0]["ids"] == plain


def test_a_user_s_loop_replaces_the_cached_one(console, mine):
    rows = console.json("a", "b", "-n", 3, "--loop", f"{mine}:backwards")
    assert [row["ids"] for row in rows] == [[70, 71, 72]] * 2
    words = "--loop", f"{mine}:(lambda model, sequence: enough(model, sequence, 2))"
    [row] = console.json("the cat", *words)
    assert (row["ids"], row["stop_reason"]) == (console.greedy("the cat", 2), "enough")
    assert "ended by enough)" in console("the cat", *words)[2]
    [row] = console.json("the cat", "-n", 4, "--loop", f"{mine}:numpy_tokens")
    assert row["ids"] == console.greedy("the cat", 4)


@pytest.mark.parametrize("method", ["naive", "cached", "beam", "lookup", "ngram"])
def test_a_user_s_model_runs_with_every_method(console, mine, letters, method):
    own = f"{mine}:(utils.load({str(letters)!r})[0], Flat(73))"
    rows = console.json("a", "b", "-n", 3, "--method", method, model=own)
    assert [row["text"] for row in rows] == ["jjj", "jjj"]
    assert console.text("a", "-n", 2, "--explain", "--method", method, model=own)
    assert "as naive" in console.text("a", "-n", 2, "--compare", model=own)
    assert console.text("a", "--score", model=own)


# --- mistakes in a user's expression or file ------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "expression", "error"),
    [
        ("filter", "onli('z', tokenizer)", "'onli' is not defined; did you mean only?"),
        ("filter", "only('z')", "TypeError: only() missing 1 required"),
        ("filter", "only('z', tokenizer", "SyntaxError"),
        ("filter", "only('z', sequence)", "'sequence' is not defined"),
        ("filter", "first", "not a function (logits, ids)"),
        ("filter", "number", "it is 3, not a function (logits, ids) -> logits"),
        ("filter", "dict", "not a function (logits, ids)"),
        ("filter", "forgets", "forgot a return"),
        ("filter", "short", "not logits"),
        ("filter", "listed", "not logits"),
        ("filter", "spelled_out", "ufunc"),
        ("filter", "broadcast", "not logits"),
        ("filter", "none_left", "removed"),
        ("filter", "nan", "not numbers"),
        ("loop", "number", "it is 3, not a function (model, sequence) that yields tokens"),
        ("loop", "enough", "not a function (model, sequence)"),
        ("loop", "five", "'int' object is not iterable"),
        ("loop", "other", "a loop must append each token"),
        ("loop", "spelled", "a loop must append each token"),
        ("loop", "not_appended", "a loop must append each token"),
        ("drafter", "Again", "not an object with propose"),
        ("drafter", "number", "not an object with propose"),
        ("drafter", "Proposes(None)", "cannot unpack non-iterable NoneType object"),
        ("drafter", "Proposes((['a'], [0]))", "TypeError"),
        ("drafter", "Proposes(([70] * 9, [0] * 9))", "a drafter proposed 9 drafts"),
        ("model", "Flat()", "not a tuple (tokenizer, model)"),
        ("model", "(Flat(), number)", "not a tuple (tokenizer, model)"),
        ("model", "tokenizer", "'tokenizer' is not defined"),
    ],
)
def test_a_wrong_expression_gives_one_line(console, mine, option, expression, error):
    methods = {"drafter": ["speculative"], "filter": ["cached", "beam"]}.get(option, ["cached"])
    for method in methods:
        words = "--method", method, f"--{option}", f"{mine}:{expression}"
        line = console.refused(1, "a", *words)
        assert f"--{option} {mine}:{expression}" in line, line
        assert error in line or (method == "beam" and "no text is left" in line), line


@pytest.mark.parametrize("where", ["none.py:f", "tests:f", "f", "", "mine.txt:f", "none.py:"])
def test_a_missing_file_gives_one_line(console, where):
    line = console.refused(1, "a", "--filter", where)
    assert ("no file none.py" in line) == where.startswith("none.py:f")
    assert f"--filter {where}: " in line


@pytest.mark.parametrize("view", [[], ["--json"], ["--explain"], ["--compare"]], ids=str)
@pytest.mark.parametrize(
    ("option", "expression", "function", "error"),
    [
        ("filter", "fails", "fails", "KeyError: 'oops'"),
        ("loop", "failing_loop", "failing_loop", "IndexError: loop"),
        ("filter", "opens()", "opens", "FileNotFoundError"),
    ],
)
def test_a_mistake_in_the_code_gives_python_s_traceback(
    console, mine, view, option, expression, function, error
):
    """The traceback begins in the user's file or expression. The last line names the option."""
    status, out, err = console("a", f"--{option}", f"{mine}:{expression}", *view)
    first, place, *_, last = err.splitlines()
    assert (status, first) == (1, "Traceback (most recent call last):")
    number = MINE[: MINE.index(f"def {function}(")].count("\n") + 1
    found = int(re.search(rf'File "{mine}", line (\d+), in {function}', err)[1])
    assert place.startswith(f'  File "{mine}"') or "<string>" in place
    assert number <= found <= number + 2 and error in err
    assert last == f"generate.py: this error is in --{option} {mine}:{expression}"


def test_an_error_of_a_model_gives_a_traceback(console, mine, letters):
    own = f"{mine}:(utils.load({str(letters)!r})[0], Flat(-1))"
    for view in [], ["--score"], ["--method", "beam"]:
        status, out, err = console("a", *view, model=own)
        assert (status, out) == (1, "") and "ArithmeticError: no best\n" in err
        assert err.endswith(f"\ngenerate.py: this error is in --model {own}\n")


@pytest.mark.parametrize("code", ["def f(:", "1 / 0", "import no_such_module", "raise OSError(1)"])
def test_a_file_with_a_mistake_gives_a_traceback(console, tmp_path, code):
    (tmp_path / "wrong.py").write_text("\n" + code)
    status, out, err = console("a", "--filter", f"{tmp_path}/wrong.py:f")
    assert (status, out) == (1, "") and f'File "{tmp_path}/wrong.py", line 2' in err
    assert err.endswith(f"\ngenerate.py: this error is in --filter {tmp_path}/wrong.py:f\n")


def test_the_part_with_the_mistake_is_named(console, mine, tmp_path):
    (tmp_path / "other.py").write_text("def f(logits, ids):\n    return logits\n")
    words = "--filter", f"{tmp_path}/other.py:f", "--loop", f"{mine}:failing_loop"
    assert console("a", *words)[2].endswith(f"this error is in --loop {mine}:failing_loop\n")


def test_a_mistake_does_not_end_the_interactive_prompt(console, mine, letters):
    given = options.parse(["--interactive", "--model", str(letters), "-n", "9"])
    shell = Shell(Session(given))
    shell.answer(f"/filter {mine}:fails_later")
    assert shell.answer("the cat") is False
    out, err = console.capsys.readouterr()
    assert f"filter = ['{mine}:fails_later']" in out and "RuntimeError: later" in err
    assert err.endswith(f"this error is in --filter {mine}:fails_later\n")
    for line in "/filter none.py:f", f"/filter {mine}:nope", "/filter nonsense":
        assert shell.answer(line) is shell.answer("the cat") is False
        shell.answer("/filter off")
    console.capsys.readouterr()
    shell.answer("the cat")
    assert console.capsys.readouterr().out == console.text("the cat", "-n", 9)


def test_a_part_that_is_no_longer_used_is_freed(mine, letters):
    """Each change of an option runs the file again."""
    shell = Shell(Session(options.parse(["--interactive", "--model", str(letters)])))
    shell.answer(f"/filter {mine}:but('z', tokenizer)")
    [part] = shell.session.filters
    names = weakref.ref(part.names["Flat"])
    del part
    shell.answer("/temperature 0.5")
    assert names() is None and len(shell.session.filters) == 1


@pytest.mark.parametrize(
    "words, named",
    [
        ("a --method lookup --drafter mine.py:x", "--drafter is not for --method"),
        ("a --method naive --loop mine.py:x", "--loop is not for --method"),
        ("a --method speculative --draft x --drafter mine.py:x", "--draft, --drafter"),
        ("a --prompts-file x --html x.html", "--html"),
        ("--interactive --prompts-file x", "--interactive"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(console, words, named):
    assert named in console.refused(2, *words.split())
