"""Check a reader's file in a process of its own: workshop/__main__.py starts it.

So nothing in the file reaches the judge: the file may change NumPy, loop for ever or end Python.
The process prints lines of JSON: {"begin": key} before each part, {"verdict": ...} after each step,
and {"end": true}. If a result takes too long, it prints a traceback instead of more lines.
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
    """Check the steps in the request. "ended": the messages for parts that ended Python."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever the reader's file prints goes to stderr
    sys.stdout = sys.stderr

    def tell(**line):
        print(json.dumps(line), file=out, flush=True)

    names, ended, seconds, to_load = json.loads(request).values()

    @contextlib.contextmanager
    def limited(path, seconds=seconds):
        if not path:
            yield
            return
        faulthandler.dump_traceback_later(seconds, exit=True, file=out)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    Tape.limited = staticmethod(limited)
    sys.path.append(str(Path(file).resolve().parent))  # the reader's file may import its neighbours
    tell(begin="file")
    try:
        reader = Reader(Path(file), STEPS, ended, limited(file, to_load))
    except BaseException as error:  # the file may call sys.exit
        tell(error=explain(file, error))
        os._exit(1)
    np.seterr(all="warn", under="ignore")
    try:
        for step in STEPS:  # earlier steps, too, to replace their wrong functions
            verdict = check(reader, step, step.name in names, lambda key: tell(begin=key))
            if step.name in names:
                tell(verdict=verdict._asdict())
            if step.name == names[-1]:
                tell(end=True)
                break
    except KeyboardInterrupt:  # the parent says so
        os._exit(1)
    except BaseException:
        traceback.print_exc()
        tell(error="the workshop itself has failed: this is not your mistake")
    os._exit(0)  # the file may have started threads


def explain(file: str, error: BaseException) -> str:
    """Return one line that locates an error in the reader's file."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if isinstance(error, OSError) and not own:
        return f"cannot read {file}: {error.strerror}. python -m workshop new {file} creates it"
    line = f", line {own[-1].lineno}: {own[-1].line}".rstrip(":") if own else ""
    return f"{file}{line}: {type(error).__name__}: {' '.join(str(error).split())}"
