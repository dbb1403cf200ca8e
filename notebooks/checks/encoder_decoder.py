"""Checks: cross-attention, the best of several translations, alignments."""

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import numbers

TEXTS = {
    "It is raining.": "Es regnet.",
    "Tom bought a new car yesterday.": "Tom hat gestern ein neues Auto gekauft.",
    "I drink a cup of coffee.": "Ich trinke eine Tasse Kaffee.",
    "Where is the station?": "Wo ist der Bahnhof?",
}
WRONG = mistakes("""
[notebooks/encoder_decoder.ipynb cross_attention]
of self-attention: keys and values come from the source
    linear(source, -> linear(x,
with queries from the source: they come from the decoder's vectors
    linear(x, -> linear(source,
with scores divided by sqrt(d): this model does not scale
    queries @ keys.swapaxes(-1, -2) -> queries @ keys.swapaxes(-1, -2) / queries.shape[-1] ** 0.5
with one head instead of n_head
    , n_head) -> , 1)
[notebooks/encoder_decoder.ipynb best]
without the start: log_probabilities leaves out the first id, so the first token costs nothing
    [*model.start_ids, *tokenizer.encode(candidate)] -> tokenizer.encode(candidate)
without </s>: a text may be probable as a beginning, but not as a whole
    encode(candidate)] -> encode(candidate)[:-1]]
with the mean of log P per token: take the sum
    .sum() -> .mean()
[notebooks/encoder_decoder.ipynb aligned]
with </s>: leave out the last token
    looked_at))[:-1] -> looked_at))
with the source tokens' ids: return their names
    names(np.array(source)[weights.argmax(-1)]) -> np.array(source)[weights.argmax(-1)].tolist()
with rows shifted by one: a row belongs to the token that it helps to choose
    weights.argmax(-1) -> np.roll(weights, 1, 0).argmax(-1)
with the first layer instead of the last
    [2][-1] -> [2][0]
""")


def see_cross(m, seed):
    """Look at the results for sources and heads of different numbers."""
    shapes = {"q": (6, 5), "k": (6, 5), "v": (6, 5), "o": (5, 6)}  # d_model 5, heads of 2 or 3
    parts = {name: {"w": numbers(*shape, seed=ord(name))} for name, shape in shapes.items()}
    for n, n_source, n_head in (3, 4, 2), (4, 7, 3):
        x, source = numbers(n, 5), numbers(n_source, 5, seed=1)
        found = m.cross_attention(x, source, *parts.values(), n_head)
        yield Seen(f"{n} vectors, a source of {n_source}, {n_head} heads", found, "n, d_model")


def see_best(m, seed):
    """Look at the choice among right, short and free translations."""
    for text in TEXTS:
        yield Seen(f"for {text!r}, of {[*TEXTS.values()]}", m.best(text, [*TEXTS.values()]))
    for text, candidates in (
        ("Where is the station?", ["Bahnhof?", "Wo ist der Bahnhof?"]),
        ("Tom bought a new car yesterday.", ["Tom", "Tom hat gestern ein neues Auto gekauft."]),
        (
            "I'll go to Boston to be with family.",
            ["Ich fahre mit der Familie nach Boston.", "Ich werde nach Boston gehen."],
        ),
    ):
        yield Seen(f"for {text!r}, of {candidates}", m.best(text, candidates))


def see_aligned(m, seed):
    """Look at the tokens of two translations and at their source tokens."""
    for text in [*TEXTS][1:3]:
        pairs = m.aligned(text)
        yield Seen(f"the tokens of the translation of {text!r}", [pair[0] for pair in pairs])
        yield Seen(f"the source tokens for {text!r}", [pair[1] for pair in pairs])


exercise_cross = Part(("cross_attention",), see_cross, WRONG)
exercise_1 = Part(("best",), see_best, WRONG)
exercise_2 = Part(("aligned",), see_aligned, WRONG)
