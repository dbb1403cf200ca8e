"""Each core module and each module of decoding/ has examples in its docstrings. They are right."""

import doctest
import importlib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
MODULES = ["gpt2", "generate", "samplers", "encoder", "speculative"]
MODULES += [f"decoding.{path.stem}" for path in sorted((HOUSE / "decoding").glob("*.py"))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_show(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0
