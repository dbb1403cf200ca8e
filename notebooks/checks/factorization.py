"""Checks: bits per byte, Bayes' rule, the temperature of tokens and of texts."""

import itertools
import math

import numpy as np

import utils
from decoding.score import score
from gpt2 import GPT2, log_softmax

tokenizer, model = utils.load("stories")
WORDS = "She", "They", " was", " were", " happy", ".", "<|endoftext|>"
ROWS = [tokenizer.encode(word, special=True)[0] for word in WORDS]
TABLES = {"wte": model.params["wte"][ROWS], "wpe": model.params["wpe"][:8]}
WORLD, START = GPT2({**model.params, **TABLES}, model.n_head), len(WORDS) - 1


def table(t=1.0):
    """Return a table, [n_words] * 4: P of each text of four tokens at the temperature t."""
    texts = np.array(list(itertools.product(range(len(WORDS)), repeat=4)))
    before = np.hstack([np.full((len(texts), 1), START), texts[:, :-1]])
    log_p = np.take_along_axis(log_softmax(WORLD(before) / t), texts[..., None], -1)
    return np.exp(log_p.sum(axis=(1, 2), dtype=np.float64)).reshape((len(WORDS),) * 4)


def exercise_1(bits_per_byte):
    """Check bits_per_byte(perplexity, n_tokens, text) -> float."""
    for text in ("Once upon a time there was a frog.", "Das schöne Mädchen aß süße Äpfel."):
        result = score(tokenizer, model, text)
        answer = bits_per_byte(result["perplexity"], len(result["ids"]), text)
        assert answer is not None, "write bits_per_byte"
        right = result["bits_per_byte"]
        assert not np.isclose(answer, right * math.log(2), rtol=1e-3), "these are nats, not bits"
        characters = right * len(text.encode()) / len(text)
        if len(text.encode()) != len(text):
            assert not np.isclose(answer, characters, rtol=1e-3), "these are bits per character"
        per_token = right * len(text.encode()) / len(result["ids"])
        assert not np.isclose(answer, per_token, rtol=1e-3), "these are bits per token"
        assert answer > 0, "bits per byte are a cost, so they are positive"
        close = np.isclose(answer, right, rtol=1e-3)
        assert close, f"{text!r} costs {right:.3f} bits per byte, not {answer:.3f}"


def exercise_2(first_given_second):
    """Check first_given_second(joint, second) -> P(x1 | x2 = second), [n_words]."""
    joint = table()
    answer = first_given_second(joint, 3)
    assert answer is not None, "write first_given_second"
    assert np.shape(answer) == (len(WORDS),), "return one probability for each word"
    both = joint.sum(axis=(2, 3))  # P(x1, x2)
    forward = both[3] / both[3].sum()
    assert not np.allclose(answer, forward), "this is P(x2 | x1), the second token given the first"
    assert not np.allclose(answer, both.sum(axis=1)), "this is P(x1), without the second token"
    assert not np.allclose(answer, both[:, 3]), "this is P(x1, x2): divide by P(x2)"
    assert np.isclose(np.sum(answer), 1), f"the probabilities sum to {np.sum(answer):.3f}, not to 1"
    for second in range(len(WORDS)):
        found, seen = first_given_second(joint, second), joint[:, second].sum(axis=(1, 2))
        for first in range(len(WORDS)):  # P(x1 | x2) P(x2) = P(x1, x2)
            fits = np.isclose(found[first] * seen.sum(), seen[first], rtol=1e-4, atol=1e-12)
            assert fits, f"P(x1 | x2) is wrong for {WORDS[first]!r} before {WORDS[second]!r}"


def exercise_3(sharpened_texts, sharpened_tokens):
    """Check sharpened_texts(joint, t) and sharpened_tokens(joint, t); each -> [n_words] * 4."""
    joint = table()
    whole, stepwise = sharpened_texts(joint, 0.5), sharpened_tokens(joint, 0.5)
    assert whole is not None and stepwise is not None, "write both functions"
    assert np.shape(whole) == np.shape(stepwise) == joint.shape, "return tables of joint's shape"
    for name, found_ in (("texts", whole), ("tokens", stepwise)):
        assert np.isclose(np.sum(found_), 1), f"{name}: the sum is {np.sum(found_):.3f}, not 1"
    assert np.allclose(sharpened_texts(joint, 1), joint), "texts: at t = 1 nothing should change"
    assert np.allclose(sharpened_tokens(joint, 1), joint), "tokens: at t = 1 nothing should change"
    ratio = (joint[0, 2, 4, 5] / joint[1, 3, 4, 5]) ** 2
    odds = whole[0, 2, 4, 5] / whole[1, 3, 4, 5]
    assert not np.isclose(odds, ratio**0.25), "texts: the power is 1 / t, not t"
    assert np.isclose(odds, ratio), "texts: t = 0.5 should square the odds of two texts"
    same = np.allclose(stepwise, table(0.5), atol=1e-5)
    assert same, "tokens: which sum do you divide each factor by?"
