"""Collect the data that the page's sliders need to sample each token again."""

import numpy as np

from decoding.beam import top_indices
from gpt2 import softmax

SLIDERS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # values that change nothing
N_EXTRA = 12  # of n stored tokens, the first n - N_EXTRA are surely the best of all tokens


def candidates(logits, sequence, temperatures, n):  # [n_rows, n_vocab] -> arrays [n_rows, ...]
    """Return data about n tokens per row: top tokens after the filters that precede the sliders,
    the generated token, and the model's best. best: their ids. logits: before all filters. first,
    last: what the filters before and after the sliders add to the logits (-inf: one removes the
    token). by: the number of this filter, or 0. About all other tokens: rest is log sum exp((logit
    - max) / T) for each temperature T; left is the share of their probability that is left after
    the last filters. rivals: the model's best tokens except the generated one. In the run: below is
    each token's place on a line of 65535, hidden the P of all other tokens; the cut keeps `kept`
    tokens, which have the share `mass` at the temperature."""
    names = filter_names(sequence.sampler)
    sliders = [k for k, name in enumerate(names, 1) if name in SLIDERS]
    before, after = (sliders[0] - 1, sliders[-1]) if sliders else (-1, -1)
    scale = np.array(temperatures, np.float32)[:, None]
    n_rivals = max(3, min(10, 1600 // len(logits), logits.shape[-1] - 1))
    rows = []
    for i, row in enumerate(logits):
        *ids, came = sequence.ids[: i + 2]
        steps = [row]  # the logits after each filter; filters do not act on the prompt
        for f, name in zip(sequence.sampler.filters, names):  # only the sliders act on the prompt
            acts = len(ids) >= sequence.n_prompt or name in SLIDERS
            steps.append(f(steps[-1].copy(), ids) if acts else steps[-1])
        first, cut, last = steps[before], steps[after], steps[-1]
        by = np.isneginf(steps).argmax(0)  # the number of the first filter that removed each token
        by[(before < by) & (by <= after)] = 0
        added = np.subtract(last, cut, out=np.zeros_like(row), where=last != cut)

        best, own = top_indices(first, n), top_indices(row, n)
        chosen = [*best[: n - N_EXTRA], came, *own[: N_EXTRA - 1], *best, *own]
        stored = [*dict.fromkeys(chosen)][:n]
        stored.sort(key=lambda x: (-first[x], -row[x]))  # from best to worst, then the removed ones
        others = np.delete(np.arange(len(row)), stored)
        with np.errstate(divide="ignore"):  # log 0 if all tokens are stored
            rest = np.log(np.exp((first[others] - first.max()) / scale).sum(-1))
        odds = np.exp(cut[others] - cut.max())
        left = 1 - odds @ (1 - np.exp(added[others])) / max(odds.sum(), 1e-30)
        found = (x[stored] for x in (row, first - row, added, by.astype(np.uint8)))
        p, kept = softmax(last).astype(float), np.isfinite(cut)
        tempered = steps[names.index("temperature") + 1] if "temperature" in names else first
        below = np.rint(65535 * (np.cumsum(p) - p)[stored]).astype(np.uint16)
        exact = below, p[others].sum(), kept.sum(), softmax(tempered)[kept].sum()
        rows.append((stored, own[own != came][:n_rivals], *found, rest, left, *exact))
    columns = "best rivals logits first last by rest left below hidden kept mass".split()
    return {name: np.array(column) for name, column in zip(columns, zip(*rows))}


def filter_names(sampler):
    """Return each filter's name, such as "no_repeat_ngram" for samplers.no_repeat_ngram(3)."""
    plain = [getattr(f, "func", f) for f in sampler.filters]  # a partial has its function in func
    return [getattr(f, "__qualname__", type(f).__name__).split(".")[0] for f in plain]
