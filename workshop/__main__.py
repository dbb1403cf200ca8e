"""Build GPT-2 yourself, step by step: python -m workshop new mine.py"""

import argparse
import difflib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__" and not __package__:  # python FOLDER/workshop, from another folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

FOLDER = Path(__file__).resolve().parent
SKELETON = FOLDER / "skeleton.py"
HINTS = {  # {step: three hints}
    step: re.findall(r"^\d\. (.*)", hints, re.M)
    for step, hints in re.findall(
        r"^## (\w+)\n(.*?)(?=^## |\Z)", (FOLDER / "hints.md").read_text("utf-8"), re.M | re.S
    )
}
SECONDS = 8.0  # a result that takes longer counts as an endless loop
MARKS = {"done": "done", "missing": "not yet", "wrong": "WRONG"}


def main(argv: list[str]) -> int:
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if argv[:1] == ["new"] and len(argv) == 2:
        return new(Path(argv[1]), copy_skeleton)
    if argv[:1] == ["hunt"]:
        return hunt(argv[1:])
    options = read_options(argv)
    names = chosen(options.step)
    verdicts = run(options.file, names)
    if options.json:
        keys = "step", "state", "mistake", "says"
        print(json.dumps([dict(zip(keys, verdict)) for verdict in verdicts], indent=1))
    elif options.hint:
        hint(verdicts, options.hint)
    else:
        show(verdicts)
    if all(state == "done" for _, state, *_ in verdicts):
        from workshop.hunt import name_of

        print(name_of(Path(options.file)), end="", file=sys.stderr if options.json else sys.stdout)
    return int(any(state == "wrong" for _, state, *_ in verdicts))


def read_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workshop", description=__doc__)
    parser.add_argument("file", help="your file; `new FILE` creates it")
    parser.add_argument("step", nargs="?", help=f"one of {', '.join(HINTS)}")
    hints = "print hint 1, 2 or 3 for the step, or for the first step that is not done"
    parser.add_argument("--hint", nargs="?", type=int, const=1, choices=(1, 2, 3), help=hints)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    return parser.parse_intermixed_args(argv)


def new(path: Path, write: Callable[[Path], str]) -> int:
    """Create a file with `write`, which returns what to do next. Do not overwrite any file."""
    if importlib.util.find_spec(path.stem):
        sys.exit(f"{path} would hide the module {path.stem}: choose a different name")
    try:
        says = write(path)
    except FileExistsError:
        sys.exit(f"{path} already exists and is not overwritten: choose a different name")
    except OSError as error:
        sys.exit(f"cannot write {path}: {error.strerror}")
    print(f"created {path}: {says}")
    return 0


def copy_skeleton(path: Path) -> str:
    with path.open("x", encoding="utf-8") as file:
        file.write(SKELETON.read_text(encoding="utf-8"))
    return f"write its first step, then run python -m workshop {path}"


def hunt(argv: list[str]) -> int:
    """Write a file with one known mistake."""
    parser = argparse.ArgumentParser(prog="python -m workshop hunt")
    parser.add_argument("file", help="the file to write")
    parser.add_argument("--step", help="the step that has the mistake")
    parser.add_argument("--seed", type=int, default=0, help="a number: it chooses the mistake")
    options = parser.parse_args(argv)
    chosen(options.step)
    from workshop.hunt import write

    return new(Path(options.file), lambda path: write(path, options.step, options.seed))


def chosen(name: str | None) -> list[str]:
    """Return the names of the chosen steps: this one, or all if there is no name."""
    if name and name not in HINTS:
        close = difflib.get_close_matches(name, HINTS, 1)
        guess = f"did you mean {close[0]}?" if close else f"the steps are {', '.join(HINTS)}"
        sys.exit(f"no step {name}: {guess}")
    return [name] if name else list(HINTS)


def run(file: str, names: list[str]) -> list:
    """Check the reader's file in a process of its own. Return [step, state, mistake, says] of each
    step. If a part of a step ends this process, start again, and count that part as wrong."""
    ended: dict[str, str] = {}
    while True:
        request = json.dumps({"steps": names, "ended": ended, "seconds": SECONDS})
        python = [sys.executable, "-c", CHILD, str(FOLDER.parent), file, request]
        done = subprocess.run(python, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        text = done.stdout.decode("ascii", "replace")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if lines and "error" in lines[-1]:
            sys.exit(lines[-1]["error"])
        if lines and "end" in lines[-1]:
            return [line["verdict"] for line in lines if "verdict" in line]
        if not lines:
            sys.exit(f"Python does not start (exit status {done.returncode})")
        key = [line["begin"] for line in lines if "begin" in line][-1]
        why = end_of(file, text, done.returncode)
        if key == "file" or key in ended:
            sys.exit(f"{file}{', ' * why.startswith('line')}{why}")
        ended[key] = f"{why[:1].upper()}{why[1:]}."


CHILD = (
    "import sys; sys.path[0] = sys.argv[1]; from workshop.child import main; main(*sys.argv[2:])"
)


def end_of(file: str, text: str, status: int) -> str:
    """Say why the process has ended. text: what it printed, maybe with a traceback."""
    frames = re.findall(r'File "(.*?)", line (\d+) in (\w+)', text)
    if "Timeout" not in text:
        return f" ends Python (exit status {status})"
    for path, number, _ in frames:  # the innermost function comes first
        if path == file:
            code = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
            return f"line {number}: {code[int(number) - 1].strip()}: it never ends"
    return "it never ends"


def show(verdicts: list) -> None:
    width = max(len(step) for step, *_ in verdicts)
    for step, state, _, says in verdicts:
        text = "" if state == "done" else says.removeprefix("not yet: ")
        print(f"{step:{width}}  {MARKS[state]:7}  {text}".rstrip())


def hint(verdicts: list, number: int) -> None:
    """Print hint 1, 2 or 3 for the first step that is not done."""
    step = next((step for step, state, *_ in verdicts if state != "done"), None)
    if step is None:
        print("done: no hint is needed")
        return
    hints = HINTS[step]
    more = f" (The next one: --hint {number + 1}.)" if number < len(hints) else ""
    print(f"{step}, hint {number} of {len(hints)}: {hints[number - 1]}{more}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
