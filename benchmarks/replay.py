"""A drafter that simulates an acceptance rate, to measure what speculation gains at this rate."""

import numpy as np
from numpy.random import Generator

from decoding.drafters import one_hots
from samplers import Ids
from speculative import Drafter


class Replay(Drafter):
    """Drafts a known text; each token is right with probability `rate`, the acceptance rate if
    the text is greedy."""

    def __init__(self, n_vocab: int, text: Ids, rate: float, rng: Generator):
        self.n_vocab, self.text, self.rate, self.rng = n_vocab, list(text), rate, rng

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        right = self.text[len(ids) : len(ids) + n]
        drafts = [t if self.rng.random() < self.rate else (t + 1) % self.n_vocab for t in right]
        return drafts, one_hots(drafts, self.n_vocab)
