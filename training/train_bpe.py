"""Train a byte-level BPE on text files.

    python -m training.train_bpe models/stories --merges 3072 corpus/*.txt

This writes vocab.json and merges.txt to models/stories, in GPT-2's format.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from encoder import BYTE_TO_CHAR, gpt2_words, learn
from training.corpus import SEPARATOR, read_documents


def learn_tokens(words, n_merges):
    """Return (vocab, merges); words: how often each word occurs. The vocabulary has the 256 bytes,
    then a token for each merge, and finally the separator. There are at most n_merges merges."""
    spelled = {
        "".join(BYTE_TO_CHAR[byte] for byte in word.encode()): n for word, n in words.items()
    }
    merges = learn(spelled, n_merges)
    tokens = [*sorted(BYTE_TO_CHAR.values()), *map("".join, merges), SEPARATOR]
    return {token: id for id, token in enumerate(dict.fromkeys(tokens))}, merges


def save_tokens(folder, vocab, merges):
    """Write vocab.json and merges.txt to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(vocab, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where vocab.json and merges.txt go")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--merges", type=int, default=3072)
    parser.add_argument("--opening", help="regular expression that begins a document")
    args = parser.parse_args()
    documents = read_documents(args.files, args.opening)
    words = Counter(word for document in documents for word in gpt2_words(document))
    vocab, merges = learn_tokens(words, args.merges)
    save_tokens(args.folder, vocab, merges)
    print(f"{len(vocab)} tokens in {args.folder}")
