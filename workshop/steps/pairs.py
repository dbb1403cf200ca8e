"""Step 10: byte pairs."""

from functools import partial

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes


def see_merge(m, seed):
    cases = {"a b c a b": "a b", "a a a": "a a", "a bc ab c abc": "ab c", "": "a b"}
    for text, pair in cases.items():
        symbols = text.encode().split()
        found = partial(m.merge, symbols, tuple(pair.encode().split()))
        yield Seen(f"merge({text!r}, {pair!r})", lambda found=found: list(found()))
        yield Seen(f"the symbols after the call merge({text!r}, {pair!r})", symbols)


# In many of the WORDS, two pairs that could be merged share a symbol.
MERGES = [
    tuple(part.encode() for part in pair.split("+"))
    for pair in "h+e,i+n,t+he,a+t,e+r,the+r,t+h,t+a,he+a,in+g,e+e,ee+e,l+l,a+he, +t".split(",")
]
VOCAB = {bytes([byte]): 300 + byte for byte in range(256)}
VOCAB |= {left + right: 7 * rank % 23 for rank, (left, right) in enumerate(MERGES)}
VOCAB |= {b"inn": 901, b"ther": 902, b"\xc3\xa9": 903}  # tokens that no merge can produce
WORDS = ["", " at", *"the ther there heat xinnn eeeee caf\u00e9 \u20ac tatathering hetahe".split()]


def see_encode(m, seed):
    merges, vocab = list(MERGES), dict(VOCAB)
    for word in WORDS:
        yield Seen(f"encode({word!r})", partial(m.encode, word, merges, vocab))
    yield Seen("merges after the call", merges)
    merges, vocab = [(b"ab", b"c"), (b"a", b"b")], {**VOCAB, b"ab": 1, b"abc": 2}
    found = partial(m.encode, "abc", merges, vocab)
    yield Seen("encode('abc') where merges are ab+c, a+b", found)


WRONG = mistakes(r"""
[workshop/reference.py merge]
with the right symbol of a merged pair looked at again
    skip = True -> pass
[workshop/reference.py encode]
with characters instead of bytes: a letter such as é is two bytes
    [bytes([byte]) for byte in word.encode("utf-8")] -> [char.encode() for char in word]
with the leftmost pair in the word chosen, not the one that comes first in merges
    min(pairs, key=ranks.__getitem__) -> pairs[0]
with each pair of merges tried once, in order: a merge can make a pair that comes earlier
    for _ in symbols[1:]: -> for pair in merges:
    [pair for pair in zip(symbols, symbols[1:]) if pair in ranks] -> [pair]
""")
BY_HAND = '"Tokens": Pairs: merge by hand.'
PAIRS = (
    Part(("merge",), see_merge, WRONG, BY_HAND),
    Part(("encode",), see_encode, WRONG, BY_HAND),
)
