"""Build GPT-2 yourself, step by step: python -m workshop new mine.py"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if __name__ == "__main__" and not __package__:  # python FOLDER/workshop, from another folder
    sys.path[0] = str(FOLDER.parent)

HINTS = {  # {step: three hints}
    step: re.findall(r"^\d\. (.*)", hints, re.M)
    for step, hints in re.findall(r"## (\w+)\n([^#]*)", (FOLDER / "hints.md").read_text("utf-8"))
}
SECONDS = 4.0  # a result that takes longer counts as an endless loop. Each one halves this limit.
MARKS = {"done": "done", "missing": "not yet", "wrong": "WRONG"}


def main(argv: list[str]) -> int:
    from terminal.streams import open_streams

    open_streams()
    command = argv.pop(0) if argv[:1] in (["new"], ["hunt"]) else ""
    parser = argparse.ArgumentParser(prog=f"python -m workshop {command}", description=__doc__)
    parser.error = sys.exit  # type: ignore[assignment]  # an error is one line
    parser.add_argument("file", help="your file; `new FILE` creates it")
    if command == "hunt":
        parser.add_argument("--step", choices=HINTS, help="the step that has the mistake")
        parser.add_argument("--seed", type=int, default=0, help="a number: it chooses the mistake")
    elif not command:
        parser.add_argument("step", nargs="?", choices=HINTS, help="the step to check")
        hints = "print hint 1, 2 or 3 for the step, or for the first step that is not done"
        parser.add_argument("--hint", nargs="?", type=int, const=1, choices=(1, 2, 3), help=hints)
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    options = parser.parse_intermixed_args(argv)
    if command == "new":
        from workshop.mistakes import skeleton

        says = f"write its first step, then run python -m workshop {options.file}"
        return create(Path(options.file), skeleton(), says)
    if command == "hunt":
        from workshop.hunt import prey

        text = prey(options.file, options.step, options.seed)
        return create(Path(options.file), text, "its first lines say what its mistake does")
    return judge(options)


def create(path: Path, text: str, says: str) -> int:
    """Write a new file, and say what to do next."""
    name = path.name.partition(".")[0]
    if importlib.util.find_spec(name):
        sys.exit(f"{path} would hide the module {name}: choose a different name")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        sys.exit(f"{path} already exists and is not overwritten: choose a different name")
    except OSError as error:
        sys.exit(f"cannot write {path}: {error.strerror}")
    print(f"created {path}: {says}")
    return 0


def judge(options: argparse.Namespace) -> int:
    verdicts = run(options.file, [options.step] if options.step else list(HINTS))
    if options.json:
        print(json.dumps(verdicts, indent=1))
    elif options.hint:
        hint(verdicts, options.hint)
    else:
        show(verdicts)
    states = {verdict["step"]: verdict["state"] for verdict in verdicts}
    if {*states.values()} == {"done"}:
        from workshop.hunt import name_of

        name = name_of(Path(options.file), states)
        print(name, end="", file=sys.stderr if options.json else sys.stdout)
    return int("wrong" in states.values())


def run(file: str, names: list[str]) -> list[dict]:
    """Check these steps of the reader's file in a process of its own, and return the verdicts. If a
    part of a step ends this process, start again, and count that part as wrong."""
    ended: dict[str, tuple] = {}
    while True:
        n_loops = sum("does not end" in says for _, says in ended.values())
        seconds = max(1.0, SECONDS / 2**n_loops)
        limits = {"seconds": seconds, "to load": 2 * SECONDS}
        request = json.dumps({"steps": names, "ended": ended, **limits})
        python = [sys.executable, "-c", CHILD, str(FOLDER.parent), file, request]
        done = subprocess.run(python, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        text = done.stdout.decode("ascii", "replace")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        if not lines:
            sys.exit(f"Python does not start (exit status {done.returncode})")
        if "error" in lines[-1]:
            sys.exit(lines[-1]["error"])
        if "end" in lines[-1]:
            return [line["verdict"] for line in lines if "verdict" in line]
        key = [line["begin"] for line in lines if "begin" in line][-1]
        limit = limits["to load" if key == "file" else "seconds"]
        why = end_of(file, text, done.returncode, limit)
        if key == "file" or key in ended:
            sys.exit(f"{file}: {why}")
        ended[key] = None, f"{why}."


CHILD = (
    "import sys; sys.path[0] = sys.argv[1]; from workshop.child import main; main(*sys.argv[2:])"
)


def end_of(file: str, text: str, status: int, seconds: float) -> str:
    """Say why the process has ended. text: what it printed, maybe with a traceback."""
    if "Timeout" not in text:
        return f"it ends Python (exit status {status}): remove calls such as exit()"
    ends = f"it does not end within {seconds:g} s"
    found = re.search(rf'File "{re.escape(file)}", line (\d+)', text)  # the innermost is first
    if not found:
        return ends
    code = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    line = code[int(found[1]) - 1].strip(" :")
    return f"line {found[1]}: {line}: {ends}"


def show(verdicts: list[dict]) -> None:
    width = max(len(verdict["step"]) for verdict in verdicts)
    for step, state, _, says in map(dict.values, verdicts):
        text = "" if state == "done" else says.removeprefix("not yet: ")
        print(f"{step:{width}}  {MARKS[state]:7}  {text}".rstrip())


def hint(verdicts: list[dict], number: int) -> None:
    """Print hint 1, 2 or 3 for the first step that is not done."""
    steps = [verdict["step"] for verdict in verdicts if verdict["state"] != "done"]
    if not steps:
        return print("done: no hint is needed")
    more = f" (The next one: --hint {number + 1}.)" if number < 3 else ""
    print(f"{steps[0]}, hint {number} of 3: {HINTS[steps[0]][number - 1]}{more}")


if __name__ == "__main__":
    from terminal.streams import quit_if_closed

    status: int | str
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = "interrupted"
    except OSError as error:
        quit_if_closed(error)
        raise
    sys.exit(status)
