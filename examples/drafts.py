r"""Drafts without a second model: the model has already computed them.

A pass computes the next token after each draft, accepted or not. Jacobi decoding proposes these
tokens in the next pass, at the same places: some are right, even though they followed wrong tokens.
Token recycling remembers the latest best successor of each token, and drafts a chain of these
successors.

Song et al. 2021, "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving";
Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel Decoding";
Luo et al. 2024, "Turning Trash into Treasure" (they draft a tree, with eight successors for each
token).

    python generate.py "Once upon a time" --temperature 0 --method speculative \
        --drafter "examples/drafts.py:Recycling(model)"
"""

from decoding.drafters import one_hots
from speculative import Drafter


class Jacobi(Drafter):
    """Draft the tokens that the last pass found best at these places."""

    def __init__(self, model):
        self.n_vocab, self.guesses = model.n_vocab, []

    def propose(self, ids, n):
        drafts = (self.guesses + ids[-1:] * n)[:n]  # copies of the last token fill up
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        best = logits.argmax(axis=-1).tolist()  # [n_drafts + 1]: best[i] follows i drafts
        self.guesses = best[len(tokens) :]


class Recycling(Drafter):
    """Draft the latest best successor of each token, as long as one is known."""

    def __init__(self, model):
        self.n_vocab, self.successor = model.n_vocab, {}

    def propose(self, ids, n):  # -> at most n ids, a one-hot distribution [n_vocab] for each
        drafts, token = [], ids[-1]
        while len(drafts) < n and token in self.successor:
            token = self.successor[token]
            drafts.append(token)
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        self.successor |= zip([ids[-1], *drafts], logits.argmax(axis=-1).tolist())
