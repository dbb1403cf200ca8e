"""Byte-pair encoding (BPE): how text becomes the ids that a model reads, and text again.

A text is a sequence of bytes, so 256 tokens are enough to spell it. To make texts shorter, the most
frequent pair of neighbours becomes a new token, again and again. Sennrich et al. 2016, "Neural
Machine Translation of Rare Words with Subword Units"; with bytes, Radford et al. 2019. Full file:
encoder.py. Next: drafts.py.
"""

from collections import Counter
from pathlib import Path

import regex

# GPT-2 cuts a text into words before it merges: "a dragon!" into "a", " dragon" and "!"
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def learn(text, n_merges):  # yields for each new token its id, its two parts, how often they meet
    counts = Counter(WORD.findall(text))  # {word: how often it occurs}
    words = {word: list(word.encode()) for word in counts}  # {word: its ids}, at first its bytes
    for new_id in range(256, 256 + n_merges):  # a new token gets the next free id
        pairs = Counter()
        for word, ids in words.items():
            for pair in zip(ids, ids[1:]):  # neighbours inside a word: no token spans two words
                pairs[pair] += counts[word]
        best = max(pairs, key=pairs.get)
        words = {word: merge(ids, best, new_id) for word, ids in words.items()}
        yield new_id, best, pairs[best]


def merge(ids, pair, new_id):  # [1, 2, 3, 1, 2], (1, 2), 256 -> [256, 3, 256]
    merged = []
    for id in ids:
        merged.append(id)
        if tuple(merged[-2:]) == pair:  # the last two are the pair: the new token replaces them
            merged[-2:] = [new_id]
    return merged


def encode(text, merges):  # {pair: new id} -> ids. Merge in the order learnt
    words = [list(word.encode()) for word in WORD.findall(text)]
    for pair, new_id in merges.items():
        words = [merge(ids, pair, new_id) for ids in words]
    return [id for ids in words for id in ids]


def decode(ids, vocab):  # {id: its bytes} -> text. Bytes that form no character become U+FFFD
    return b"".join(vocab[id] for id in ids).decode(errors="replace")


if __name__ == "__main__":  # To try: n_merges=20. The sentence has 32 tokens, not 19.
    from pico import given

    sentence = given("Once upon a time, a dragon sang. 🐉")
    text = (Path(__file__).parents[1] / "notebooks/text/train.txt").read_text("utf-8")
    merges, vocab = {}, {byte: bytes([byte]) for byte in range(256)}
    for new_id, (left, right), count in learn(text[:200_000], n_merges=200):
        merges[left, right] = new_id
        vocab[new_id] = vocab[left] + vocab[right]
        if new_id < 271:
            print(f"{new_id} {vocab[new_id]} = {vocab[left]} + {vocab[right]}: {count:,} times")
    ids = encode(sentence, merges)
    print("...\n", *(f"{id:>4} {vocab[id]}" for id in ids), sep="\n")
    print(f"\n{len(sentence.encode())} bytes, {len(ids)} tokens; decoded: {decode(ids, vocab)}")
