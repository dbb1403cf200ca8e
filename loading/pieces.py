"""SentencePiece's BPE, as Llama 2, Mistral and Gemma have it: symbols are characters, not bytes.

A space is written as U+2581 (▁), and many models put one before a text. A character that is not a
piece is written as its UTF-8 bytes, each of them a piece called <0xE2>: "byte fallback". Kudo &
Richardson 2018, https://arxiv.org/abs/1808.06226.
"""

from typing import Any

import encoder

SPACE = "\u2581"
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}


class PieceTokenizer(encoder.Tokenizer):
    """The same over characters with byte fallback; `vocab` has all 256 bytes. strips: decode leaves
    out the space that encode puts before a text, after `start`."""

    def __init__(self, vocab: dict[str, int], merges: list, strips: bool, **settings: Any):
        super().__init__(vocab, merges, **settings)
        self.strips, self.byte_ids = strips, {vocab[piece] for piece in BYTES}

    def stream(self) -> "PieceStream":
        """A new PieceStream, which decodes ids as they come."""
        return PieceStream(self)

    def _spell(self, word):
        return word

    def _unspell(self, token):
        return BYTES.get(token) or token.replace(SPACE, " ").encode("utf-8")

    def _alphabet(self, vocab):
        if missing := BYTES.keys() - vocab.keys():
            raise ValueError(f"{len(missing)} byte pieces have no id, such as {min(missing)}")
        return Alphabet(vocab)


class Alphabet(dict):
    """A character -> its symbol, or the symbols of its bytes. For str.translate."""

    def __init__(self, vocab):
        super().__init__({ord(piece): id for piece, id in vocab.items() if len(piece) == 1})
        self.bytes = [vocab[piece] for piece in BYTES]

    def __missing__(self, code):
        return "".join(chr(self.bytes[byte]) for byte in chr(code).encode("utf-8"))


class PieceStream(encoder.Stream):
    """The same for pieces. Byte pieces in a row are text if together they are UTF-8; if not, each
    is U+FFFD, as the library has it."""

    _tokenizer: PieceTokenizer

    def __init__(self, tokenizer: PieceTokenizer):
        self._tokenizer, self._bytes = tokenizer, b""
        self._strips: bool | None = (
            None  # does the text that comes next begin with a space too many?
        )

    def feed(self, id: int) -> str:
        """The text that is certain after this id: bytes become text with the piece after them."""
        data = self._tokenizer.token_bytes(id)
        if self._strips is None:
            self._strips = self._tokenizer.strips and id in self._tokenizer.start
        if id in self._tokenizer.byte_ids or not data:  # none: a mark
            self._bytes += data
            return ""
        return self._show(self._run() + data.decode("utf-8"))

    def finish(self) -> str:
        """The rest: the last bytes."""
        return self._show(self._run())

    def _run(self):
        data, self._bytes = self._bytes, b""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "\ufffd" * len(data)

    def _show(self, text):
        strips, self._strips = self._strips, False
        return text.removeprefix(" ") if strips else text


class LibraryTokenizer(PieceTokenizer):
    """The same, with words and merges by the library `sentencepiece` (tokenizer.model)."""

    def __init__(self, processor: Any, vocab: dict[str, int], **settings: Any):
        first = processor.id_to_piece(processor.encode("a")[0])
        super().__init__(vocab, [], first.startswith(SPACE), **settings)
        self.processor = processor

    def _encode_text(self, text, first):
        return self.processor.encode(text)
