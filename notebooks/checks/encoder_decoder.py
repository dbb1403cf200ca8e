"""Checks: cross-attention, the best of several translations, alignments."""

import utils
from generate import generate
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import numbers

tokenizer, model = utils.load("en-de")
TEXTS = [
    "It is raining.",
    "Tom bought a new car yesterday.",
    "I drink a cup of coffee.",
    "Where is the station?",
]


def see_cross(m, seed):
    shapes = {"q": (6, 5), "k": (6, 5), "v": (6, 5), "o": (5, 6)}  # d_model 5, heads of 2 or 3
    parts = {name: {"w": numbers(*shape, seed=ord(name))} for name, shape in shapes.items()}
    for n, n_source, n_head in (3, 4, 2), (4, 7, 3):
        x, source = numbers(n, 5), numbers(n_source, 5, seed=1)
        found = m.cross_attention(x, source, **parts, n_head=n_head)
        yield Seen(f"{n} vectors, a source of {n_source}, {n_head} heads", found, "n, d_model")


exercise_cross = Part(
    ("cross_attention",),
    see_cross,
    mistakes("""
[notebooks/encoder_decoder.ipynb cross_attention]
of self-attention: keys and values come from the source
    linear(source, -> linear(x,
with queries from the source: they come from the decoder's vectors
    linear(x, -> linear(source,
with scores divided by sqrt(d): this model does not scale
    queries @ keys.swapaxes(-1, -2) -> queries @ keys.swapaxes(-1, -2) / queries.shape[-1] ** 0.5
with one head instead of n_head
    , n_head) -> , 1)
"""),
)


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
