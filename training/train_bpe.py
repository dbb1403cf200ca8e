"""Train a byte-level BPE, and save it in GPT-2's format: vocab.json and merges.txt."""

import json
from collections import Counter

import encoder
from training.corpus import SEPARATOR


def count_words(documents):
    return Counter(word for document in documents for word in encoder.gpt2_words(document))


def learn_tokens(words, n_merges):
    """Return (vocab, merges); words: how often each word occurs. The separator comes last."""
    vocab, merges = encoder.learn_tokens(words, n_merges)
    return vocab | {SEPARATOR: len(vocab)}, merges


def save_tokens(folder, vocab, merges):
    """Write vocab.json and merges.txt to the folder."""
    text = json.dumps(vocab, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
