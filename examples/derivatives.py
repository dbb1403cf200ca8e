"""Regular expressions by their derivatives: the states of automaton.py.

The derivative of an expression by a byte matches all that may follow this byte in a match: `ab|ac`
by `a` gives `b|c`. An expression matches a text if its derivative by all bytes of the text, one
after the other, matches "". If simplified, the derivatives are finitely many: the states of an
automaton. (Brzozowski 1964, "Derivatives of Regular Expressions"; Owens et al. 2009,
"Regular-expression derivatives re-examined".)

patterns.py makes expressions from text: derivative(parse("ab|ac"), ord("a")) == parse("b|c").
"""

import functools

# An expression: a frozenset (one byte of these), or ("empty",), ("cat", r, s), ("star", r),
# ("or", frozenset of options).
NOTHING, EMPTY = frozenset(), ("empty",)  # matches no text at all; matches only ""


@functools.cache
def derivative(r, byte):
    """Return the expression of all that may follow `byte` in a match of r."""
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


# Simplified as they are made: equal states look alike, and one that has no match is NOTHING.


def cat(r, s):  # the expression r, then s
    match r:
        case ("cat", first, rest):
            return cat(first, cat(rest, s))
        case ("empty",):
            return s
    if NOTHING in (r, s):
        return NOTHING
    return r if s == EMPTY else ("cat", r, s)


def either(*options):  # one of these expressions
    flat = set()
    for r in options:
        flat |= r[1] if isinstance(r, tuple) and r[0] == "or" else {r}
    flat -= {NOTHING}
    return ("or", frozenset(flat)) if len(flat) > 1 else flat.pop() if flat else NOTHING


def repeat(r, least, most=None):
    """Return r{least,most}; most=None is no limit."""
    if least:
        return cat(r, repeat(r, least - 1, most and most - 1))
    if most is None:
        return ("star", r)
    return either(EMPTY, cat(r, repeat(r, 0, most - 1))) if most else EMPTY
