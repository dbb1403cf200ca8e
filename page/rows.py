"""Choose which numbers of a row over the vocabulary a page has.

best    [14.0, 13.2, 9.1, ...]   logits or probabilities: of the N_BEST best tokens, of the
                                 text's next one, and of tokens on both sides of a filter's cut
steps   [0.11, 0.58, 0.61, ...]  a running sum: of the tokens at which it grows, around the next
moved   [14.0, 13.2, 12.9, ...]  sorted numbers, which no longer belong to ids: the largest
"""

import numpy as np

N_BEST, N_CUT = 10, 3
N = N_BEST + 1 + N_CUT


class Rows:
    """Chooses N ids for each row. arrays: all arrays [..., n_vocab] of a run, in the order in which
    they were computed. Those with more than one axis are a model's logits."""

    def __init__(self, arrays):
        self.cuts = {}  # a row of logits, as bytes -> ids on both sides of its filters' cuts
        self.tokens = {}  # the same -> the ids that are shown of it, and of what is made from it
        self.best = None  # those of the latest row of logits
        self.orders = {}  # sorted numbers -> the first row that had them
        logits = None
        for x in arrays:
            for row in x.reshape(-1, x.shape[-1]):
                if x.ndim > 1:
                    self.cuts.setdefault(row.tobytes(), [])
                if row.tobytes() in self.cuts:
                    logits = row
                elif logits is not None and is_cut(row, logits):
                    self.cuts[logits.tobytes()] += beside_cut(row, logits)

    def choose(self, row, is_logits, came):  # came: the text's next id in a list, or []
        """Return the kind of a row (see above), and ids [N]."""
        content, largest = row.tobytes(), best_first(row)[:N]
        if is_logits:
            wanted = dict.fromkeys([*came, *largest[:1], *self.cuts[content], *largest])
            self.tokens[content] = sorted([*wanted][:N], key=lambda id: -float(row[id]))
        self.best = self.tokens.get(content, self.best) or largest
        is_moved = self.orders.setdefault(np.sort(row).tobytes(), content) != content
        steps = np.diff(np.maximum(row, -1e9), prepend=0)
        falls, grows = (np.diff(steps) <= 0).all(), (steps >= 0).all()
        if (is_moved and np.unique(row).size > 2) or (steps.any() and falls):  # not one-hot
            return "moved", largest
        if not steps.any() or not grows:
            return "best", self.best
        places = np.flatnonzero(steps)
        first = np.searchsorted(places, [*came, *self.best][0]) - N // 2
        return "steps", places[max(0, min(first, len(places) - N)) :][:N].tolist()


def best_first(row):
    return np.argsort(-row.astype(float), kind="stable").tolist()


def is_cut(row, logits):  # has a filter removed tokens, but not the best one?
    return row.max() == row[logits.argmax()] and (row == -np.inf).any()


def beside_cut(row, logits):  # -> the last token that is kept, and the first ones that are not
    kept = [id for id in best_first(logits) if np.isfinite(row[id])]
    removed = [id for id in best_first(logits) if not np.isfinite(row[id])]
    return [*kept[-1:], *removed[: N_CUT - 1]]
