"""A check of an exercise refuses an answer that misses the point, and says what is missing."""

import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
sys.path.insert(0, str(FOLDER))

import lessons  # noqa: E402

import utils  # noqa: E402
from examples import watermark  # noqa: E402
from generate import generate  # noqa: E402
from gpt2 import softmax  # noqa: E402
from samplers import draw, top_p  # noqa: E402
from score import log_probabilities  # noqa: E402


def inverse(logits, rng):  # an ordinary draw
    return draw(softmax(logits), rng)


def race(logits, rng):  # exact, but with a softmax
    return int(np.argmin(-np.log(rng.random(len(logits))) / softmax(logits)))


def silent(logits, rng):  # the numbers are drawn, and not used
    rng.random(len(logits))
    return int(np.argmax(logits))


def normal(logits, rng):  # the wrong noise, from the right numbers
    return int(np.argmax(logits + np.sqrt(-2 * np.log(rng.random(len(logits))))))


def fixed_temperature(bits):
    return lambda logits, ids: logits / np.float32(0.7)


def all_texts(next_log_probs, n):  # continues every beginning
    texts = [((), 0.0)]
    for _ in range(n):
        texts = [((*ids, i), total + p) for ids, total in texts
                 for i, p in enumerate(next_log_probs(ids))]  # fmt: skip
    return max(texts, key=lambda text: text[1])[0], (6**n - 1) // 5


def greedy_text(next_log_probs, n):
    ids = ()
    for _ in range(n):
        ids += (int(np.argmax(next_log_probs(ids))),)
    return ids, n


def with_pairs_counted(texts):  # bigrams as a list, not a set
    def likeness(a, b):
        a, b = list(zip(a, a[1:])), list(zip(b, b[1:]))
        return sum(x in b for x in a) / len(a + b)

    sums = [sum(likeness(a, b) for b in texts) for a in texts]
    return int(np.argmax(sums))


def never_its_tokens(phrase):  # forbids the phrase's usual tokens, wherever they are
    tokenizer, _ = utils.load("stories")

    def forbid(logits, ids):
        logits = logits.copy()
        logits[tokenizer.encode(phrase)] = -np.inf
        return logits

    return forbid


def best_key(ids, keys):  # accuses somebody in any case
    return max(keys, key=lambda key: watermark.detect(ids, key, 3329))


def counted(drawn):  # no weights
    texts = [text for text, _ in drawn]
    return {text: texts.count(text) / len(texts) for text in texts}


def upside_down(drawn):  # divides by the masses
    weights = {}
    for text, masses in drawn:
        weights[text] = weights.get(text, 0) + 1 / np.prod(masses)
    return {text: weight / sum(weights.values()) for text, weight in weights.items()}


def without_an_end(text, candidates):  # log P of the candidate as a beginning
    tokenizer, model = utils.load("en-de")
    given, [start] = model.begin([model.add_special_tokens(tokenizer.encode(text))])
    return max(candidates, key=lambda c: log_probabilities(
        given, [*start, *tokenizer.encode(c)]).sum())  # fmt: skip


def first_source_only(first, second, n):
    tokenizer, model = utils.load("en-de")
    return list(generate(model, model.add_special_tokens(tokenizer.encode(first)), 40))


WRONG = [
    ("05_samplers", 1, top_p, "nearest"), ("05_samplers", 2, inverse, "five numbers"),
    ("05_samplers", 2, race, "softmax"), ("05_samplers", 2, silent, "same token"),
    ("05_samplers", 2, normal, "frequencies"), ("05_samplers", 3, fixed_temperature, "bits"),
    ("06_search", 1, lambda n_vocab, n: n_vocab**n, "more than"),
    ("06_search", 1, lambda n_vocab, n: n, "can miss"),
    ("06_search", 2, all_texts, "nearly everything"), ("06_search", 2, greedy_text, "below"),
    ("06_search", 3, lambda texts: 0, "another one"), ("06_search", 3, with_pairs_counted, ""),
    ("07_choosing", 1, never_its_tokens, ""), ("07_choosing", 2, best_key, "accused"),
    ("07_choosing", 3, counted, "larger share"), ("07_choosing", 3, upside_down, "larger share"),
    ("12_encoder_decoder", 1, without_an_end, "not as a whole text"),
    ("12_encoder_decoder", 3, first_source_only, "second source"),
]  # fmt: skip


@pytest.mark.parametrize("lesson, number, answer, missing", WRONG)
def test_an_answer_that_misses_the_point_is_not_solved(lesson, number, answer, missing, capsys):
    lessons.check(lesson, number, answer)
    message = capsys.readouterr().out
    assert message.startswith("not solved yet: ") and missing in message
    assert "Error" not in message  # an assert said what is missing
