"""Train a byte-level BPE, and save it in GPT-2's format: vocab.json and merges.txt."""

import json
from collections import Counter

from encoder import BYTE_TO_CHAR, gpt2_words, learn
from training.corpus import SEPARATOR


def count_words(documents):
    return Counter(word for document in documents for word in gpt2_words(document))


def learn_tokens(words, n_merges):
    """Return (vocab, merges); words: how often each word occurs. The vocabulary has the 256 bytes,
    then a token for each merge, and finally the separator. There are at most n_merges merges."""
    spelled = {"".join(map(BYTE_TO_CHAR.get, word.encode())): n for word, n in words.items()}
    merges = learn(spelled, n_merges)
    tokens = [*sorted(BYTE_TO_CHAR.values()), *map("".join, merges), SEPARATOR]
    return {token: id for id, token in enumerate(dict.fromkeys(tokens))}, merges


def save_tokens(folder, vocab, merges):
    """Write vocab.json and merges.txt to the folder."""
    text = json.dumps(vocab, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
