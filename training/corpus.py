"""Split text files into documents, and drop those that overlap with the held-out text."""

import re

SEPARATOR = "<|endoftext|>"


def read_documents(paths, opening=None):
    """Return the documents of text files, a list of str. Each file is split at SEPARATOR.

    opening: a regular expression. A file without SEPARATOR is split before each line whose
    beginning matches it. If opening is None, a file without SEPARATOR is one document."""
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if SEPARATOR in text or not opening:
            parts = text.split(SEPARATOR)
        else:
            parts = re.split(rf"\n+(?={opening})", text)
        documents += [part.strip() for part in parts if part.strip()]
    return documents


def _words(text):
    return re.sub(r"\W+", " ", text).lower().strip()


def without_overlap(documents, held_out):
    """Return the documents that are neither in the held-out text nor repeated. (A model must not
    have seen the text that it is tested on.) A document is in the held-out text if its first 120
    characters or 80 characters from its middle occur there, regardless of case and punctuation."""
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
