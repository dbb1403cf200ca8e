"""Formulas for the FLOPs and the bytes of a pass, from the lessons Counting and The roofline.

A shape is (number of blocks, n_embd, n_vocab).
"""


def shape_of(model):
    """Return the shape of a GPT-2."""
    return len(model.params["blocks"]), model.n_embd, model.n_vocab


def pass_flops(shape, n_new, n_all):
    """Return the FLOPs of a pass over the last n_new of n_all tokens.

    The pass computes only one row of logits.
    """
    n_layer, d, n_vocab = shape
    matrices = 24 * d**2 * n_new
    attention = 4 * d * n_new * n_all
    return n_layer * (matrices + attention) + 2 * d * n_vocab


def pass_bytes(shape, n_all, n_rows=1):
    """Return the bytes that a pass over n_rows texts reads: the weights, and all keys and values.

    n_all: how many tokens each text has so far.
    """
    n_layer, d, n_vocab = shape
    weights = 12 * n_layer * d**2 + d * n_vocab
    keys_and_values = 2 * n_layer * d * n_all  # of one text
    return 4 * (weights + n_rows * keys_and_values)
