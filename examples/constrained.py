r"""Constrained decoding: the new text matches a pattern.

A token may follow if the text with this token can still grow into a match. The `regex` library can
tell whether it can (partial=True). All other tokens are removed. A stop id may follow only if the
match is complete. A token can end inside a character. It may follow if its last bytes are the
beginning of an allowed character.

Each step asks about the whole text with each token, which is slow with a large vocabulary. A server
compiles the pattern into a finite automaton, whose state is all that a step needs.
(Willard & Louf 2023, "Efficient Guided Generation for Large Language Models".)

    python generate.py "He was" \
        --filter "examples/constrained.py:matching(' [0-9] years old', tokenizer, model, n_prompt)"
"""

import codecs
import functools

import numpy as np
import regex


def matching(pattern, tokenizer, model, n_prompt):
    """Return a filter: the tokens after the prompt must spell a match of `pattern`, a str. The
    filter raises ValueError if no token fits."""
    match = functools.partial(regex.compile(pattern).fullmatch, partial=True)
    pieces = token_bytes(tokenizer)

    def fits(text):  # bytes -> bool: can the text grow into a match?
        try:
            head, half = split(text)
        except UnicodeDecodeError:
            return False
        return any(match(head + whole) for whole in completions(half, pattern))

    @functools.lru_cache(4096)  # several beams, drafts or rows may have the same text
    def allowed(text, last):  # bytes, and the id before the text if it is empty -> ids
        head, half = split(text)
        complete = not half and (found := match(head)) and not found.partial
        firsts = {} if last is None else {id: first_bytes(tokenizer, last, id) for id in pieces}
        fitting = [id for id, piece in (firsts or pieces).items() if fits(text + piece)]
        return fitting + [*model.stop_ids] * bool(complete)

    def constrain(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        new = [id for id in ids[n_prompt:] if id in pieces]
        last = ids[-len(new) - 1]  # the text begins after this id
        first = [first_bytes(tokenizer, last, id) for id in new[:1]]
        text = b"".join(first + [pieces[id] for id in new[1:]])
        fitting = allowed(text, None if new else last)
        if not np.isfinite(logits[fitting]).any():
            after = f"{pattern!r} after {text.decode(errors='replace')!r}"
            why = "earlier filters removed them, or the model has no stop id"
            raise ValueError(f"no token is left that fits {after}: {why}")
        constrained = np.full_like(logits, -np.inf)
        constrained[fitting] = logits[fitting]
        return constrained

    return constrain


def one_of(choices, tokenizer, model, n_prompt):
    """Return a filter: the new text must be one of the choices, a list of str."""
    return matching("|".join(map(regex.escape, choices)), tokenizer, model, n_prompt)


@functools.lru_cache(8)
def token_bytes(tokenizer):  # -> {id: bytes} of all tokens except special tokens
    special = {*tokenizer.special.values()}
    return {id: tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab) if id not in special}


def first_bytes(tokenizer, last, id):
    """Return a token's bytes after the id `last`: a token that begins a text may lose its space."""
    text = tokenizer.decode([last, id])[len(tokenizer.decode([last])) :]
    return tokenizer.token_bytes(id) if "\ufffd" in text else text.encode()


def split(text):  # bytes -> complete characters, bytes of an incomplete last one
    decoder = codecs.getincrementaldecoder("utf-8")()
    return decoder.decode(text), decoder.getstate()[0]


@functools.lru_cache(4096)
def completions(half, pattern):
    """Return characters that begin with the bytes `half`: all such characters in the pattern, and
    up to 64 other characters as samples. Return [""] if half is empty."""
    if not half:
        return [""]
    # how many continuation bytes are still missing after the next byte
    rest = sum(half[0] >= lead for lead in (0xC0, 0xE0, 0xF0)) - len(half)
    samples = [half + bytes([byte]) + b"\x80" * rest for byte in range(0x80, 0xC0)]
    own = [character for character in pattern if character.encode().startswith(half)]
    return own + [character for s in samples if (character := s.decode(errors="ignore"))]
