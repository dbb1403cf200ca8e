import pytest

from tests.support.checkpoints import copied


@pytest.fixture
def folder(tmp_path):
    """Return a function that copies a fixture, given its name. A test may change the copy."""
    return lambda name: copied(name, tmp_path)
