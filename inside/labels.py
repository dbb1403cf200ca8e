"""Tokens as text: each by itself, and what each adds to a text."""

import re


def label(tokenizer, id: int) -> str:
    """Return the text of a token; bytes of an incomplete character appear as <E4>."""
    text = tokenizer.token_bytes(id).decode("utf-8", "surrogateescape")
    text = re.sub("[\udc80-\udcff]", lambda found: f"<{ord(found[0]) - 0xDC00:02X}>", text)
    return text or tokenizer.tokens[id]


def pieces(tokenizer, ids: list[int]) -> list[str]:
    """Return the text that each token adds: a character comes with its last byte."""
    return [*map(tokenizer.stream().feed, ids)]
