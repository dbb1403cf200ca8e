"""The exercises of lesson 2: decoding, digits apart, counting the cuts of a text."""

import regex

import utils
from encoder import gpt2_words

tokenizer, _ = utils.load("stories")
SPELLED = {id: token for token, id in tokenizer.vocab.items()}


def exercise_1(decode):
    """The answer: decode(ids, spelled) -> str."""
    plain = "Lily saw a big red umbrella."
    answer = decode(tokenizer.encode(plain), SPELLED)
    assert answer is not None, "write decode"
    assert isinstance(answer, str), "a text is a str"
    assert "Ġ" not in answer, "the spelling of a space is still there"
    assert answer == plain, f"{answer!r} instead of {plain!r}"
    text = "Zoë ate 🍓 in 日本."
    answer = decode(tokenizer.encode(text), SPELLED)
    assert "\ufffd" not in answer, "a character's bytes are in several tokens: join them first"
    assert "Ã" not in answer and "ð" not in answer, "a byte is not a character: decode as UTF-8"
    assert answer == text, f"{answer!r} instead of {text!r}"
    half = tokenizer.encode("🍓")[:2]
    assert decode([*tokenizer.encode("a"), *half], SPELLED)[0] == "a", "half a character"
    assert "\ufffd" in decode(half, SPELLED), "half a character should be shown as U+FFFD"


def exercise_2(words):
    """The answer: digit_words(text) -> list of words."""
    text = "In 1969 2 men, aged 38 and 39, walked 1.5 km.\n\nIt's room 101b!"
    answer = words(text)
    assert answer is not None, "write digit_words"
    assert isinstance(answer, list), "a list of words"
    assert "".join(answer) == text, "the words, joined, should be the text again"
    digits = [word for word in answer if regex.search(r"\p{N}", word)]
    numbers = [word for word in digits if len(regex.findall(r"\p{N}", word)) > 1]
    assert not numbers, f"{numbers[0]!r} is one word: each digit is a word of its own"
    assert all(len(word) == 1 for word in digits), "a digit stands alone, without its space, too"
    others = "Once upon a time, there was a girl; it's Lily."
    same = words(others) == gpt2_words(others)
    assert same, "a text without digits should be cut as before"
    assert "It" in answer and "'s" in answer, "the words between numbers should be cut as before"


def exercise_3(n_cuts):
    """The answer: n_cuts(data, pieces): bytes, set of bytes -> int."""
    few = {b"a", b"b", b"ab", b"ba", b"aba"}
    assert n_cuts(b"ab", few) is not None, "write n_cuts"
    for data, number in ((b"a", 1), (b"ab", 2), (b"aba", 4), (b"abc", 0), (b"", 1)):
        mine = n_cuts(data, few)
        given = f"{data!r} and the pieces {sorted(few)}"
        assert mine == number, f"{number} ways, not {mine}, for {given}"
    pieces = {tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab)}
    data = "Once upon a time, there was a little girl named Zoë".encode()
    ways = [1]
    for end in range(1, len(data) + 1):
        begins = range(max(0, end - 40), end)
        ways.append(sum(ways[begin] for begin in begins if data[begin:end] in pieces))
    mine = n_cuts(data, pieces)
    assert mine > 0, "a longer text can be cut, too: how long is the longest piece?"
    assert mine == ways[-1], f"a longer text: {ways[-1]:.3g} ways, not {mine:.3g}"
