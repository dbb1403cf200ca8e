"""Step 10: byte pairs."""

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes


def see_merge(m, seed):
    def merge(text, pair):
        symbols = [part.encode() for part in text.split()]
        left, right = (part.encode() for part in pair.split())
        found = m.merge(symbols, (left, right))
        yield Seen(f"merge({text!r}, {pair!r})", list(found) if found is not None else None)
        yield Seen(f"the symbols after merge({text!r}, {pair!r})", symbols)

    yield from merge("a b c a b", "a b")
    yield from merge("a a a", "a a")
    yield from merge("a a a a a", "a a")
    yield from merge("a b c d", "c d")
    yield from merge("b a b b a c", "a b")
    yield from merge("a bc ab c abc", "ab c")
    yield from merge("c ab a ab", "a b")
    yield from merge("a", "a b")
    yield from merge("", "a b")
    yield from merge("b b a", "a b")


MERGE_WRONG = mistakes(r"""
[workshop/reference.py merge]
first only: with only the first pair joined
    merged, i = [], 0 -> merged, i, done = [], 0, False
    tuple(pair) -> tuple(pair) and not done; done = done or both
last only: with only the last pair joined
    tuple(pair)
    -> tuple(pair) and not any(tuple(symbols[j : j + 2]) == tuple(pair) for j in range(i + 1,
        len(symbols)))
overlapping: with a symbol used in two pairs
    i += 2 if both else 1 -> i += 1
overlapping, rest dropped: with a symbol used in two pairs, and the symbol after a pair dropped
    i += 2 if both else 1 -> i += 1
    if both else symbols[i])
    -> if both else symbols[i]) if both or tuple(symbols[i - 1 : i + 1]) != tuple(pair) or i == 0
        else None
last symbol lost: without the last symbol
    while i < len(symbols): -> while i < len(symbols) - 1:
three at once: of a merge that skips the symbol after a pair
    i += 2 -> i += 3
others skipped: of a merge that skips a symbol after each symbol that is not joined
    else 1 -> else 2
text compared: with pairs compared by their joined text: the pair a bc is not ab c
    tuple(symbols[i : i + 2]) == tuple(pair)
    -> len(symbols[i : i + 2]) == 2 and symbols[i] + symbols[i + 1] == pair[0] + pair[1]
either order: with the pair (right, left) joined, too
    == tuple(pair) -> in (tuple(pair), tuple(pair)[::-1])
either symbol: with only the left symbol of the pair compared
    tuple(symbols[i : i + 2]) == tuple(pair) -> symbols[i] == pair[0] and i + 1 < len(symbols)
right symbol: with only the right symbol of the pair compared
    tuple(symbols[i : i + 2]) == tuple(pair) -> symbols[i + 1 : i + 2] == [pair[1]]
reversed: joined as right + left
    pair[0] + pair[1] -> pair[1] + pair[0]
left only: with only the left symbol instead of the joined one
    pair[0] + pair[1] -> pair[0]
a pair: with the pair itself instead of the joined symbol
    pair[0] + pair[1] -> tuple(pair)
pair inserted: with the joined symbol inserted before the pair, which should be replaced
    i += 2 if both else 1 -> merged += symbols[i : i + 2] if both else []; i += 2 if both else 1
pairs alone: without the symbols that are not joined
    merged.append(pair[0] + pair[1] if both else symbols[i])
    -> merged += [pair[0] + pair[1]] if both else []
end not tested: of a merge that reads past the last symbol
    tuple(symbols[i : i + 2]) == tuple(pair) -> (symbols[i], symbols[i + 1]) == tuple(pair)
from the right: with pairs searched from right to left
    merged, i = [], 0 -> merged, i, symbols = [], 0, symbols[::-1]
    tuple(pair) -> tuple(pair)[::-1]
    return merged -> return merged[::-1]
in place: of a merge that changes its argument
    => symbols[:] = merged; return merged
in place alone: of a merge that changes its argument and returns nothing
    => symbols[:] = merged
bytes: of one bytes object instead of a list
    => return b"".join(merged)
no return: of a function that returns nothing
    => merged
""")
MERGE = Part(("merge",), "workshop/reference.py", see_merge, MERGE_WRONG)

# In many of the WORDS, two pairs that could be merged share a symbol.
MERGES = [
    tuple(part.encode() for part in pair.split("+"))
    for pair in "h+e i+n t+he a+t e+r the+r t+h t+a he+a in+g e+e ee+e l+l a+he".split()
]
VOCAB = {bytes([byte]): 300 + byte for byte in range(256)}
VOCAB |= {left + right: 7 * rank % 23 for rank, (left, right) in enumerate(MERGES)}
VOCAB |= {b"inn": 901, b"ther": 902, b"xyz": 903}  # tokens that no merge can produce
WORDS = (
    "the t ther there tata heat heating inn xinnn xyz eee eeeee caf\u00e9 \u20ac hell tatathering"
    " thehe hetahe eehell inginate"
).split()
WORDS += [""]


def see_encode(m, seed):
    for word in WORDS:
        yield Seen(f"encode({word!r})", m.encode(word, list(MERGES), dict(VOCAB)))
    merges = list(MERGES)
    m.encode("there", merges, VOCAB)
    yield Seen("merges after the call", merges)


ENCODE_WRONG = mistakes(r"""
[workshop/reference.py encode]
characters: with characters instead of bytes: a letter such as é is two bytes
    [bytes([byte]) for byte in word.encode("utf-8")] -> [char.encode() for char in word]
latin-1: with the bytes of latin-1 instead of UTF-8
    "utf-8" -> "latin-1"
no merges: without merges: every byte is a token
    if not pairs: -> if True:
one merge: with only one merge
    symbols = merge(symbols, min(pairs, key=ranks.__getitem__))
    -> symbols = merge(symbols, min(pairs, key=ranks.__getitem__)); break
last in merges: with the pair that is last in merges chosen first
    min(pairs -> max(pairs
leftmost: with the leftmost pair in the word chosen, not the one that comes first in merges
    min(pairs, key=ranks.__getitem__) -> pairs[0]
rightmost: with the rightmost pair in the word chosen, not the one that comes first in merges
    min(pairs, key=ranks.__getitem__) -> pairs[-1]
alphabetical: with the pair chosen that is first in alphabetical order
    min(pairs, key=ranks.__getitem__) -> min(pairs)
by id: with the pair chosen whose id is the largest
    min(pairs, key=ranks.__getitem__) -> max(pairs, key=lambda pair: vocab[pair[0] + pair[1]])
most frequent: with the pair chosen that is most frequent in the word
    min(pairs, key=ranks.__getitem__) -> max(pairs, key=pairs.count)
longest: with the longest pair chosen
    min(pairs, key=ranks.__getitem__) -> max(pairs, key=lambda pair: len(pair[0] + pair[1]))
longest token: with the longest token taken first, from left to right, without merges
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    -> ranks, rest, symbols = {}, b"".join(symbols), []\n    while rest: part = next(rest[:i] for
        i in range(len(rest), 0, -1) if rest[:i] in vocab); symbols.append(part); rest =
        rest[len(part):]
whole word: with the whole word where it is a token
    while True:
    -> while word.encode() not in vocab or symbols == [word.encode()] or symbols.clear() or
        symbols.append(word.encode()):
any token: with every pair merged whose joined text is a token, even if the pair is not in merges
    if pair in ranks] -> if pair[0] + pair[1] in vocab]
    key=ranks.__getitem__ -> key=lambda pair: vocab[pair[0] + pair[1]]
first half of the merges: with the loop over merges ended at the first pair that is not in the word
    while True: -> for pair in merges:
    for pair in zip(symbols, symbols[1:]) if pair in ranks
    -> for _ in [0] if pair in [*zip(symbols, symbols[1:])]
symbols: of the symbols instead of their ids
    vocab[symbol] for -> symbol for
ranks: of ranks in merges instead of ids
    vocab[symbol] for -> ranks.get(symbol, 0) for
one round: of one round over the pairs, or over merges from the last to the first
    while True: -> for _ in range(1):
    symbols = merge(symbols, min(pairs, key=ranks.__getitem__))
    -> for pair in pairs: symbols = merge(symbols, pair)
two at most: of two merges at most
    while True: -> for _ in range(2):
no return: of a function that returns nothing
    return [ -> [
bytes as numbers: of bytes as numbers: make each a bytes object with bytes([byte])
    [bytes([byte]) for byte in word.encode("utf-8")] -> list(word.encode("utf-8"))
text: of symbols of type str: begin with word.encode("utf-8")
    [bytes([byte]) for byte in word.encode("utf-8")] -> list(word)
empty word: of an encode that fails for a word without pairs
    if not pairs: -> if False:
""")
ENCODE = Part(("encode",), "workshop/reference.py", see_encode, ENCODE_WRONG)
