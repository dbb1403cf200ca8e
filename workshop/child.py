"""Check a reader's file: python -m workshop.child FILE '{"steps": [...], "ended": {...}}'

This is a process of its own, so that nothing in the file reaches the judge: the file may change
NumPy, loop for ever or end Python. It prints lines of JSON for workshop/__main__.py: {"begin": key}
before each part, {"verdict": ...} after each step, and {"end": true}. If a result takes too long,
it prints a traceback instead of more lines. "ended": the messages for parts that ended Python.
"""

import contextlib
import faulthandler
import json
import os
import sys
import traceback
from pathlib import Path

import numpy as np

from workshop.engine import Reader, Tape, check
from workshop.steps import STEPS


def main(file: str, request: str) -> None:
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever the reader's file prints goes to stderr
    sys.stdout = sys.stderr

    def tell(**line):
        print(json.dumps(line), file=out, flush=True)

    names, ended, seconds = json.loads(request).values()

    @contextlib.contextmanager
    def limited(path):
        if path:
            faulthandler.dump_traceback_later(seconds, exit=True, file=out)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    Tape.limited = staticmethod(limited)
    sys.path.append(str(Path(file).resolve().parent))  # the reader's file may import its neighbours
    tell(begin="file")
    try:
        with limited(file):
            reader = Reader(Path(file), STEPS)
    except BaseException as error:  # the file may call sys.exit
        tell(error=explain(file, error))
        os._exit(1)
    np.seterr(all="warn", under="ignore")
    reader.ended = ended
    try:
        last = [step.name for step in STEPS].index(names[-1])
        for step in STEPS[: last + 1]:  # the earlier steps, too, to replace their wrong functions
            wanted = step.name in names
            verdict = check(reader, step, wanted, lambda key: tell(begin=key))
            if wanted:
                tell(verdict=verdict)
        tell(end=True)
    except BaseException:
        traceback.print_exc()
        tell(error="the workshop itself has failed: this is not your mistake")
    os._exit(0)  # the file may have started threads


def explain(file: str, error: BaseException) -> str:
    """Return one line that locates an error in the reader's file."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if isinstance(error, SyntaxError) and not own:
        return f"{file}, line {error.lineno}: {error.msg}"
    if isinstance(error, OSError) and not own:
        return f"cannot read {file}: {error.strerror}. python -m workshop new {file} creates it"
    line = f", line {own[-1].lineno}: {own[-1].line}".rstrip(":") if own else ""
    return f"{file}{line}: {type(error).__name__}: {' '.join(str(error).split())}"


if __name__ == "__main__":
    main(*sys.argv[1:])
