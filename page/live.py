"""--live puts the model itself into the page, so that the reader can continue the text there.

    model = in_8_bits(tokenizer, model)  # first, so that the run uses the page's weights
    page = html(record(tokenizer, sequence, run), parts(tokenizer, model))

Each row of a matrix is stored as 8-bit numbers and one scale, which take about a quarter of the
space of float32. The forward pass, tokenizer and panel are JavaScript, in page/browser/live.
"""

import copy
import json

import numpy as np

from encoder import CHAR_TO_BYTE, Tokenizer
from gpt2 import GPT2, gelu
from loading.errors import UserError
from page.pack import label, packed

MOST_PARAMETERS = 20_000_000  # a model of this size makes a page of 25 MB


def in_8_bits(tokenizer, model) -> GPT2:
    """Return a copy of a small GPT-2, rounded to 8 bits. Raises UserError for any other model."""
    is_gpt2 = type(model) is GPT2 and model.activation is gelu and type(tokenizer) is Tokenizer
    if not is_gpt2 or sum(map(np.size, arrays_in(model.params))) > MOST_PARAMETERS:
        raise UserError("--live puts a small GPT-2 into the page, such as stories; this is none")
    rounded = copy.deepcopy(model)
    for x in arrays_in(rounded.params):
        x[:] = np.multiply(*quantized(x))
    return rounded


def parts(tokenizer: Tokenizer, model: GPT2) -> dict:
    """Return the data that the page needs to run the model. model: the result of in_8_bits."""
    stored = zip(*map(quantized, arrays_in(model.params)))
    numbers, scales = (np.concatenate([x.ravel() for x in kind]) for kind in stored)
    ids, plain = range(tokenizer.n_vocab), {ord(char): byte for char, byte in CHAR_TO_BYTE.items()}
    words: dict = {"tokens": [tokenizer.token_bytes(id).decode("latin-1") for id in ids]}
    words["merges"] = ["→".join(pair).translate(plain) for pair in tokenizer.merges]
    words |= {"special": tokenizer.special, "labels": [label(tokenizer, id) for id in ids]}
    data = {name: getattr(model, name) for name in ("n_head", "stop_ids", "eps")}
    data["shapes"] = json.dumps(model.params, default=np.shape)
    data["words"] = packed(np.frombuffer(json.dumps(words).encode(), "u1"))
    return data | {"numbers": packed(numbers), "scales": packed(scales)}


def arrays_in(tree):  # return all arrays in nested dicts and lists, in order
    if not isinstance(tree, dict | list):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [x for part in parts for x in arrays_in(part)]


def quantized(x):  # [n_out, ...] -> integers from -127 to 127, and a scale for each row
    scale = np.abs(x).max(tuple(range(1, x.ndim)), keepdims=True) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(x / scale).astype(np.int8), scale
