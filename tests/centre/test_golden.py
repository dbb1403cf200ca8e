"""The real GPT-2 124M generates its published greedy continuations.

This command downloads half a gigabyte and runs the tests:

    TOKENWISE_DOWNLOAD=1 python -m pytest -m download
"""

import os

import pytest

from generate import generate
from utils import load

pytestmark = [
    pytest.mark.download,
    pytest.mark.skipif(
        os.environ.get("TOKENWISE_DOWNLOAD") != "1",
        reason="set TOKENWISE_DOWNLOAD=1 to download GPT-2 124M (500 MB) and check its outputs",
    ),
]
TEXTS = {  # prompt -> the ids of its continuation
    "Alan Turing theorized that computers would one day become": """
        262 749 3665 8217 319 262 5440 13 198 198 464 3644 318 257 4572 326 460 1620 3716 16765 11
        290 340 460 1620 777 16765 287 257 835 326 318 845 2092 284 262 1692 3632 13 198""",
    "Alan Turing theorized that computers would one day become very powerful, but even he could"
    " not imagine": """
        703 484 561 307 1498 284 466 523 13 198 198 1 40 892 326 262 749 1593 1517 318""",
    "The dog": """
        373 1043 287 257 2214 1474 262 16246 286 2688 290 2688 27262 13 198 198 464 3290""",
}


def test_greedy_continuations_are_as_published():
    tokenizer, model = load("124M")
    for prompt, ids in TEXTS.items():
        expected = [int(id) for id in ids.split()]
        assert list(generate(model, tokenizer.encode(prompt), len(expected))) == expected
