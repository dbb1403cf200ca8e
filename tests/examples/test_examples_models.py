"""The models in examples/contrastive.py and guidance.py combine the logits of two passes, and every
loop can run them."""

import numpy as np
import pytest

import utils
from examples.contrastive import Pair, contrastive
from examples.guidance import Guided, guided
from generate import Sequence, cached, generate
from gpt2 import log_softmax, softmax
from tests.support.checkpoints import FIXTURES, FOLDERS
from tests.support.every_loop import every_loop, one_text
from tests.support.tiny import close, tiny_gpt2

REFERENCE = np.load(FIXTURES / "examples.npz")
LARGE, SMALL = tiny_gpt2(), tiny_gpt2(seed=2, n_embd=4, n_layer=1, n_ctx=20)
PAIR = Pair(LARGE, SMALL, lambda a, b: a - b)
PROMPT, OTHERS = [1, 2, 3, 4], [[5], [6, 7, 8, 9, 10, 0]]


def contrast(large, small, alpha):
    """Return the contrastive logits [n_vocab] of one position, computed from their definition."""
    p, q = softmax(large.astype(float)), softmax(small.astype(float))
    return np.array([np.log(a / b) if a >= alpha * p.max() else -np.inf for a, b in zip(p, q)])


# --- contrastive decoding -------------------------------------------------------------------------


def test_contrastive_logits_follow_the_definition():
    _, pair = contrastive(alpha=0.05)
    large, small = utils.load("stories")[1], utils.load("stories-draft")[1]
    ids = np.array([[5, 900, 17], [8, 9, 10]])
    logits = pair(ids)
    assert logits.dtype == np.float32
    expected = [
        [contrast(*rows, 0.05) for rows in zip(*pair)] for pair in zip(large(ids), small(ids))
    ]
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-3)
    assert 1 < (logits[0, 0] > -np.inf).sum() < 1000


@pytest.mark.parametrize("model", [PAIR, Guided(LARGE, 2.0)], ids=["pair", "guided"])
def test_every_loop_finds_the_same_text(model):
    found = one_text(every_loop(model, PROMPT, OTHERS, 12, lambda n: []))
    assert found != list(generate(LARGE, PROMPT, 12))


def test_the_pair_ends_with_the_shorter_context():
    sequence = Sequence(PAIR, PROMPT, 50)
    assert len(list(cached(PAIR, sequence))) == 16
    assert sequence.stop_reason == "context"


# --- guidance and sampled texts -------------------------------------------------------------------


def by_definition(model, prompt, new, gamma):  # -> the next token's logits [n_vocab]
    with_prompt = log_softmax(model([*prompt, *new])[-1])
    without = log_softmax(model([prompt[-1], *new])[-1])
    return without + np.float32(gamma) * (with_prompt - without)


def test_beams_are_selected_and_cut_even_into_the_prompt():
    model = Guided(LARGE, 2.0).read(PROMPT)
    cache = model.new_cache(1)
    model(np.array([PROMPT[:2]]), cache)  # pass the prompt in two parts
    model(np.array([PROMPT[2:]]), cache)
    cache.select([0, 0])
    model(np.array([[1], [2]]), cache)
    cache.select([1, 0])
    model(np.array([[9], [9]]), cache)
    cache.cut(len(PROMPT) + 1)
    logits = model(np.array([[3], [4]]), cache, last=1)[:, -1]
    close(logits[0], by_definition(LARGE, PROMPT, [2, 3], 2.0))
    close(logits[1], by_definition(LARGE, PROMPT, [1, 4], 2.0))
    cache.cut(2)
    logits = model(np.array([[*PROMPT[2:], 8]] * 2), cache, last=1)[:, -1]
    close(logits[1], by_definition(LARGE, PROMPT, [8], 2.0))


@pytest.mark.parametrize("case", range(len(REFERENCE["scales"])))
def test_guided_text_equals_transformers(case):
    _, model = utils.load(FOLDERS["plain"])
    guide = Guided(model, REFERENCE["scales"][case])
    assert list(generate(guide, [3, 1, 4, 1, 5], 11)) == REFERENCE["guided"][case].tolist()


def test_guidance_of_a_translation_leaves_its_source_out():
    tokenizer, guide = guided("en-de", 2.0)
    plain = guide.model
    source = tokenizer.encode("Go home!")
    logits = guide.read(source)(np.array([0, 7]))
    with_source, without = (plain.read(s)([0, 7]) for s in (source, [1]))
    expected = 2 * log_softmax(with_source) - log_softmax(without)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-3)
    other = tokenizer.encode("I am.")
    assert one_text(every_loop(guide, source, [other], 12, lambda n: []))[-1] in guide.stop_ids
