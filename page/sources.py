"""Find the source files of a program: those that the stepper shows."""

import sys
import types
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOMS = PROJECT, PROJECT / "families", PROJECT / "pico"
PLUMBING = "utils", "encoder", "few_rows", "__init__"


def files_of(*functions):
    """Return {file: name to show} of the project's modules that are loaded, and of the cells, or
    the file, where these functions and what they call were written."""
    files = {}
    for module in [*sys.modules.values()]:
        path = Path(getattr(module, "__file__", None) or "")
        if path.parent in ROOMS and path.stem not in PLUMBING:
            files[f"{path}"] = path.relative_to(PROJECT).as_posix()
    for function in functions:
        names = getattr(function, "__globals__", {})
        kinds = [kind for kind in names.values() if isinstance(kind, type)]
        methods = [part for kind in kinds for part in vars(kind).values()]
        for part in [function, *names.values(), *methods]:
            if isinstance(part, types.FunctionType) and part.__globals__ is names:
                file = part.__code__.co_filename
                is_file = Path(file).exists()
                files.setdefault(file, Path(file).name if is_file else f"cell of {part.__name__}")
    return files
