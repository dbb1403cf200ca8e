"""Checks: forbid a phrase, find who marked a text, correct a filter's probabilities."""

import lessons
import numpy as np

import utils
from examples.watermark import watermark
from generate import generate
from samplers import Sampler

tokenizer, model = utils.load("stories")
BEFORE_PHRASE = [  # (the text so far, the forbidden phrase)
    ("Tim was very", "happy"),
    ("Tim was hap", "happy"),
    ("The pup", "happy"),
    ("Tim", " was very"),
    ("Tim was", " was very"),
    ("The", " cat"),
    ("Tim was happy. One day, Tim went to the park with his mom. Tim was very", "happy"),
]


def exercise_1(never):
    """Check never(phrase) -> a filter that prevents the phrase."""
    pieces = [tokenizer.decode([id]) for id in range(model.n_vocab)]
    logits = np.random.default_rng(0).normal(size=model.n_vocab).astype(np.float32)
    ids = tokenizer.encode("Tim was very")
    assert never("happy")(logits, ids) is not None, "write never"
    for text, phrase in BEFORE_PHRASE:
        ids = tokenizer.encode(text)
        kept = np.isfinite(never(phrase)(logits, ids))
        must_go = np.array([phrase in (text + piece)[-len(phrase) - 20 :] for piece in pieces])
        left, gone = kept & must_go, ~kept & ~must_go
        piece = pieces[np.argmax(left)]
        assert not left.any(), f"after {text!r}, {piece!r} is left, but completes {phrase!r}"
        piece = pieces[np.argmax(gone)]
        assert not gone.any(), f"after {text!r}, keep {piece!r}: it does not complete {phrase!r}"
        same = np.array_equal(never(phrase)(logits, ids)[kept], logits[kept])
        assert same, "the logits of the other tokens should stay as they are"
    start = tokenizer.encode("Once upon a time")
    text = tokenizer.decode(list(generate(model, start, 60, Sampler(never("was")), 1)))
    assert "was" not in text, f"never('was') did not prevent {text!r}"


def exercise_2(writer):
    """Check writer(ids, keys) -> the key that the text was marked with, or None."""
    start, keys = tokenizer.encode("Once upon a time"), list(range(100, 110))

    def text(*filters):
        return lessons.continuations(model, start, Sampler(*filters), 1, 200)[0].tolist()

    marked, plain = text(watermark(104)), text()
    first = writer(marked, keys)
    assert first is not None or writer(plain, keys) is not None, "write writer"
    assert first is None or first in keys, f"return one of the keys or None, not {first!r}"
    assert writer(marked, keys) == 104, "for a marked text, return the key with the largest z"
    assert writer(plain, keys) is None, "somebody is accused of a text without a mark"
    assert writer(marked, keys[5:]) is None, "somebody is accused, but the right key is not listed"
    near = writer(plain, [2267])  # of the keys 110 to 2267, the last gives the largest z, 3.6
    assert near is None, "somebody is accused of a text without a mark: z should be at least 4"


def exercise_3(corrected):
    """Check corrected(drawn) -> {text: its share}. drawn: a list of (text, the mass that the filter
    keeps at each step)."""
    assert corrected([("a", [0.5])]) is not None, "write corrected"
    few = corrected([("a", [0.5, 0.1]), ("b", [0.5, 0.4])])
    assert set(few) == {"a", "b"}, "return a share for each text"
    assert abs(sum(few.values()) - 1) < 1e-6, f"the shares sum to {sum(few.values()):.3f}, not to 1"
    assert few["a"] < few["b"], "the text whose steps left less mass should get the smaller share"
    # The condition allows x (P = 0.6) or y (P = 0.2) as the first token: 0.8 in all. Then it allows
    # only the end of the text, which has P = 0.01 after x and 0.5 after y.
    rng = np.random.default_rng(0)
    drawn = [("x", [0.8, 0.01]) if rng.random() < 0.75 else ("y", [0.8, 0.5]) for _ in range(4000)]
    share, right = corrected(drawn)["x"], 0.006 / 0.106
    assert abs(share - right) < 0.01, f"by the condition, x has {right:.3f}, not {share:.3f}"
