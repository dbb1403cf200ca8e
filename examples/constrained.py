r"""Constrained decoding: the new text matches a pattern, at every step as far as it goes.

A token may come next if the text with it begins some match, which the `regex` library can tell
(partial=True); all others are removed. A stop id may come only where the match is complete. A token
can end inside a character: its bytes may come if a character that begins with them may.

This is the definition; automaton.py does the same hundreds of times faster. (Willard & Louf 2023,
"Efficient Guided Generation for Large Language Models".)

    python generate.py "He was" \
        --filter "examples/constrained.py:matching(' [0-9] years old', tokenizer, model, n_prompt)"
"""

import codecs
import functools

import numpy as np
import regex


def matching(pattern, tokenizer, model, n_prompt):
    """Return the filter: tokens from n_prompt on must spell a match of the pattern, a str. Raises
    ValueError if no fitting token is left, or if the tokenizer is not byte-level."""
    match = functools.partial(regex.compile(pattern).fullmatch, partial=True)
    pieces = token_bytes(tokenizer)

    def fits(text):  # bytes -> bool: is it the beginning of a match?
        try:
            head, half = split(text)
        except UnicodeDecodeError:
            return False
        return match(head) and any(match(head + one) for one in begun(half, pattern))

    @functools.lru_cache(4096)  # beams, drafts and rows ask again for the same text
    def allowed(text):  # bytes -> ids
        head, half = split(text)
        complete = not half and (found := match(head)) and not found.partial
        fitting = [id for id, piece in pieces.items() if fits(text + piece)]
        return fitting + [*model.stop_ids] * bool(complete)

    def constrain(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        text = b"".join(pieces[id] for id in ids[n_prompt:])
        return only(allowed(text), logits, pattern, text)

    return constrain


def one_of(choices, tokenizer, model, n_prompt):
    """Return the filter: the new text is one of these texts."""
    return matching("|".join(map(regex.escape, choices)), tokenizer, model, n_prompt)


def only(kept, logits, pattern, text):  # ids, [n_vocab] -> [n_vocab], others -inf
    if not np.isfinite(logits[kept]).any():
        after = f"no token is left that fits {pattern!r} after {text.decode(errors='replace')!r}"
        raise ValueError(f"{after}: filters before removed them, or the model has no stop id")
    constrained = np.full_like(logits, -np.inf)
    constrained[kept] = logits[kept]
    return constrained


@functools.lru_cache(8)
def token_bytes(tokenizer):  # -> {id: bytes} of all tokens that are text
    if not hasattr(tokenizer, "token_bytes"):
        raise ValueError("constraints need a byte-level tokenizer, such as GPT-2's")
    special = {*tokenizer.special.values()}
    return {id: tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab) if id not in special}


def split(text):  # bytes -> its whole characters, and the bytes of the last one if it is cut
    decoder = codecs.getincrementaldecoder("utf-8")()
    return decoder.decode(text), decoder.getstate()[0]


@functools.lru_cache(4096)
def begun(half, pattern):
    """Return characters that begin with these bytes: the pattern's own, and at most 64 samples of
    the others; [""] for no bytes."""
    if not half:
        return [""]
    rest = sum(half[0] >= lead for lead in (0xC0, 0xE0, 0xF0)) - len(half)  # missing after the next
    samples = [half + bytes([byte]) + b"\x80" * rest for byte in range(0x80, 0xC0)]
    own = [character for character in pattern if character.encode().startswith(half)]
    return own + [character for s in samples if (character := s.decode(errors="ignore"))]
