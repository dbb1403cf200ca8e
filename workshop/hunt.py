"""Hunt: a file of right code with one known mistake. Its reader sees one result that is wrong.

    python -m workshop hunt prey.py --step keys --seed 3

The same judge accepts the repair, and then says how the mistake is called.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from workshop.compare import Raised, Seen, close, is_right, plain, same_shape, tell
from workshop.engine import Part, Tape, difference, right_tape
from workshop.mistakes import Mistake, build, read, text_of
from workshop.steps import STEPS

HELPERS = dict.fromkeys(("check", "keep"), "samplers.py") | {
    "residual": "speculative.py",
    "log_softmax": "gpt2.py",
}
PATCHED = re.compile(
    r"\bif (True|False)\b|\bpass$|\b0 \*|[+*] 0\b|\b_ = |in \[0\]|^ *(if|for|while) .*: \w|.{101}"
)
HEAD = """# hunt {step} {seed}: this file has one mistake. A result that it changes:
{symptom}
# Find it and mend it. Only then run this command, because it names the mistake:
#   python -m workshop {file} {step}

from __future__ import annotations

import math

import numpy as np
"""


def write(path: Path, step: str | None, seed: int) -> str:
    """Write the file, which must not exist yet. Return what the mistake does."""
    name, part, wrong, style = choose(step, seed)
    lines = "\n".join(f"#   {line}" for line in symptom(part, wrong, style))
    head = HEAD.format(step=name, seed=seed, symptom=lines, file=path)
    with path.open("x", encoding="utf-8") as file:
        file.write(head + code(wrong, style))
    return "its first lines say what its mistake does"


def name_of(path: Path) -> str:
    """Return how the mistake in a hunt's file is called, or "" if the file is no hunt's file."""
    first = path.read_text("utf-8", "replace").partition("\n")[0]
    if not (found := re.match(r"# hunt (\w+) (\d+):", first)):
        return ""
    _, _, wrong, _ = choose(found[1], int(found[2]))
    seen = f" A real project had it, too: {wrong.project}." if wrong.project else ""
    return f"\nThe mistake in {wrong.function} gave the results {wrong.says}.{seen}\n"


def choose(step: str | None, seed: int) -> tuple[str, Part, Mistake, str]:
    """Choose a step, and a mistake in it that changes a result without raising an error."""
    if seed < 0:
        sys.exit(f"the seed is {seed}: choose 0, 1, 2, ...")
    steps = [s for s in STEPS if s.parts[0].mistakes]
    step = step or steps[seed % len(steps)].name
    parts = [part for s in steps if s.name == step for part in s.parts]
    known = [(part, m) for part in parts for m in part.mistakes if not looks_patched(m)]
    if not known:
        sys.exit(f"the step {step} has no known mistakes: choose a different step")
    rng = np.random.default_rng(seed)
    while True:
        part, wrong = known[rng.integers(len(known))]
        style = part.styles[rng.integers(len(part.styles))]
        tape = Tape(part, build(part.source, wrong, style))
        differ = difference(tape, right_tape(part), is_right)
        if differ and all(differ) and not any(isinstance(a.value, Raised) for a in tape):
            return step, part, wrong, style


def looks_patched(wrong: Mistake) -> bool:
    """Return whether the mistake has a line that nobody would write, which gives it away."""
    new = [line for line in wrong.code.splitlines() if line not in read(wrong.source)]
    return any(map(PATCHED.search, new))


def symptom(part: Part, wrong: Mistake, style: str) -> list[str]:
    """Show the first result that differs, with the mistake and without it."""
    tape = Tape(part, build(part.source, wrong, style))
    a, b = difference(tape, right_tape(part), is_right) or ()
    label = b.label
    if isinstance(b.value, np.ndarray):
        if not same_shape(a.value, b.value):
            return [tell(a, b)]
        row = tuple(np.argwhere(~close(a.value, b.value))[0][:-1])  # the first that differs
        label += "".join(f", {axis} {n}" for axis, n in zip(b.kind.split(", "), row))
        a, b = (seen._replace(value=seen.value[row]) for seen in (a, b))
    return [f"{label}:", table(a), f"instead of {table(b)}"]


def table(seen: Seen) -> str:
    """Show a result; of random outcomes, show the most frequent ones."""
    if seen.kind == "~":
        counts = Counter(map(repr, seen.value)).most_common(6)
        return ", ".join(f"{outcome}: {n / len(seen.value):.0%}" for outcome, n in sorted(counts))
    is_array = isinstance(seen.value, np.ndarray)
    value = np.round(np.float64(seen.value), 5) if is_array else seen.value
    return f"{plain(value)!s:.200}"


def code(wrong: Mistake | None, style: str) -> str:
    """Return right code for all steps, but with this mistake."""
    parts = [part for step in reversed(STEPS) for part in step.parts]  # the first step counts
    pieces = HELPERS | {n.partition(".")[0]: part.source for part in parts for n in part.names}
    found = [definition(text_of(source, wrong), name, style) for name, source in pieces.items()]
    return "".join(f"\n\n{text}\n" for text in found)


def definition(text: str, name: str, style: str) -> str:
    """Return the text of a function or class, without the code for other styles."""
    node = next(n for n in ast.parse(text).body if getattr(n, "name", None) == name)
    segment = str(ast.get_source_segment(text, node))
    constants = dict(re.findall(r"^([A-Z_]{4,}) = (\S+)", f"{text}\n{style}", re.M))
    own = {k: ast.literal_eval(value) for k, value in constants.items() if k in segment}
    return ast.unparse(Fold(own).visit(node)) if own else segment


class Fold(ast.NodeTransformer):
    """Decide the conditions that depend only on the style, a dict {constant: its value}."""

    def __init__(self, style: dict):
        self.style = style

    def known(self, test: ast.expr) -> bool | None:
        """Return whether a condition is true, or None if that does not depend on the style."""
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if not names or not names <= self.style.keys():
            return None
        return bool(eval(ast.unparse(test), {}, self.style))

    def visit_BoolOp(self, node):  # `style and more`
        known = self.known(node.values[0])
        return node if known is None else node.values[1] if known else node.values[0]

    def visit_If(self, node):
        self.generic_visit(node)
        known = self.known(node.test)
        return node if known is None else node.body if known else node.orelse

    visit_IfExp = visit_If
