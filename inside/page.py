"""A page about one text, which any browser opens: what came, and what the model did for it.

    with recording(model, keep=KEEP) as calls:
        ...  # any loop lengthens `sequence`
    Path("page.html").write_text(html(record(tokenizer, model, sequence, calls)), "utf-8")

In a notebook: show(tokenizer, model, "Once upon a time", top_k=40).
"""

import base64
import copy
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from drafters import best as top
from generate import Loop, Sequence, cached
from gpt2 import log_softmax, softmax
from inside.labels import label
from inside.recorder import Call, passes, recording
from interface import Ids, Model
from samplers import make_sampler

FOLDER = Path(__file__).parent / "browser"
SCRIPTS = ("tools", "sampling", "text", "candidates", "attention", "lens", "cache", "drafts",
           "beams", "main")  # fmt: skip
SLIDERS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # where they change nothing
N_BEST = 256  # logits that are stored of each position
MOST_WEIGHTS = 4_000_000  # a text that has more attention weights is shown without them
KEEP = ["check_ids"]  # in the recorded run: the ids of each pass, drafts among them


def show(
    tokenizer: Any, model: Any, prompt: str, n: int = 40, seed: int = 0, loop: Loop = cached,
    **settings: Any,
) -> Any:  # fmt: skip
    """Generate n tokens, and show their page in a notebook. settings: of samplers.make_sampler."""
    from IPython.display import HTML  # late: only notebooks have it

    source = tokenizer.encode(prompt)
    source = model.add_special_tokens(source) if model.has_source else source
    conditioned, [start] = model.begin([source])
    sequence = Sequence(conditioned, start, n, make_sampler(**settings), seed)
    with recording(model, KEEP) as calls:
        for _ in loop(conditioned, [sequence]):
            pass
    page = html(record(tokenizer, model, sequence, calls, source, settings=settings))
    frame = f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 900px"></iframe>'
    return HTML(f"<div>{frame}</div>")


def html(recorded: dict) -> str:
    """What `record` returns -> the page: data, style and scripts in one file."""
    parts = {"style": (FOLDER / "page.css").read_text("utf-8")}
    parts["scripts"] = "".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    parts["data"] = json.dumps(recorded).replace("<", "\\u003c")  # a text may hold </script>
    page = (FOLDER / "page.html").read_text("utf-8")
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text)
    return page


def record(
    tokenizer: Any, model: Any, sequence: Sequence, calls: list[Call],
    source: Ids | tuple[()] = (), steps: Iterable = (), settings: dict[str, Any] = SLIDERS,
) -> dict[str, Any]:  # fmt: skip
    """The data of a page. sequence: a finished one; calls: recorded with KEEP while it grew;
    source: the prompt's ids; steps: the trace of beam search; settings: those of the sampler, and
    for the heading "model", "method" and "seed".

    One more pass over the whole text, recorded too, shows the model at each token: with or without
    a cache its numbers are the same.
    """
    model, _ = model.begin([source])
    ids, inputs = sequence.ids, np.array(sequence.ids[:-1])  # input i predicts token i + 1
    with recording(model, keep=["softmax"]) as looked:
        logits = model(inputs)  # [n, n_vocab]
    logprobs = log_softmax(logits)[range(len(inputs)), ids[1:]]
    filter_others(logits, sequence)
    sliders = dict(SLIDERS)
    sliders |= {name: x for name, x in settings.items() if name in SLIDERS and x is not None}
    temperatures = sorted({*(np.arange(1, 41) / 20), sliders["temperature"] or 1.0})
    best, rest = candidates(logits, ids[1:], temperatures, 1 + int(sliders["top_k"]))
    n_layer = len(model.params.get("decoder", model.params)["blocks"])
    early = [read_early(model, n, inputs, ids[1:]) for n in range(1, 1 + n_layer)]
    run = read_run(passes(calls, model))
    beams = [[(c.parent, c.ids[-1], c.log_probability, c.status) for c in step] for step in steps]
    shown = {*ids, *source, *best.flat, *(token for step in beams for _, token, *_ in step)}
    shown |= {token for layer in early for tokens, _ in layer for token, _ in tokens}
    shown |= {token for call in run for row in call["ids"] for token in row}
    source = list(source) if model.has_source else []
    return {
        "settings": sliders | {name: settings.get(name) for name in ("model", "method", "seed")},
        "labels": {int(id): label(tokenizer, id) for id in shown},
        "source": source, "source_pieces": pieces(tokenizer, source),
        "ids": ids, "pieces": pieces(tokenizer, ids), "n_prompt": sequence.n_prompt,
        "logprobs": logprobs.tolist(), "n_vocab": model.n_vocab, "n_best": best.shape[1],
        "best": packed(best, "<u4"), "rest": packed(rest, "<f4"), "temperatures": temperatures,
        "logits": packed(np.take_along_axis(logits, best, -1), "<f4"), "layers": early,
        "attention": attention_weights(looked, len(inputs), model.has_source),
        "run": run, "beams": beams, "multiply_adds": [count_pass(model, n) for n in (1, 2, 3)],
    }  # fmt: skip


def filter_others(logits: np.ndarray, sequence: Sequence) -> None:
    """Apply, where a new token was drawn, the filters that have no slider: the page has theirs."""
    others = [f for f in sequence.sampler.filters if f.__qualname__.split(".")[0] not in SLIDERS]
    for i in range(sequence.n_prompt, len(sequence.ids)):
        for f in others:
            logits[i - 1] = f(logits[i - 1], sequence.ids[:i])


def candidates(logits, ids, temperatures, n_least):  # [n, n_vocab], the n tokens that came
    """-> the best ids [n, n_best], best first, the one that came instead of the last if it is not
    among them; and log sum exp((logit - best) / T) of all others [n, n_temperatures]."""
    best = np.argsort(-logits, kind="stable")[:, : max(N_BEST, n_least)]
    missing = ~(best == np.array(ids)[:, None]).any(-1)
    best[missing, -1] = np.array(ids)[missing]
    others = logits - logits.max(-1, keepdims=True)
    np.put_along_axis(others, best, -np.inf, -1)
    with np.errstate(divide="ignore"):  # log 0: a small vocabulary has no others
        sums = [np.log(np.exp(others / np.float32(t)).sum(-1)) for t in temperatures]
    return best, np.stack(sums, -1)


def read_run(run: list[Call]) -> list[dict[str, Any]]:
    """Each pass: the ids [n_rows, n_new], the length of the cache after it, its multiply-adds."""
    found = []
    for call in run:
        inside = {c.name: c for c in call.walk()}
        found.append({"ids": inside["check_ids"].value.tolist(),
                      "length": inside["append"].output[-2],
                      "multiply_adds": call.multiply_adds})  # fmt: skip
    return found


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


def attention_weights(looked: list[Call], n: int, has_source: bool) -> dict[str, Any]:
    """All weights in bytes, as 255 sqrt(w), which keeps the small ones. own: those of the n tokens,
    the lower triangle [n_layer, n_head, n (n + 1) / 2]; cross: of the source [..., n, n_source]."""
    layers = [joined([c.value for c in call.walk() if c.name == "softmax"], n) for root in looked
              for call in root.walk() if call.name in ("self_attention", "attend")]  # fmt: skip
    own, cross = np.array(layers[:: 1 + has_source]), np.array(layers[1::2] if has_source else [])
    result = {"n_layer": len(own), "n_head": own.shape[1]}
    if own.size + cross.size <= 2 * MOST_WEIGHTS:
        triangle = own[(slice(None), slice(None), *np.tril_indices(n))]
        result["own"] = packed(255 * np.sqrt(triangle) + 0.5, "u1")
        result["cross"] = packed(255 * np.sqrt(cross) + 0.5, "u1")
    return result


def joined(blocks, n):  # [..., n_queries, n_keys] of each block of queries -> [n_head, n, n_keys]
    """A long text's attention comes in blocks of queries, the earlier ones with fewer keys."""
    n_keys = blocks[-1].shape[-1]
    blocks = [np.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, n_keys - b.shape[-1])]) for b in blocks]
    return np.concatenate(blocks, axis=-2).reshape(-1, n, n_keys)


def count_pass(model: Model, n: int) -> int:
    """The multiply-adds of a pass over n tokens that computes the last one's logits."""
    with recording(model) as calls:
        model(np.zeros(n, int), last=1)
    return calls[0].multiply_adds


def pieces(tokenizer: Any, ids: Ids) -> list[str]:
    """The text that each token adds: a character comes with its last byte."""
    stream = tokenizer.stream()
    return [stream.feed(id) for id in ids]


def packed(array: np.ndarray, dtype: str) -> str:
    """The bytes of an array in base64."""
    return base64.b64encode(array.astype(dtype).tobytes()).decode()
