"""Text <-> token ids: byte-level byte-pair encoding (BPE), as GPT-2 introduced it.

Text is cut into words, the UTF-8 bytes of a word are its first symbols, and pairs of symbols are
merged, those first that were most frequent when the vocabulary was trained, until no pair is left
that the list of merges has. Every byte is a token, so any text can be encoded. Llama 3, Qwen and
SmolLM do the same with another pattern of a word.

Sources: Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2.
"""

import codecs
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import NamedTuple

# Unlike re it knows \p{L} (a letter) and \p{N} (a number) of every script.
import regex  # type: ignore[import-untyped]

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's
MAX_CACHED_WORDS, MAX_CACHED_LENGTH = 2**16, 64  # limits the cache to some tens of megabytes
# What Unicode calls white space; Python's strip() has the separators \x1c to \x1f too.
WHITE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
MARKS = "<s>", "<pad>", "</s>"  # special tokens around a text, never part of it


def bytes_to_unicode() -> dict[int, str]:
    """The character that represents each byte in the files: itself if printable, else chr(256),
    chr(257), ..."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


BYTE_TO_CHAR = bytes_to_unicode()  # for str.translate: latin-1 decodes byte b to chr(b)
CHAR_TO_BYTE = {ord(char): byte for byte, char in BYTE_TO_CHAR.items()}


def by_patterns(*patterns: str) -> Callable[[str, bool], list[str]]:
    """The function that cuts a text into words: those that the first pattern finds, these again by
    the second, and so on."""
    compiled = [regex.compile(pattern) for pattern in patterns]

    def words(text, first):  # str, is it the beginning? -> list of str
        found = [text]
        for pattern in compiled:
            found = [word for part in found for word in pattern.findall(part)]
        return found

    return words


gpt2_words = by_patterns(PATTERN)


class Added(NamedTuple):
    """A token that is looked for in a text before the text is cut into words.

    special: it counts only if `encode` is told so. normalized: it is looked for in the normalised
    text. lstrip, rstrip: it takes the white space before or after it.
    """

    text: str
    id: int
    special: bool = True
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False


class Tokenizer:
    """Byte-level BPE over `vocab` {token: id} and `merges` [(left, right), ...], best first.

    added: tokens that no merge makes, such as <|endoftext|>. words(text, first) -> list of words;
    first: does the text begin here? normalize: applied to the text between added tokens.
    ignore_merges: a word that is a token is not merged. start: the ids before each text, such as
    Llama's BOS. ValueError when vocab and merges do not belong together.

    n_vocab: the number of tokens; their ids are 0 to n_vocab - 1. special: {text: id} of the
    special ones. end_of_text: the id of <|endoftext|>, or None.
    """

    def __init__(
        self, vocab: dict[str, int], merges: list[tuple[str, str]], added: Sequence[Added] = (),
        words: Callable[[str, bool], list[str]] = gpt2_words,
        normalize: Callable[[str], str] = str, ignore_merges: bool = False,
        start: Sequence[int] = (),
    ):  # fmt: skip
        self.vocab, self.merges = vocab | {token.text: token.id for token in added}, merges
        self.added, self.words, self.normalize, self.start = added, words, normalize, start
        self.n_vocab = len(self.vocab)
        self._check()
        self.special = {token.text: token.id for token in added if token.special}
        self.end_of_text = self.special.get("<|endoftext|>")
        self._tokens = dict(zip(self.vocab.values(), self.vocab))
        self._verbatim = {token.id for token in added}
        # A word is merged as a str of one character per symbol, chr(its id).
        self._first = self._alphabet(vocab)
        self._ranks = {chr(vocab[a]) + chr(vocab[b]): rank for rank, (a, b) in enumerate(merges)}
        self._whole = vocab if ignore_merges else {}
        self._cache: dict[str, list[int]] = {}  # word -> ids

    def encode(self, text: str, special: bool = False, first: bool = True) -> list[int]:
        """str -> list of ids, after `start`. The text of a special token is plain text, unless
        `special`. first=False: for a text that continues another, without `start`."""
        added = [token for token in self.added if special or not token.special]
        raw, late = ([t for t in added if t.normalized is late] for late in (False, True))
        parts: list[str | int] = []
        for part in split(text, raw):
            parts += split(self.normalize(part), late) if isinstance(part, str) else [part]
        ids = list(self.start) if first else []
        for i, part in enumerate(parts):
            ids += self._encode_text(part, first and i == 0) if isinstance(part, str) else [part]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> str; bytes that are not UTF-8 become U+FFFD, MARKS and `start` become nothing.
        ValueError for an unknown id."""
        stream = self.stream()
        return "".join([*map(stream.feed, ids), stream.finish()])

    def stream(self) -> "Stream":
        """A new Stream, which decodes ids as they come."""
        return Stream(self)

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token, often not UTF-8 by themselves; none for MARKS and `start`.
        ValueError for an unknown id."""
        token = self._tokens.get(id)
        if token is None:
            raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        if id in self._verbatim:
            return b"" if token in MARKS or id in self.start else token.encode("utf-8")
        return self._unspell(token)

    def _check(self):
        """ValueError where vocab and merges do not belong together."""
        "".join(self.vocab).encode("utf-8")  # a lone surrogate, which JSON may hold, is an error
        ids = self.vocab.values()
        if {*map(type, ids)} != {int} or sorted(ids) != list(range(self.n_vocab)):
            raise ValueError(f"the {self.n_vocab} ids are not 0 to {self.n_vocab - 1}")
        if "" in self.vocab:
            raise ValueError("a token is empty")
        if not {*self.start} <= {*ids}:
            raise ValueError(f"a text begins with ids {self.start}, which are not all tokens")
        symbols = set(map("".join, self.merges)).union(*self.merges)
        if missing := symbols - self.vocab.keys():
            raise ValueError(f"{len(missing)} symbols have no id, such as {min(missing)!r}")

    # How the vocabulary spells a word: a character for each of its bytes.

    def _spell(self, word):
        return word.encode("utf-8").decode("latin-1").translate(BYTE_TO_CHAR)

    def _unspell(self, token):
        return token.translate(CHAR_TO_BYTE).encode("latin-1")

    def _alphabet(self, vocab):
        """{character of a spelling: id, or None for a byte without a token, which is left out}"""
        spelled = "".join(vocab.keys() - {self._tokens[id] for id in self._verbatim})
        if unknown := {*map(ord, {*spelled})} - CHAR_TO_BYTE.keys():
            raise ValueError(f"{chr(min(unknown))!r} in a token represents no byte")
        return {char: vocab.get(chr(char)) for char in CHAR_TO_BYTE}

    def _encode_text(self, text, first):
        ids = []
        for word in self.words(text, first):
            ids += self._cache.get(word) or self._encode_word(word)
        return ids

    def _encode_word(self, word):
        spelling = self._spell(word)
        if spelling in self._whole:
            return [self._whole[spelling]]
        ids = [ord(symbol) for symbol in self._merge(spelling.translate(self._first))]
        if len(word) <= MAX_CACHED_LENGTH:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _merge(self, word):
        """Find the best-ranked pair of the word, merge it wherever it occurs, repeat. str -> str"""
        ranks = self._ranks
        pairs = ranks.keys() & map(add, word, word[1:])  # all that the word has, and perhaps more
        while pairs:
            best = min(pairs, key=ranks.__getitem__)
            parts, merged = word.split(best), chr(self.vocab["".join(self.merges[ranks[best]])])
            word = merged.join(parts)
            before = {(part or merged)[-1] + merged for part in parts[:-1]}
            after = {merged + (part or merged)[0] for part in parts[1:]}
            pairs = ranks.keys() & (pairs - {best} | before | after)
        return word


def split(text: str, added: Sequence[Added]) -> list[str | int]:
    """The text around the added tokens in it, which may be "", and their ids in turn; where several
    match, the longest."""
    # A lone surrogate has no UTF-8 form. It becomes U+FFFD by way of UTF-16, which also turns a
    # pair of surrogates into their character.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for token in added:
        if token.lstrip or token.rstrip:  # white space that a token takes has no ids
            parts = text.split(token.text)
            parts[:-1] = [p.rstrip(WHITE) if token.lstrip else p for p in parts[:-1]]
            parts[1:] = [p.lstrip(WHITE) if token.rstrip else p for p in parts[1:]]
            text = token.text.join(parts)
    ids = {token.text: token.id for token in added}
    longest_first = sorted(ids, key=len, reverse=True)
    any_token = "|".join(map(regex.escape, longest_first)) or "(?!)"  # (?!) never matches
    parts = regex.split(f"({any_token})", text)
    return [ids[part] if i % 2 else part for i, part in enumerate(parts)]


class Stream:
    """Decodes ids one by one; the returned pieces concatenate to decode(all ids)."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, id: int) -> str:
        """The text that is certain after this id: a character appears with its last byte."""
        return self._utf8.decode(self._tokenizer.token_bytes(id))

    def finish(self) -> str:
        """The rest: "", or U+FFFD for a character that was never completed."""
        return self._utf8.decode(b"", final=True)
