"""Checks: the mask of a pattern, the text most like the others, a filter's shares, trust."""

from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

WRONG = mistakes("""
[notebooks/choosing.ipynb allowed]
with the end always allowed: only after a complete match
    fits[end] = -> fits[end] = True or
with the end allowed where the text can still grow: only after a complete match
    text) is not -> text, partial=True) is not
with the end never allowed: after a complete match it may follow
    fits[end] = -> fits[end] = False and
with the piece of the end as if it were text: it ends the text
    fits[end] = -> unused =
[notebooks/choosing.ipynb most_alike]
with each different text counted once: equal texts are votes for each other
    for other in texts -> for other in set(texts)
without the equal texts: leave out at most the text itself
    for other in texts -> for other in texts if other != text
[notebooks/choosing.ipynb corrected]
of the draws: count each one with its weight
    np.prod(masses) -> 1
divided by the masses: where little mass was left, the filter has drawn too often
    np.prod(masses) -> 1 / np.prod(masses)
with the last mass only: the masses of all steps are multiplied
    np.prod(masses) -> masses[-1]
of the last draw of each text: add up the weights
    weights.get(text, 0) + ->
[notebooks/choosing.ipynb trusted]
of how often an answer is right *and* accepted: divide by how often one is accepted
     / accepted ->
of `catch`, the share of right answers that are accepted
    p * catch / accepted -> catch
""")


def see_allowed(m, seed):
    """Look at the pieces that may follow five texts, with four patterns."""
    pieces = [" a", " ab", "b", "<|end|>", "c", " ", "bc", "."]
    for pattern in "( ab)+c?", " a.*", "( a| ab)[.]", ".*":
        for text in "", " a", " ab", " abc", " a.":
            fits = m.allowed(pattern, text, pieces, 3)
            given = f"{text!r}, with the pattern {pattern!r}"
            yield Seen(f"which of {pieces} may follow {given}", [bool(fit) for fit in fits])


def equal(one, other):
    return one == other


def shared(one, other):  # the share of letters in both
    return len({*one} & {*other}) / len({*one} | {*other})


def begins(one, other):  # not the same both ways
    return other.startswith(one)


def see_most_alike(m, seed):
    """Look at the text that is chosen, with three measures of likeness."""
    for likeness, texts in (
        (begins, ["abc", "ab", "a"]),
        (equal, ["b", "a", "a"]),
        (shared, ["cd", "bcd", "abcd", "abc", "x"]),
        (shared, ["ab", "ab", "xyz", "xyz", "wxyz"]),
    ):
        yield Seen(f"of {texts}, by {likeness.__name__} letters", m.most_alike(texts, likeness))


def see_corrected(m, seed):
    """Look at the shares of texts that occur once, twice, and with different masses."""
    for drawn in (
        [("a", [0.5, 0.1]), ("b", [0.5, 0.4])],
        [("x", [0.8, 0.5]), ("y", [0.8, 0.01]), ("x", [0.8, 0.5]), ("z", [0.2])],
        [("y", [0.3, 0.2, 0.9]), ("x", [0.5]), ("y", [0.3, 0.2, 0.9])],
    ):
        shares = m.corrected(drawn)
        yield Seen(f"for {drawn}", {text: round(float(x), 4) for text, x in shares.items()})


def see_trusted(m, seed):
    """Look at four shares, one of them tiny."""
    for given in (0.5, 0.9, 0.3), (0.01, 1, 0.05), (0.2, 0.6, 0.1), (0.9, 0.5, 0.5):
        yield Seen(f"p, catch, slip = {given}", round(float(m.trusted(*given)), 4))


exercise_allowed = Part(("allowed",), see_allowed, WRONG)
exercise_most_alike = Part(("most_alike",), see_most_alike, WRONG)
exercise_1 = Part(("corrected",), see_corrected, WRONG)
exercise_2 = Part(("trusted",), see_trusted, WRONG)
