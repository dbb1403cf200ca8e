r"""Parse a pattern such as ' [a-z]+(,[0-9]{1,3})*' into an expression over bytes (derivatives.py).

The parser goes from left to right and calls itself at each parenthesis (recursive descent). A set
of characters becomes a set of ASCII bytes; \d, \w and \s match only ASCII. A set that is not
limited to ASCII, such as . or [^"], also matches the UTF-8 encoding of every other character (RFC
3629, section 4). So half a character is a state like any other. Unknown syntax is an error.
"""

import contextlib
import functools

import regex

from examples.derivatives import EMPTY, cat, either, repeat

TOKEN = regex.compile(r"\(\?:|\[\^?\]?(?:\\.|[^]\\])*\]|\{\d+(?:,\d*)?\}|\\.|.", regex.S)
KNOWN = regex.compile(r"[^\\^$]|\\[dDsSwWntr\W]|\[\p{ASCII}+", regex.S)
UTF8 = """C2-DF 80-BF|E0-E0 A0-BF 80-BF|E1-EC 80-BF 80-BF|ED-ED 80-9F 80-BF|EE-EF 80-BF 80-BF|
F0-F0 90-BF 80-BF 80-BF|F1-F3 80-BF 80-BF 80-BF|F4-F4 80-8F 80-BF 80-BF"""


def parse(pattern):
    """Return a pattern's expression. Raise a ValueError for syntax that this parser lacks."""
    tokens = TOKEN.findall(pattern)[::-1]  # reversed, so that pop() returns the next token
    with contextlib.suppress(IndexError, regex.error):
        regex.compile(pattern)
        expression = options(tokens)
        if not tokens:  # otherwise, there is a closing parenthesis too many
            return expression
    raise ValueError(f"the pattern {pattern!r} is wrong, or has syntax that this parser lacks")


def options(tokens):  # parses a|b|c, up to a closing parenthesis or the end
    found = [parts(tokens)]
    while tokens and tokens[-1] == "|":
        tokens.pop()
        found.append(parts(tokens))
    return either(*found)


def parts(tokens):  # parses abc, up to a |, a closing parenthesis or the end
    found = []
    while tokens and tokens[-1] not in ("|", ")"):
        token = tokens.pop()
        if token in ("(", "(?:"):
            found.append(options(tokens))
            tokens.pop()  # the closing parenthesis; IndexError if it is missing
        elif token in ("*", "+", "?") or token[0] == "{" and token[1:]:
            found.append(repeat(found.pop(), *limits(token)))
        else:
            found.append(character(token))
    return sequence(found)


def limits(token):  # -> least, most
    if token in ("*", "+", "?"):
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token]
    least, comma, most = token[1:-1].partition(",")
    return int(least), (int(most) if most else None) if comma else int(least)


def character(token):  # a character, an escape, or a set -> expression
    if not KNOWN.fullmatch(token):
        raise regex.error("not one character")
    if len(token) == 1 and not token.isascii():
        return sequence([frozenset([byte]) for byte in token.encode()])
    match = regex.compile(token, regex.ASCII).fullmatch
    ascii = frozenset(byte for byte in range(128) if match(chr(byte)))
    return either(ascii, others()) if match("\u00ff") else ascii


def sequence(expressions):
    return functools.reduce(lambda rest, r: cat(r, rest), reversed(expressions), EMPTY)


@functools.cache
def others():  # -> the expression that matches any character beyond ASCII
    def span(text):  # "C2-DF" -> the set of these bytes
        first, last = text.split("-")
        return frozenset(range(int(first, 16), int(last, 16) + 1))

    return either(*(sequence([*map(span, row.split())]) for row in UTF8.split("|")))
