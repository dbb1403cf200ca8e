"""The real GPT-2 124M generates its published greedy continuations.

This command downloads half a gigabyte and runs the tests:

    TOKENWISE_DOWNLOAD=1 python -m pytest -m download
"""

import os

import numpy as np
import pytest

from generate import generate
from gpt2 import layer_norm
from utils import load

pytestmark = [
    pytest.mark.download,
    pytest.mark.skipif(
        os.environ.get("TOKENWISE_DOWNLOAD") != "1",
        reason="set TOKENWISE_DOWNLOAD=1 to download GPT-2 124M (500 MB) and check its outputs",
    ),
]
TURING = [36235, 39141, 18765, 1143, 326, 9061, 561, 530, 1110, 1716]
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
GREEDY = {prompt: [int(id) for id in ids.split()] for prompt, ids in TEXTS.items()}
# the first ten features after ln_f, if token 15496 is the whole text
HIDDEN = [-9.0888e-06, -0.140210, -0.208451, -0.028112, -0.090178]
HIDDEN += [-0.198508, 4.072483, -0.248991, -0.171686, -0.016896]


@pytest.fixture(scope="module")
def gpt2():
    return load("124M")


def test_the_prompt_is_encoded_as_published(gpt2):
    tokenizer, _ = gpt2
    assert tokenizer.encode(next(iter(GREEDY))) == TURING


@pytest.mark.parametrize("prompt", GREEDY)
def test_greedy_continuations_are_as_published(gpt2, prompt):
    tokenizer, model = gpt2
    assert list(generate(model, tokenizer.encode(prompt), len(GREEDY[prompt]))) == GREEDY[prompt]


@pytest.mark.parametrize(
    "prompt, continuation",
    [
        ("Hello, my dog is a little", " bit of a mess. I'm not sure if he's going"),
        ("Today, I", "'m going to be doing a lot of research on this. I"),
    ],
)
def test_greedy_texts_are_as_published(gpt2, prompt, continuation):
    tokenizer, model = gpt2
    ids = tokenizer.encode(continuation)
    found = list(generate(model, tokenizer.encode(prompt), len(ids)))
    assert tokenizer.decode(found) == continuation


def test_the_hidden_state_is_as_published(gpt2, monkeypatch):
    _, model = gpt2
    seen = []

    def record(x, **norm):
        seen.append(layer_norm(x, **norm))
        return seen[-1]

    monkeypatch.setattr("gpt2.layer_norm", record)
    model([15496])
    np.testing.assert_allclose(seen[-1][0, :10], HIDDEN, atol=1e-4)
