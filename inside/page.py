"""A page about one text, which any browser opens: what came, and what the model did for it.

    with watching(sequence) as run:
        ...  # any loop lengthens the sequence
    Path("page.html").write_text(html(record(tokenizer, sequence, run)), "utf-8")

In a notebook: show(tokenizer, model, "Once upon a time", top_k=40).
"""

import base64
import copy
import json
import math
import re
import zlib
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from generate import Loop, Model, Sequence, begin, cached
from gpt2 import log_softmax, softmax
from inside.candidates import SLIDERS, candidates, filter_names, top
from inside.labels import label
from inside.recorder import Call, recording
from inside.run import Run, read_draws, read_passes, watching
from inside.why import KEEP, parts
from samplers import Ids, make_sampler

FOLDER = Path(__file__).parent / "browser"
SCRIPTS = ["tools", "address", "sampling", "text", "candidates", "why", "attention", "lens",
           "cache", "drafts", "beams", "play", "main"]  # fmt: skip
MOST_WEIGHTS = 8_000_000  # of a text with more attention weights only the last rows are stored
LEVELS = 63  # sqrt(weight) is rounded to so many steps, which keeps the small ones
SHOWN = ["model", "method", "seed", "loop", "draft", "gamma", "beams", "length_penalty"]
DTYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "i2": "Int16Array", "u4": "Uint32Array",
          "f4": "Float32Array"}  # fmt: skip


def show(
    tokenizer: Any, model: Any, prompt: str, n: int = 40, seed: int = 0, loop: Loop = cached,
    **settings: Any,
) -> Any:  # fmt: skip
    """Generate n tokens, and show their page in a notebook. settings: of samplers.make_sampler."""
    from IPython.display import HTML  # late: only notebooks have it

    prompt_ids, has_source = tokenizer.encode(prompt), hasattr(model, "read")
    prompt_ids = model.add_special_tokens(prompt_ids) if has_source else prompt_ids
    model, start = begin(model, prompt_ids)
    sequence = Sequence(model, start, n, make_sampler(**settings), seed)
    with watching(sequence) as run:
        for _ in loop(model, sequence):
            pass
    source = prompt_ids if has_source else ()
    page = html(record(tokenizer, sequence, run, source, settings=settings | {"seed": seed}))
    frame = f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 900px"></iframe>'
    return HTML(f"<div>{frame}</div>")


def html(recorded: dict, live: dict[str, str] | None = None) -> str:
    """What `record` returns -> the page: data, style and scripts in one file. live: what runs
    the model itself in the page, as live.parts returns it."""
    live = live or {}
    parts = {"style": (FOLDER / "page.css").read_text("utf-8") + live.get("style", "")}
    parts["scripts"] = "".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    parts["live"] = live.get("section", "")
    parts["data"] = json.dumps(recorded).replace("<", "\\u003c")  # a text may hold </script>
    page = (FOLDER / "page.html").read_text("utf-8")
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text)
    return page


def record(
    tokenizer: Any, sequence: Sequence, run: Run, source: Ids | tuple[()] = (),
    steps: Iterable = (), settings: dict[str, Any] = SLIDERS,
) -> dict[str, Any]:  # fmt: skip
    """The data of a page. sequence: a finished one; run: what was noted while it grew; source: of
    an encoder-decoder; steps: the trace of beam search; settings: those of the sampler, and for the
    heading "model", "method", "seed", "loop", "draft", "gamma", "beams", "length_penalty",
    "filters".

    One more pass over the whole text, recorded too, shows the model at each token: with or without
    a cache its numbers are the same.
    """
    model, ids = sequence.model, [int(id) for id in sequence.ids]
    inputs = np.array(ids[:-1])
    n, steps, passes = len(inputs), [*steps], read_passes(run, sequence)
    with recording(model, dict.fromkeys(KEEP, np.copy) | {"softmax": rounded}) as looked:
        logits = model(inputs)  # [n, n_vocab]: row i predicts token i + 1
    logprobs = log_softmax(logits)
    if steps:  # beam search filters these
        logits = logprobs
    sliders = {name: settings.get(name) for name in SLIDERS}
    sliders = {name: SLIDERS[name] if x is None else x for name, x in sliders.items()}
    temperatures = sorted({*(np.arange(1, 21) / 10), sliders["temperature"] or 1.0})
    n_best = max(64, min(256, 40_000 // n), 16 + int(sliders["top_k"]))
    arrays = candidates(logits, sequence, temperatures, n_best)
    n_rivals = max(3, min(10, 1600 // n, model.n_vocab - 1))
    best = [[id for id in top(row, n_rivals + 1) if id != came] for row, came in zip(logits, ids[1:])]
    rivals = np.array([row[:n_rivals] for row in best])
    added = parts(looked[-1], model, ids[1:], rivals)
    arrays |= {"rivals": rivals, **attention_weights(looked[-1], n, bool(source))}
    if added is not None:
        unit = max(float(np.abs(added).max()), 1e-9) / 32767
        arrays["added"] = np.rint(added / unit).astype("i2")
    n_layer = len(model.params.get("decoder", model.params)["blocks"])
    early = [read_early(model, k, inputs, ids[1:]) for k in range(1, 1 + n_layer)]
    beams = [[(c.parent, c.ids[-1], c.log_probability, c.status) for c in step] for step in steps]
    shown = {*ids, *source, *arrays["best"].flat, *rivals.flat}
    shown |= {token for step in beams for _, token, *_ in step}
    shown |= {token for layer in early for tokens, _ in layer for token, _ in tokens}
    shown |= {token for one in passes for token, *_ in one["bets"] + one["residual"]}
    return {
        "settings": {name: without_folder(settings.get(name)) for name in SHOWN} | sliders,
        "labels": {int(id): label(tokenizer, id) for id in shown},
        "source": [*source], "source_pieces": pieces(tokenizer, source),
        "ids": ids, "pieces": pieces(tokenizer, ids), "n_prompt": sequence.n_prompt,
        "logprobs": logprobs[range(n), ids[1:]].tolist(), "n_vocab": model.n_vocab,
        "filters": filter_names(sequence.sampler), "temperatures": temperatures, "layers": early,
        "n_layer": n_layer, "n_head": model.n_head, "levels": LEVELS,
        "unit": None if added is None else unit,
        "draws": [["beams"]] * len(sequence.new_ids) if steps else
                 read_draws(run, sequence, passes, logits), "passes": passes, "beams": beams,
        "kv_bytes": kv_bytes(looked[-1], n, bool(source)),
        "arrays": {name: packed(array) for name, array in arrays.items()},
    }  # fmt: skip


def read_early(model, n, inputs, ids):
    """The logit lens (nostalgebraist 2020): the model without the layers after its first n. -> for
    each input its three best tokens [[token, P], ...], and P of the one that came."""
    early, params = copy.copy(model), model.params
    stack = params.get("decoder", params)
    short = stack | {"blocks": stack["blocks"][:n]}
    early.params = params | {"decoder": short} if "decoder" in params else short
    probs = softmax(early(inputs))
    return [([(id, round(float(row[id]), 4)) for id in top(row, 3)], round(float(row[came]), 4))
            for row, came in zip(probs, ids)]  # fmt: skip


def rounded(weights):  # [..., n, n_keys] -> the same in bytes
    return (LEVELS * np.sqrt(weights) + 0.5).astype("u1")


def attention_weights(root: Call, n: int, has_source: bool) -> dict[str, np.ndarray]:
    """The rounded weights, own: of the tokens up to each of the last rows, [n_layer, n_head, their
    number]; cross: of the source [n_layer, n_head, rows, n_source]; skipped: the rows before."""
    weights = [c.value.reshape(-1, n, c.value.shape[-1]) for c in root.walk() if c.name == "softmax"]
    own, cross = np.array(weights[:: 1 + has_source]), np.array(weights[1::2] if has_source else [])
    n_rows = MOST_WEIGHTS // (len(own) * own.shape[1] * n)
    rows, keys = np.tril_indices(n)
    stored = rows >= n - n_rows
    found = {"own": own[:, :, rows[stored], keys[stored]], "skipped": np.array([max(0, n - n_rows)])}
    return found | ({"cross": cross[:, :, -n_rows:]} if has_source else {})


def kv_bytes(root: Call, n: int, has_source: bool) -> int:
    """The bytes that a cache keeps of one token: keys and values of all layers."""
    looks = [call for call in root.walk() if call.name == "attention"][:: 1 + has_source]
    return sum(2 * 4 * math.prod(call.inputs["k"]) for call in looks) // n


def pieces(tokenizer: Any, ids: Ids) -> list[str]:
    """The text that each token adds: a character comes with its last byte."""
    stream = tokenizer.stream()
    return [stream.feed(id) for id in ids]


def without_folder(x: Any) -> Any:
    """/home/me/plug.py:mine(2) -> plug.py:mine(2): a page is made to be sent."""
    return re.sub(r"^([A-Za-z]:)?[\\/.~][^:]*[\\/]", "", x) if isinstance(x, str) else x


def packed(array: np.ndarray) -> list[str]:
    """JavaScript's type of an array, and its bytes, deflated, in base64."""
    kind = "f4" if array.dtype.kind == "f" else array.dtype.str[1:]
    if array.dtype.kind == "i" and array.dtype != "i2":
        kind = next(u for u in ("u1", "u2", "u4") if array.max(initial=0) <= np.iinfo(u).max)
    data = zlib.compress(array.astype("<" + kind).tobytes(), 9)
    return [DTYPES[kind], base64.b64encode(data).decode()]
