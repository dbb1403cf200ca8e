"""Collect the data that the page's sliders need to sample each token again.

Each row of the result is about one token. The page stores n tokens of the vocabulary, for example
    best    [" a", " the", " an", ...]   from best to worst, after the filters before the sliders
    logits  [12.1, 11.8, 9.3, ...]       of the model, before all filters
    first   [0.0, 0.0, -inf, ...]        what the filters before the sliders add
    last    [0.0, -1.5, 0.0, ...]        what the filters after the sliders add
    by      [0, 0, 1, ...]               the filter that removed a token: 1 is the first, 0 is none
and a few numbers about all other tokens together.
"""

import numpy as np

from decoding.beam import top_indices
from gpt2 import softmax

SLIDERS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # values that change nothing
N_EXTRA = 12  # of n stored tokens, the first n - N_EXTRA are surely the best of all tokens


def candidates(logits, sequence, temperatures, n):  # [n_rows, n_vocab] -> arrays [n_rows, ...]
    """Return data about n tokens per row: see the top of this file, `others_of`, and `run_of`."""
    names = filter_names(sequence.sampler)
    before, after = edges(names)
    rows = []
    for i, row in enumerate(logits):
        *ids, came = sequence.ids[: i + 2]
        steps = steps_of(row, ids, sequence, names)
        first, cut, last = steps[before], steps[after], steps[-1]
        by = np.isneginf(steps).argmax(0)
        by[(before < by) & (by <= after)] = 0  # what a slider removed may come back
        is_changed = last != cut
        added = np.subtract(last, cut, out=np.zeros_like(row), where=is_changed)

        best = top_indices(first, n)
        own = top_indices(row, n)
        stored = stored_tokens(best, own, came, n)
        stored.sort(key=lambda x: (-first[x], -row[x]))  # from best to worst, then the removed ones
        others = np.delete(np.arange(len(row)), stored)
        found = {"best": stored, "logits": row[stored]}
        found["first"] = (first - row)[stored]
        found["last"] = added[stored]
        found["by"] = by[stored].astype(np.uint8)
        found |= others_of(others, first, cut, added, temperatures)
        has_temperature = "temperature" in names
        tempered = steps[names.index("temperature") + 1] if has_temperature else first
        found |= run_of(stored, others, tempered, cut, last)
        rows.append(found)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def steps_of(row, ids, sequence, names):  # [n_vocab] -> the logits after 0, 1, 2, ... filters
    steps = [row]
    for f, name in zip(sequence.sampler.filters, names):
        acts = len(ids) >= sequence.n_prompt or name in SLIDERS  # only sliders act on the prompt
        steps.append(f(steps[-1].copy(), ids) if acts else steps[-1])
    return steps


def edges(names):  # -> how many filters come before the first slider, and up to the last one
    numbers = [k for k, name in enumerate(names, 1) if name in SLIDERS]
    if not numbers:
        return len(names), len(names)
    return numbers[0] - 1, numbers[-1]


def stored_tokens(best, own, came, n):
    """Return n tokens: the best after the first filters, the generated one, the model's best."""
    chosen = [*best[: n - N_EXTRA], came, *own[: N_EXTRA - 1], *best, *own]
    return [*dict.fromkeys(chosen)][:n]


def others_of(others, first, cut, added, temperatures):
    """Return what the page must know of the tokens that it does not have. rest: for each
    temperature T, log sum exp((logit - max) / T). left: the share of their probability that is left
    after the last filters."""
    scale = np.array(temperatures, np.float32)[:, None]
    below_best = first[others] - first.max()
    with np.errstate(divide="ignore"):  # log 0 if all tokens are stored
        rest = np.log(np.exp(below_best / scale).sum(-1))
    odds = np.exp(cut[others] - cut.max())
    lost = odds @ (1 - np.exp(added[others]))
    left = 1 - lost / max(odds.sum(), 1e-30)
    return {"rest": rest, "left": left}


def run_of(stored, others, tempered, cut, last):
    """Return what happened in the run. below: where each token's part of the line from 0 to 65535
    begins. hidden: the P of the tokens that the page does not have. kept: how many tokens the
    sliders keep. mass: their P at the temperature."""
    p = softmax(last).astype(float)
    kept = np.isfinite(cut)
    starts = np.cumsum(p) - p
    found = {"below": np.rint(65535 * starts[stored]).astype(np.uint16)}
    found["hidden"] = p[others].sum()
    found["kept"] = kept.sum()
    found["mass"] = softmax(tempered)[kept].sum()
    return found


def filter_names(sampler):
    """Return each filter's name, such as "no_repeat_ngram" for samplers.no_repeat_ngram(3)."""
    plain = [getattr(f, "func", f) for f in sampler.filters]  # a partial has its function in func
    return [getattr(f, "__qualname__", type(f).__name__).split(".")[0] for f in plain]
