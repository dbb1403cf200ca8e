"""The candidates of each token, for sliders in a browser: logits, what filters change, the rest."""

import numpy as np

from decoding.beam import top_indices

SLIDERS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # no change
N_EXTRA = 12  # stored tokens for sure: the token that came, and the model's own best


def candidates(logits, sequence, temperatures, n):  # [n_rows, n_vocab] -> arrays [n_rows, ...]
    """Return what a browser needs to redo each row's sampling as its sliders move. best: n ids, the
    best after the filters before the sliders', N_EXTRA among them; logits: theirs; first, last: the
    changes by the filters before and after the sliders' (-inf: removed); by: which filter removed
    it, from 1, or 0. The tokens that are not stored have rest, log sum exp((logit - best) / T) for
    each temperature, and left, the share of their probability that the last filters leave. rivals:
    the model's best tokens beside the one that came."""
    sliders = [k for k, name in enumerate(filter_names(sequence.sampler), 1) if name in SLIDERS]
    before, after = (sliders[0] - 1, sliders[-1]) if sliders else (-1, -1)
    scale = np.array(temperatures, np.float32)[:, None]
    n_rivals = max(3, min(10, 1600 // len(logits), logits.shape[-1] - 1))
    rows = []
    for i, row in enumerate(logits):
        *ids, came = sequence.ids[: i + 2]
        steps = [row]  # before the filters, and after each of them; the prompt is given
        for f in sequence.sampler.filters:
            steps.append(f(steps[-1].copy(), ids) if len(ids) >= sequence.n_prompt else row)
        first, cut, last = steps[before], steps[after], steps[-1]
        by = np.isneginf(steps).argmax(0)  # the step that removed the token
        by[(before < by) & (by <= after)] = 0
        added = np.subtract(last, cut, out=np.zeros_like(row), where=last != cut)

        best, own = top_indices(first, n), top_indices(row, n)
        chosen = [*best[: n - N_EXTRA], came, *own[: N_EXTRA - 1], *best, *own]
        stored = [*dict.fromkeys(chosen)][:n]
        stored.sort(key=lambda x: (-first[x], -row[x]))  # a removed token: where the model had it
        others = np.delete(np.arange(len(row)), stored)
        with np.errstate(divide="ignore"):  # log 0: a small vocabulary has no others
            rest = np.log(np.exp((first[others] - first.max()) / scale).sum(-1))
        odds = np.exp(cut[others] - cut.max())
        left = 1 - odds @ (1 - np.exp(added[others])) / max(odds.sum(), 1e-30)
        found = (x[stored] for x in (row, first - row, added, by.astype(np.uint8)))
        rows.append((stored, own[own != came][:n_rivals], *found, rest, left))
    names = "best", "rivals", "logits", "first", "last", "by", "rest", "left"
    return {name: np.array(column) for name, column in zip(names, zip(*rows))}


def filter_names(sampler):
    """Return each filter's function or class: no_repeat_ngram for samplers.no_repeat_ngram(3)."""
    plain = [getattr(f, "func", f) for f in sampler.filters]  # the function of a partial
    return [getattr(f, "__qualname__", type(f).__name__).split(".")[0] for f in plain]
