"""examples/constrained.py and automaton.py allow exactly the tokens that can lead to a match."""

import functools
import itertools
from collections import defaultdict

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from encoder import BYTE_TO_CHAR, Tokenizer
from examples import automaton, constrained
from examples.derivatives import NOTHING, derivative, nullable
from examples.patterns import parse
from generate import generate
from samplers import Sampler, top_k
from tests.every_loop import every_loop, one_text
from tests.tiny import tiny_gpt2

# One merge makes the whole é. Two merges make tokens that end inside a character: the first two of
# the three bytes of 中, and the letter b with the first byte of é.
MERGES = [("a", "b"), ("ab", "ab"), ("1", "2"), *itertools.pairwise("Ã©")]
MERGES += [(BYTE_TO_CHAR[0xE4], BYTE_TO_CHAR[0xB8]), ("b", BYTE_TO_CHAR[0xC3])]
BYTES = [*BYTE_TO_CHAR.values()]
VOCAB = {token: id for id, token in enumerate([*BYTES, *map("".join, MERGES), "<|endoftext|>"])}
TOKENIZER = Tokenizer(VOCAB, MERGES)
END = TOKENIZER.end_of_text
MODEL = tiny_gpt2(n_vocab=len(VOCAB), n_ctx=40, stop_ids=[END])
MAKERS = {"regex": constrained.matching, "automaton": automaton.matching}
PATTERNS = ["ab(ab)*", "a|b12?", "[0-9]{2,3}", "(a|b)*1", "é+", "中|é|ab", ".", "[^a]b"]
PATTERNS += [r"[0-9]\.[0-9]", r'\{"a": ("[^"]*"|[0-9]+)\}', "(a(b(1)?)?)?2", "a{2}b{0,2}1{1,}"]
PATTERNS += ["[^ ]+ [a-z]", "(|a)b"]
TEXTS = [b"", b"a", b"ab", b"abab", b"1", b"b1", b"\xc3\xa9", b"\xe4", b"\xc3", b"12", b'{"a": "']
HALVES = b"\xe4", b"\xc3"
either_maker = pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)


def allowed(maker, pattern, text):
    """Return the set of tokens that may follow a prompt of two tokens and then a text (bytes)."""
    ids = [7, 8, *(TOKENIZER.vocab[BYTE_TO_CHAR[byte]] for byte in text)]
    logits = np.zeros(len(VOCAB), np.float32)
    found = maker(pattern, TOKENIZER, MODEL, n_prompt=2)(logits, ids)
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


@either_maker
@pytest.mark.parametrize("pattern", PATTERNS)
def test_exactly_the_tokens_that_can_lead_to_a_match_are_allowed(maker, pattern):
    texts = [text for text in TEXTS if can_match(pattern, text)]
    assert len(texts) > 1
    for text in texts:
        expected = {id for id in range(END) if can_match(pattern, text + TOKENIZER.token_bytes(id))}
        if text not in HALVES and regex.fullmatch(pattern, text.decode()):
            expected.add(END)
        if not expected:
            with pytest.raises(ValueError, match="no token is left"):
                allowed(maker, pattern, text)
        else:
            assert allowed(maker, pattern, text) == expected, text


@either_maker
@pytest.mark.parametrize("pattern", ["(ab){0,3}", r'\{"a": ("[^"]{0,4}"|[0-9]+)\}', "(中|é){3,5}"])
def test_every_loop_writes_the_same_match(maker, pattern):
    @functools.cache
    def filters(n_prompt):
        return [maker(pattern, TOKENIZER, MODEL, n_prompt)]

    ids = one_text(every_loop(MODEL, [5, 6], [[7], [8, 9, 10]], 30, filters))
    text = TOKENIZER.decode(id for id in ids if id != END)
    assert regex.fullmatch(pattern, text, partial=ids[-1] != END)


@either_maker
def test_drawn_texts_match_to_the_end(maker):
    ends = set()
    for seed in range(20):
        sampler = Sampler(maker("(ab|1){1,3}中?", TOKENIZER, MODEL, 1))
        *ids, end = generate(MODEL, [3], 30, sampler, seed)
        assert end == END
        text = TOKENIZER.decode(ids)
        assert regex.fullmatch("(ab|1){1,3}中?", text)
        ends.add(text)
    assert len(ends) > 8


def test_one_of_allows_a_few_choices():
    found = set()
    for seed in range(30):
        own = constrained.one_of(["ab", "a.b"], TOKENIZER, MODEL, n_prompt=1)
        found.add(TOKENIZER.decode(generate(MODEL, [3], 9, Sampler(own), seed)))
    assert found == {"ab<|endoftext|>", "a.b<|endoftext|>"}


@either_maker
def test_an_impossible_constraint_gives_one_clear_line(maker):
    no_end = tiny_gpt2(n_vocab=len(VOCAB))
    with pytest.raises(ValueError, match="no token is left that fits 'ab' after 'ab'"):
        list(generate(no_end, [3], 9, Sampler(maker("ab", TOKENIZER, no_end, 1))))
    late = Sampler(top_k(1), maker("ab|12", TOKENIZER, MODEL, 1))
    with pytest.raises(ValueError, match=r"no token is left that fits 'ab\|12' after ''"):
        list(generate(MODEL, [3], 9, late))


@either_maker
def test_a_tokenizer_without_bytes_is_refused(maker):
    with pytest.raises(ValueError, match="byte-level"):
        maker("ab", object(), MODEL, 1)


# --- derivatives, the parser and the automaton ----------------------------------------------------


def matches(pattern, text):
    state = functools.reduce(derivative, text.encode(), parse(pattern))
    return nullable(state)


def test_the_derivative_of_an_expression_matches_the_rest():
    assert derivative(parse("ab|ac"), ord("a")) == parse("b|c")
    assert derivative(parse("(ab)*"), ord("a")) == parse("b(ab)*")
    assert derivative(parse("ab"), ord("b")) == NOTHING


pieces = st.sampled_from(["a", "b", "ab", "[ab]", "[^a]", ".", "é", r"\d", "1"])
patterns = st.recursive(
    pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(%s|%s)".__mod__),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(
            "(?:%s)%s".__mod__
        ),
    ),
    max_leaves=6,
)


@given(patterns, st.lists(st.text("ab1é\n", max_size=6), max_size=8))
def test_a_pattern_matches_what_the_regex_library_matches(pattern, texts):
    for text in texts:
        assert matches(pattern, text) == bool(regex.fullmatch(pattern, text, regex.ASCII)), text


def test_a_dot_matches_every_character_and_no_other_bytes():
    any_one = parse(".")
    for character in "a~\x80ÿ߿ࠀ퟿\ue000￿𐀀\U0010ffff":
        assert nullable(functools.reduce(derivative, character.encode(), any_one))
    not_utf8 = b"\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"
    for wrong in (*not_utf8, b"\n"):
        assert functools.reduce(derivative, wrong, any_one) == NOTHING


UNKNOWN = ["a(b", "a)b", "*a", "[a", "a(?=b)", r"(a)\1", "^a", "a$", r"\ba", "[é]", r"\p{L}"]
UNKNOWN += ["a|*", "a{3,1}", "(?i)a", "[[:alpha:]]"]


@pytest.mark.parametrize("pattern", UNKNOWN)
def test_syntax_that_the_parser_does_not_know_is_refused(pattern):
    with pytest.raises(ValueError, match="is wrong, or has syntax that this parser lacks"):
        parse(pattern)


def test_an_automaton_has_few_states():
    assert len(automaton.Automaton("(a|b)*a(a|b){3}").table) == 2**4 + 1
    assert len(automaton.Automaton("a{0,9}").table) == 11


# --- GPT-2's vocabulary ---------------------------------------------------------------------------

JSON_LIKE = r'\{"name": "[A-Za-z ]+", "age": [0-9]{1,3}, "likes": \["[^"]*"(, "[^"]*")*\]\}'


def test_both_filters_allow_the_same_tokens_of_gpt2(gpt2_files):
    tokenizer = gpt2_files
    model = tiny_gpt2(stop_ids=[50256])
    text = '{"name": "Lily", "age": 7, "likes": ["the sea 😀", "中'
    ids = tokenizer.encode(text)
    own = [maker(JSON_LIKE, tokenizer, model, 0) for maker in MAKERS.values()]
    for n in (0, 3, len(ids) - 2, len(ids)):
        first, second = (f(np.zeros(50257, np.float32), ids[:n]) for f in own)
        np.testing.assert_array_equal(first, second)
        assert (first > -np.inf).any()
