"""A token by itself, as text that can be told from its neighbours."""

import re
from typing import Any


def label(tokenizer: Any, id: int) -> str:
    """Return the text of a token; bytes of an incomplete character appear as <E4>."""
    text = tokenizer.token_bytes(id).decode("utf-8", "surrogateescape")
    text = re.sub("[\udc80-\udcff]", lambda found: f"<{ord(found[0]) - 0xDC00:02X}>", text)
    return text or tokenizer.tokens[id]
