r"""Drafts without a second model: the model has already computed them.

Each pass computes which token is best after each draft, accepted or not. Token recycling stores
for each token which one was best after it the last time. It drafts a chain of such tokens. (Luo et
al. 2024, "Turning Trash into Treasure". The paper drafts a tree, with eight next tokens for each.)

    python generate.py "Once upon a time" --temperature 0 --method speculative \
        --drafter "examples/drafts.py:Recycling(model)"
"""

from decoding.drafters import one_hots
from speculative import Drafter


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
