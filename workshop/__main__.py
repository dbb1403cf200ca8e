"""Build GPT-2 yourself, step by step: python -m workshop new mine.py"""

import argparse
import contextlib
import difflib
import json
import sys
import traceback
from pathlib import Path

from workshop.engine import Reader, Step, Verdict, check
from workshop.steps import STEPS
from workshop.steps.hints import HINTS

SKELETON = Path(__file__).with_name("skeleton.py")
MARKS = {"done": "done", "missing": "not yet", "wrong": "WRONG"}


def main(argv: list[str]) -> int:
    if argv[:1] == ["new"] and len(argv) == 2:
        return new(Path(argv[1]))
    options = read_options(argv)
    steps = chosen(options.step)
    with contextlib.redirect_stdout(sys.stderr):  # the reader's file may print
        reader = load(Path(options.file))
        for step in STEPS[: STEPS.index(steps[0])]:  # to replace wrong functions of earlier steps
            check(reader, step, name=False)
        verdicts = [check(reader, step) for step in steps]
    if options.json:
        print(json.dumps([verdict._asdict() for verdict in verdicts], indent=1))
    elif options.hint:
        hint(steps, verdicts, options.hint)
    else:
        show(verdicts)
    return int(any(verdict.state == "wrong" for verdict in verdicts))


def read_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workshop", description=__doc__)
    parser.add_argument("file", help="your file; `new FILE` creates it")
    parser.add_argument("step", nargs="?", help=f"one of {', '.join(s.name for s in STEPS)}")
    hints = "print hint 1, 2 or 3 for the step, or for the first step that is not done"
    parser.add_argument("--hint", nargs="?", type=int, const=1, choices=(1, 2, 3), help=hints)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    return parser.parse_intermixed_args(argv)


def new(path: Path) -> int:
    """Write a file with the functions that the reader fills in. Do not overwrite any file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(SKELETON.read_text(encoding="utf-8"))
    except FileExistsError:
        sys.exit(f"{path} already exists and is not overwritten: choose a different name")
    except OSError as error:
        sys.exit(f"cannot write {path}: {error.strerror}")
    print(f"created {path}: write its first step, then run python -m workshop {path}")
    return 0


def chosen(name: str | None) -> list[Step]:
    """Return the chosen steps: the one with this name, or all if there is no name."""
    steps = {step.name: step for step in STEPS}
    if name and name not in steps:
        close = difflib.get_close_matches(name, steps, 1)
        guess = f"did you mean {close[0]}?" if close else f"the steps are {', '.join(steps)}"
        sys.exit(f"no step {name}: {guess}")
    return [steps[name]] if name else STEPS


def load(path: Path) -> Reader:
    """Run the reader's file. If it fails, exit with one line that locates the error."""
    try:
        return Reader(path, STEPS)
    except SyntaxError as error:
        sys.exit(f"{path}, line {error.lineno}: {error.msg}")
    except BaseException as error:  # the file may call sys.exit
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        if isinstance(error, OSError) and not own:
            why = f"cannot read {path}: {error.strerror}"
            sys.exit(f"{why}. python -m workshop new {path} creates it")
        line = f", line {own[-1].lineno}: {own[-1].line}".rstrip(":") if own else ""
        sys.exit(f"{path}{line}: {type(error).__name__}: {error}")


def show(verdicts: list[Verdict]) -> None:
    width = max(len(verdict.step) for verdict in verdicts)
    for verdict in verdicts:
        says = "" if verdict.state == "done" else verdict.says.removeprefix("not yet: ")
        print(f"{verdict.step:{width}}  {MARKS[verdict.state]:7}  {says}".rstrip())


def hint(steps: list[Step], verdicts: list[Verdict], number: int) -> None:
    """Print hint 1, 2 or 3 for the first step that is not done."""
    open_steps = {v.step for v in verdicts if v.state != "done"}
    step = next((step for step in steps if step.name in open_steps), None)
    if step is None:
        print("done: no hint is needed")
        return
    hints = HINTS[step.name]
    more = f" (The next one: --hint {number + 1}.)" if number < len(hints) else ""
    print(f"{step.name}, hint {number} of {len(hints)}: {hints[number - 1]}{more}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
