"""Reads a tokenizer: GPT-2's two files, or tokenizer.json with the library `tokenizers`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import encoder
from loading.config import read_json
from loading.errors import UserError

BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")  # a token for one byte of a rare character
MARKS = re.compile("<s>|<pad>|</s>|[a-z]{2}_[A-Z]{2}")  # tokens around a text; en_XX is English


def read_tokenizer(folder: Path, model_type: str) -> Any:
    """Return the tokenizer of a model of this type. Its `encode` adds BOS if tokenizer.json
    says so, but no other marks. Raises UserError if files are missing or damaged."""
    if (path := folder / "tokenizer.json").is_file():
        import tokenizers  # only here, because GPT-2's two files do not need it

        try:
            library = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library has no narrower class of errors
            raise UserError(f"{path} is damaged: {error!s:.300}; fetch or save it again") from None
        return LibraryTokenizer(library, bos=model_type not in ("t5", "bart", "mbart"))
    settings = read_json(folder / "tokenizer_config.json", optional=True)
    # Other tokenizers also have vocab.json and merges.txt, but cut texts in a different way.
    if model_type == "gpt2" or settings.get("tokenizer_class") == "GPT2Tokenizer":
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            return read_gpt2_tokenizer(folder)
    way = "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
    raise UserError(f"{folder} has no tokenizer.json; transformers writes it: {way}")


def read_gpt2_tokenizer(folder: Path) -> encoder.Tokenizer:
    """Return a tokenizer from vocab.json, merges.txt and, if it exists, added_tokens.json."""
    vocab = read_json(folder / "vocab.json")
    vocab |= read_json(folder / "added_tokens.json", optional=True)
    lines = (folder / "merges.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    merges: list = [(*line.split(" "),) for line in lines[lines[0].startswith("#version") :]]
    if wrong := [pair for pair in merges if len(pair) != 2]:
        raise ValueError(f"merges.txt is damaged: {wrong[0]!r} is not a pair of symbols")
    tokenizer = encoder.Tokenizer(vocab, merges)
    if unmade := [token for token in tokenizer.special if encoder.BYTE_TO_CHAR[ord(" ")] in token]:
        raise ValueError(f"merges.txt is damaged: no merge makes {unmade[0]!r}")
    return tokenizer


class LibraryTokenizer:
    """The interface of encoder.Tokenizer for the library `tokenizers`. tokens: id -> token, as in
    the file; start: the ids before each text, such as BOS. `start` and MARKS decode to no text."""

    def __init__(self, library: Any, bos: bool):
        library.no_truncation()
        library.no_padding()
        self.library, vocab = library, library.get_vocab()
        self.tokens, self.n_vocab = sorted(vocab, key=vocab.__getitem__), len(vocab)
        if max(vocab.values()) >= self.n_vocab:
            raise ValueError(f"the {self.n_vocab} ids are not 0 to {self.n_vocab - 1}")
        self._added = library.get_added_tokens_decoder()
        self.special = {token.content: id for id, token in self._added.items() if token.special}
        self.end_of_text = self.special.get("<|endoftext|>")
        [first, *_] = library.encode("a", add_special_tokens=False).ids
        marked = library.encode("a").ids  # BOS, "a" and perhaps </s>, which would end the text
        self.start = marked[: marked.index(first)] if bos else []
        marks = [id for text, id in self.special.items() if MARKS.fullmatch(text)]
        self.silent = {*marks, *self.start}
        self._spelled_by_bytes = type(library.decoder).__name__ == "ByteLevel"

    def encode(self, text: str, special: bool = False, first: bool = True) -> list[int]:
        """Return a text's ids. Special tokens in it count as plain text unless `special`; T5's
        and mBART's are always special. first=False omits `start`, to continue a text."""
        self.library.encode_special_tokens = not special
        ids = self.library.encode(encoder.as_unicode(text), add_special_tokens=False).ids
        return [*self.start, *ids] if first else ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the ids' text. If `start` comes first, it is a whole text, which loses the space
        that `encode` added. Otherwise it is a continuation. Raises ValueError for an unknown id."""
        ids = list(ids)
        texts = [id for id in ids if self._token(id) and id not in self.silent]
        if not self.start or ids[:1] == self.start[:1]:
            return self.library.decode(texts, skip_special_tokens=False)
        whole = self.library.decode([*self.start[:1], *texts], skip_special_tokens=False)
        return whole.removeprefix(self.tokens[self.start[0]])

    def stream(self) -> "Stream":
        """Return a new Stream, which decodes ids one by one."""
        return Stream(self)

    def token_bytes(self, id: int) -> bytes:
        """Return a token's bytes, which may be a part of a character. A mark has no bytes."""
        token = self._token(id)
        if id in self.silent:
            return b""
        if self._spelled_by_bytes and id not in self._added:
            return bytes(encoder.CHAR_TO_BYTE[char] for char in token)
        byte = BYTE_PIECE.fullmatch(token)  # in other tokens, U+2581 is a space
        return bytes.fromhex(byte[1]) if byte else token.replace("\u2581", " ").encode()

    def _token(self, id):
        if not 0 <= id < self.n_vocab:
            raise ValueError(f"no token {id} in a vocabulary of {self.n_vocab} tokens")
        return self.tokens[id]


class Stream:
    """Decodes ids one by one. The returned texts, joined, equal decode(all ids). Each token is
    decoded together with the token before it, which settles the space between them. Tokens of one
    byte wait for a token of a different kind, because only then are their characters certain."""

    def __init__(self, tokenizer: LibraryTokenizer):
        self._tokenizer, self._ids, self._shown = tokenizer, list[int](), ""

    def feed(self, id: int) -> str:
        """Return the text that this id makes certain, which is "" in the middle of a character."""
        self._ids.append(id)
        whole, is_byte = self.finish(), BYTE_PIECE.fullmatch(self._tokenizer.tokens[id])
        if is_byte or id in self._tokenizer.silent or whole.endswith("\ufffd"):
            return ""
        self._ids, self._shown = [id], self._tokenizer.decode([id])
        return whole

    def finish(self) -> str:
        """Return the text that is left. A character that was never completed becomes U+FFFD."""
        return self._tokenizer.decode(self._ids).removeprefix(self._shown)
