"""Checks: the loop, prefill, counting tokens, many endings of one beginning."""

import sys

import numpy as np

import utils
from gpt2 import (
    attention,
    causal_mask,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    merge_heads,
    split_heads,
)
from page.recorder import passes, recording

tokenizer, model = utils.load("stories")
IDS = tokenizer.encode("One day, a little bird saw a big red ball.")
N_OLD = 4  # how many tokens are cached before the second call in exercise 1


def exercise_loop(continue_greedily):
    """Check continue_greedily(ids, n) -> the given ids and n new ones."""
    right = IDS[:6]
    for _ in range(5):
        right = [*right, int(model(np.array(right))[-1].argmax())]
    answer = continue_greedily(IDS[:6], 5)
    assert answer is not None, "write continue_greedily, and return the ids"
    assert np.ndim(answer) == 1, "return one list of ids"
    assert len(answer) == len(right), f"return 6 ids and 5 more, 11 in all, not {len(answer)}"
    assert list(answer[:6]) == IDS[:6], "the answer should begin with the given ids"
    logits = model(np.array(IDS[:6]))  # [6, n_vocab]
    from_elsewhere = int(answer[6]) in {int(logits.argmax()), *logits[:-1].argmax(-1).tolist()}
    assert not from_elsewhere, (
        "the first new token is not from the last row, the only one about the future"
    )
    assert list(map(int, answer)) == right, "a token is wrong: take the best token of the last row"


def no_rows():
    """Return a list with an empty array [n_head, 0, d_head] for each block."""
    shape = model.n_head, 0, model.n_embd // model.n_head
    return [np.zeros(shape, np.float32) for _ in model.params["blocks"]]


def passed(ids, positions, mask, keys, values):
    """Run the model with these positions and this mask -> logits [n, n_vocab].

    keys and values are lists with an array for each block. New rows are appended to these arrays.
    """
    params = model.params
    x = params["wte"][ids] + params["wpe"][positions]
    for i, block in enumerate(params["blocks"]):
        qkv = linear(layer_norm(x, **block["ln_1"]), **block["attn"]["c_attn"])
        q, k, v = (split_heads(part, model.n_head) for part in np.split(qkv, 3, axis=-1))
        keys[i] = np.concatenate([keys[i], k], axis=1)
        values[i] = np.concatenate([values[i], v], axis=1)
        mixed = attention(q, keys[i], values[i], mask)
        x = x + linear(merge_heads(mixed), **block["attn"]["c_proj"])
        x = x + feed_forward(layer_norm(x, **block["ln_2"]), **block["mlp"], activation=gelu)
    return linear(layer_norm(x, **params["ln_f"]), params["wte"])


def mistakes(ids, n_old, keys, values):
    """Return {a mistake's message: its logits [n, n_vocab]}, for n_old tokens in the cache."""
    n, right = len(ids), np.arange(n_old, n_old + len(ids))
    causal, new = causal_mask(right), causal_mask(np.arange(n))  # [1, n, n_old + n], [1, n, n]
    seen = np.zeros((1, n, n_old), np.float32)
    kept_hidden = np.concatenate([seen - np.float32(1e10), new], axis=-1)
    shifted = np.concatenate([new, seen], axis=-1)
    cases = {
        "the positions begin at 0 again: how many tokens are stored?": (np.arange(n), causal),
        "each position is one too large: the first token has position 0": (right + 1, causal),
        "there is no mask: a token sees the tokens after it": (right, 0),
        "the mask hides the old tokens: every new token should see them": (right, kept_hidden),
        "the mask is shifted: it hides old tokens and shows later ones": (right, shifted),
    }
    return {said: passed(ids, *case, list(keys), list(values)) for said, case in cases.items()}


def layers_called(prefill, ids):
    """Return 1 + how often prefill calls gpt2.linear. The 1 avoids a division by 0."""
    found, before = [linear.__code__], sys.getprofile()

    def watch(frame, event, arg):
        if event == "call" and frame.f_code is linear.__code__:
            found.append(frame.f_code)

    sys.setprofile(watch)
    try:
        prefill(ids, no_rows(), no_rows())
    finally:
        sys.setprofile(before)
    return len(found)


def exercise_1(prefill):
    """Check prefill(ids, keys, values) -> logits [len(ids), n_vocab]."""
    keys, values, expected = no_rows(), no_rows(), model(np.array(IDS))
    logits = prefill(IDS, keys, values)
    assert logits is not None, "write prefill"
    shape = len(IDS), model.n_vocab
    assert np.shape(logits) == shape, "return a row of logits for each new token"
    for said, wrong in mistakes(IDS, 0, no_rows(), no_rows()).items():
        same = np.allclose(logits, wrong, atol=1e-3) and not np.allclose(wrong, expected, atol=1e-3)
        assert not same, said
    assert np.allclose(logits, expected, atol=1e-3), "the logits differ from model(ids)"
    n_passes = layers_called(prefill, IDS) / layers_called(prefill, IDS[:1])
    assert n_passes <= 1, f"{len(IDS)} tokens take {n_passes:.0f} passes: one is enough for all"
    right_keys, right_values = no_rows(), no_rows()
    passed(IDS, np.arange(len(IDS)), causal_mask(np.arange(len(IDS))), right_keys, right_values)
    kept = [np.shape(matrix)[1] for matrix in keys + values]
    assert set(kept) == {len(IDS)}, f"keys and values should have {len(IDS)} rows, not {kept[0]}"
    swapped = np.allclose(keys, right_values, atol=1e-3)
    assert not swapped, "keys and values are swapped"
    for name, mine, ours in (("keys", keys, right_keys), ("values", values, right_values)):
        same = np.allclose(mine, ours, atol=1e-3)
        assert same, f"the {name} differ from those of model(ids, cache): what do you append?"
    keys, values = no_rows(), no_rows()
    prefill(IDS[:N_OLD], keys, values)
    before = list(keys), list(values)
    rest = prefill(IDS[N_OLD:], keys, values)
    for said, wrong in mistakes(IDS[N_OLD:], N_OLD, *before).items():
        same = np.allclose(rest, wrong, atol=1e-3)
        assert not same, f"in a second call, {said}"
    assert np.allclose(rest, expected[N_OLD:], atol=1e-3), (
        "in a second call, the logits are wrong: compare the positions, the mask and the keys with"
        " those of one call"
    )


def exercise_2(naive_tokens, cached_tokens):
    """Check naive_tokens(m, n) and cached_tokens(m, n) -> how many tokens the model reads."""
    answers = naive_tokens(6, 8), cached_tokens(6, 8)
    assert None not in answers, "write naive_tokens and cached_tokens"
    assert answers[0] == 76, "naive_tokens is wrong: count all squares of the left picture"
    assert answers[1] != 14, "cached_tokens is one too large: does the last new token need a pass?"
    assert answers[1] == 13, "cached_tokens is wrong: count the squares of the right picture"
    for m, n in ((1, 1), (1, 7), (9, 1), (24, 1000)):
        rows = range(m, m + n)  # how many tokens each naive pass reads
        assert naive_tokens(m, n) == sum(rows), f"naive_tokens is wrong for m = {m}, n = {n}"
        assert cached_tokens(m, n) == rows[-1], f"cached_tokens is wrong for m = {m}, n = {n}"


def exercise_3(log_p_endings):
    """Check log_p_endings(model, beginning, endings) -> log P of each ending (a list of ids)."""
    beginning = tokenizer.encode("Lily wanted to eat the")
    endings = [tokenizer.encode(text) for text in (" cake.", " tree.", " big red apple, too.")]
    with recording(model) as calls:
        found = log_p_endings(model, beginning, endings)
    assert found is not None, "write log_p_endings"
    assert len(found) == len(endings), "return a number for each ending"
    for number, before, ending in zip(found, [[], *endings], endings):
        rows = log_softmax(model(np.array([*beginning, *ending])))
        right, n = range(len(beginning) - 1, len(beginning) - 1 + len(ending)), len(ending)
        expected = rows[right, ending]
        late = [*rows[[i + 1 for i in right], ending]]
        uncut = log_softmax(model(np.array([*beginning, *before[:-1], *ending])))[-n - 1 : -1]
        known = {
            "the first token of an ending is missing": expected[1:].sum(),
            "the last token of an ending is missing": expected[:-1].sum(),
            "the rows are one too late: a token's row scores the token after it": sum(late),
            "this is the mean: return the sum": expected.mean(),
        }
        for said, wrong in known.items():
            assert not np.isclose(number, wrong, atol=1e-3), said
        if before:
            forgotten = uncut[1:][range(n - 1), ending[1:]].sum() + expected[0]
            assert not np.isclose(number, forgotten, atol=1e-3), (
                "the previous ending is still in the cache: cut it off"
            )
        assert np.isclose(number, expected.sum(), atol=1e-3), (
            f"the log P of an ending is {expected.sum():.3f}, not {number:.3f}"
        )
    most = len(beginning) + sum(map(len, endings))
    blocks = [next(c for c in one.walk() if c.name == "block") for one in passes(calls, model)]
    used = sum(block.inputs["x"][-2] for block in blocks)
    assert used <= most, (
        f"the model runs on {used} tokens, but {most} are enough: read the beginning once"
    )
