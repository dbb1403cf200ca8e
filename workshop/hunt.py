"""Hunt: a file of right code with one known mistake. Its reader sees only what the mistake does.

    python -m workshop hunt prey.py --step keys --seed 3

The same judge accepts the repair, and then says how the mistake is called.
"""

import ast
import re
import types
from collections import Counter
from pathlib import Path

import numpy as np

from generate import Sequence
from samplers import greedy
from workshop.compare import Raised, Seen, is_right, plain
from workshop.engine import Part, Tape, difference, right_tape
from workshop.mistakes import Mistake, build, text_of
from workshop.steps import STEPS
from workshop.steps.inputs import tiny

HELPERS = dict.fromkeys(("check", "keep"), "samplers.py") | {
    "residual": "speculative.py",
    "log_softmax": "gpt2.py",
}
HEAD = """# hunt {step} {seed}: this file has one mistake. What it does:
{symptom}
# Find it and mend it. Then run: python -m workshop {file} {step}

from __future__ import annotations

import math

import numpy as np

import gpt2
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
    rng = np.random.default_rng(seed)
    steps = [s for s in STEPS if s.parts[0].mistakes and step in (None, s.name)]
    if step is None:
        return choose(steps[rng.integers(len(steps))].name, seed)
    while True:
        part = steps[0].parts[rng.integers(len(steps[0].parts))]
        wrong = part.mistakes[rng.integers(len(part.mistakes))]
        style = part.styles[rng.integers(len(part.styles))]
        tape = Tape(part, build(part.source, wrong, style))
        differ = difference(tape, right_tape(part), is_right)
        if differ and all(differ) and not any(isinstance(a.value, Raised) for a in tape):
            return step, part, wrong, style


def symptom(part: Part, wrong: Mistake, style: str) -> list[str]:
    """Describe what the mistake does: to a text, or else to the first result that differs."""
    right, mine = (written(code(mistake, style)) for mistake in (None, wrong))
    if mine != right:
        return [f"the model writes {mine}", f"instead of {right}"]
    tape = Tape(part, build(part.source, wrong, style))
    a, b = difference(tape, right_tape(part), is_right) or ()
    return [f"the model's text is right, but not {b.label}:", table(a), f"instead of {table(b)}"]


def table(seen: Seen) -> str:
    """Show a result; of random outcomes, show the most frequent ones."""
    if seen.kind == "~":
        counts = Counter(map(repr, seen.value)).most_common(6)
        return ", ".join(f"{outcome}: {n / len(seen.value):.0%}" for outcome, n in sorted(counts))
    is_array = isinstance(seen.value, np.ndarray)
    value = np.round(np.float64(seen.value), 2) if is_array else seen.value
    return f"{plain(value)!s:.200}"


def written(text: str) -> list[int] | str:
    """Return the tokens that the model in a file writes."""
    module = types.ModuleType("hunt")
    exec(HEAD[HEAD.index("from") :] + text, vars(module))
    try:
        model = tiny(module)
        with np.errstate(all="ignore"):
            return list(module.cached(model, Sequence(model, [3, 1, 4], 9, greedy)))
    except Exception as error:
        return f"nothing, but raises a {type(error).__name__}"


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
    own = {name: value for name, value in constants.items() if name in segment}
    return ast.unparse(Fold(own).visit(node)) if own else segment


class Fold(ast.NodeTransformer):
    """Decide the conditions that depend only on the style, a dict {constant: its text}."""

    def __init__(self, style: dict[str, str]):
        self.style = style

    def known(self, test: ast.expr) -> bool | None:
        """Return whether a condition is true, or None if that does not depend on the style."""
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if not names or not names <= self.style.keys():
            return None
        return bool(
            eval(ast.unparse(test), {k: ast.literal_eval(v) for k, v in self.style.items()})
        )

    def visit_BoolOp(self, node):  # `style and more`
        known = self.known(node.values[0])
        return node if known is None else node.values[1] if known else node.values[0]

    def visit_IfExp(self, node):
        known = self.known(node.test)
        return node if known is None else node.body if known else node.orelse

    def visit_If(self, node):
        self.generic_visit(node)
        known = self.known(node.test)
        return node if known is None else node.body if known else node.orelse
