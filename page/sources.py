"""Find the source files of a program: those that the stepper shows."""

import functools
import sys
import types
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOMS = PROJECT, PROJECT / "families", PROJECT / "pico"
PLUMBING = "utils", "encoder", "few_rows", "__init__"
KINDS = types.FunctionType, types.ModuleType, type


def files_of(*things):
    """Return {file: name to show} of modules, functions and objects, and of what these name. One of
    the project's files comes with all that it imports; a cell, with what its function names."""
    rest = [kind_of(thing) for thing in things]
    own, files = [namespace(thing) for thing in rest], {}
    for thing in rest:
        names = namespace(thing)
        parts = names.values() if is_ours(names) else named_in(thing)
        if is_ours(names):
            files[names["__file__"]] = Path(names["__file__"]).relative_to(PROJECT).as_posix()
        elif isinstance(thing, types.FunctionType):
            files.setdefault(thing.__code__.co_filename, f"cell of {thing.__name__}")
        for part in parts:
            if isinstance(part, KINDS) and part not in rest:
                found = namespace(part)
                rest += [part] * (is_ours(found) or any(found is one for one in own))
    return files


def kind_of(thing):  # a function, a module or a class
    if isinstance(thing, functools.partial):
        return kind_of(thing.func)
    return thing if isinstance(thing, KINDS) else type(thing)


def namespace(thing):  # -> {name: value} of its module
    if isinstance(thing, types.FunctionType):
        return thing.__globals__
    module = thing if isinstance(thing, types.ModuleType) else sys.modules.get(thing.__module__)
    return vars(module) if module else {}


def is_ours(names):
    path = Path(names.get("__file__") or "")
    return path.parent in ROOMS and path.stem not in PLUMBING


def named_in(thing):
    """Yield what a function of the reader names, or the methods of a class."""
    if not isinstance(thing, types.FunctionType):
        yield from vars(thing).values()
        return
    rest = [thing.__code__]
    for code in rest:
        rest += [x for x in code.co_consts if isinstance(x, types.CodeType)]
        yield from (thing.__globals__.get(name) for name in code.co_names)
