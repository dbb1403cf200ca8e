"""Settings and fixtures for all tests. The tests import the code without an installation, because
pyproject.toml sets pytest's `pythonpath`."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from loading.tokenizer import read_gpt2_tokenizer
from tests.commands import Console, write_letters

# Every run tries the same examples. There is no deadline, because some machines are slow.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
# The tests must not use the user's cache or token.
os.environ["HF_HUB_CACHE"] = os.path.join(os.path.dirname(__file__), "nowhere")
os.environ.pop("HF_TOKEN", None)
# A background job ignores Ctrl-C, and the programs that tests start would inherit this setting.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Return the folder of a small random model that generates only letters, space and "the"."""
    return write_letters(tmp_path_factory.mktemp("models") / "letters")


@pytest.fixture(scope="session")
def draft(tmp_path_factory):
    """Return the folder of a draft model. Only its activation function differs from `letters`."""
    return write_letters(tmp_path_factory.mktemp("models") / "draft", activation="silu")


@pytest.fixture
def console(capsys, letters):
    return Console(capsys, letters)


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory):
    """Return GPT-2's official tokenizer, from the folder that TOKENWISE_GPT2_FILES names."""
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
