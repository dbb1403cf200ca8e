"""FILE.py:NAME and FILE.py:NAME(VALUES): parts of one's own on the command line."""

import re

import pytest

from loading.errors import UserError
from terminal.options import parser
from terminal.plugin import Plug
from terminal.session import Session
from terminal.shell import Shell

MINE = """
import numpy as np
from generate import naive
from interface import Drafter
from drafters import one_hots

def only(token, more=(), *, tokenizer, model, n_prompt):
    assert model.n_vocab == tokenizer.n_vocab == 259
    def f(logits, ids):
        kept = np.full_like(logits, -np.inf)
        kept[[tokenizer.encode(token)[0], *more]] = 0
        return kept
    return f

def first(token, other, tokenizer, n_prompt):
    def f(logits, ids):
        kept = tokenizer.encode(token if len(ids) == n_prompt else other)
        return np.where(np.arange(len(logits)) == kept[0], 0, -np.inf)
    return f

def but(token, tokenizer):
    def f(logits, ids):
        logits[tokenizer.encode(token)[0]] = -np.inf
        return logits
    return f

class Again(Drafter):
    made = []
    def __init__(self, times=1, *, model, sequence):
        self.n_vocab, self.times = model.n_vocab, times
        self.made.append(list(sequence.ids))
    def propose(self, ids, n):
        if self.times > 7:
            raise RuntimeError("too often")
        drafts = ids[-1:] * min(n, self.times)
        return drafts, one_hots(drafts, self.n_vocab)

class NoLearn:
    def __init__(self, model):
        self.n_vocab = model.n_vocab
    def propose(self, ids, n):
        return [], []

def backwards(model, sequences):
    yield from naive(model, sequences[::-1])

def first_only(n, tokenizer, model):
    def loop(model, sequences):
        for sequence, token in naive(model, sequences):
            yield sequence, token
            if len(sequence.new_ids) == n:
                sequence.finish("enough")
    return loop

def fails(model, sequences):
    yield from naive(model, sequences[:0])
    raise IndexError("oops")

class Flat:
    n_vocab, n_ctx, stop_ids, generation_config, has_source = 259, 50, (), {}, False
    def __init__(self, best=70):
        self.best = best
    def __call__(self, ids, cache=None, last=None):
        if self.best < 0:
            raise ArithmeticError("no best")
        logits = np.zeros((*np.shape(ids)[:-1], last or np.shape(ids)[-1], 259), np.float32)
        logits[..., self.best] = 9
        return logits
    def new_cache(self, *batch):
        return NoCache(*batch)
    def begin(self, prompts):
        return self, prompts

class NoCache:
    def __init__(self, n_rows):
        self.lengths = [0] * n_rows  # the whole text passes each time
    def select(self, rows):
        self.lengths = [0] * len(rows)
    def cut(self, lengths): pass
    def join(self, other):
        self.lengths = [0] * (len(self.lengths) + len(other.lengths))

def flat(best=70, folder=None):
    import utils
    return utils.load(folder)[0], Flat(best)

def half(folder):
    import utils
    return utils.load(folder)[0], NoLearn(Flat())

number = 3

def nothing(tokenizer): pass
def five(sequences=0): return 5
def forgets(logits, ids): logits[70] = 9
def none_left(logits, ids): return logits - np.inf
def misspelt(tokeniser): return forgets
def three(a, b, c): return forgets

def lettered(tokenizer, model, *, letter):
    return only(letter, tokenizer=tokenizer, model=model, n_prompt=1)

class OnlyIds(Drafter):
    def propose(self, ids, n):
        return [70] * n

def only_sequences(model, sequences):
    for sequence, _ in naive(model, sequences):
        yield sequence

def not_appended(model, sequences):
    while True:
        yield sequences[0], 70

def no_steps(model, sequences): pass

def alone(folder=None): return Flat()

def lacking(name, folder):
    class Less(Flat):
        pass
    tokenizer, model = flat(70, folder)
    if name in ("new_cache", "begin"):
        setattr(Less, name, property())  # an AttributeError
        return tokenizer, Less()
    Cache = type("Cache", (), {"lengths": [0], "cut": 0, "select": 0, "join": 0})
    delattr(Cache, name)
    Less.new_cache = lambda *_: Cache()
    return tokenizer, Less()

class Numbers(Flat):
    params = {"best": 70, "names": ["a"]}  # not arrays

def numbers(folder):
    return flat(70, folder)[0], Numbers()

def breaks(folder):
    class Breaks(Flat):
        def __call__(self, ids, cache=None, last=None):
            if np.shape(ids)[-1] > 1:
                raise LookupError("too many")
            return super().__call__(ids, cache, last)
    return flat(70, folder)[0], Breaks()

def dumb(folder):
    class Dumb:
        def encode(self, text):
            raise LookupError("no ids")
    return Dumb(), Flat()

def wide(folder):
    tokenizer, model = flat(70, folder)
    class Wide(Flat):
        def __call__(self, ids, cache=None, last=None):
            return super().__call__(ids, cache, last)[0]
    return tokenizer, Wide()
"""


def line(code):
    """Where this stands in MINE."""
    return 1 + next(i for i, text in enumerate(MINE.split("\n")) if code in text)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_maker_gets_its_values_and_what_it_names(console, mine):
    [row] = console.json("the cat", "--filter", f"{mine}:only('z')", "-n", 3)
    assert row["text"] == "zzz"
    words = "--filter", f"{mine}:only('z', [88])", "-n", 9, "--seed", 1
    [row] = console.json("the cat", *words)
    assert {*row["text"]} == {"z", "y"}


def test_a_filter_gets_the_length_of_its_prompt(console, mine):
    rows = console.json("the cat", "a", "--filter", f"{mine}:first('x', 'y')", "-n", 3)
    assert [row["text"] for row in rows] == ["xyy", "xyy"]


def test_more_filters_run_in_their_order(console, mine):
    words = "a", "-n", 3, "--filter", f"{mine}:only('z', [88])", "--filter", f"{mine}:but('z')"
    assert console.json(*words)[0]["text"] == "yyy"
    words = "a", "-n", 3, "--filter", f"{mine}:but('z')", "--filter", f"{mine}:only('z')"
    assert console.json(*words)[0]["text"] == "zzz"


@pytest.mark.parametrize("values", ["()", "(2)", "(3)"])
def test_a_drafter_of_your_own_changes_no_greedy_text(console, mine, values):
    words = "the cat", "the", "-n", 6, "--temperature", 0
    plain = [row["ids"] for row in console.json(*words)]
    own = "--method", "speculative", "--drafter", f"{mine}:Again{values}"
    rows = console.json(*words, *own)
    assert [row["ids"] for row in rows] == plain
    assert all(row["speculation"]["drafted"] for row in rows)


def test_a_loop_of_your_own_replaces_the_cached_one(console, mine):
    words = "the cat", "the", "-n", 6, "--temperature", 0
    plain = [row["ids"] for row in console.json(*words)]
    assert [row["ids"] for row in console.json(*words, "--loop", f"{mine}:backwards")] == plain
    rows = console.json(*words, "--loop", f"{mine}:first_only(2)")
    assert [row["ids"] for row in rows] == [ids[:2] for ids in plain]
    assert {row["stop_reason"] for row in rows} == {"enough"}


@pytest.mark.parametrize("method", ["naive", "cached", "beam", "lookup", "ngram"])
def test_a_model_of_your_own(console, mine, letters, method):
    model = f"{mine}:flat(71, {str(letters)!r})"
    [row] = console.json("the", "--method", method, "-n", 3, model=model)
    assert row["text"] == "hhh" and row["model"] == model


def test_a_model_of_your_own_may_have_parameters_of_any_kind(console, mine, letters):
    [row] = console.json("the", "-n", 2, model=f"{mine}:numbers({str(letters)!r})")
    assert row["text"] == "gg"


def test_of_two_parts_of_your_own_the_one_with_the_error_is_named(console, mine, letters):
    drafter = mine.with_name("drafter.py")
    drafter.write_text(MINE)
    model = f"{mine}:breaks({str(letters)!r})"
    how = "--method", "speculative", "--drafter"
    found = console.refused(1, "the cat", *how, f"{drafter}:Again()", model=model)
    assert f"--model {model}: mine.py:{line('too many')}: LookupError: too many\n" in found
    model = f"{mine}:flat(70, {str(letters)!r})"
    found = console.refused(1, "the cat", *how, f"{drafter}:Again(9)", model=model)
    assert f"--drafter {drafter}:Again(9): drafter.py:{line('too often')}: Runtime" in found


@pytest.mark.parametrize(("name", "view", "error"), [
    ("breaks", "--score", "too many"), ("breaks", "--compare", "too many"),
    ("dumb", "--tokens=3", "no ids"), ("dumb", "--score", "no ids"),
])  # fmt: skip
def test_its_error_is_one_line_in_every_view(console, mine, letters, name, view, error):
    model = f"{mine}:{name}({str(letters)!r})"
    place = f"--model {model}: mine.py:{line(error)}: LookupError: {error}\n"
    assert place in console.refused(1, "the cat", view, model=model)


def test_its_error_does_not_end_the_interactive_prompt(mine, letters, capsys):
    args = parser().parse_args(["--interactive", f"--model={mine}:breaks({str(letters)!r})"])
    shell = Shell(Session(args))
    assert shell.answer("/score the cat") is False and shell.answer("the cat") is False
    assert capsys.readouterr().err.count(f"mine.py:{line('too many')}: LookupError") == 2


def test_classes_find_their_file(console, mine, letters):
    """Annotations as text, of a dataclass; and the trace, which looks for the model's functions."""
    mine.write_text("""
from __future__ import annotations
from dataclasses import dataclass
import utils
from gpt2 import GPT2

@dataclass
class Settings:
    n: int

class Mine(GPT2):
    def new_name(self, x):
        return x * 1
    def block(self, x, **more):
        return super().block(self.new_name(x), **more)

def own(folder):
    tokenizer, model = utils.load(folder)
    return tokenizer, Mine(model.params, model.n_head)
""")
    out = console.text("the cat", "--trace", model=f"{mine}:own({str(letters)!r})")
    assert f"new_name  {mine.name}" in re.sub(" +", "  ", out)


@pytest.mark.parametrize(("option", "where", "error"), [
    ("filter", "only", "the form is FILE.py:NAME or FILE.py:NAME(VALUES)"),
    ("filter", "mine.py", "the form is"),
    ("filter", "none.py:f", "no file none.py"),
    ("filter", "{mine}:absent", "has no 'absent'"),
    ("filter", "{mine}:absent('a')", "has no 'absent'"),
    ("filter", "{mine}:only('a'", "the form is"),
    ("filter", "{mine}:only(open('x'))", "VALUES are literals"),
    ("filter", "{mine}:only(a.b)", "VALUES are literals"),
    ("filter", "{mine}:only('a')('b')", "VALUES are literals"),
    ("filter", "{mine}:only(*[1])", "VALUES are literals"),
    ("filter", "{mine}:only()", "missing a required argument: 'token', for only(token, more=()"),
    ("filter", "{mine}:three(1, 2, 3, 4)", "too many positional arguments, for three(a, b, c)"),
    ("filter", "{mine}:misspelt()", "'tokeniser', for misspelt(tokeniser); filled in after"),
    ("filter", "{mine}:but('a', leter=3)", "'leter', for but(token, tokenizer)"),
    ("filter", "{mine}:but('a', **{{}})", "VALUES are literals"),
    ("filter", "{mine}:but('a') + (1)", "VALUES are literals"),
    ("filter", "{mine}:but", "but is a function (token, tokenizer), not a function (logits, ids)"),
    ("filter", "{mine}:but", "; if it makes one, write but()"),
    ("filter", "{mine}:nothing()", "nothing returned None, not a function (logits, ids) -> logits"),
    ("filter", "{mine}:five()", "five returned 5, not a function (logits, ids) -> logits"),
    ("filter", "{mine}:Again", "Again is a class, not a function (logits, ids) -> logits; if it"),
    ("filter", "{mine}:forgets", "it must return logits [259], not a single number or None: is"),
    ("filter", "{mine}:none_left", "none_left has left no token: no token can be drawn"),
    ("drafter", "{mine}:Again", "Again is a class, not an object with propose and learn; if it"),
    ("drafter", "{mine}:five()", "five returned 5, not an object with propose and learn"),
    ("drafter", "{mine}:OnlyIds()", "it must propose (ids, distributions), not a list"),
    ("loop", "{mine}:first_only", "first_only is a function (n, tokenizer, model), not a function"),
    ("loop", "{mine}:nothing()", "nothing returned None, not a function (model, sequences)"),
    ("loop", "{mine}:only_sequences", "must yield (sequence, token), not a Sequence"),
    ("loop", "{mine}:not_appended", "it must append a token first: sequence.append(token)"),
    ("loop", "{mine}:no_steps", "'NoneType' object is not iterable"),
    ("model", "{mine}:flat", "flat is a function (best=70, folder=None), not a tuple (tokenizer"),
    ("model", "{mine}:alone()", "alone returned a Flat, not a tuple (tokenizer, model)"),
    ("model", "{mine}:lacking('new_cache', {letters!r})", "the model has no new_cache"),
    ("model", "{mine}:lacking('begin', {letters!r})", "the model has no begin"),
    ("model", "{mine}:lacking('select', {letters!r})", "the cache has no select"),
    ("model", "{mine}:wide({letters!r})", "logits [1, 1, 259] with last=1, not [1, 259]"),
    ("filter", "{mine}:only(7)", f"mine.py:{line('kept[[')}: AttributeError"),
    ("filter", "{mine}:number(1)", "number"),
    ("filter", "{mine}:number", "number is 3, not a function (logits, ids) -> logits\n"),
    ("loop", "{mine}:fails", f"mine.py:{line('oops')}: IndexError: oops"),
    ("loop", "{mine}:number", "number is 3, not a function (model, sequences) that yields"),
    ("drafter", "{mine}:Again(9)", f"mine.py:{line('too often')}: RuntimeError: too often"),
    ("drafter", "{mine}:NoLearn()", "NoLearn returned a NoLearn, not an object with propose and"),
    ("model", "{mine}:flat(-1, {letters!r})", f"mine.py:{line('no best')}: ArithmeticError"),
    ("model", "{mine}:half({letters!r})", "the model has no n_ctx, no stop_ids"),
    ("model", "{mine}:number", "number is 3, not a tuple (tokenizer, model)\n"),
    ("model", "{mine}:flat(7, 'nowhere')", "no model 'nowhere'"),
])  # fmt: skip
def test_what_is_wrong_with_it_is_one_line(console, mine, letters, option, where, error):
    where = where.format(mine=mine, letters=str(letters))
    more = ["--method", "speculative"] if option == "drafter" else []
    given = {"model": where} if option == "model" else {}
    words = [] if option == "model" else [f"--{option}", where]
    found = console.refused(1, "a", "-n", 4, *words, *more, **given)
    assert error in found and "Traceback" not in found
    if "nowhere" not in where:
        assert f"--{option} {where}".split("(")[0] in found


@pytest.mark.parametrize(("words", "error"), [
    (["--loop", "x.py:f", "--method", "beam"], "--loop is for --method cached, not beam"),
    (["--drafter", "x.py:f"], "--drafter is for --method speculative, not cached"),
    (["--drafter", "x.py:f", "--draft", "y", "--method", "speculative"], "not both"),
])  # fmt: skip
def test_a_plug_that_does_not_belong_is_refused(console, mine, words, error):
    words = [word.replace("x.py:f", f"{mine}:backwards") for word in words]
    assert error in console.refused(2, "a", *words)


def test_values_may_be_named(console, mine):
    [row] = console.json("a", "-n", 3, "--filter", f"{mine}:lettered(letter='s')")
    assert row["text"] == "sss"
    [row] = console.json("a", "-n", 3, "--filter", f"{mine}:only('z', more=[88], n_prompt=0)")
    assert {*row["text"]} <= {"z", "y"}


def test_a_filter_may_end_one_beam_of_several(console, mine):
    """Only where no beam is left, the filter is named."""
    code = "def f(logits, ids):\n    return logits - float('inf') if {} else logits\n"
    how = "the cat", "--method", "beam", "-n", 4
    [free] = console.json(*how)
    mine.write_text(code.format(f"ids[5:] == [{free['ids'][0]}]"))
    [row] = console.json(*how, "--filter", f"{mine}:f")
    assert row["ids"][0] != free["ids"][0]
    mine.write_text(code.format("len(ids) > 6"))
    line = console.refused(1, *how, "--filter", f"{mine}:f")
    assert f"--filter {mine}:f has left no token: no sequence is left" in line


def test_parentheses_and_colons_in_a_value(mine):
    plug = Plug("filter", f"{mine}:only('a.py:b (c)', 1, n={{'a': [2]}})")
    assert (plug.values, plug.named) == (["a.py:b (c)", 1], {"n": {"a": [2]}})
    with pytest.raises(UserError, match="VALUES"):
        Plug("filter", f"{mine}:only(1 + x)")
