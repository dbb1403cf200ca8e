"""Settings and fixtures for all tests. They find the code through pyproject.toml, and need no
installation."""

import os

import pytest
from hypothesis import settings

import few_rows
from tests.commands import Console, write_letters
from tests.tiny import traced_product

# The same examples in every run, and no clock: a slow machine is no fault of the code.
settings.register_profile("tokenwise", deadline=None, derandomize=True, database=None)
settings.load_profile("tokenwise")
os.environ["HF_HUB_CACHE"] = os.path.join(os.path.dirname(__file__), "nowhere")  # not the user's
os.environ.pop("HF_TOKEN", None)


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


@pytest.fixture(params=[False, True], ids=["one product", "blocks"])
def either_product(request, monkeypatch):
    """Both forms of the product with a few rows, on any machine."""
    monkeypatch.setattr(few_rows, "blocks_pay", lambda: request.param)
    monkeypatch.setattr(few_rows, "product_in_blocks", traced_product)
