"""Settings and fixtures for all tests. The tests can import the code, although it is not installed:
pyproject.toml sets pytest's `pythonpath`."""

import os
import signal
import sys

import numpy as np
import pytest
from hypothesis import settings

from gpt2 import GPT2
from tests.support.commands import Console, write_letters

# Hypothesis tries the same examples in every run. On slow machines, a deadline would fail tests.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
# The tests must not use the user's cache or token.
os.environ["HF_HUB_CACHE"] = os.path.join(os.path.dirname(__file__), "nowhere")
os.environ.pop("HF_TOKEN", None)
# A background job ignores Ctrl-C, and so would the programs that the tests start in it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run the tests that are marked slow, too")


def pytest_collection_modifyitems(config, items):
    """Leave the slow tests out, unless --all is given or the command names a folder, file or test.
    pytest's last line says how many it deselected."""
    if config.option.all or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Return the folder of a small random model that generates only letters, space and "the"."""
    return write_letters(tmp_path_factory.mktemp("models") / "letters")


@pytest.fixture(scope="session")
def draft(tmp_path_factory):
    """Return the folder of a draft model. It is `letters` with a different activation function."""
    return write_letters(tmp_path_factory.mktemp("models") / "draft", activation="silu")


@pytest.fixture
def console(capsys, letters, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # a plug's folder leaves it with the test
    return Console(capsys, letters)


@pytest.fixture
def passes(monkeypatch):
    """Return a list that gets the new ids [..., n_new] of each pass of a GPT-2."""
    seen, call = [], GPT2.__call__

    def recording(model, ids, *more, **how):
        seen.append(np.array(ids))
        return call(model, ids, *more, **how)

    monkeypatch.setattr(GPT2, "__call__", recording)
    return seen
