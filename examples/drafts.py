r"""Drafts without a second model: the model has computed them anyway.

A pass computes the next token after each draft, accepted or not. Jacobi decoding drafts these
tokens at their places in the next pass: some are right, even though they followed wrong tokens.
Token recycling keeps the latest best successor of each token, and drafts a chain of these
successors.

Song et al. 2021, "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving";
Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel Decoding";
Luo et al. 2024, "Turning Trash into Treasure" (with a tree of eight successors each). Drafts by the
model's own first layers are not here: they need a forward pass that stops early.

    python generate.py "Once upon a time" --temperature 0 --method speculative \
        --drafter "examples/drafts.py:Recycling(model)"
"""

from decoding.drafters import one_hots
from speculative import Drafter


class Jacobi(Drafter):
    """Drafts the tokens that the last pass found best at these places."""

    def __init__(self, model):
        self.n_vocab, self.guesses = model.n_vocab, []

    def propose(self, ids, n):
        drafts = (self.guesses + ids[-1:] * n)[:n]  # the last token fills the rest
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        best = logits.argmax(axis=-1).tolist()  # [len(drafts) + 1]: the tokens after ids, one on
        self.guesses = best[len(tokens) :]


class Recycling(Drafter):
    """Drafts the latest best successor of each token, as far as they are known."""

    def __init__(self, model):
        self.n_vocab, self.successor = model.n_vocab, {}

    def propose(self, ids, n):  # -> at most n ids, their one-hots [n_vocab]
        drafts, token = [], ids[-1]
        while len(drafts) < n and token in self.successor:
            token = self.successor[token]
            drafts.append(token)
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        self.successor |= zip([ids[-1], *drafts], logits.argmax(axis=-1).tolist())
