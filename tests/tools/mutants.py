"""Would the tests notice a mistake? Change one token of the code at a time and run the tests.

    OMP_NUM_THREADS=1 python -m tests.tools.mutants --seed 1 --n 100

A mutant is a copy of the repository in which one number, operator, keyword or name is changed. A
mutant is killed if a test fails or if a test file takes more than two minutes. A surviving mutant
either behaves like the original or shows that a test is missing. If a test is missing, write it.
"""

import argparse
import ast
import io
import random
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

HOUSE = Path(__file__).parents[2]
TESTS = {  # file -> its tests, in order: those that kill the most mutants run first
    "gpt2.py": ["centre/test_gpt2.py", "families/test_every_model.py", "centre/test_memory.py"],
    "generate.py": ["centre/test_generate.py", "centre/test_speculative.py"],
    "samplers.py": ["centre/test_samplers.py", "centre/test_generate.py"],
    "speculative.py": ["centre/test_speculative.py", "decoding/test_drafters.py"],
    "decoding/batching.py": ["decoding/test_batching.py", "families/test_seq2seq.py"],
    "families/llama.py": ["families/test_llama.py", "families/test_every_model.py"],
    "families/seq2seq.py": ["families/test_seq2seq.py", "families/test_every_model.py"],
}
OTHERS = {  # token -> its replacements
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "@": ["*"], "%": ["*"], "**": ["*"],
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="],
    "==": ["!="], "!=": ["=="], "+=": ["-="], "&": ["|"], "|": ["&"],
    "and": ["or"], "or": ["and"], "not": [""], "in": ["not in"], "is": ["is not"],
    "True": ["False"], "False": ["True"], "None": ["0"], "break": ["continue"],
    "min": ["max"], "max": ["min"], "any": ["all"], "all": ["any"],
}  # fmt: skip


def mutants(path):
    """Return the mutants of a file: a list for each token that can be changed.

    Each mutant is (line number, description of the change, text of the changed file).
    """
    text = (HOUSE / path).read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    skipped, names, found = lines_without_code(tree), local_names(tree), []
    for kind, token, (row, start), (_, end), line in tokenize.generate_tokens(
        io.StringIO(text).readline
    ):
        changes = [] if row in skipped else alternatives(kind, token, names.get(row, ()))
        of_token = []
        for other in changes:
            changed = line[:start] + other + line[end:]
            mutant = "".join([*lines[: row - 1], changed, *lines[row:]])
            if compiles(mutant):
                of_token.append((row, f"{token} -> {other}: {changed.strip()}", mutant))
        if of_token:
            found.append(of_token)
    return found


def alternatives(kind, token, names):
    """Return a token's replacements. Those of a variable are its function's other variables."""
    if kind == tokenize.NUMBER:
        return [f"({token} + 1)", f"({token} - 1)"]
    if kind in (tokenize.OP, tokenize.NAME):
        return OTHERS.get(token) or (sorted(names - {token}) if token in names else [])
    return []


def compiles(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def lines_without_code(tree):
    """Return the line numbers of docstrings, imports, signatures, protocols and raised errors."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found |= {*range(node.lineno, node.body[0].lineno)}
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_protocol = isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
        if is_text or is_protocol or isinstance(node, ast.Import | ast.ImportFrom | ast.Raise):
            found |= {*range(node.lineno, node.end_lineno + 1)}
    return found


def local_names(tree):
    """Return {line number: the variables of the function that contains this line}."""
    found = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            nodes = [*ast.walk(function)]
            stored = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            names = {n.id for n in stored} | {n.arg for n in nodes if isinstance(n, ast.arg)}
            lines = range(function.lineno, function.end_lineno + 1)
            found |= dict.fromkeys(lines, names - {"self"})
    return found


def is_killed(copy, path, mutant):
    """Run the tests of a file on its mutant. Return whether a test failed or ran out of time."""
    (copy / path).write_text(mutant, encoding="utf-8")
    for name in TESTS[path]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", f"tests/{name}"]
        try:
            done = subprocess.run(command, cwd=copy, capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return True
        if done.returncode == 4:
            sys.exit(f"pytest cannot run tests/{name}")
        if done.returncode:
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--files", nargs="*", default=[*TESTS])
    args = parser.parse_args()
    rng, n_killed = random.Random(args.seed), 0
    tokens = [(path, of_token) for path in args.files for of_token in mutants(path)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(HOUSE, copy, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        for path, of_token in rng.sample(tokens, args.n):
            row, change, mutant = rng.choice(of_token)
            killed = is_killed(copy, path, mutant)
            n_killed += killed
            print(f"{'killed' if killed else 'SURVIVED'}  {path}:{row}  {change}", flush=True)
            shutil.copy(HOUSE / path, copy / path)
    print(f"{n_killed} of {args.n} were killed; {len(tokens)} tokens can change")


if __name__ == "__main__":
    main()
