"""The checks of lesson 7's exercises."""

import functools

import lessons
import numpy as np

import utils
from examples.watermark import watermark
from generate import generate
from samplers import Sampler


@functools.cache
def loaded():
    return utils.load("stories")


def exercise_1(never):
    """The answer: never(phrase): str -> a filter."""
    tokenizer, model = loaded()
    pieces = [tokenizer.decode([id]) for id in range(model.n_vocab)]
    logits = np.random.default_rng(0).normal(size=model.n_vocab).astype(np.float32)
    ids = tokenizer.encode("Tim was very")
    given = logits.copy()
    assert never("happy")(logits, ids) is not None, "write never"
    assert np.array_equal(logits, given), "a filter does not change its argument"
    for text, phrase in (("Tim was very", "happy"), ("Tim was hap", "happy"), ("The pup", "happy"),
                         ("Tim", " was very"), ("Tim was", " was very"),
                         ("The", " cat")):  # fmt: skip
        ids = tokenizer.encode(text)
        kept = np.isfinite(never(phrase)(logits, ids))
        must_go = np.array([phrase in (text + piece)[-len(phrase) - 20 :] for piece in pieces])
        what = f"after {text!r}, without {phrase!r}"
        assert not (kept & must_go).any(), f"{what}: {pieces[np.argmax(kept & must_go)]!r} is left"
        gone = ~kept & ~must_go
        assert not gone.any(), f"{what}: {pieces[np.argmax(gone)]!r} does not complete it"
        same = np.array_equal(never(phrase)(logits, ids)[kept], logits[kept])
        assert same, "the logits of the other tokens stay as they are"
    start = tokenizer.encode("Once upon a time")
    text = tokenizer.decode(list(generate(model, start, 60, Sampler(never("was")), 1)))
    assert "was" not in text, f"without 'was' there came {text!r}"


def exercise_2(writer):
    """The answer: writer(ids, keys): list of ids, of whole numbers -> a key, or None."""
    tokenizer, model = loaded()
    start, keys = tokenizer.encode("Once upon a time"), list(range(100, 110))

    def text(*filters):
        return lessons.continuations(model, start, Sampler(*filters), 1, 200)[0].tolist()

    marked, plain = text(watermark(104)), text()
    first = writer(marked, keys)
    assert first is not None or writer(plain, keys) is not None, "write writer"
    assert first is None or first in keys, f"the answer is one of the keys or None, not {first!r}"
    assert writer(marked, keys) == 104, "a marked text: another key has a larger z"
    assert writer(plain, keys) is None, "a text without a mark: somebody is accused"
    assert writer(marked, keys[5:]) is None, "the writer is not among them: another one is accused"
    near = writer(plain, [443])  # z is 2.9: of 300 keys this one comes nearest
    assert near is None, "a text without a mark: somebody is accused with z below 4"


def exercise_3(corrected):
    """The answer: corrected(drawn): list of (str, list of float) -> {str: float}."""
    assert corrected([("a", [0.5])]) is not None, "write corrected"
    few = corrected([("a", [0.5, 0.1]), ("b", [0.5, 0.4])])
    assert set(few) == {"a", "b"}, "each text has a share"
    assert abs(sum(few.values()) - 1) < 1e-6, f"the shares sum to {sum(few.values()):.3f}, not to 1"
    assert few["a"] < few["b"], "the text whose steps left less mass got the larger share"
    # The model: a first step with 0.6 for x, 0.2 for y; then an end with 0.01 after x, 0.5 after y.
    rng = np.random.default_rng(0)
    drawn = [("x", [0.8, 0.01]) if rng.random() < 0.75 else ("y", [0.8, 0.5]) for _ in range(4000)]
    share, right = corrected(drawn)["x"], 0.006 / 0.106
    assert abs(share - right) < 0.01, f"a text of {right:.3f} by the condition got {share:.3f}"
