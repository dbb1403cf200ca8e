"""Users plug in their own filter, loop, drafter or model as FILE.py:EXPRESSION."""

import re

import pytest

MINE = """
import dataclasses
import numpy as np
import utils
from decoding.drafters import one_hots
from generate import naive

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

@dataclasses.dataclass  # @dataclass needs the module in sys.modules
class Again:
    n_vocab: int
    def propose(self, ids, n):
        return ids[-1:] * n, one_hots(ids[-1:] * n, self.n_vocab)
    def learn(self, *_): pass

def mine(folder, fails=False):
    tokenizer, model = utils.load(folder)
    if fails:
        model.activation = lambda x: 1 / 0
    return tokenizer, model

def enough(model, sequence, n):
    for token in naive(model, sequence):
        yield token
        if len(sequence.new_ids) == n:
            sequence.finish("enough")

def endless(model, sequence):
    for _ in range(99):
        yield sequence.append(70)

def not_appended(model, sequence):
    while True:
        yield 70

def none_left(logits, ids): return logits - np.inf
def fails(logits, ids): raise KeyError("oops")
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


@pytest.mark.parametrize("method", ["naive", "cached", "beam", "lookup", "ngram"])
def test_a_filter_knows_the_model_and_the_length_of_each_prompt(console, mine, method):
    letter = "tokenizer.decode([model.n_vocab - 172])"  # x
    words = "--filter", f"{mine}:first('a.py:b'[0], {letter}, tokenizer, n_prompt)", "-n", 3
    rows = console.json("a", "the cat", *words, "--method", method)
    assert [row["text"] for row in rows] == ["axx", "axx"]
    other = "--filter", f"{mine}:only('z', tokenizer)"  # filters run in their order
    [row] = console.json("a", *words, *other, "--method", method)
    assert row["text"] == "zzz"


def test_a_user_s_drafter_changes_no_greedy_text(console, mine):
    how = "--method", "speculative", "--drafter", f"{mine}:Again(sequence.model.n_vocab)"
    [row] = console.json("the cat", "-n", 20, *how)
    assert row["ids"] == console.greedy("the cat", 20)
    assert re.search(r"\d+ of \d+ drafts accepted", console("the cat", "-n", 20, *how)[2])
    assert re.search("speculative .* as naive", console.text("a", "--compare", *how[2:]))


def test_a_user_s_loop_replaces_the_cached_one(console, mine):
    words = "--loop", f"{mine}:(lambda model, sequence: enough(model, sequence, 2))"
    rows = console.json("the cat", "a", *words)
    assert [row["ids"] for row in rows] == [console.greedy(x, 2) for x in ("the cat", "a")]
    assert {row["stop_reason"] for row in rows} == {"enough"}
    assert "ended by enough)" in console("the cat", *words)[2]
    [row] = console.json("the cat", "-n", 5, "--loop", f"{mine}:endless")
    assert row["ids"] == [70] * 5
    out = console.text("a", "-n", 5, "--compare", "--loop", f"{mine}:endless")
    assert re.search("ngram .* as naive\n", out) and re.search("cached .* DIFFERENT\n", out)


def test_a_user_s_model_is_used_like_any_other(console, mine, letters):
    own = f"{mine}:mine({str(letters)!r})"
    for view in ["b"], ["--method", "beam"], ["--explain"], ["--score"]:
        assert console.text("a", *view, model=own) == console.text("a", *view)


def test_a_wrong_result_gives_one_line(console, mine):
    for method, error in ("cached", "removed"), ("beam", "no text is left"):
        words = "--method", method, "--filter", f"{mine}:none_left"
        assert error in console.refused(1, "a", *words)
    line = console.refused(1, "a", "--loop", f"{mine}:not_appended")
    assert "a loop must append each token" in line


@pytest.mark.parametrize(
    ("option", "expression", "error"),
    [
        ("filter", "only('z', tokenizer", "SyntaxError"),
        ("loop", "[][sequence.n_prompt]", "IndexError"),
        ("model", "tokenizer", "'tokenizer' is not defined"),
    ],
)
def test_the_traceback_of_a_wrong_expression_names_the_option(
    console, mine, option, expression, error
):
    status, out, err = console("a", f"--{option}", f"{mine}:{expression}")
    assert (status, out) == (1, "") and error in err.splitlines()[-1]
    assert f'File "--{option} {mine}:{expression}", line 1' in err


def test_an_error_in_a_user_s_code_gives_a_traceback(console, mine, letters):
    own = f"{mine}:mine({str(letters)!r}, fails=True)"
    for view in [], ["--score"]:
        status, out, err = console("a", *view, model=own)
        assert (status, out) == (1, "") and err.endswith("\nZeroDivisionError: division by zero\n")
    err = console("a", "--filter", f"{mine}:fails")[2]
    assert err.startswith("Traceback") and err.endswith("\nKeyError: 'oops'\n")
    number = MINE[: MINE.index("def fails(")].count("\n") + 1
    assert f'File "{mine}", line {number}, in fails' in err
    assert "No such file" in console.refused(1, "a", "--filter", "none.py:f")
    mine.write_text("raise SystemExit")
    assert "the file ends the program" in console.refused(1, "a", "--filter", f"{mine}:f")
    for code in "def f(:", "import no_such_module", "raise OSError(22, 0)":
        mine.write_text("\n" + code)
        status, out, err = console("a", "--filter", f"{mine}:f")
        assert (status, out) == (1, "") and f'File "{mine}", line 2' in err


def test_a_file_imports_its_neighbours(console, tmp_path):
    (tmp_path / "beside.py").write_text("from generate import naive")
    (tmp_path / "mine.py").write_text("import beside")
    [row] = console.json("a", "-n", 3, "--loop", f"{tmp_path}/mine.py:beside.naive")
    assert row["ids"] == console.greedy("a", 3)


def test_explain_asks_a_filter_once_for_each_token(console, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def f(logits, ids):\n    print('asked')\n    return logits\n")
    status, out, _ = console("Once upon", "--explain", "-n", 3, "--filter", f"{mine}:f")
    assert (status, out.count("asked")) == (0, 3)
