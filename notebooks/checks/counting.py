"""Checks: FLOPs wasted by padding, a prompt in chunks, FLOPs saved by a window."""

import math

import numpy as np
from counting import counted, pass_flops, shape_of

import utils

_, model = utils.load("stories")
STORIES = shape_of(model)


def exercise_1(wasted):
    """Check wasted(lengths) -> the share of FLOPs wasted by padding prompts of these lengths."""
    assert wasted([9, 9]) is not None, "write wasted"
    lengths = [10, 40, 25]
    padded = counted(model, model, np.zeros((3, 40), int), last=1)[1]
    apart = sum(counted(model, model, np.arange(n), last=1)[1] for n in lengths)
    share = wasted(lengths)
    assert 0 < share < 1, f"a share is a number from 0 to 1, not {share}"
    assert not math.isclose(share, apart / padded), "this is the share that is not wasted"
    assert not math.isclose(share, 1 - sum(lengths) / 120), (
        "return the share of FLOPs, not of tokens: attention grows with the square of the length"
    )
    right = 1 - apart / padded
    assert math.isclose(share, right), (
        f"for [10, 40, 25] the share is {right:.4f}, not {share:.4f}: compare one pass over 3 rows"
        " of 40 tokens with passes over 10, 40 and 25, each with one row of logits per prompt"
    )
    assert math.isclose(wasted([9, 9]), 0, abs_tol=1e-9), "prompts of equal length waste nothing"


def exercise_2(chunked):
    """Check chunked(model, ids, size) -> the logits at the last position, [n_vocab]."""
    ids = np.arange(200)
    assert chunked(model, ids, 64) is not None, "write chunked"
    for size in (1, 64, 200, 999):
        logits = chunked(model, ids, size)
        assert np.shape(logits) == (model.n_vocab,), (
            f"these are logits of shape {np.shape(logits)}, not of one position"
        )
        assert np.allclose(logits, model(ids)[-1], atol=1e-3), (
            f"with chunks of {size}, the logits are wrong: does a chunk see the chunks before it?"
        )
    b, d, n_vocab = STORIES
    _, done, _ = counted(model, chunked, model, ids, 50)
    least = sum(pass_flops(STORIES, 50, n) for n in (50, 100, 150, 200)) - 3 * 2 * d * n_vocab
    assert done >= least, "this takes fewer FLOPs than 200 tokens need: does the model read all?"
    assert done <= least + 3 * 2 * d * n_vocab, (
        "this takes more FLOPs than four chunks need: run the model on each token once, and compute"
        " at most one row of logits for each chunk"
    )


def exercise_3(window_saves):
    """Check window_saves(shape, n, w) -> the share of FLOPs that a window of w tokens saves."""
    assert window_saves(STORIES, 10, 5) is not None, "write window_saves"
    for shape, n, w in (STORIES, 300, 64), ((12, 768, 50257), 2000, 1), ((2, 8, 5), 9, 4):
        full = sum(pass_flops(shape, 1, i) for i in range(1, n + 1))
        attention = sum(4 * shape[0] * shape[1] * i for i in range(1, n + 1))
        first_too = 4 * shape[0] * shape[1] * w * n
        kept = sum(pass_flops(shape, 1, min(i, w)) for i in range(1, n + 1))
        share = window_saves(shape, n, w)
        assert not math.isclose(share, kept / full), "this is the share that is left, not saved"
        assert not math.isclose(share, (full - kept) / attention), (
            "return the share of all FLOPs, not of attention's"
        )
        assert w == 1 or not math.isclose(share, (attention - first_too) / full), (
            "the first tokens of the text see fewer tokens than the window holds"
        )
        assert math.isclose(share, 1 - kept / full), (
            f"a window of {w}, the token itself included, saves {1 - kept / full:.4f} of the FLOPs"
            f" of {n} steps, not {share:.4f}"
        )
    assert window_saves(STORIES, 10, 10) == 0, "a window as long as the text saves nothing"
    assert window_saves(STORIES, 10, 99) == 0, "a window longer than the text saves nothing"
