"""--live puts the model itself into a page, so that its reader can continue the text.

    model = in_8_bits(tokenizer, model)  # before the run, so that it uses the page's weights
    page = html(record(tokenizer, sequence, run), parts(tokenizer, model))

Each row of a matrix becomes 8-bit numbers and a scale, which take a quarter of the space. The
forward pass, the tokenizer and the panel are JavaScript, in inside/browser/live.
"""

import copy
import json

import numpy as np

from encoder import Tokenizer
from gpt2 import GPT2, gelu
from inside.page import label, packed
from loading.errors import UserError
from loading.parameters import n_parameters

MOST_PARAMETERS = 20_000_000  # they make a page of 25 MB


def in_8_bits(tokenizer, model) -> GPT2:
    """Return a copy of a small GPT-2 with 8-bit parameters. UserError for any other model."""
    if type(model) is not GPT2 or model.activation is not gelu or type(tokenizer) is not Tokenizer:
        raise UserError("--live puts a GPT-2 into the page, such as stories; this is no GPT-2")
    if n_parameters(model.params) > MOST_PARAMETERS:
        raise UserError("this model is too large for --live: use a small one, such as stories")
    rounded = copy.copy(model)
    rounded.params = mapped(lambda x: np.multiply(*quantized(x)), model.params)
    return rounded


def parts(tokenizer: Tokenizer, model: GPT2) -> dict:
    """Return the data with which the page can run the model. model: from in_8_bits."""
    params: list = []
    mapped(params.append, model.params)
    stored = zip(*map(quantized, params))
    numbers, scales = (np.concatenate([x.ravel() for x in kind]) for kind in stored)
    words = {name: getattr(tokenizer, name) for name in ("tokens", "merges", "special")}
    words["labels"] = [label(tokenizer, id) for id in range(tokenizer.n_vocab)]
    data = {name: getattr(model, name) for name in ("n_head", "stop_ids", "eps")}
    data["shapes"] = json.dumps(model.params, default=np.shape)
    data["words"] = packed(np.frombuffer(json.dumps(words).encode(), "u1"))
    return data | {"numbers": packed(numbers), "scales": packed(scales)}


def mapped(change, tree):
    """Return a tree of parameters with `change` applied to each array."""
    if isinstance(tree, dict):
        return {name: mapped(change, part) for name, part in tree.items()}
    return [mapped(change, part) for part in tree] if isinstance(tree, list) else change(tree)


def quantized(x):  # [n_out, ...] -> whole numbers from -127 to 127, and each row's scale
    scale = np.abs(x).max(tuple(range(1, x.ndim)), keepdims=True) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(x / scale).astype(np.int8), scale
