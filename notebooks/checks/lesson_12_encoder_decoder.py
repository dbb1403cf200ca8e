"""The checks of lesson 12's exercises."""

import functools

import utils
from generate import generate

TEXTS = [
    "It is raining.",
    "Tom bought a new car yesterday.",
    "I drink a cup of coffee.",
    "Where is the station?",
]


@functools.cache
def loaded():
    return utils.load("en-de")


def translate(text):  # -> the ids of its translation
    tokenizer, model = loaded()
    return list(generate(model, model.add_special_tokens(tokenizer.encode(text)), 40))


def exercise_1(best):
    """The answer: best(text, candidates): str, list of str -> one of the candidates."""
    tokenizer, _ = loaded()
    german = [tokenizer.decode(translate(text)) for text in TEXTS]
    assert best(TEXTS[0], german) is not None, "write best"
    for text, right in zip(TEXTS, german):
        chosen = best(text, german)
        assert chosen == right, f"{text!r} is not {chosen!r}"
    chosen = best(TEXTS[1], [german[1], "Tom", "Tom hat"])
    assert chosen == german[1], f"{chosen!r} is probable as a beginning, but not as a whole text"


def exercise_2(aligned):
    """The answer: aligned(text): str -> list of (name of a target token, of a source one)."""
    tokenizer, _ = loaded()
    found = aligned(TEXTS[1])
    assert found is not None, "write aligned"
    names = [tokenizer.tokens[id].replace("▁", "") for id in translate(TEXTS[1])][:-1]
    assert [name for name, _ in found] == names, "one pair for each token of the translation"
    assert dict(found)["neues"] == "new", "neues means new, which it looks at most: is a row moved?"
    pairs = {(name.lower(), looked_at) for name, looked_at in aligned(TEXTS[2])}
    assert ("ich", "I") in pairs, f"{TEXTS[2]!r}: a token looks at another one most"


def exercise_3(switch):
    """The answer: switch(first, second, n): two English texts -> the ids written, and </s>."""
    first, second = TEXTS[1:3]
    assert switch(first, second, 3) is not None, "write switch"
    assert switch(first, second, 0) == translate(second), "with n = 0 only the second source counts"
    assert switch(first, first, 3) == translate(first), "the same source twice changes nothing"
    ids = switch(first, second, 3)
    assert ids[:3] == translate(first)[:3], "the first n tokens depend on the first source only"
    assert ids != translate(first), "the second source changed nothing"
    ended = ids[-1] in loaded()[1].stop_ids
    assert len(ids) <= 40 and (ended or len(ids) == 40), "a text ends with </s> or 40 tokens"
