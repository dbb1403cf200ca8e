"""Split text files into documents. Drop documents that overlap with the held-out text."""

import itertools
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loading.errors import utf8  # noqa: E402 (the project's own modules are one folder up)

SEPARATOR = "<|endoftext|>"


def read_documents(paths, opening=None):
    """Return the documents in text files, as a list of str. A file is split at each SEPARATOR.

    opening: a regular expression or None. A file without SEPARATOR is split before each line that
    begins with a match. If opening is None, the whole file is one document."""
    try:
        begin = re.compile(opening or "", re.MULTILINE)
    except re.error as error:
        sys.exit(f"--opening {opening}: {error}")
    documents = []
    for path in paths:
        with utf8(path), open(path, encoding="utf-8-sig") as file:
            text = file.read()
        if SEPARATOR in text or not opening:
            parts = text.split(SEPARATOR)
        else:
            lines = [line.start() for line in re.finditer("^", text, re.MULTILINE)]
            cuts = [0, *(i for i in lines if begin.match(text, i)), len(text)]
            parts = [text[i:j] for i, j in itertools.pairwise(cuts)]
        documents += [part.strip() for part in parts if part.strip()]
    return documents


def _words(text):
    return re.sub(r"\W+", " ", text).lower().strip()


def without_overlap(documents, held_out):
    """Return the documents that are not in the held-out text, without repetitions. (A model must
    not be trained on the text that it is tested on.) A document counts as held out if its first
    120 characters, or 80 characters from its middle, occur in the held-out text. Case and
    punctuation are ignored."""
    held_out = _words(" ".join(held_out))
    seen, remaining = set(), []
    for document in documents:
        words = _words(document)
        middle = words[len(words) // 2 :][:80]
        if words in seen or words[:120] in held_out or middle in held_out:
            continue
        seen.add(words)
        remaining.append(document)
    return remaining
