r"""Drafts without a second model: the model has already computed them.

A pass computes the best next token after each draft, accepted or not. Jacobi decoding proposes
these tokens for the same positions in the next pass. Some of them are right, even though they were
computed after wrong tokens. Token recycling stores, for each token, which next token was best the
last time. It drafts a chain of such tokens.

Song et al. 2021, "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving";
Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel Decoding";
Luo et al. 2024, "Turning Trash into Treasure" (this drafts a tree, with eight next tokens for
each token).

    python generate.py "Once upon a time" --temperature 0 --method speculative \
        --drafter "examples/drafts.py:Recycling(model)"
"""

from decoding.drafters import one_hots
from speculative import Drafter


class Jacobi(Drafter):
    """Draft, for each position, the token that was best there in the last pass."""

    def __init__(self, model):
        self.n_vocab, self.guesses = model.n_vocab, []

    def propose(self, ids, n):
        drafts = (self.guesses + ids[-1:] * n)[:n]  # padded with copies of the last token
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        best = logits.argmax(axis=-1).tolist()  # [n_drafts + 1]: best[i] follows drafts[:i]
        self.guesses = best[len(tokens) :]


class Recycling(Drafter):
    """Draft a chain: after each token, the token that was best after it the last time."""

    def __init__(self, model):
        self.n_vocab, self.successor = model.n_vocab, {}

    def propose(self, ids, n):  # -> at most n ids, their one-hot distributions [n_vocab]
        drafts, token = [], ids[-1]
        while len(drafts) < n and token in self.successor:
            token = self.successor[token]
            drafts.append(token)
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        self.successor |= zip([ids[-1], *drafts], logits.argmax(axis=-1).tolist())
