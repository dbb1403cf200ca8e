"""Text <-> token ids: GPT-2's byte-level byte-pair encoding (BPE).

Text is cut into words, the UTF-8 bytes of a word are its first symbols, and pairs of symbols are
merged, those first that were most frequent when the vocabulary was trained, until no pair is left
that the merges file lists. Every byte is a token, so any text can be encoded.

Sources: Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), algorithm 1; Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2.
"""

import codecs
import heapq
import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path

import regex  # unlike re it knows \p{L} (a letter) and \p{N} (a number) of every script

FILES = ("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")  # OpenAI, Hugging Face
WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
MAX_CACHED_WORDS, MAX_CACHED_LENGTH = 2**16, 64  # holds the cache to some tens of megabytes
MARKS = "<s>", "<pad>", "</s>"  # special tokens around a text, never part of it


def bytes_to_unicode() -> dict[int, str]:
    """What stands for each byte in the files: its character if printable, or 256, 257, ..."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {byte: chr(byte if byte in printable else next(others)) for byte in range(256)}


# Tables for str.translate; in latin-1, character number b is byte b.
BYTE_TO_CHAR = bytes_to_unicode()
CHAR_TO_BYTE = {ord(char): byte for byte, char in BYTE_TO_CHAR.items()}


class Encoder:
    """Byte-level BPE over `vocab` {token: id} and `merges` [(left, right), ...], best first.

    n_vocab: the number of tokens; their ids are 0 to n_vocab - 1. special: {text: id} of the tokens
    that no byte and no merge makes, such as <|endoftext|> or BART's <s>. end_of_text: the id of
    <|endoftext|>, or None. Raises ValueError when vocab and merges do not belong together.
    """

    def __init__(self, vocab: dict[str, int], merges: list[tuple[str, str]]):
        self.vocab, self.merges, self.n_vocab = vocab, merges, len(vocab)
        made = {*BYTE_TO_CHAR.values(), *(left + right for left, right in merges)}
        self._check(made)
        self.special = {token: id for token, id in vocab.items() if token not in made}
        self.end_of_text = self.special.get("<|endoftext|>")
        self._tokens = {id: token for token, id in vocab.items()}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._cache: dict[str, list[int]] = {}  # word -> ids

    @classmethod
    def from_folder(cls, folder: str | PathLike) -> "Encoder":
        """Read encoder.json and vocab.bpe, or the same files named vocab.json and merges.txt; and
        added_tokens.json, if it is there.

        Raises FileNotFoundError without a full pair, ValueError when a file is cut or altered.
        """
        for vocab_name, merges_name in FILES:
            vocab_path, merges_path = Path(folder, vocab_name), Path(folder, merges_name)
            if vocab_path.is_file() and merges_path.is_file():
                try:
                    vocab = read_vocab(vocab_path) | read_added_tokens(folder)
                    return cls(vocab, _read_merges(merges_path))
                except (ValueError, RecursionError) as error:  # of UTF-8, of JSON, or our own
                    files = f"{vocab_path} or {merges_name}"
                    raise ValueError(f"{files} is damaged, get both again: {error}") from None
        wanted = ", or ".join(" and ".join(names) for names in FILES)
        raise FileNotFoundError(f"no tokenizer in {folder}: it needs {wanted}")

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
        # A special token is written as it is: one with a byte's stand-in should come from a merge.
        wanted = {token for token in self.vocab if BYTE_TO_CHAR[ord(" ")] in token}
        if unmade := wanted.union(*self.merges) - made:
            raise ValueError(f"{len(unmade)} symbols come from no merge, such as {min(unmade)!r}")

    def _encode_text(self, text):
        ids = []
        for word in WORDS.findall(text):
            ids += self._cache.get(word) or self._encode_word(word)
        return ids

    def _encode_word(self, word):
        symbols = self._merge(word.encode("utf-8").decode("latin-1").translate(BYTE_TO_CHAR))
        ids = [self.vocab[symbol] for symbol in symbols]
        if len(word) <= MAX_CACHED_LENGTH:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _merge(self, word):
        """One character a byte -> list of symbols, after all merges, those of best rank first.

        Where a pair stands is filed once, under the pair's rank, and a heap knows the best rank:
        n log n for n bytes, where a new search of the word for every merge takes n^2.
        """
        # symbols[i] is the symbol that begins or ends at i, None inside one: so the next symbol
        # begins at i + len(symbols[i]), and the one before is symbols[i - 1]. The "" at the end is
        # also symbols[-1], and is in no pair: nothing merges across either end of the word.
        symbols = [*word, ""]
        places, best = {}, []  # rank -> where its pairs begin; the heap of these ranks

        def file(left, right, place):  # under the rank of the pair, where there is such a merge
            rank = self._ranks.get((left, right))
            if rank in places:
                places[rank].append(place)
            elif rank is not None:
                places[rank] = [place]
                heapq.heappush(best, rank)

        for i in range(len(word)):
            file(symbols[i], symbols[i + 1], i)
        while best:
            rank = heapq.heappop(best)
            left, right = self.merges[rank]
            merged = left + right
            for i in places.pop(rank):  # from the left, as they were filed
                middle, end = i + len(left), i + len(merged)
                if symbols[i] != left or symbols[middle] != right:
                    continue  # another merge came first and took one of the two
                symbols[middle - 1] = symbols[middle] = None
                symbols[i] = symbols[end - 1] = merged
                file(symbols[i - 1], merged, i - len(symbols[i - 1]))
                file(merged, symbols[end], i)
        return _in_order(symbols)


def encode_around(
    special: Mapping[str, int], text: str, encode: Callable[[str], list[int]]
) -> list[int]:
    """The ids of a text: those of `special` {text: id}, the longest where several match, and
    encode(part) -> ids for what stands between them."""
    # A lone surrogate is no character and has no UTF-8 form. It becomes U+FFFD by way of UTF-16,
    # which also turns a pair of surrogates into the character they stand for.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    longest_first = sorted(special, key=len, reverse=True)
    any_special = "|".join(map(regex.escape, longest_first)) or "(?!)"  # (?!) never matches
    ids = []
    for part in regex.split(f"({any_special})", text):
        ids += [special[part]] if part in special else encode(part)
    return ids


class Stream:
    """Decodes ids one by one: all that it returns, joined, is what decode returns for them all."""

    def __init__(self, encoder: Encoder):
        self._encoder = encoder
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, id: int) -> str:
        """The text that is certain after this id: a character appears with its last byte."""
        return self._utf8.decode(self._encoder.token_bytes(id))

    def finish(self) -> str:
        """What is left: "", or U+FFFD for a character that was never completed."""
        return self._utf8.decode(b"", final=True)


def _in_order(symbols):
    """From symbol to symbol by their lengths, up to the "" at the end."""
    i, found = 0, []
    while symbols[i]:
        found.append(symbols[i])
        i += len(symbols[i])
    return found


def read_added_tokens(folder: str | PathLike) -> dict[str, int]:
    """added_tokens.json: {token: id} of what came to a vocabulary after its training, or {} where
    the file is missing. Raises ValueError."""
    path = Path(folder, "added_tokens.json")
    return read_vocab(path) if path.is_file() else {}


def read_vocab(path: Path) -> dict[str, int]:
    """A JSON object {token: id} -> dict. Raises ValueError."""
    vocab = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(vocab, dict) or not all(type(id) is int for id in vocab.values()):
        raise ValueError("the JSON is not an object of tokens and their ids")
    return vocab


def _read_merges(path):
    """Lines "left right", best first; the first line may be the format's version."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    merges = [tuple(line.split(" ")) for line in lines[lines[0].startswith("#version") :]]
    if wrong := [pair for pair in merges if len(pair) != 2]:
        raise ValueError(f"{' '.join(wrong[0])!r} is not a pair of symbols")
    return merges
