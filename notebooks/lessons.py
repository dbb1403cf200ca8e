"""Helpers for the notebooks: show figures, check exercises, time and print code, generate texts.

A notebook imports this module first, because the module makes the project's files importable.
"""

import _thread
import ast
import base64
import builtins
import contextlib
import dis
import functools
import inspect
import io
import itertools
import json
import re
import statistics
import sys
import textwrap
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
from IPython import get_ipython
from IPython.display import Image, display

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from workshop import engine  # noqa: E402
from workshop.engine import Part, judge, stubs  # noqa: E402
from workshop.mistakes import NAMES, TEXTS  # noqa: E402

MOST_SECONDS = 20  # a result that takes longer counts as an endless loop
SEARCH_SECONDS = 8.0  # a search for the name of a mistake begins no new try after so long
MOST_YIELDED = 100_000  # an endless generator is cut off here
solved = PROJECT / "notebooks"  # the folder with our answers
if (packed := solved / "answers.bin").exists():  # a package for a class has them in one file
    solved = zipfile.Path(packed)
    sys.path.append(str(packed))

# Okabe and Ito chose these colours so that colour-blind readers can distinguish them.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#000000"

ONE_ROUND = "of a loop that ends after one round: is a `return` inside it?"
CENTERED = {"ha": "center", "va": "center"}  # text is centred on its coordinates
MACHINE = "one quiet core of the machine on which this lesson was written"
DPI = 150  # higher than the 100 dpi of the display, so that a projector shows sharp pictures
plt.style.use(PROJECT / "notebooks/drawing/lessons.mplstyle")


def show(alt, figure=None):
    """Display a figure, by default the current one; alt: its alternative text, or that text's name
    in alternatives.txt. The numbers in its lines and bars are added to the text."""
    figure, file, small = figure or plt.gcf(), io.BytesIO(), io.BytesIO()
    figure.savefig(file, format="png")
    alt = texts(this_lesson()).get(alt, alt)
    says = " ".join([alt, *filter(None, numbers(figure))])
    plt.close(figure)
    image = PIL.Image.open(file).convert("RGB")  # 256 of its colours take half of the bytes
    image = image.quantize(method=PIL.Image.Quantize.MAXCOVERAGE, kmeans=1)
    image.save(small, format="png")
    data = base64.b64encode(small.getvalue()).decode()
    # as HTML, because JupyterLab would not show the alternative text of a PNG
    url, width = f"data:image/png;base64,{data}", image.width * 100 // DPI
    display(Image(url=url, alt=says, width=width))


def numbers(figure):
    """Yield what each panel says: its title, texts, labelled lines and bars."""
    for axis in figure.axes:
        ticks = [tick.get_text() for tick in axis.get_xticklabels()]
        said = [text.get_text().strip() for text in axis.texts[:60] if text.get_text().strip()]
        for line in axis.lines:
            x, y = map(np.ravel, line.get_data())
            names = ticks if np.array_equal(x, axis.get_xticks()) else [f"{n:.4g}" for n in x]
            chosen = dict.fromkeys(np.linspace(0, len(x) - 1, 5).astype(int))  # first to last
            if len(x) and not line.get_label().startswith("_"):
                points = ", ".join(f"{y[i]:.3g} at {names[i]}" for i in chosen)
                said.append(f"{line.get_label()} {points}")
        for bars in axis.containers:
            if getattr(bars, "orientation", "") == "horizontal":
                ticks = [tick.get_text() for tick in axis.get_yticklabels()]
            if len(bars) != len(ticks):  # no bar for each tick, as in a histogram
                ticks = [f"{bar.get_x() + bar.get_width() / 2:.3g}" for bar in bars]
            heights = [f"{x:.3g}" for x in getattr(bars, "datavalues", [])]
            name = bars.get_label() if not bars.get_label().startswith("_") else ""
            if len(bars) < 30:
                said.append(f"{name} {', '.join(map(': '.join, zip(ticks, heights)))}".strip())
        says = ": ".join(filter(None, [axis.get_title() or axis.get_ylabel(), "; ".join(said)]))
        yield f"{says}.".replace("\n", " ") if says else ""


def texts(lesson):
    """Return {picture: its alternative text}. A line in the file has "lesson picture: text"."""
    table = (solved / "alternatives.txt").read_text(encoding="utf-8")
    return dict(re.findall(rf"^{lesson} (\S+): (.+)", table, re.MULTILINE))


def replaced(module, **functions):
    """Return a context manager in which these functions replace those of a module."""
    return mock.patch.multiple(module, **functions) if functions else contextlib.nullcontext()


tried = {}  # {the names of a check's functions: (how many tries, "solved" or "not solved")}
guesses = []  # lines with a guess, if there was one, and its answer
skipped = set()  # names that a cell would have made


def check(lesson, number, *answers):
    """Print "solved", or what is missing. Raise no error, so that the next cells can run.

    answers: the reader's functions. The `Part` exercise_NUMBER in checks/LESSON.py compares them
    with ours.
    """
    part = share(lesson).checks[f"exercise_{number}"]
    changed = []  # the reader's functions that change an argument in place
    shown = []  # what is printed before the search for the mistake's name
    if missing := [answer.__name__ for answer in answers if is_stub(answer)]:
        says = f"write {' and '.join(missing)}"
    else:
        code = getattr(inspect.unwrap(answers[0]), "__code__", None)  # a partial has none
        path = code and code.co_filename
        copies = [careful(answer, changed) for answer in answers]
        mine = SimpleNamespace(**dict(zip(part.names, copies)))
        looking = replaced(engine, search_begins=functools.partial(look, shown))
        with looking, replaced(engine.Tape, limited=staticmethod(limited)):
            found = judge(part, mine, path)
        says = found[1] if found and found[0] != "float64" else None
        tries, before = tried.get(part.names, (0, ""))
        tried[part.names] = tries + (before != "solved"), "not " * bool(says or changed) + "solved"
    if changed:
        says = f"{changed[0]} changes its argument: work on a copy"
    elif shown:
        return print(found_in_search(says, shown[0]))
    print(f"not solved yet: {says}" if says else "solved")


def look(shown, says):
    """Print what is known before the search for a mistake's name, which can take seconds."""
    shown.append(says)
    engine.most_seconds = 0.0 if "NameError: " in says else SEARCH_SECONDS  # which says it all
    print(f"not solved yet: {says}\nlooking for your mistake ...", flush=True)


def found_in_search(says, shown):
    """Return the last line of a check: what the search has found beyond what was shown before."""
    says = says.replace(f" ({shown})", "").removeprefix(shown)
    says = re.sub(r"with `\[\*.*\]\[:1\]` instead .*", ONE_ROUND, says).replace("?.", "?").strip()
    error = re.search(r"line \d+: .*", shown)
    # another slip with the same error proves something only if the error contains numbers
    if error and (not says or "in our code" in says and not re.search(r": .*\d", error[0])):
        return f"found no known mistake: look at {error[0]}"
    return f"found: {says}" if says else "found no known mistake with these results"


@contextlib.contextmanager
def limited(path):
    """Raise an error if a result takes more than MOST_SECONDS."""
    end = time.monotonic() + MOST_SECONDS
    timer = threading.Timer(MOST_SECONDS, _thread.interrupt_main)
    timer.start()
    try:
        yield
    except KeyboardInterrupt as error:
        if time.monotonic() < end:  # the user pressed Stop
            raise
        says = f"no result after {MOST_SECONDS} seconds, so a loop may be endless"
        raise TimeoutError(says).with_traceback(error.__traceback__) from None
    finally:
        timer.cancel()


@functools.cache
def share(lesson):
    """Let the workshop read our versions of a lesson's functions: those that readers write in the
    text, and the solutions. They use names from the cells `imports` and those tagged `given`.
    Return these, checks, {name: first line of a cell that makes it}, {call of `here`: task}."""
    cells = json.loads((solved / f"{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    source, names, ours, first_lines, checks = f"notebooks/{lesson}.ipynb", {}, [], {}, {}
    asked, questions = "", {}
    for i, cell in enumerate(cells):
        tags, text = cell["metadata"].get("tags", []), "".join(cell["source"])
        if i == 2 or "given" in tags:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(text, names)
        if "yours" in tags:
            ours.append(text)
        if cell["cell_type"] == "markdown":
            [asked] = re.findall(r"\*\*(Predict(?:.|\n)*?)(?:\n\n|\Z)", text)[-1:] or [asked]
        for call in re.findall(r"lessons\.here\(.*", text):
            questions[call] = " ".join(asked.replace("**", "").split())
        for name in names_of(text)[-1] if cell["cell_type"] == "code" else ():
            first_lines.setdefault(name, text.splitlines()[0])
    solutions = (solved / f"solutions/{lesson}.py").read_text(encoding="utf-8")
    ours += re.split(r"^# exercise .*\n", solutions, flags=re.M)[1:]
    TEXTS[source], NAMES[source] = "\n\n\n".join(ours), names
    exec((solved / f"checks/{lesson}.py").read_text(encoding="utf-8"), checks)
    parts = {name: part for name, part in checks.items() if isinstance(part, Part)}
    return SimpleNamespace(checks=parts, ours=ours, first_lines=first_lines, questions=questions)


def is_stub(answer):
    """Return whether a function is not written yet."""
    try:
        return bool(stubs(ast.parse(textwrap.dedent(inspect.getsource(answer)))))
    except (OSError, TypeError, SyntaxError, ValueError):  # a lambda, or a function of a library
        return False


def careful(answer, changed):
    """Return a function like the reader's. It notes in `changed` if the answer changes an argument.

    Lists of arrays are caches, which may change. A function that it returns is careful, too.
    """

    @functools.wraps(answer)
    def call(*args, **settings):
        given = *args, *settings.values()
        before = list(map(state, given))
        result = answer(*args, **settings)
        if inspect.isgenerator(result):
            # a generator changes its arguments while it runs
            result = list(itertools.islice(result, MOST_YIELDED))
        if before != list(map(state, given)):
            changed.append(call.__name__)
        return careful(result, changed) if inspect.isfunction(result) else result

    return call


def state(value):
    """Return something that differs after a change of this array, list, set or dict."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    cache = isinstance(value, list) and any(isinstance(part, np.ndarray) for part in value)
    return None if cache or not isinstance(value, list | set | dict) else repr(value)


class Watched:
    """A model that records each pass as (the number of cached tokens before it, its ids)."""

    def __init__(self, model):
        self.model, self.passes = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache=None, last=None):
        self.passes.append((0 if cache is None else cache.length, np.array(ids).tolist()))
        return self.model(ids, cache, last)


def walk(f, *args):
    """Show how a function of the reader ran, line by line, with its numbers. If it raises an error,
    the page shows the line that failed. Without args, f gets ids (of "The dragon was"), n (3) and
    model, as its arguments are named."""
    import page

    tokenizer, model = (f.__globals__[name] for name in ("tokenizer", "model"))
    known = {"ids": tokenizer.encode("The dragon was"), "n": 3, "model": model}
    args = args or [known[name] for name in inspect.signature(f).parameters if name in known]
    return page.walk(tokenizer, model, f, *args)


def here(answer):
    """Print the answer to a prediction, after the reader's guess, if there is one."""
    space, questions = get_ipython().user_ns, share(this_lesson()).questions
    guess = space.pop("guess", ...)
    says = f"here: {answer}" if guess is ... else f"you: {guess}, here: {answer}"
    asked = [question for call, question in questions.items() if call in space["In"][-1]]
    guesses.append("\n  ".join([*asked, says]))
    print(says)


def this_lesson():
    """Return the name of the lesson whose pictures are imported, or ""."""
    return next((name[8:] for name in sys.modules if name.startswith("drawing.")), "")


def ours(function):
    """Print and run our version of the cell in which readers write this function."""
    [source] = [cell for cell in share(this_lesson()).ours if f"def {function}(" in cell]
    guesses.append(f"our {function} was read")
    print(source)
    get_ipython().run_cell(source)


def report(name=""):
    """Append a record to a file: the reader's name, what is solved, predictions and guesses."""
    with contextlib.suppress(EOFError, NotImplementedError):  # nobody can answer
        name = name or input("Your name: ")
    lesson = this_lesson()
    lines = [f"{name or 'no name'}: {lesson}, {time.strftime('%Y-%m-%d %H:%M')}"]
    for part in share(lesson).checks.values():
        tries, says = tried.get(part.names, (0, "not solved"))
        lines.append(f"{says}, tries: {tries}, {' and '.join(part.names)}")
    path = Path(re.sub(r"\W+", "-", f"report-{lesson}-{name}") + ".txt").resolve()
    with path.open("a", encoding="utf-8") as file:
        print(*lines, *dict.fromkeys(guesses), "", sep="\n", file=file)
    print("written:", path)


def guard(lines):
    """Return a cell's lines, or a note if it lacks something. IPython calls this before it runs."""
    cell, space, lesson = "".join(lines), get_ipython().user_ns, this_lesson()
    reads, inner, makes = names_of(cell)
    known = {*makes, *vars(builtins)} if lesson else {*reads, *inner}
    for name in (name for name in reads + inner if name not in known):
        value, first_lines = space.get(name), share(lesson).first_lines
        if inspect.isfunction(value) and is_stub(value) and "lessons.check(" not in cell:
            note = f"write {name} first, or run lessons.ours({name!r})"
        elif name in skipped or name in reads and name not in space and name in first_lines:
            note = f"{name} is missing: run the cell that begins with {first_lines[name]!r}"
        else:
            continue
        skipped.update(makes)
        first_lines.update(dict.fromkeys(makes, cell.splitlines()[0]))
        return [f"print({note!r})\n"]
    skipped.difference_update(makes)
    return lines


def names_of(cell):
    """Return the names that a cell reads, that its functions read, and that it makes."""
    top = compile(cell, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    codes, reads, inner, makes = [top], [], [], []
    for code in codes:  # functions and classes inside are appended
        for step in dis.get_instructions(code):
            if inspect.iscode(step.argval):
                codes.append(step.argval)
            elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                (reads if code is top else inner).append(step.argval)
            elif step.opname == "STORE_NAME" and code is top:
                makes.append(step.argval)
    return reads, inner, makes


def fastest(actions, rounds=7, saved=None, machine=MACHINE):
    """Time functions that always do the same work: {name: function} -> {name: least seconds}."""
    return steady(timed(actions, rounds), saved, machine)


def timed(actions, rounds):
    """Time functions that take no arguments: {name: function} -> {name: seconds in each round}.

    The functions take turns, so that other programs slow all of them down alike. A first round is
    not timed: it only warms up.
    """
    times = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return times


def steady(times, saved, machine=MACHINE):
    """Return {name: the least of its times}: other programs can only lengthen a run.

    If they disturb this machine too much, return saved times, if there are any. times: {name:
    seconds in each round}; saved: {name: time} on `machine`, or a list of milliseconds.
    """
    worst = max(statistics.median(found) / min(found) for found in times.values())
    if worst < 1.5 or saved is None:
        return {name: min(found) for name, found in times.items()}
    print("Other programs disturb this machine. The figures below are saved ones, from")
    print(f"{machine}.")
    if isinstance(saved, list):
        saved = {name: ms / 1000 for name, ms in zip(times, saved, strict=True)}
    return saved


def paragraph(text):
    """Print a text as one indented paragraph, at most 76 columns wide."""
    print(textwrap.indent(textwrap.fill(" ".join(text.split()), width=72), "    "))


def source(function):
    """Print a function without its docstring, at most 79 columns wide.

    A comment that does not fit beside its line of code is printed above that line.
    """
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    body = ast.parse("\n".join(lines)).body[0].body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        del lines[body[0].lineno - 1 : body[1].lineno - 1]
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) > 79 and "# " in line:
            line, comment = line.split("# ", 1)
            begin = f"{indent}# "
            print(textwrap.fill(comment, 79, initial_indent=begin, subsequent_indent=begin))
        if line.strip() or not indent:
            print("\n".join(broken(line.rstrip())))


def broken(line, width=79):
    """Yield a line of code in parts of at most `width` columns.

    Each part ends after a space or an opening parenthesis, outside a string if possible. A string
    that must be split is closed at the end of a part, and opened again in the next one.
    """
    indent = len(line) - len(line.lstrip()) + 4
    while len(line) > width:
        ends = [i for i in range(indent + 1, width) if line[i - 1] in " ("]
        if line.lstrip().startswith("def "):  # break between parameters, if possible
            ends = [i for i in ends if line[i - 2] == ","] or ends
        end = max(ends, key=lambda i: (line[:i].count('"') % 2 == 0, i))
        begin, rest = line[:end].rstrip(), line[end:]
        if line[:end].count('"') % 2:
            is_f = line[line.rindex('"', 0, end) - 1] == "f"
            begin, rest = line[:end] + '"', "f" * is_f + '"' + rest
        yield begin
        line = " " * indent + rest
    yield line


def continuations(model, prompt, sampler, n_texts, n):
    """Continue a prompt n_texts times in one batch, with the seeds 0, 1, ... -> ids [n_texts, n].

    Stop ids do not end a text, so every text has n new tokens.
    """
    from generate import advance
    from samplers import draw

    ids, cache = np.tile(prompt, (n_texts, 1)), model.new_cache(n_texts)
    rngs = [np.random.default_rng(seed) for seed in range(n_texts)]
    for _ in range(n):
        logits = advance(model, ids, cache)  # [n_texts, n_vocab]
        drawn = [draw(sampler(row, text), rng) for row, text, rng in zip(logits, ids, rngs)]
        ids = np.column_stack([ids, drawn])
    return ids[:, len(prompt) :]


def tiny_model(n_vocab, seed, n_embd=8, scale=0.6):
    """Return a random GPT-2, so small that every text of a few tokens can be scored."""
    return random_gpt2(n_vocab, 16, n_embd, 2, 2, scale, seed, tied=False)


def random_gpt2(n_vocab, n_ctx, n_embd, n_layer, n_head, scale=0.02, seed=0, tied=True):
    """Return a GPT-2 with random weights from N(0, scale^2), but norm gains from N(1, scale^2).

    tied: whether the model uses wte as its head, instead of an lm_head.
    """
    from families.few_rows import Weight
    from gpt2 import GPT2

    rng, d = np.random.default_rng(seed), n_embd

    def normal(*shape, mean=0):
        return rng.normal(mean, scale, shape).astype(np.float32)

    def norm():
        return {"g": normal(d, mean=1), "b": normal(d)}

    def dense(n_in, n_out):
        return {"w": normal(n_in, n_out).T.view(Weight), "b": normal(n_out)}

    def block():
        attention = {"ln_1": norm(), "attn": {"c_attn": dense(d, 3 * d), "c_proj": dense(d, d)}}
        mlp = {"ln_2": norm(), "mlp": {"c_fc": dense(d, 4 * d), "c_proj": dense(4 * d, d)}}
        return attention | mlp

    params = {"blocks": [block() for _ in range(n_layer)], "wte": normal(n_vocab, d).view(Weight)}
    params |= {"wpe": normal(n_ctx, d), "ln_f": norm()}
    if not tied:
        params["lm_head"] = normal(n_vocab, d).view(Weight)
    return GPT2(params, n_head)


if get_ipython():
    get_ipython().input_transformers_post.append(guard)
