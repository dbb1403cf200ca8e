"""Checks: the loop, a step with a cache, prefill, counting tokens, many endings of a beginning."""

import lessons
import numpy as np

import utils
from page.recorder import recording
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes

tokenizer, model = utils.load("stories")
IDS = tokenizer.encode("One day, a little bird saw a big red ball.")
WRONG = mistakes("""
[notebooks/loop_and_cache.ipynb continue_greedily]
without the given ids: return them, too
    return ids -> return ids[-n:]
of an index into all rows: take the best token of the last row
    logits[-1].argmax() -> logits.argmax()
with None instead of a list: `append` changes the list, and returns None
    ids.append(int(logits[-1].argmax())) -> ids = ids.append(int(logits[-1].argmax()))
of the first round alone: a `return` in the loop ends it
    ids.append(int(logits[-1].argmax())) -> ids.append(int(logits[-1].argmax())); return ids
with the same logits in each round: give the longer text to the model
    model(ids) -> model(ids[: len(ids) - _])
of the last token alone: give the whole text to the model
    model(ids) -> model(ids[-1:])
with one token too many
    range(n) -> range(n + 1)
with n tokens in all: n new ones follow the given ids
    range(n) -> range(n - len(ids))
[notebooks/loop_and_cache.ipynb step]
without the axis of tokens: wte[[token]] and wpe[[position]] keep it
    wte[[token]] + wpe[[position]] -> wte[token] + wpe[position]
with position 0 for each token: how many tokens are stored?
    position = keys[0].shape[1] -> position = 0
with the number of blocks as the position: keys has an array for each block
    keys[0].shape[1] -> len(keys)
with the number of heads as the position: an array has the axes n_head, token, d_head
    keys[0].shape[1] -> len(keys[0])
with a position one too large: the first token has position 0
    position = keys[0].shape[1] -> position = keys[0].shape[1] + 1
of attention to the new token alone: its query meets all keys
    keys[i], values[i], mask -> k, v, mask
without storing the key: put the longer array into keys[i]
    keys[i] = np.concatenate([keys[i], k], axis=1) -> k = np.concatenate([keys[i], k], axis=1)
    keys[i], values[i], mask -> k, values[i], mask
[notebooks/loop_and_cache.ipynb step prefill]
with a new key before the old ones
    [keys[i], k] -> [k, keys[i]]
with new keys and values before the old ones
    [keys[i], k] -> [k, keys[i]]
    [values[i], v] -> [v, values[i]]
with keys and values exchanged
    [keys[i], k] -> [keys[i], v]
    [values[i], v] -> [values[i], k]
[notebooks/loop_and_cache.ipynb prefill]
with rows of wpe that begin at 0 again: how many tokens are stored?
    wpe[positions] -> wpe[: len(ids)]
with positions that begin at 0 again: how many tokens are stored?
    n_old, n_old + len(ids) -> len(ids)
with the mask of the new tokens alone: it needs a column for each stored token, too
    causal_mask(positions) -> causal_mask(np.arange(len(ids)))
with a mask of the new tokens alone: it needs a column for each stored token, too
    causal_mask(positions) -> causal_mask(np.arange(len(ids)))[0]
without a mask: a new token sees the tokens after it
    causal_mask(positions) -> 0
with a pass for each token: one pass is enough for all
    n_old = -> if len(ids) > 1: return np.vstack([prefill([i], keys, values) for i in ids]); n_old =
[notebooks/loop_and_cache.ipynb naive_tokens]
with all tokens in each pass: the first pass reads only the prompt
    n * m + n * (n - 1) // 2 -> n * (m + n)
with naive_tokens without the prompt
    n * m + n * (n - 1) // 2 -> n * (n + 1) // 2
[notebooks/loop_and_cache.ipynb cached_tokens]
with cached_tokens one too large: the model does not read the last new token
    m + n - 1 -> m + n
[notebooks/loop_and_cache.ipynb log_p_endings]
with rows that are one too late: the row of a token is about the token after it
    model(ending[:-1], cache) -> model(ending, cache)
    np.vstack([first, later]) -> later
without the first token of each ending
    .sum() -> [1:].sum()
with the beginning read for each ending: read it once
    cache.cut(len(beginning)) -> cache = model.new_cache(); model(beginning, cache)
""")


def see_loop(m, seed):
    """Look at three continued texts."""
    for given, n in (IDS[:4], 2), (IDS[:2], 1), ([3, 1, 4], 3):
        yield Seen(f"{n} more ids after {given}", m.continue_greedily(list(given), n))


def no_rows():
    """Return a list with an empty array [n_head, 0, d_head] for each block."""
    shape = model.n_head, 0, model.n_embd // model.n_head
    return [np.zeros(shape, np.float32) for _ in model.params["blocks"]]


def see_step(m, seed):
    """Look at the logits, the keys and the values after each of three tokens."""
    keys, values = no_rows(), no_rows()
    for n, token in enumerate(IDS[:3], 1):
        yield Seen(f"the logits of token {n}", m.step(token, keys, values), "n_vocab")
        yield Seen(f"the keys of block 2 after token {n}", keys[2], "n_head, token, d_head")
        yield Seen(f"the values of block 2 after token {n}", values[2], "n_head, token, d_head")


def see_prefill(m, seed):
    """Look at the logits, the keys, the values and the passes of three calls."""
    keys, values = no_rows(), no_rows()
    calls = IDS[:4], IDS[4:5], IDS[5:8]  # for one id, a mask of its own alone is right
    for call, ids in zip(("the first call", "a second call", "a third call"), calls):
        with recording(model) as passes:
            logits = m.prefill(list(ids), keys, values)
        yield Seen(f"the logits of {call}", logits, "token, n_vocab")
        yield Seen(f"the keys of block 2 after {call}", keys[2], "n_head, token, d_head")
        yield Seen(f"the values of block 2 after {call}", values[2], "n_head, token, d_head")
        n = sum(len(one.named("attention")) for one in passes)
        yield Seen(f"how often attention runs in {call}", n, "<=0")


def see_tokens(m, seed):
    """Look at how many tokens each loop reads, for four sizes."""
    for sizes in (6, 8), (1, 7), (9, 1), (24, 1000):
        yield Seen("naive_tokens({}, {})".format(*sizes), m.naive_tokens(*sizes))
        yield Seen("cached_tokens({}, {})".format(*sizes), m.cached_tokens(*sizes))


def see_endings(m, seed):
    """Look at log P of four endings, and at how many tokens the model reads."""
    watched = lessons.Watched(lessons.tiny_model(11, seed=3))
    found = m.log_p_endings(watched, [3, 1, 4], [[1, 5, 9], [2, 6], [8], [1, 5]])
    yield Seen("log P of four endings", found if found is None else np.array(found), "ending")
    n_read = sum(np.size(ids) for _, ids in watched.passes)
    yield Seen("how many tokens the model reads", n_read, "<=4")  # or the last token of an ending


exercise_loop = Part(("continue_greedily",), see_loop, WRONG)
exercise_step = Part(("step",), see_step, WRONG)
exercise_1 = Part(("prefill",), see_prefill, WRONG)
exercise_2 = Part(("naive_tokens", "cached_tokens"), see_tokens, WRONG)
exercise_3 = Part(("log_p_endings",), see_endings, WRONG)
