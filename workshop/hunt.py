"""Hunt: a file of right code with one known mistake. Its reader sees one result that is wrong.

    python -m workshop hunt prey.py --step keys --seed 3

The same judge accepts the repair, and then names the mistake.
"""

import ast
import contextlib
import re
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np

from workshop.compare import Raised, Seen, is_right, tell
from workshop.engine import Part, Tape, difference, right_tape
from workshop.mistakes import Mistake, body, build, read, text_of
from workshop.steps import STEPS

HELPERS = {"check": "samplers.py", "keep": "samplers.py", "residual": "speculative.py"}
HELPERS["log_softmax"] = "gpt2.py"
PATCHED = re.compile(
    r"\bif (True|False)\b|\bpass$|\b0 \*|[+*] 0\b|\b_ = |in \[0\]|^ *(if|for|while) .*: \w|.{101}"
    r"|\[\*|\)\[|\(\(|\b_\b|; |\bsorted|(=|return|^) *\(.*\)$"
)
HEAD = """# hunt {step} {seed}: this file has one mistake. A result that it changes:
#   {symptom}
# Find it and mend it. Only then run this command, because it names the mistake:
#   python -m workshop {file} {step}

from __future__ import annotations

import math

import numpy as np
"""


def prey(file: str, step: str | None, seed: int) -> str:
    """Return the text of a file for a hunt."""
    name, wrong, (a, b) = choose(step, seed)
    return HEAD.format(step=name, seed=seed, symptom=tell(a, b), file=file) + code(wrong)


def name_of(path: Path, steps: Collection[str]) -> str:
    """Name the mistake in a hunt's file, if it was in one of these steps."""
    found = re.match(r"# hunt (\w+) (\d+):", path.read_text("utf-8", "replace"))
    if not found or found[1] not in steps:
        return ""
    _, wrong, _ = choose(found[1], int(found[2]))
    says = wrong.says.removesuffix(" in our code")
    seen = f" A real project had it, too: {wrong.project}." if wrong.project else ""
    return f"\nThe mistake was in {wrong.function}. Its results were those {says}.{seen}\n"


def choose(step: str | None, seed: int) -> tuple[str, Mistake, tuple[Seen, Seen]]:
    """Choose a step, a mistake that changes its results without raising an error, and the first
    result that it changes, with the mistake and without it."""
    if seed < 0:
        sys.exit(f"the seed is {seed}: choose 0, 1, 2, ...")
    steps = {s.name: s.parts for s in STEPS if s.parts[0].mistakes}
    step = step or list(steps)[seed % len(steps)]
    if step not in steps:
        sys.exit(f"the step {step} has no known mistakes: choose a different step")
    parts, rng = steps[step], np.random.default_rng(seed)
    made = [m for part in parts for m in part.mistakes if looks_natural(part, m)]
    slipped = [m for part in parts for m in part.slips() if looks_natural(part, m)]
    while True:
        pool = made if made and rng.random() < 0.5 else slipped
        wrong = pool[rng.integers(len(pool))]
        with contextlib.suppress(SyntaxError):
            tapes = [(Tape(p, build(p.source, wrong)), right_tape(p)) for p in parts]
            differ = next(filter(None, (difference(*both, is_right) for both in tapes)), None)
            raised = any(isinstance(a.value, Raised) for tape, _ in tapes for a in tape)
            if differ and all(differ) and not raised and code(wrong) != code():
                return step, wrong, differ


def looks_natural(part: Part, wrong: Mistake) -> bool:
    """Return whether the mistake is in our code, and each new line is one that somebody writes."""
    old = read(wrong.source)[slice(*body(wrong.source, wrong.function))].splitlines()
    new = [line for line in wrong.code.splitlines() if line not in old]
    return wrong.source == part.source and not any(map(PATCHED.search, new))


def code(wrong: Mistake | None = None) -> str:
    """Return right code for all steps, but with this mistake."""
    pieces = dict(HELPERS)
    for part in (part for step in STEPS for part in step.parts):
        for name in part.names:
            pieces.setdefault(name.partition(".")[0], part.source)
    found = [definition(text_of(source, wrong), name) for name, source in pieces.items()]
    return "".join(f"\n\n{text}\n" for text in found)


def definition(text: str, name: str) -> str:
    """Return the text of a function or class."""
    node = next(n for n in ast.parse(text).body if getattr(n, "name", None) == name)
    code = str(ast.get_source_segment(text, node)).replace("  # ours", "")
    return re.sub(r"\n    # ===.*\n", "", code)
