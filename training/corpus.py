"""Split text files into documents. Drop documents that overlap with the held-out text."""

import itertools
import re
import sys

from loading.errors import UserError, utf8

SEPARATOR = "<|endoftext|>"


def read_documents(paths, opening=None):
    """Return the documents in text files, as a list of str. A file is split at each SEPARATOR.

    opening: a regular expression or None. A file without SEPARATOR is split before each line that
    begins with a match. If opening is None, the whole file is one document. If a file cannot be
    read, the program ends with one line that says why."""
    documents = []
    try:
        begin = re.compile(opening or "", re.MULTILINE)
    except re.error as error:
        sys.exit(f"--opening {opening}: {error}")
    for path in paths:
        try:
            with utf8(path), open(path, encoding="utf-8-sig") as file:  # without a byte order mark
                text = file.read()
        except (UserError, OSError) as error:
            sys.exit(str(error))
        if SEPARATOR in text or not opening:
            parts = text.split(SEPARATOR)
        else:
            lines = [line.start() for line in re.finditer("^", text, re.MULTILINE)]
            cuts = [0, *(i for i in lines if begin.match(text, i)), len(text)]
            parts = [text[i:j] for i, j in itertools.pairwise(cuts)]
        documents += [part.strip() for part in parts if part.strip()]
    return documents


def without_overlap(documents, held_out):
    """Return the documents that are not in the held-out text, without repetitions. (A model must
    not be trained on the text that it is tested on.) A document counts as held out if its first
    120 characters, or 80 characters from its middle, occur in the held-out text; a shorter one, if
    it is a whole held-out document. Case and punctuation are ignored."""
    whole = [_words(document) for document in held_out]
    seen, text, remaining = set(whole), " ".join(whole), []
    for document in documents:
        words = _words(document)
        parts = [words[:120], words[len(words) // 2 :][:80]] if len(words) >= 120 else []
        if words not in seen and not any(part in text for part in parts):
            remaining.append(document)
        seen.add(words)
    return remaining


def _words(text):
    return re.sub(r"\W+", " ", text).lower().strip()
