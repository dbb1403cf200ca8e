"""Settings and fixtures for all tests. The tests find the code through pyproject.toml, without an
installation."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from loading.tokenizer import read_gpt2_tokenizer
from tests.commands import Console, write_letters

# Every run has the same examples. There is no deadline, because a machine may be slow.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
os.environ["HF_HUB_CACHE"] = os.path.join(os.path.dirname(__file__), "nowhere")  # not the user's
os.environ.pop("HF_TOKEN", None)
# A job in the background ignores Ctrl-C, and the programs that tests start would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Return the folder of a small model that writes letters at random."""
    return write_letters(tmp_path_factory.mktemp("models") / "letters")


@pytest.fixture(scope="session")
def draft(tmp_path_factory):
    """Return the folder of a draft model for `letters`, which is nearly the same model."""
    return write_letters(tmp_path_factory.mktemp("models") / "draft", activation="silu")


@pytest.fixture
def console(capsys, letters):
    return Console(capsys, letters)


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory):
    """Return GPT-2's own tokenizer, from the folder in an environment variable."""
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
