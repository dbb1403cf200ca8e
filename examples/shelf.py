"""Three filters. Each has its own rule for which tokens to remove or to make less likely.

Meister et al. 2022, "Locally Typical Sampling": keep tokens of about average surprise. DRY ("don't
repeat yourself") avoids loops. XTC ("exclude top choices") removes obvious tokens. DRY and XTC are
by p-e-w, 2024 (pull requests 5677 and 6335 of text-generation-webui).

    python generate.py "The cat" --filter "examples/shelf.py:xtc(0.1, 0.5)" --tokens 40
"""

import numpy as np

from gpt2 import log_softmax, softmax


def typical(mass):
    """Return a filter that keeps the tokens whose surprise -log p is closest to the mean surprise,
    the entropy: just enough of them for a total probability of `mass` (equation 11)."""

    def keep(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        p, surprise = softmax(logits), -log_softmax(logits)
        distance = np.abs(surprise - p[p > 0] @ surprise[p > 0])
        order = np.argsort(distance)
        total = np.cumsum(p[order])
        last = order[min(np.searchsorted(total, mass), len(order) - 1)]
        return np.where(distance <= distance[last], logits, -np.inf)

    return keep


def dry(multiplier=0.8, base=1.75, allowed=2):
    """Return a filter against repetition. If the last n >= allowed tokens of the text also occur
    earlier, the logit of the token that followed them there is reduced by
    multiplier * base ** (n - allowed)."""

    def penalise(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        penalty = np.zeros_like(logits)
        for i in range(1, len(ids)):
            n = 0  # how many of the last tokens also come just before ids[i]
            while n < min(i, 50) and ids[i - 1 - n] == ids[-1 - n]:
                n += 1
            if n >= allowed:
                penalty[ids[i]] = max(penalty[ids[i]], multiplier * base ** (n - allowed))
        return logits - penalty

    return penalise


def xtc(threshold=0.1, chance=0.5):
    """Return a filter that, with probability `chance`, removes the tokens with p >= threshold,
    except the least probable of them. The filter draws no random number. Instead, it returns the
    mixture of both cases, which has the same distribution."""

    def mix(logits, ids):  # [n_vocab], [n_seq] -> [n_vocab]
        p = softmax(logits)
        top = np.flatnonzero(p >= threshold)
        cut = logits.copy()
        cut[top[top != top[p[top].argmin()]] if len(top) else top] = -np.inf
        with np.errstate(divide="ignore"):  # log 0 = -inf: the token is removed
            return np.log((1 - chance) * p + chance * softmax(cut))

    return mix
