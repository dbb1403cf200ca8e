"""Text <-> token ids: GPT-2's byte-level byte-pair encoding (BPE).

Text is cut into words, the UTF-8 bytes of a word are its first symbols, and pairs of symbols are
merged, those first that were most frequent when the vocabulary was trained, until no pair is left
that the merges file lists. Every byte is a token, so any text can be encoded.

Sources: Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2.
"""

import codecs
from collections.abc import Callable, Iterable, Mapping
from operator import add

import regex  # unlike re it knows \p{L} (a letter) and \p{N} (a number) of every script

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's
MAX_CACHED_WORDS, MAX_CACHED_LENGTH = 2**16, 64  # limits the cache to some tens of megabytes
MARKS = "<s>", "<pad>", "</s>"  # special tokens around a text, never part of it


def bytes_to_unicode() -> dict[int, str]:
    """The character that represents each byte in the files: itself if printable, else chr(256),
    chr(257), ..."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


BYTE_TO_CHAR = bytes_to_unicode()  # for str.translate: latin-1 decodes byte b to chr(b)
CHAR_TO_BYTE = {ord(char): byte for byte, char in BYTE_TO_CHAR.items()}


class Tokenizer:
    """Byte-level BPE over `vocab` {token: id} and `merges` [(left, right), ...], best first.

    pattern: the regular expression of a word; every text must be a sequence of matches. n_vocab:
    the number of tokens; their ids are 0 to n_vocab - 1. special: {text: id} of the tokens that no
    byte and no merge makes, such as <|endoftext|> or BART's <s>. end_of_text: the id of
    <|endoftext|>, or None. Raises ValueError when vocab and merges do not belong together.
    """

    def __init__(
        self, vocab: dict[str, int], merges: list[tuple[str, str]], pattern: str = PATTERN
    ):
        self.vocab, self.merges, self.n_vocab = vocab, merges, len(vocab)
        made = {*BYTE_TO_CHAR.values(), *(left + right for left, right in merges)}
        self._check(made)
        self.special = {token: id for token, id in vocab.items() if token not in made}
        self.end_of_text = self.special.get("<|endoftext|>")
        self._tokens = {id: token for token, id in vocab.items()}
        # A word is merged as a str of one character per symbol, chr(its id).
        self._byte_ids = {byte: vocab[char] for byte, char in BYTE_TO_CHAR.items()}
        self._merges = {  # pair -> rank, the symbol that it becomes
            chr(vocab[left]) + chr(vocab[right]): (rank, chr(vocab[left + right]))
            for rank, (left, right) in enumerate(merges)
        }
        self._words = regex.compile(pattern)
        self._cache: dict[str, list[int]] = {}  # word -> ids

    def encode(self, text: str, special: bool = False) -> list[int]:
        """str -> list of ids. The text of a special token is plain text, unless `special`."""
        if special and "<mask>" in self.special:  # it replaces a word and the space before it
            *parts, last = text.split("<mask>")
            text = "<mask>".join([*map(str.rstrip, parts), last])
        return encode_around(self.special if special else {}, text, self._encode_text)

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> str; bytes that are not UTF-8 become U+FFFD, and MARKS become nothing. ValueError
        for an unknown id."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def stream(self) -> "Stream":
        """A new Stream, which decodes ids as they come."""
        return Stream(self)

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token, often not UTF-8 by themselves; none for MARKS. ValueError for an
        unknown id."""
        token = self._tokens.get(id)
        if token is None:
            raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        if token in self.special:
            return b"" if token in MARKS else token.encode("utf-8")
        return token.translate(CHAR_TO_BYTE).encode("latin-1")

    def _check(self, made):
        """ValueError where vocab and merges do not belong together. made: the symbols that are
        bytes or come from a merge."""
        "".join(self.vocab).encode("utf-8")  # a lone surrogate, which JSON may hold, is an error
        if sorted(self.vocab.values()) != list(range(self.n_vocab)):
            raise ValueError(f"the {self.n_vocab} ids are not 0 to {self.n_vocab - 1}")
        if "" in self.vocab:
            raise ValueError("a token is empty")
        if missing := made - self.vocab.keys():
            raise ValueError(f"{len(missing)} symbols have no id, such as {min(missing)!r}")
        # Special tokens are stored verbatim: a token with a byte's character comes from a merge.
        wanted = {token for token in self.vocab if BYTE_TO_CHAR[ord(" ")] in token}
        if unmade := wanted.union(*self.merges) - made:
            raise ValueError(f"{len(unmade)} symbols come from no merge, such as {min(unmade)!r}")

    def _encode_text(self, text):
        ids = []
        for word in self._words.findall(text):
            ids += self._cache.get(word) or self._encode_word(word)
        return ids

    def _encode_word(self, word):
        symbols = word.encode("utf-8").decode("latin-1").translate(self._byte_ids)
        ids = [ord(symbol) for symbol in self._merge(symbols)]
        if len(word) <= MAX_CACHED_LENGTH:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _merge(self, word):
        """Find the best-ranked pair of the word, merge it wherever it occurs, repeat. str -> str"""
        merges = self._merges
        pairs = merges.keys() & map(add, word, word[1:])  # all that the word has, and perhaps more
        while pairs:
            best = min(pairs, key=merges.__getitem__)
            parts, merged = word.split(best), merges[best][1]
            word = merged.join(parts)
            before = {(part or merged)[-1] + merged for part in parts[:-1]}
            after = {merged + (part or merged)[0] for part in parts[1:]}
            pairs = merges.keys() & (pairs - {best} | before | after)
        return word


def encode_around(
    special: Mapping[str, int], text: str, encode: Callable[[str], list[int]]
) -> list[int]:
    """The ids of a text: those of `special` {text: id}, the longest where several match, and
    encode(part) -> ids for the text between them."""
    # A lone surrogate has no UTF-8 form. It becomes U+FFFD by way of UTF-16, which also turns a
    # pair of surrogates into their character.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    longest_first = sorted(special, key=len, reverse=True)
    any_special = "|".join(map(regex.escape, longest_first)) or "(?!)"  # (?!) never matches
    ids = []
    for part in regex.split(f"({any_special})", text):
        ids += [special[part]] if part in special else encode(part)
    return ids


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
