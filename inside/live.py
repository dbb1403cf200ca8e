"""--live: the model itself in a page, so that its reader can go on with the text.

    model = in_8_bits(model)  # before the run, so that it has the weights that the page gets
    page = with_model(html(record(tokenizer, model, sequence, calls)), tokenizer, model)

A matrix is stored in 8 bits, with a scale for each row: a quarter of its size. The forward pass,
the tokenizer and the panel are JavaScript, in inside/browser/live.
"""

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from encoder import Tokenizer
from gpt2 import GPT2, gelu, n_parameters

FOLDER = Path(__file__).parent / "browser" / "live"
SCRIPTS = ("gpt2", "encoder", "generate", "live")
MOST_PARAMETERS = 20_000_000  # a page of 27 MB


def in_8_bits(model: Any) -> GPT2:
    """Return the model with its matrices rounded to 8 bits. ValueError if it is no small GPT-2."""
    if type(model) is not GPT2 or model.activation is not gelu:
        raise ValueError("a live page runs GPT-2: choose another model, such as stories")
    if n_parameters(model.params) > MOST_PARAMETERS:
        raise ValueError("this model is too large for a live page: choose another, such as stories")
    rounded = copy.copy(model)
    rounded.params = mapped(lambda w: np.multiply(*quantized(w)), model.params)
    return rounded


def with_model(page: str, tokenizer: Tokenizer, model: GPT2) -> str:
    """Put a model of in_8_bits, its tokenizer and what runs them into a page."""
    data = {
        "params": mapped(packed_matrix, model.params, packed),
        "n_head": model.n_head, "stop_ids": model.stop_ids, "eps": model.eps,
        "vocab": sorted(tokenizer.vocab, key=tokenizer.vocab.__getitem__),
        "special": tokenizer.special, "merges": [" ".join(pair) for pair in tokenizer.merges],
    }  # fmt: skip
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # it may hold </script>
    scripts = "".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    style, section = ((FOLDER / name).read_text("utf-8") for name in ("live.css", "live.html"))
    before, end, after = page.rpartition("</body>")
    return (
        f"{before}<style>\n{style}</style>\n{section}"
        f'<script id="model" type="application/json">{text}</script>\n'
        f'<script type="module">\n{scripts}</script>\n{end}{after}'
    )


def mapped(change: Callable, tree: Any, change_vector: Callable = np.asarray) -> Any:
    """Change each matrix of a tree of parameters, and each vector."""
    if isinstance(tree, dict):
        return {name: mapped(change, part, change_vector) for name, part in tree.items()}
    if isinstance(tree, list):
        return [mapped(change, part, change_vector) for part in tree]
    return change(tree) if tree.ndim == 2 else change_vector(tree)


def quantized(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return w [n_out, n_in] as whole numbers from -127 to 127, and each row's scale [n_out, 1]."""
    scale = np.abs(w).max(-1, keepdims=True) / np.float32(127)
    scale[scale == 0] = 1
    return np.rint(w / scale).astype(np.int8), scale


def packed_matrix(w: np.ndarray) -> dict[str, str]:
    """Return the numbers and the scales of w in base64."""
    rows, scale = quantized(w)
    return {"rows": packed(rows), "scale": packed(scale)}


def packed(array: np.ndarray) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(array.tobytes()).decode()
