"""examples/constrained.py allows exactly the tokens that can lead to a match."""

import itertools
from collections import defaultdict

import numpy as np
import pytest
import regex

from encoder import BYTE_TO_CHAR, Tokenizer
from examples.constrained import matching, one_of
from generate import generate
from samplers import Sampler, top_k
from tests.support.tiny import tiny_gpt2

# One merge makes the whole é. Two merges make tokens that end inside a character: the first two of
# the three bytes of 中, and the letter b with the first byte of é.
MERGES = [("a", "b"), ("ab", "ab"), ("1", "2"), *itertools.pairwise("Ã©")]
MERGES += [(BYTE_TO_CHAR[0xE4], BYTE_TO_CHAR[0xB8]), ("b", BYTE_TO_CHAR[0xC3])]
BYTES = [*BYTE_TO_CHAR.values()]
VOCAB = {token: id for id, token in enumerate([*BYTES, *map("".join, MERGES), "<|endoftext|>"])}
TOKENIZER = Tokenizer(VOCAB, MERGES)
END = TOKENIZER.end_of_text
MODEL = tiny_gpt2(n_vocab=len(VOCAB), n_ctx=40, stop_ids=[END])
PATTERNS = ["ab(ab)*", "a|b12?", "[0-9]{2,3}", "(a|b)*1", "é+", "中|é|ab", ".", "[^a]b"]
PATTERNS += [r"[0-9]\.[0-9]", r'\{"a": ("[^"]*"|[0-9]+)\}', "(a(b(1)?)?)?2", "a{2}b{0,2}1{1,}"]
PATTERNS += ["[^ ]+ [a-z]", "(|a)b"]
TEXTS = [b"", b"a", b"ab", b"abab", b"1", b"b1", b"\xc3\xa9", b"\xe4", b"\xc3", b"12", b'{"a": "']
HALVES = b"\xe4", b"\xc3"


def allowed(pattern, text):
    """Return the set of tokens that may follow a prompt of two tokens and then a text (bytes)."""
    ids = [7, 8, *(TOKENIZER.vocab[BYTE_TO_CHAR[byte]] for byte in text)]
    logits = np.zeros(len(VOCAB), np.float32)
    found = matching(pattern, TOKENIZER, MODEL, n_prompt=2)(logits, ids)
    return {*np.flatnonzero(found > -np.inf).tolist()}


WHOLES = defaultdict(list)  # first bytes -> a sample of the characters that begin with these bytes
for code in [*range(128, 2048), *range(2048, 0x10000, 64), *range(0x10000, 0x110000, 4096)]:
    if code >> 11 != 27:  # not a surrogate
        for n in range(1, len(chr(code).encode())):
            WHOLES[chr(code).encode()[:n]].append(chr(code))


def can_match(pattern, text):
    """Return whether the text is a match or can be continued to one.

    If the text ends inside a character, try many characters with the same first bytes.
    """
    match = regex.compile(pattern, regex.ASCII).fullmatch
    try:
        return bool(match(text.decode(), partial=True))
    except UnicodeDecodeError as error:
        head, half = text[: error.start].decode(), text[error.start :]
        own = [character for character in pattern if character.encode().startswith(half)]
        return any(match(head + whole, partial=True) for whole in [*own, *WHOLES[half]])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_exactly_the_tokens_that_can_lead_to_a_match_are_allowed(pattern):
    texts = [text for text in TEXTS if can_match(pattern, text)]
    assert len(texts) > 1
    for text in texts:
        expected = {id for id in range(END) if can_match(pattern, text + TOKENIZER.token_bytes(id))}
        if text not in HALVES and regex.fullmatch(pattern, text.decode()):
            expected.add(END)
        if not expected:
            with pytest.raises(ValueError, match="no token is left"):
                allowed(pattern, text)
        else:
            assert allowed(pattern, text) == expected, text


def test_one_of_allows_a_few_choices():
    found = set()
    for seed in range(30):
        own = one_of(["ab", "a.b"], TOKENIZER, MODEL, n_prompt=1)
        found.add(TOKENIZER.decode(generate(MODEL, [3], 9, Sampler(own), seed)))
    assert found == {"ab<|endoftext|>", "a.b<|endoftext|>"}


def test_an_impossible_constraint_gives_one_clear_line():
    no_end = tiny_gpt2(n_vocab=len(VOCAB))
    with pytest.raises(ValueError, match="no token is left that fits 'ab' after 'ab'"):
        list(generate(no_end, [3], 9, Sampler(matching("ab", TOKENIZER, no_end, 1))))
    late = Sampler(top_k(1), matching("ab|12", TOKENIZER, MODEL, 1))
    with pytest.raises(ValueError, match=r"no token is left that fits 'ab\|12' after ''"):
        list(generate(MODEL, [3], 9, late))
