"""Put files, texts and numbers into a page."""

import base64
import re
import zlib
from pathlib import Path


def included(name):  # return a file's text, with the text of FILE in place of <!-- FILE -->
    text = (Path(__file__).parent / "browser" / name).read_text("utf-8")
    return re.sub(r"<!-- (\S+\.\w+) -->", lambda found: included(found[1]), text)


def label(tokenizer, id: int) -> str:
    """Return a token's text. A byte of an incomplete character appears in hexadecimal: <E4>."""
    text = tokenizer.token_bytes(id).decode("utf-8", "surrogateescape")
    text = re.sub("[\udc80-\udcff]", lambda found: f"<{ord(found[0]) - 0xDC00:02X}>", text)
    return text or tokenizer.tokens[id]


def packed(array):  # -> ["Int16Array" or another JavaScript type, compressed data in base64]
    if array.dtype.itemsize == 8:  # 4 bytes are enough, and JavaScript has no Int64Array
        array = array.astype(array.dtype.kind + "4")
    data = zlib.compress(array.tobytes(), 9)
    return [array.dtype.name.capitalize() + "Array", base64.b64encode(data).decode()]
