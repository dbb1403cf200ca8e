"""The checks of lesson 12's exercises."""

import functools

import numpy as np

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
    assert isinstance(best(TEXTS[0], german), str), "one of the candidates, not its place or score"
    for text, right in zip(TEXTS, german):
        chosen = best(text, german)
        assert chosen == right, f"{text!r} is not {chosen!r}"
    chosen = best(TEXTS[1], [german[1], "Tom", "Tom hat"])
    assert chosen == german[1], f"{chosen!r} is probable as a beginning, but not as a whole text"
    text = "I'll go to Boston to be with family."  # its mean log P is higher, its sum lower
    long, short = "Ich fahre mit der Familie nach Boston.", "Ich werde nach Boston gehen."
    assert best(text, [long, short]) == short, (
        f"{text!r}: {long!r} has the higher mean of log P per token, but as a whole the other text"
        " is the more probable one"
    )


def exercise_2(aligned):
    """The answer: aligned(text): str -> list of (name of a target token, of a source one)."""
    tokenizer, _ = loaded()
    found = aligned(TEXTS[1])
    assert found is not None, "write aligned"
    names = [tokenizer.tokens[id].replace("▁", "") for id in translate(TEXTS[1])][:-1]
    assert len(found) != len(names) + 1, "</s> is not to be in it: all tokens but the last"
    assert [name for name, _ in found] == names, "one pair for each token of the translation"
    assert all(isinstance(looked_at, str) for _, looked_at in found), "the source token's name"
    pairs = dict(found)
    assert "car" not in (pairs["gekauft"], pairs["neues"]), (
        "Auto means car; a token beside it is said to look at car most: is a row moved?"
    )
    assert pairs["neues"] == "new", (
        "neues means new, and looks at it most, in the last layer: which layer is this?"
    )
    pairs = {(name.lower(), looked_at) for name, looked_at in aligned(TEXTS[2])}
    assert ("ich", "I") in pairs, f"{TEXTS[2]!r}: a token looks at another one most"
    assert ("kaffee", "coffee") in pairs, f"{TEXTS[2]!r}: a token looks at another one most"


def exercise_3(switch):
    """The answer: switch(first, second, n): two English texts -> the ids written, and </s>."""
    first, second = TEXTS[1:3]
    assert switch(first, second, 3) is not None, "write switch"
    assert switch(first, second, 0) == translate(second), "with n = 0 only the second source counts"
    assert switch(first, first, 3) == translate(first), "the same source twice changes nothing"
    for pair, n in ((first, second), 1), ((first, second), 5), ((first, TEXTS[0]), 2):
        ids, right = switch(*pair, n), written(*pair, n)
        assert ids[:n] == right[:n], f"the first {n} tokens depend on the first source"
        assert ids != translate(pair[0]), "the second source changed nothing"
        ended = ids[-1] in loaded()[1].stop_ids
        assert len(ids) <= 40 and (ended or len(ids) == 40), "a text ends with </s> or 40 tokens"
        assert ids[n] == right[n], (
            f"after {n} tokens, the next is another one: the first {n} keep the keys and values"
            " that they had, and only the source changes"
        )


def written(first, second, n):  # -> the first n + 1 ids
    tokenizer, model = loaded()
    one, other = (model.read(model.add_special_tokens(tokenizer.encode(text)))
                  for text in (first, second))  # fmt: skip
    cache, ids = one.new_cache(), list(model.start_ids)
    for i in range(n + 1):
        if i == n:
            cache.source = other.source
        ids.append(int(one(np.array(ids[-1:]), cache)[-1].argmax()))
    return ids[len(model.start_ids) :]
