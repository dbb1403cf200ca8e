"""From the command line to a loop there are two functions: main, which reports errors, and run."""

import pytest

from tests.support.commands import finished, words_for
from tests.support.tiny import FIXTURES

FILTER = """
import sys, traceback
def names(logits, ids):
    stack = [frame for frame, _ in traceback.walk_stack(sys._getframe())][::-1]
    print([frame.f_code.co_name for frame in stack], file=sys.stderr)
    raise SystemExit(7)
"""


@pytest.mark.parametrize("model", ["stories", FIXTURES / "seq2seq/t5"])
@pytest.mark.parametrize("method", ["cached", "speculative"])
def test_two_functions_lie_between_the_file_and_the_loop(method, model, tmp_path):
    (tmp_path / "f.py").write_text(FILTER)
    how = "--filter", tmp_path / "f.py:names", "--stop", "x", "--seed", 1, "--top-k", 5
    words = words_for(method, draft=model)
    status, _, err = finished("Once", "--model", model, *how, *words)
    found = err.decode()
    assert status == 7 and found.startswith(f"['<module>', 'main', 'run', '{method}', "), found
