"""Fixtures for the tests of the command line."""

import numpy as np
import pytest

from gpt2 import GPT2


@pytest.fixture
def passes(monkeypatch):
    """Return a list that gets the new ids [..., n_new] of each pass of a GPT-2."""
    seen, call = [], GPT2.__call__

    def recording(model, ids, *more, **how):
        seen.append(np.array(ids))
        return call(model, ids, *more, **how)

    monkeypatch.setattr(GPT2, "__call__", recording)
    return seen
