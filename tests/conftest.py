"""Settings and fixtures for all tests. They find the code through pyproject.toml, and need no
installation."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from loading.tokenizer import read_gpt2_tokenizer
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


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory):
    """GPT-2's own tokenizer, from a folder that an environment variable names."""
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
