"""A page about one text, for any browser: its tokens, and what the model computed for them.

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
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from generate import Sequence, begin, cached
from gpt2 import log_softmax, softmax
from inside.candidates import SLIDERS, candidates, filter_names, top
from inside.labels import label
from inside.recorder import Call, recording
from inside.run import read_draws, read_passes, watching
from inside.why import KEEP, parts
from samplers import make_sampler

FOLDER = Path(__file__).parent / "browser"
SCRIPTS = "tools address sampling text candidates why attention lens cache drafts beams play main"
SHOWN = "model method seed loop draft drafter gamma beams length_penalty".split()
TYPES = {"u1": "Uint8", "u2": "Uint16", "u4": "Uint32", "i2": "Int16", "f4": "Float32"}
LEVELS = 63  # sqrt(weight) is rounded to this many steps; the root keeps small ones
MOST_WEIGHTS = 8_000_000  # a text with more attention weights stores its last rows only


def show(tokenizer, model, prompt: str, n: int = 40, seed: int = 0, loop=cached, **settings):
    """Generate n tokens, and show their page in a notebook. settings: make_sampler's."""
    from IPython.display import HTML  # late: only notebooks have it

    prompt_ids, source = tokenizer.encode(prompt), ()
    if hasattr(model, "read"):
        prompt_ids = source = model.add_special_tokens(prompt_ids)
    model, start = begin(model, prompt_ids)
    sequence = Sequence(model, start, n, make_sampler(**settings), seed)
    with watching(sequence) as run:
        for _ in loop(model, sequence):
            pass
    page = html(record(tokenizer, sequence, run, source, (), settings | {"seed": seed}))
    frame = f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 900px"></iframe>'
    return HTML(f"<div>{frame}</div>")


def html(recorded: dict, live: dict[str, str] | None = None) -> str:
    """Return the page of `record`'s result: data, style and scripts in one file.

    live: the result of live.parts, which runs the model itself in the page."""
    live = {"style": "", "section": ""} | (live or {})
    parts = {
        "style": (FOLDER / "page.css").read_text("utf-8") + live["style"],
        "scripts": "".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS.split()),
        "live": live["section"],
        "data": json.dumps(recorded).replace("<", "\\u003c"),  # a text may hold </script>
    }
    page = (FOLDER / "page.html").read_text("utf-8")
    return re.sub("<!-- (.*) -->", lambda found: parts[found[1]], page)


def record(tokenizer, sequence: Sequence, run, source=(), steps=(), settings=SLIDERS) -> dict:
    """Return the data of a page about a finished sequence.

    run: the notes of `watching`; source: the ids that an encoder-decoder read; steps: beam search's
    trace; settings: the sampler's settings, and the heading's, which SHOWN names.
    """
    n, ids, source = len(sequence.ids) - 1, sequence.ids, [*source]
    sliders = SLIDERS | {k: x for k, x in settings.items() if k in SLIDERS and x is not None}
    data = {
        "settings": {name: without_folder(settings.get(name)) for name in SHOWN} | sliders,
        "ids": ids, "pieces": pieces(tokenizer, ids), "n_prompt": sequence.n_prompt,
        "source": source, "source_pieces": pieces(tokenizer, source),
        "beams": [[beam(candidate, sequence) for candidate in step] for step in steps],
        "passes": read_passes(run, sequence), "filters": filter_names(sequence.sampler),
        "temperatures": sorted({*(np.arange(1, 21) / 10), sliders["temperature"] or 1.0}),
    }  # fmt: skip
    arrays = look_inside(sequence, run, data, n)
    shown = {*ids, *source, *arrays["best"].flat, *arrays["rivals"].flat}
    shown |= {token for step in data["beams"] for _, token, *_ in step}
    shown |= {token for layer in data["layers"] for tokens, _ in layer for token, _ in tokens}
    shown |= {token for one in data["passes"] for token, *_ in one["bets"] + one["residual"]}
    data["labels"] = {int(id): label(tokenizer, id) for id in shown}
    return data | {"arrays": {name: packed(array) for name, array in arrays.items()}}


def beam(candidate, sequence: Sequence) -> tuple[int, int, float, str]:
    """Return a beam's parent, token, log P and status: "limit" if it ended without a stop id."""
    status, token = candidate.status, candidate.ids[-1]
    if status == "finished" and token not in sequence.stop_ids:
        status = "limit"
    return candidate.parent, token, candidate.log_probability, status


def look_inside(sequence, run, data: dict, n: int) -> dict[str, np.ndarray]:
    """Add what the model computes to data; return the large arrays. One more pass over the whole
    text shows every token. Its numbers equal those of a run with a cache, except for rounding."""
    model, ids, has_source = sequence.model, sequence.ids, bool(data["source"])
    with recording(model, dict.fromkeys(KEEP, np.copy) | {"softmax": rounded}) as calls:
        logits = model(np.array(ids[:-1]))  # [n, n_vocab]: row i predicts token i + 1
    logprobs = log_softmax(logits)
    seen = logprobs if data["beams"] else logits  # beam search filters log-probabilities
    n_best = max(64, min(256, 40_000 // n), 16 + int(data["settings"]["top_k"]))
    arrays = candidates(seen, sequence, data["temperatures"], n_best)
    n_rivals = max(3, min(10, 1600 // n, model.n_vocab - 1))
    best = ([id for id in top(row, n_rivals + 1) if id != came] for row, came in zip(seen, ids[1:]))
    arrays["rivals"] = np.array([row[:n_rivals] for row in best])
    added = parts(calls[-1], model, ids[1:], arrays["rivals"])
    data["unit"] = None if added is None else max(float(np.abs(added).max()), 1e-9) / 32767
    if added is not None:
        arrays["added"] = np.rint(added / data["unit"]).astype("i2")
    looks = [call for call in calls[-1].walk() if call.name == "attention"][:: 1 + has_source]
    data["kv_bytes"] = sum(2 * 4 * math.prod(look.inputs["k"]) for look in looks) // n
    data |= {"n_layer": len(looks), "n_head": model.n_head, "n_vocab": model.n_vocab}
    data |= {"logprobs": logprobs[range(n), ids[1:]].tolist(), "levels": LEVELS}
    data["layers"] = [read_early(model, k, ids) for k in range(1, 1 + len(looks))]
    data["draws"] = read_draws(run, sequence, data["passes"], logits)
    if data["beams"]:
        data["draws"] = [["beams"]] * len(sequence.new_ids)
    return arrays | attention_weights(calls[-1], n, has_source)


def read_early(model, n: int, ids: list[int]) -> list[tuple]:
    """Run the first n layers, then the head (the logit lens, nostalgebraist 2020). Return for each
    token the three best next tokens [[token, P], ...], and P of the token that came."""
    early, params = copy.copy(model), model.params
    stack = params.get("decoder", params)
    short = stack | {"blocks": stack["blocks"][:n]}
    early.params = params | {"decoder": short} if "decoder" in params else short
    rows = zip(softmax(early(np.array(ids[:-1]))), ids[1:])
    return [
        ([(id, round(float(row[id]), 6)) for id in top(row, 3)], round(float(row[came]), 6))
        for row, came in rows
    ]


def attention_weights(root: Call, n: int, has_source: bool) -> dict[str, np.ndarray]:
    """Return the rounded weights. own [n_layer, n_head, n_rows, n]: the stored rows; cross [n_layer, n_head, n_rows, n_source]; skipped: the number of rows not stored."""
    kept = [call.value for call in root.walk() if call.name == "softmax"]
    weights = [w.reshape(-1, n, w.shape[-1]) for w in kept]
    own, cross = np.array(weights[:: 1 + has_source]), np.array(weights[1 :: 1 + has_source])
    skipped = max(0, n - MOST_WEIGHTS // (len(own) * own.shape[1] * n))
    found = {"own": own[:, :, skipped:], "skipped": np.array([skipped])}
    return found | ({"cross": cross[:, :, skipped:]} if has_source else {})


def rounded(weights):  # [..., n, n_keys] -> the same in bytes
    return (LEVELS * np.sqrt(weights) + 0.5).astype("u1")


def pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    """Return the text that each token adds: a character comes with its last byte."""
    stream = tokenizer.stream()
    return [stream.feed(id) for id in ids]


def without_folder(x: Any) -> Any:
    """Turn /home/me/plug.py:mine(2) into plug.py:mine(2): a page is made to be sent."""
    return re.sub(r"^([A-Za-z]:)?[\\/.~][^:]*[\\/]", "", x) if isinstance(x, str) else x


def packed(array: np.ndarray) -> list[str]:
    """Return JavaScript's type of an array, and its bytes, deflated, in base64."""
    kind = "f4" if array.dtype.kind == "f" else array.dtype.str[1:]
    if kind not in TYPES:  # whole numbers: the smallest type that holds them
        kind = next(u for u in ("u1", "u2", "u4") if array.max(initial=0) <= np.iinfo(u).max)
    data = zlib.compress(array.astype("<" + kind).tobytes(), 9)
    return [TYPES[kind] + "Array", base64.b64encode(data).decode()]
