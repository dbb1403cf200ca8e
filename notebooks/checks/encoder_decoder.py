"""Checks: the best of several translations, alignments, a source that changes."""

import numpy as np

import utils
from generate import generate

tokenizer, model = utils.load("en-de")
TEXTS = [
    "It is raining.",
    "Tom bought a new car yesterday.",
    "I drink a cup of coffee.",
    "Where is the station?",
]


def translate(text):
    """Return the ids of a text's translation."""
    return list(generate(model, tokenizer.encode(text), 40))


def exercise_1(best):
    """Check best(text, candidates) -> the candidate that is the best translation of the text."""
    german = [tokenizer.decode(translate(text)) for text in TEXTS]
    assert best(TEXTS[0], german) is not None, "write best"
    chosen = best(TEXTS[0], german)
    assert isinstance(chosen, str), "return one of the candidates, not its index or score"
    for text, right in zip(TEXTS, german):
        chosen = best(text, german)
        assert chosen == right, f"the best translation of {text!r} is not {chosen!r}"
    chosen = best(TEXTS[1], [german[1], "Tom", "Tom hat"])
    assert chosen == german[1], f"{chosen!r} is probable as a beginning, but not as a whole text"
    text = "I'll go to Boston to be with family."
    long, short = "Ich fahre mit der Familie nach Boston.", "Ich werde nach Boston gehen."
    assert best(text, [long, short]) == short, (
        f"{long!r} has the higher mean of log P per token, but {short!r} is more probable as a"
        " whole: take the sum"
    )


def exercise_2(aligned):
    """Check aligned(text) -> a list of (the name of a target token, the name of a source token)."""
    found = aligned(TEXTS[1])
    assert found is not None, "write aligned"
    names = [tokenizer.tokens[id].replace("▁", "") for id in translate(TEXTS[1])][:-1]
    assert len(found) != len(names) + 1, "leave out </s>, the last token"
    assert [name for name, _ in found] == names, "return a pair for each token of the translation"
    texts = all(isinstance(looked_at, str) for _, looked_at in found)
    assert texts, "return the source token's name, not its id"
    pairs = dict(found)
    assert "car" not in (pairs["gekauft"], pairs["neues"]), (
        "car belongs to Auto, not to the token beside it: are your rows shifted by one?"
    )
    assert pairs["neues"] == "new", (
        "in the last layer, neues looks at new most: which layer did you take?"
    )
    pairs = {(name.lower(), looked_at) for name, looked_at in aligned(TEXTS[2])}
    for pair in ("ich", "I"), ("kaffee", "coffee"):
        assert pair in pairs, f"in {TEXTS[2]!r}, {pair[0]} looks at {pair[1]} most"


def exercise_3(switch):
    """Check switch(first, second, n) -> the new ids, with </s>. first, second: English texts."""
    first, second = TEXTS[1:3]
    assert switch(first, second, 3) is not None, "write switch"
    assert switch(first, second, 0) == translate(second), "with n = 0 only the second source counts"
    assert switch(first, first, 3) == translate(first), "the same source twice changes nothing"
    for pair, n in ((first, second), 1), ((first, second), 5), ((first, TEXTS[0]), 2):
        ids, right = switch(*pair, n), written(*pair, n)
        assert ids[:n] == right[:n], "the first n tokens should depend on the first source alone"
        assert ids != translate(pair[0]), "the second source changed nothing"
        ended = ids[-1] in model.stop_ids
        assert len(ids) <= 40 and (ended or len(ids) == 40), "stop after </s> or 40 tokens"
        assert ids[n] == right[n], (
            f"with n = {n}, the first token after the switch is wrong: the tokens before it keep"
            " the keys and values that they had, and only the source changes"
        )


def written(first, second, n):
    """Return the first n + 1 ids of a translation whose source changes after n ids."""
    one, other = (model.read(tokenizer.encode(text)) for text in (first, second))
    cache, ids = one.new_cache(), list(model.start_ids)
    for i in range(n + 1):
        if i == n:
            cache.source = other.source
        ids.append(int(one(np.array(ids[-1:]), cache)[-1].argmax()))
    return ids[len(model.start_ids) :]
