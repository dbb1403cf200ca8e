"""Settings and fixtures for all tests. The tests can import the code, although it is not installed:
pyproject.toml sets pytest's `pythonpath`."""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from gpt2 import GPT2
from loading.tokenizer import read_gpt2_tokenizer
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


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory):
    """Return GPT-2's own tokenizer, from the folder that TOKENWISE_GPT2_FILES is set to."""
    folder = os.environ.get("TOKENWISE_GPT2_FILES")
    if not folder:
        pytest.skip(
            "NOT RUN: GPT-2's own vocabulary. Put encoder.json and vocab.bpe from "
            "https://openaipublic.blob.core.windows.net/gpt-2/models/124M/ into a folder and set "
            "TOKENWISE_GPT2_FILES to it"
        )
    place = tmp_path_factory.mktemp("gpt2")
    shutil.copy(Path(folder, "encoder.json"), place / "vocab.json")
    shutil.copy(Path(folder, "vocab.bpe"), place / "merges.txt")
    return read_gpt2_tokenizer(place)
