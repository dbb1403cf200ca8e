"""Tokens as text: the label of a single token, and the piece that each token adds to a text."""

import re


def label(tokenizer, id: int) -> str:
    """Return the text of a token; bytes of an incomplete character appear as <E4>."""
    text = tokenizer.token_bytes(id).decode("utf-8", "surrogateescape")
    text = re.sub("[\udc80-\udcff]", lambda found: f"<{ord(found[0]) - 0xDC00:02X}>", text)
    return text or tokenizer.tokens[id]


def pieces(tokenizer, ids: list[int]) -> list[str]:
    """Return the text that each token adds: a character appears with its last byte."""
    return [*map(tokenizer.stream().feed, ids)]
