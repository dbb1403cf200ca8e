"""A drafter with a given acceptance rate, to measure the gain from speculation at this rate."""

import numpy as np
from numpy.random import Generator

from decoding.drafters import one_hots
from samplers import Ids
from speculative import Drafter


class Replay(Drafter):
    """Propose the tokens of a known text. Each token is kept with probability `rate`, and
    otherwise replaced by a wrong one. In greedy decoding, `rate` is the acceptance rate."""

    def __init__(self, n_vocab: int, text: Ids, rate: float, rng: Generator):
        self.n_vocab, self.text, self.rate, self.rng = n_vocab, list(text), rate, rng

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        right = self.text[len(ids) : len(ids) + n]
        drafts = [t if self.rng.random() < self.rate else (t + 1) % self.n_vocab for t in right]
        return drafts, one_hots(drafts, self.n_vocab)
