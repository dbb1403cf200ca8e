"""Text <-> token ids: byte-level byte-pair encoding (BPE), as in the encoder.py of GPT-2 itself.

The first 256 tokens are the bytes, so that any text can be encoded. As in GPT-2, their ids are not
the bytes' values: "!" has the id 0, and "s" 82. Then the most frequent pair of neighbours becomes a
token, again and again. A new token gets the next free id. A space belongs to the word after it:

    >>> tokenizer = learn_tokenizer("low lower low", n_merges=4)
    >>> [(id, tokenizer.decode([id])) for id in range(256, 260)]
    [(256, 'lo'), (257, 'low'), (258, ' low'), (259, ' lowe')]
    >>> tokenizer.encode("slow lowest")  # s, low, " lowe", s, t
    [82, 257, 259, 82, 83]

The file has seven steps, from small to large: learn which pairs to merge; merge them; cut a text
into words; write bytes as characters, because files list tokens as text; number the tokens; encode;
decode one by one. Sources:
Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; Radford et al. 2019, "Language
Models are Unsupervised Multitask Learners", section 2.2.
"""

import codecs
from collections import Counter
from collections.abc import Callable, Iterable

import regex  # type: ignore[import-untyped]


def learn(counts: dict[str, int], n_merges: int) -> list[tuple[str, str]]:
    """Step 1: merge the most frequent pair of neighbours in all words, again and again. Return the
    merged pairs in order. counts: how often each word occurs. In a tie, the first pair wins.

    >>> learn({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=4)
    [('e', 's'), ('es', 't'), ('l', 'o'), ('lo', 'w')]

        l o w   l o w e r   n e w e s t   w i d e s t      next: e and s, 6 + 3 times
        l o w   l o w e r   n e w es t    w i d es t       next: es and t, 6 + 3 times
        l o w   l o w e r   n e w est     w i d est        next: l and o, 5 + 2 times
        lo w    lo w e r    n e w est     w i d est        next: lo and w, 5 + 2 times
    """
    words = {word: list(word) for word in counts}
    merges: list[tuple[str, str]] = []
    for _ in range(n_merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, symbols in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += counts[word]
        if not pairs:
            break
        merges.append(max(pairs, key=pairs.__getitem__))
        words = {word: merge(symbols, merges[-1]) for word, symbols in words.items()}
    return merges


def merge_all(symbols: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Step 2: merge the neighbours that were learnt first, until no neighbours are left that were
    learnt. ranks: the place of each pair in the list that `learn` returns.

    >>> merge_all(list("aaabdaaabac"), {("a", "a"): 0, ("a", "b"): 1, ("aa", "ab"): 2})
    ['aaab', 'd', 'aaab', 'a', 'c']
    """
    while True:
        pairs = [pair for pair in zip(symbols, symbols[1:]) if pair in ranks]
        if not pairs:
            return symbols
        symbols = merge(symbols, min(pairs, key=ranks.__getitem__))


def merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Merge a pair of neighbours wherever it occurs, from left to right."""
    merged = symbols[:1]
    for symbol in symbols[1:]:
        if (merged[-1], symbol) == pair:
            merged[-1] += symbol  # now longer than the left part, so it does not match again
        else:
            merged.append(symbol)
    return merged


# Step 3: no merge crosses the end of a word; otherwise "dog." and "dog!" would become tokens. A
# space just before a word belongs to it: of several, \s+(?!\S) leaves the last one to the word.
# \p{L}: a letter of any script; \p{N}: a number, such as 7 or ½.
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
gpt2_words: Callable[[str], list[str]] = regex.compile(PATTERN).findall


def bytes_to_unicode() -> dict[int, str]:
    """Step 4: return {byte: a visible character that stands for it}, because files list tokens as
    text: chr(byte) if it is visible, else one of chr(256), chr(257), ... The space becomes "Ġ"."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in visible else next(others)) for byte in range(256)}


BYTE_TO_CHAR = bytes_to_unicode()
CHAR_TO_BYTE = {char: byte for byte, char in BYTE_TO_CHAR.items()}


def spell(word: str) -> list[str]:  # " é" -> ["Ġ", "Ã", "©"]
    return [BYTE_TO_CHAR[byte] for byte in word.encode()]


def learn_tokenizer(text: str, n_merges: int) -> "Tokenizer":
    """Learn a tokenizer from a text."""
    return Tokenizer(*learn_tokens(Counter(gpt2_words(as_unicode(text))), n_merges))


def learn_tokens(counts: dict[str, int], n_merges: int) -> tuple[dict, list]:
    """Step 5: return the vocabulary {token: id} and the merges. The bytes come first, in GPT-2's
    order. counts: how often each word occurs."""
    merges = learn({"".join(spell(word)): n for word, n in counts.items()}, n_merges)
    tokens = sorted(CHAR_TO_BYTE) + [left + right for left, right in merges]
    distinct = dict.fromkeys(tokens)  # two merges can make the same token
    return {token: id for id, token in enumerate(distinct)}, merges


class Tokenizer:
    """Byte-level BPE with a `vocab` {token: id} and `merges` [(left, right), ...].

    n_vocab: the number of tokens, whose ids are 0 to n_vocab - 1. special: {text: id} of the tokens
    that are neither bytes nor made by merges. end_of_text: the id of <|endoftext|>, or None. Raises
    ValueError if vocab and merges do not belong together.
    """

    def __init__(self, vocab: dict[str, int], merges: list[tuple[str, str]]):
        self.vocab, self.merges, self.n_vocab = vocab, merges, len(vocab)
        made = {*CHAR_TO_BYTE, *map("".join, merges)}
        parts = {part for pair in merges for part in pair}
        if missing := (made | parts) - vocab.keys():
            raise ValueError(f"{len(missing)} symbols have no id, such as {min(missing)!r}")
        if sorted(vocab.values()) != list(range(len(vocab))):
            raise ValueError(f"the {len(vocab)} ids are not 0 to {len(vocab) - 1}")
        self.special = {token: id for token, id in vocab.items() if token not in made}
        self.end_of_text = self.special.get("<|endoftext|>")
        self.tokens = sorted(vocab, key=vocab.__getitem__)
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._known: dict[str, list[int]] = {}  # of all words so far, as in GPT-2's own

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Step 6: return a text's ids. Special tokens in it are plain text unless special=True."""
        if not special or not self.special:
            return self.plain_ids(text)
        ids: list[int] = []
        any_special = regex.compile(r"(\L<special>)", special=self.special)  # one of these names
        for part in any_special.split(text):  # ( ): special tokens are parts, too
            ids += [self.special[part]] if part in self.special else self.plain_ids(part)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the ids' text. Invalid UTF-8 becomes U+FFFD. Raises ValueError for unknown ids."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def stream(self) -> "Stream":
        """Return a new Stream, which decodes ids one by one."""
        return Stream(self)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one token. They may be only part of a character."""
        if not 0 <= id < self.n_vocab:
            raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        if (token := self.tokens[id]) in self.special:
            return token.encode()
        return bytes(CHAR_TO_BYTE[char] for char in token)

    def plain_ids(self, text: str) -> list[int]:  # special tokens in it are plain text
        return [id for word in gpt2_words(as_unicode(text)) for id in self._word_ids(word)]

    def _word_ids(self, word):
        if word not in self._known:
            symbols = merge_all(spell(word), self._ranks)
            self._known[word] = [self.vocab[symbol] for symbol in symbols]
        return self._known[word]


def as_unicode(text: str) -> str:
    """Join pairs of surrogates, the halves of a character in UTF-16. Lone ones become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Stream:
    """Step 7: decode ids one by one. Together, the returned pieces equal decode(all ids)."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, id: int) -> str:
        """Return the text that this id completes. A character is returned with its last byte."""
        return self._utf8.decode(self._tokenizer.token_bytes(id))

    def finish(self) -> str:
        """Return the rest: "", or U+FFFD for a character that was never completed."""
        return self._utf8.decode(b"", final=True)
