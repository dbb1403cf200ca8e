"""Make an HTML page about one generated text: its tokens, and what the model computed for them.

    sequence = Sequence(model, ids, n, sampler, seed=die(0))
    with watching(sequence) as run:
        ...  # run a loop over the sequence
    Path("page.html").write_text(html(record(tokenizer, sequence, run)), "utf-8")

In a notebook: show(tokenizer, model, "Once upon a time", top_k=40), or show_code (see code.py).
"""

import copy
import json
import re
from html import escape
from inspect import isgenerator, signature

import numpy as np

from decoding.beam import top_indices
from generate import Sequence, begin, cached
from gpt2 import log_softmax, softmax
from page.candidates import SLIDERS, candidates, filter_names
from page.code import SMALL, code_html, stepping
from page.pack import included, label, packed
from page.recorder import passes, recording
from page.run import die, read_draws, read_passes, watching
from samplers import make_sampler

NAMES = "model method seed loop draft drafter gamma beams length_penalty"
SHOWN = dict.fromkeys(NAMES.split()) | SLIDERS  # name of a setting -> its value if none is given
LEVELS = 63  # an attention weight is stored as LEVELS * sqrt(weight), rounded
MOST_WEIGHTS = 8_000_000  # if a text has more attention weights, only the last rows are stored


def show(tokenizer, model, prompt: str, n: int = 40, seed: int = 0, loop=cached, **settings):
    """Generate n tokens, and show their page in a notebook. settings: for `make_sampler`."""
    prompt_ids = tokenizer.encode(prompt)
    runs, start = begin(model, prompt_ids)
    source = () if runs is model else prompt_ids
    sequence = Sequence(runs, start, n, make_sampler(**settings), die(seed))
    with watching(sequence) as run:
        list(loop(runs, sequence))
    return framed(html(record(tokenizer, sequence, run, source, (), settings | {"seed": seed})))


def show_code(tokenizer, model, prompt: str, n: int = 3, seed: int = 0, loop=cached, **settings):
    """Generate n tokens, and show in a notebook how the code ran, line by line. loop: a loop, or
    any function with arguments named model and ids, perhaps n. It may come from a cell."""
    prompt_ids, names = tokenizer.encode(prompt), signature(loop).parameters
    with stepping(model, len(prompt_ids), loop) as record:
        runs, start = begin(model, prompt_ids)
        sequence = Sequence(runs, start, n, make_sampler(**settings), seed)
        given = {"model": runs, "sequence": sequence, "ids": start, "n": n}
        found = loop(**{name: x for name, x in given.items() if name in names})
        list(found if isgenerator(found) else [])
    ids, n_prompt = (sequence.ids, sequence.n_prompt) if "sequence" in names else ((), 0)
    return display(record, code_html(record, tokenizer, ids, n_prompt, SMALL))


def walk(tokenizer, model, f, *args):
    """Call f(*args), which runs passes of a model, and show in a notebook how its code ran."""
    with stepping(model, 0, f) as record:
        found = f(*args)
        list(found if isgenerator(found) else [])
    return display(record, code_html(record, tokenizer, most=SMALL))


def display(record, page):
    """Return what a notebook displays. If an error ended the run, show the page, then raise it."""
    if not record.raised:
        return framed(page)
    from IPython import display as notebook

    notebook.display(framed(page))
    raise record.raised


def framed(page: str):  # a page -> what a notebook displays
    from IPython.display import HTML  # imported here, because only notebooks have it

    return HTML(f'<div><iframe srcdoc="{escape(page)}" width="100%" height="900"></iframe></div>')


def html(recorded: dict, live: dict | None = None) -> str:
    """Return the page as one string, with its style and scripts. recorded: the result of `record`.
    live: the result of live.parts if the page should contain the model."""
    section = included("live/live.html") if live else ""
    page = included("page.html").replace("<!-- live -->", section)
    page = page.replace("<!-- text -->", escape("".join(recorded["pieces"])))
    for name, data in (("data", recorded), ("model", live)):  # escape </script> in a text
        text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
        page = page.replace(f"<!-- {name} -->", text)
    return page


def record(tokenizer, sequence: Sequence, run, source=(), steps=(), settings=SLIDERS) -> dict:
    """Return the data of a page about a finished sequence. run: the calls that `watching` yielded.
    source: the ids that an encoder-decoder read. steps: the trace of a beam search. settings:
    {name: value} for the heading and the sliders; names that are not in SHOWN are ignored. Example:

        {"ids": [402, 58, 7], "n_prompt": 2, "pieces": ["Once", " upon", " a"],
         "draws": [["drawn", 0.31, 0.2, 0.5]], "passes": [{"begin": 0, "new": 2, ...}], ...,
         "labels": {402: "Once", ...}, "arrays": {"logits": ["Float32Array", "eJz..."], ...}}
    """
    ids, source = sequence.ids, [*source]
    if len(ids) < 2:
        raise ValueError("a page shows how tokens follow tokens: one token is not enough")
    given = {k: without_folder(x) for k, x in settings.items() if k in SHOWN and x is not None}
    data: dict = {"settings": SHOWN | given, "ids": ids, "n_prompt": sequence.n_prompt}
    data |= {"stop_ids": sequence.stop_ids, "source": source}
    data["source_pieces"] = [*map(tokenizer.stream().feed, source)]
    stream = tokenizer.stream()
    *pieces, last = map(stream.feed, ids)
    data["pieces"] = [*pieces, last + stream.finish()]
    data["beams"] = [[(c.parent, c.ids[-1], c.log_probability, c.status) for c in s] for s in steps]
    data["filters"] = filter_names(sequence.sampler)
    data["passes"] = read_passes(run, sequence)
    data["draws"] = read_draws(run, sequence, "beams" if steps else "unknown")
    data["work"] = sum(call.multiply_adds for call in passes(run, sequence.model))
    data["drafting"] = sum(call.multiply_adds for call in run) - data["work"]
    temperature = given.get("temperature") or 1.0
    data["temperatures"] = sorted({*(np.arange(1, 21) / 10), temperature})
    arrays = look_inside(sequence, data)
    shown = named_ids(data) | {*arrays["best"].flat}
    data["labels"] = {int(id): label(tokenizer, id) for id in shown}
    data["arrays"] = {name: packed(array) for name, array in arrays.items()}
    return data


def named_ids(data):  # -> all token ids in a page's data
    named = {*data["ids"], *data["source"]}
    for step in data["beams"]:
        named |= {token for _, token, *_ in step}
    for layer in data["layers"]:
        named |= {token for best, _ in layer for token, _ in best}
    for one in data["passes"]:
        named |= {token for token, *_ in one["bets"] + one["residual"]}
    return named


def look_inside(sequence, data):
    """Add the model's numbers to `data`, and return the large arrays. The model reads the whole
    text again in one pass. This gives the numbers of a run with a cache, except for rounding."""
    model, came, n = sequence.model, sequence.ids[1:], len(sequence.ids) - 1
    with recording(model, {"block": np.copy, "softmax": rounded}) as calls:
        logits = model(np.array(sequence.ids[:-1]))  # [n, n_vocab]: row i predicts token i + 1
    blocks, keys = calls[-1].named("block"), calls[-1].named("attention")[0].inputs["k"]
    data |= {"n_layer": len(blocks), "n_head": model.n_head}
    data["n_vocab"] = model.n_vocab
    data["kv_bytes"] = 2 * 4 * len(blocks) * int(np.prod(keys)) // n
    data["layers"] = [lens(model, block.value, came) for block in blocks]

    logprobs = log_softmax(logits)
    data["logprobs"] = logprobs[range(n), came].tolist()
    seen = logprobs if data["beams"] else logits  # beam search filters log P, not logits
    n_best = max(64, min(256, 40_000 // n), 16 + int(data["settings"]["top_k"]))
    arrays = candidates(seen, sequence, data["temperatures"], n_best)
    return arrays | attention_weights(calls[-1], n, data["source"])


def lens(model, x, came):  # [n, n_embd], [n] -> n x [[[token, P], ...], P]
    """Apply the last norm and the head to a layer's output x (the logit lens, nostalgebraist 2020).
    For each position, return the three best next tokens with their P, and P of the actual one."""
    early, family = copy.copy(model), copy.copy(getattr(model, "family", model))
    early.family, early.block = family, lambda *_, **__: x  # each block now returns x
    family.block = early.block  # the same for an encoder-decoder
    found = []
    for row, token in zip(softmax(early(np.array(came))), came):
        best = [(id, round(float(row[id]), 6)) for id in top_indices(row, 3).tolist()]
        found.append((best, round(float(row[token]), 6)))
    return found


def attention_weights(root, n, source):
    """Return the rounded attention weights of the last n_rows tokens. own: over the text, [n_layer,
    n_head, n_rows, n]; cross: over the source, [..., n_source]; skipped: how many earlier tokens
    are left out."""
    kept = [call.value for call in root.named("softmax")]
    weights = [w.reshape(-1, n, w.shape[-1]) for w in kept]  # [n_head, n, n_keys] each
    own = np.array(weights[::2] if source else weights)
    skipped = max(0, n - MOST_WEIGHTS // own[..., 0].size)
    found = {"own": own[:, :, skipped:], "skipped": np.array([skipped])}
    if source:
        found["cross"] = np.array(weights[1::2])[:, :, skipped:]
    return found


def rounded(weights):  # [..., n, n_keys] -> same, as bytes
    return (LEVELS * np.sqrt(weights) + 0.5).astype("u1")


def without_folder(x):
    """Turn /home/me/plug.py:mine(2) into plug.py:mine(2), because others may see the page."""
    return re.sub(r"^([A-Za-z]:)?[\\/.~][^:]*[\\/]", "", x) if isinstance(x, str) else x
