"""The exercises of lesson 4: prefill, the triangle, many endings of one beginning."""

import numpy as np

import utils
from gpt2 import log_softmax
from inside.recorder import passes, recording

tokenizer, model = utils.load("stories")
IDS = tokenizer.encode("One day, a little bird saw a big red ball.")


def no_rows():
    shape = model.n_head, 0, model.n_embd // model.n_head
    return [np.zeros(shape, np.float32) for _ in model.params["blocks"]]


def exercise_1(prefill):
    """The answer: prefill(ids, keys, values) -> logits [len(ids), n_vocab]."""
    keys, values = no_rows(), no_rows()
    logits = prefill(IDS, keys, values)
    assert logits is not None, "write prefill"
    assert np.shape(logits) == (len(IDS), model.n_vocab), "a row of logits for each new token"
    cache, expected = model.new_cache(), model(IDS)
    model(IDS, cache)
    short = prefill(IDS[:4], no_rows(), no_rows())
    assert np.allclose(short, logits[:4], atol=1e-3), "earlier rows see tokens that come after them"
    assert np.allclose(logits, expected, atol=1e-3), "these are not the logits of model(ids)"
    kept = [np.shape(matrix) == cache.kv[0, 0, :, : len(IDS)].shape for matrix in keys + values]
    assert all(kept), "keys and values should hold a row for each token"
    for ours, mine in ((cache.kv[0], keys), (cache.kv[1], values)):
        assert np.allclose(ours[:, :, : len(IDS)], mine, atol=1e-3), "other keys or values"
    keys, values = no_rows(), no_rows()
    parts = [prefill(IDS[:4], keys, values), prefill(IDS[4:], keys, values)]
    assert np.allclose(np.vstack(parts), expected, atol=1e-3), "it fails after tokens that are kept"


def exercise_2(naive_tokens, cached_tokens):
    """The answers: naive_tokens(m, n); cached_tokens(m, n)."""
    answers = naive_tokens(4, 8), cached_tokens(4, 8)
    assert None not in answers, "write naive_tokens and cached_tokens"
    assert answers[0] == 60, "the naive loop: count the orange and blue squares of the left picture"
    assert answers[1] == 11, "the cached loop: count the squares of the right picture"
    for m, n in ((1, 1), (1, 7), (9, 1), (24, 1000)):
        rows = range(m, m + n)  # the tokens of each pass
        assert naive_tokens(m, n) == sum(rows), f"naive_tokens is wrong for m = {m}, n = {n}"
        assert cached_tokens(m, n) == rows[-1], f"cached_tokens is wrong for m = {m}, n = {n}"


def exercise_3(log_p_endings):
    """The answer: log_p_endings(model, beginning, endings): ids, lists of ids -> floats."""
    beginning = tokenizer.encode("Lily wanted to eat the")
    endings = [tokenizer.encode(text) for text in (" cake.", " tree.", " big red apple, too.")]
    with recording(model) as calls:
        found = log_p_endings(model, beginning, endings)
    assert found is not None, "write log_p_endings"
    assert len(found) == len(endings), "a number for each ending"
    for number, ending in zip(found, endings):
        rows = log_softmax(model([*beginning, *ending]))[len(beginning) - 1 : -1]
        expected = rows[range(len(ending)), ending]
        tail = expected[1:].sum()
        assert not np.isclose(number, tail, atol=1e-3), "the first token of an ending is missing"
        assert np.isclose(number, expected.sum(), atol=1e-3), "a sum of log P is wrong"
    most = len(beginning) + sum(map(len, endings))
    passed = sum(next(c for c in one.walk() if c.name == "block").inputs["x"][-2]
                 for one in passes(calls, model))  # fmt: skip
    assert passed <= most, f"{passed} tokens have passed through the model: {most} are enough"
