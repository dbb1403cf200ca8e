"""Settings and fixtures for all tests. They find the code through pyproject.toml, and need no
installation."""

import os
import signal

import pytest
from hypothesis import settings

from tests.commands import Console, write_letters

# The same examples in every run, and no clock: a slow machine is no fault of the code.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
os.environ["HF_HUB_CACHE"] = os.path.join(os.path.dirname(__file__), "nowhere")  # not the user's
os.environ.pop("HF_TOKEN", None)
# A job in the background inherits an ignored Ctrl-C, and so would the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """The folder of a small model that writes letters at random."""
    return write_letters(tmp_path_factory.mktemp("models") / "letters")


@pytest.fixture(scope="session")
def draft(tmp_path_factory):
    """One that drafts for it: nearly the same."""
    return write_letters(tmp_path_factory.mktemp("models") / "draft", activation="silu")


@pytest.fixture
def console(capsys, letters):
    return Console(capsys, letters)
