"""The central files import only the standard library, NumPy, regex and each other. Files import
only from their own level or from lower levels, and no imports are circular.

Imports inside functions count, too. Imports below generate.py's `if __name__ == "__main__":` do not
count, because the command line is a separate program.
"""

import ast
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
CENTRE = {  # file -> its imports from outside the standard library
    "gpt2": {"numpy"},
    "samplers": {"numpy", "gpt2"},
    "generate": {"numpy", "samplers"},
    "speculative": {"numpy", "generate", "samplers"},
    "encoder": {"regex"},
}
FLOORS = [  # the lowest level first; utils imports loading, so it has a higher level
    [*CENTRE],
    ["decoding", "families"],
    ["loading"],
    ["utils"],
    ["terminal", "page", "examples", "workshop"],
    ["pico"],
    ["notebooks", "training", "benchmarks"],
    ["tests"],
]
SCRIPTS = "notebooks", "benchmarks"  # their files import each other by bare names
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(
    path.relative_to(HOUSE).with_suffix("")
    for room in LEVEL
    for path in [*HOUSE.glob(f"{room}.py"), *HOUSE.glob(f"{room}/**/*.py")]
)


def module(path):  # decoding/beam -> decoding.beam, but notebooks/lessons -> lessons
    return ".".join(path.parts[1:] if path.parts[0] in SCRIPTS else path.parts)


def imports(path):
    """Return the modules that a file imports, at the top or inside functions."""
    tree = ast.parse((HOUSE / path).with_suffix(".py").read_text(encoding="utf-8"))
    if path.name == "generate":
        tree.body = [node for node in tree.body if "__main__" not in ast.unparse(node)]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            ours = {name for name in names if name in MODULES}
            found |= ours or {str(node.module)}
    return found


MODULES = {module(path) for path in FILES}
LEVEL |= {module(path).partition(".")[0]: LEVEL[path.parts[0]] for path in FILES}
ROOMS = {path.parts[0] for path in FILES}


def test_every_folder_with_code_has_a_level():
    folders = {path.parent.name for path in HOUSE.glob("[a-z]*/*.py")}
    assert ROOMS - {path.stem for path in HOUSE.glob("*.py")} == folders


@pytest.mark.parametrize("name", CENTRE)
def test_a_file_of_the_centre_imports_only_numpy_regex_and_its_neighbours(name):
    found = {other.partition(".")[0] for other in imports(Path(name))}
    assert found - sys.stdlib_module_names == CENTRE[name]


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_point_downwards(path):
    level = LEVEL[path.parts[0]]
    above = {name for name in imports(path) if LEVEL.get(name.partition(".")[0], 0) > level}
    assert not above


def test_only_tests_lessons_and_the_page_import_the_pages_of_pico():
    """A page has no name of a file at the top: `b gpt2.attention` must not find the wrong one."""
    users = {path.parts[0] for path in FILES if any(x.startswith("pico") for x in imports(path))}
    assert users <= {"tests", "notebooks", "page", "pico"}
    assert not {path.name for path in FILES if path.parts[0] == "pico"} & {*CENTRE, "utils"}


def test_no_imports_go_in_a_circle():
    below = {module(path): imports(path) & MODULES for path in FILES}
    while free := {name for name, others in below.items() if not others & below.keys()}:
        below = {name: others for name, others in below.items() if name not in free}
    assert not below


@pytest.mark.parametrize("path", [p for p in FILES if p.parts[0] in FLOORS[1]], ids=module)
def test_the_rooms_that_compute_need_only_numpy_and_regex(path):
    found = {name.partition(".")[0] for name in imports(path)} - sys.stdlib_module_names
    assert found <= {"numpy", "regex", "threadpoolctl", *CENTRE, *FLOORS[1]}
