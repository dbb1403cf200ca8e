"""Derivatives of regular expressions, which are the states of automaton.py.

The derivative of an expression by a byte matches what may follow this byte in a match: the
derivative of `ab|ac` by `a` is `b|c`. To match a text, take the derivative by its first byte, then
the derivative of that by the next byte, and so on. The expression matches the text if the last
derivative matches "". If expressions are simplified, they have finitely many derivatives, which are
the states of an automaton. (Brzozowski 1964, "Derivatives of Regular Expressions"; Owens et al.
2009, "Regular-expression derivatives re-examined".)

With `parse` from patterns.py: derivative(parse("ab|ac"), ord("a")) == parse("b|c").
"""

import functools

# An expression is a frozenset of bytes (it matches one of them), ("empty",), ("cat", r, s),
# ("star", r), or ("or", frozenset of expressions). r and s are expressions.
NOTHING = frozenset()  # matches no text at all
EMPTY = ("empty",)  # matches only ""


@functools.cache
def derivative(r, byte):
    """Return the expression of what may follow if `byte` is the first byte of a match of r."""
    match r:
        case ("empty",):
            return NOTHING
        case ("cat", first, rest):
            skipped = derivative(rest, byte) if nullable(first) else NOTHING
            return either(cat(derivative(first, byte), rest), skipped)
        case ("or", options):
            return either(*(derivative(option, byte) for option in options))
        case ("star", part):
            return cat(derivative(part, byte), r)
        case byte_set:
            return EMPTY if byte in byte_set else NOTHING


@functools.cache
def nullable(r):
    """Return whether r matches the empty text."""
    match r:
        case ("cat", first, rest):
            return nullable(first) and nullable(rest)
        case ("or", options):
            return any(map(nullable, options))
    return r == EMPTY or isinstance(r, tuple) and r[0] == "star"


# The functions below simplify the expressions that they make. So the number of states is finite,
# and a state that matches no text is always NOTHING.


def cat(r, s):  # -> the expression of r followed by s
    match r:
        case ("cat", first, rest):
            return cat(first, cat(rest, s))
        case ("empty",):
            return s
    if NOTHING in (r, s):
        return NOTHING
    return r if s == EMPTY else ("cat", r, s)


def either(*options):  # -> the expression that matches any of the options
    flat = set()
    for r in options:
        flat |= r[1] if isinstance(r, tuple) and r[0] == "or" else {r}
    flat -= {NOTHING}
    return ("or", frozenset(flat)) if len(flat) > 1 else flat.pop() if flat else NOTHING


def repeat(r, least, most=None):
    """Return the expression r{least,most}. most=None means no limit."""
    if least:
        return cat(r, repeat(r, least - 1, most and most - 1))
    if most is None:
        return ("star", r)
    return either(EMPTY, cat(r, repeat(r, 0, most - 1))) if most else EMPTY
