"""Checks: encoding a word, decoding, each digit as a word, the number of ways to cut a text."""

import utils
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

tokenizer, _ = utils.load("stories")
SPELLED = {id: token for token, id in tokenizer.vocab.items()}
WRONG = mistakes(r"""
[notebooks/tokens.ipynb encode_word]
with one merge only: go on until no pair is in the list
    while pairs -> if pairs
with the pairs merged from left to right, not in the order in which they were learnt
    ranks.get) -> [*zip(symbols, symbols[1:])].index)
[notebooks/tokens.ipynb decode]
of tokens decoded one by one: one character can need several tokens, so join all bytes first
    spelling = "".join(spelled[id] for id in ids)
    -> return "".join(tokenizer.decode([id]) for id in ids)
with the spelling of a space, Ġ, in the text
    return bytes( -> return spelling or bytes(
of bytes taken as characters: decode them as UTF-8
    "utf-8" -> "latin-1"
without bytes that are not UTF-8: they should be shown as U+FFFD
    "replace" -> "ignore"
[notebooks/tokens.ipynb digit_words]
with whole numbers: make each digit a word of its own
    (\d) -> (\d+)
with a digit and the space before it in one word
    (\d) -> ( ?\d)
[notebooks/tokens.ipynb n_cuts]
of one way only, the one with the longest piece at each place
    append(sum( -> append(max(
with pieces of at most 3 bytes
    max(map(len, pieces)) -> 3
""")


def see_encode(m, seed):
    """Look at the tokens of words with the model's merges, and with three merges."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    few = {("a", "b"): 1, ("b", "c"): 0, ("ab", "a"): 2}
    for word in "crocodile", " umbrella", "🍓", " banana", "":
        yield Seen(f"encode_word({word!r}, ranks)", [*m.encode_word(word, ranks)])
    for word in "abc", "ababa":
        yield Seen(f"encode_word({word!r}, ranks={few})", [*m.encode_word(word, few)])


def see_decode(m, seed):
    """Look at texts with spaces and with characters of several bytes, one of them cut."""
    for text in " Lily saw a big red umbrella. ", "Zoë ate 🍓 in 日本.":
        yield Seen(f"decode of the ids of {text!r}", m.decode(tokenizer.encode(text), SPELLED))
    ids = [*tokenizer.encode("a"), *tokenizer.encode("🍓")[:2]]
    found = m.decode(ids, SPELLED).replace("\ufffd\ufffd", "\ufffd")
    yield Seen("decode of 'a' and half a strawberry", found)


def see_digits(m, seed):
    """Look at the words of texts with and without digits."""
    texts = "It's room 101b!", "In 1969 2 men, aged 38,\n\n walked 1.5 km.", "Once upon a time"
    for text in texts:
        yield Seen(f"digit_words({text!r})", [*m.digit_words(text)])


def see_cuts(m, seed):
    """Look at the number of ways for six short texts and a long one."""
    few = {b"a", b"b", b"ab", b"ba", b"aba"}
    for data in b"a", b"ab", b"aba", b"abc", b"", b"ababab":
        yield Seen(f"n_cuts({data!r}, {sorted(few)})", m.n_cuts(data, few))
    pieces = {*map(tokenizer.token_bytes, range(tokenizer.n_vocab))}
    yield Seen("n_cuts of a longer text", m.n_cuts(b"Once upon a time, there was a", pieces))


exercise_encode = Part(("encode_word",), see_encode, WRONG)
exercise_1 = Part(("decode",), see_decode, WRONG)
exercise_2 = Part(("digit_words",), see_digits, WRONG)
exercise_3 = Part(("n_cuts",), see_cuts, WRONG)
