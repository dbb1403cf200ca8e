"""Checks: decoding, each digit as a word, the number of ways to cut a text."""

import regex

import utils
from encoder import gpt2_words

tokenizer, _ = utils.load("stories")
SPELLED = {id: token for token, id in tokenizer.vocab.items()}


def exercise_1(decode):
    """Check decode(ids, spelled) -> the text."""
    plain = "Lily saw a big red umbrella."
    answer = decode(tokenizer.encode(plain), SPELLED)
    assert answer is not None, "write decode"
    assert isinstance(answer, str), f"a text is a str, not a {type(answer).__name__}"
    assert "Ġ" not in answer, "Ġ, the spelling of a space, is still in the text"
    assert answer == plain, f"you decoded {plain!r} as {answer!r}"
    text = "Zoë ate 🍓 in 日本."
    answer = decode(tokenizer.encode(text), SPELLED)
    assert "\ufffd" not in answer, "one character can need several tokens: join all bytes first"
    assert "Ã" not in answer and "ð" not in answer, "a byte is not a character: decode as UTF-8"
    assert answer == text, f"you decoded {text!r} as {answer!r}"
    half = tokenizer.encode("🍓")[:2]
    before = decode([*tokenizer.encode("a"), *half], SPELLED)[0]
    assert before == "a", "half a character should not change the text before it"
    assert "\ufffd" in decode(half, SPELLED), "half a character should be shown as U+FFFD"


def exercise_2(words):
    """Check digit_words(text) -> the words of the text; each digit is a word of its own."""
    text = "In 1969 2 men, aged 38 and 39, walked 1.5 km.\n\nIt's room 101b!"
    answer = words(text)
    assert answer is not None, "write digit_words"
    assert isinstance(answer, list), "return a list of words"
    assert "".join(answer) == text, "the joined words should be the text again"
    digits = [word for word in answer if regex.search(r"\p{N}", word)]
    numbers = [word for word in digits if len(regex.findall(r"\p{N}", word)) > 1]
    assert not numbers, f"{numbers[0]!r} is one word: make each digit a word of its own"
    assert all(len(word) == 1 for word in digits), "a digit should be a word without its space"
    others = "Once upon a time, there was a girl; it's Lily."
    same = words(others) == gpt2_words(others)
    assert same, "a text without digits should be cut as before"
    assert "It" in answer and "'s" in answer, "the words between numbers should be cut as before"


def exercise_3(n_cuts):
    """Check n_cuts(data, pieces) -> the number of ways to cut bytes into pieces from a set."""
    few = {b"a", b"b", b"ab", b"ba", b"aba"}
    assert n_cuts(b"ab", few) is not None, "write n_cuts"
    for data, number in ((b"a", 1), (b"ab", 2), (b"aba", 4), (b"abc", 0), (b"", 1)):
        mine = n_cuts(data, few)
        case = f"{data!r} can be cut into pieces of {sorted(few)}"
        assert mine == number, f"{case} in {number} ways, not {mine}"
    pieces = {tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab)}
    data = "Once upon a time, there was a little girl named Zoë".encode()
    ways = [1]
    for end in range(1, len(data) + 1):
        begins = range(max(0, end - 40), end)
        ways.append(sum(ways[begin] for begin in begins if data[begin:end] in pieces))
    mine = n_cuts(data, pieces)
    assert mine > 0, "a longer text can be cut, too: how long is the longest piece?"
    assert mine == ways[-1], (
        f"a longer text can be cut in {ways[-1]:.3g} ways, not {mine:.3g}: how long is the longest"
        " piece?"
    )
