"""The checks of lesson 10's exercises."""

import lessons  # noqa: F401, it makes the project's files importable
import numpy as np

import utils
from benchmarks.replay import Replay
from drafters import PromptLookup
from generate import Sequence, generate
from speculative import speculative

tokenizer, model = utils.load("stories")


def exercise_1(acceptance, best_certain):
    """The answers: acceptance(p, q): [n], [n] -> 0 to 1; best_certain(p): [n] -> one-hot [n]."""
    p, q = np.array([0.5, 0.3, 0.2, 0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert acceptance(p, q) is not None, "write acceptance"
    assert np.isclose(acceptance(p, p), 1), "a draft from p itself is always accepted"
    for first, second in (p, q), (q, p):
        rng = np.random.default_rng(0)
        drafts = rng.choice(4, 100_000, p=second)
        passed = rng.random(100_000) * second[drafts] < first[drafts]
        assert abs(acceptance(first, second) - passed.mean()) < 0.01, (
            f"of 100,000 drafts from {second} the rule accepts another share for p = {first}"
        )
    chosen = best_certain(p[::-1])
    assert chosen is not None, "write best_certain"
    assert sorted(chosen) == [0, 0, 0, 1], "a one-hot distribution: one 1, all others 0"
    rates = [np.minimum(p[::-1], one) @ np.ones(4) for one in np.eye(4)]
    assert rates[int(np.argmax(chosen))] == max(rates), "another token is accepted more often"


def exercise_2(best_gamma):
    """The answer: best_gamma(a, c, b): a rate, a cost, a function gamma -> cost."""
    assert best_gamma(0.8, 0.1, lambda gamma: 1.0) is not None, "write best_gamma"
    costs = {
        "1": lambda gamma: 1.0,
        "1 + 0.1 gamma": lambda gamma: 1 + 0.1 * gamma,
        "1 + 0.2 gamma": lambda gamma: 1 + 0.2 * gamma,
        "3 from two tokens on": lambda gamma: 3.0 if gamma else 1.0,
    }
    for a in (0.3, 0.5, 0.6, 0.8, 0.9, 1.0):
        for c in (0.0, 0.1, 0.6):
            for name, b in costs.items():
                gains = [sum(a**i for i in range(g + 1)) / (b(g) + c * g) for g in range(17)]
                assert 0 <= best_gamma(a, c, b) <= 16, "a number of drafts from 0 to 16"
                assert np.isclose(gains[best_gamma(a, c, b)], max(gains)), (
                    f"another number of drafts is faster at a = {a}, c = {c}, b = {name}"
                )


class Listener:
    """A drafter without drafts, which keeps what it is to learn from."""

    def __init__(self):
        self.heard = []

    def propose(self, ids, n):
        return [], []

    def learn(self, ids, drafts, logits, tokens):
        self.heard.append((ids, tokens))


def exercise_3(first_of):
    """The answer: FirstOf."""
    ids, n_vocab = tokenizer.encode("The cat and the dog. The cat and"), model.n_vocab
    before, after, lookup = Listener(), Listener(), PromptLookup(n_vocab)
    other = Replay(n_vocab, ids + [5] * 9, 1.0, np.random.default_rng(0))
    first = first_of([before, lookup, other, after])
    assert first.propose(ids, 4) is not None, "write propose"
    drafts, qs = first.propose(ids, 4)
    assert len(drafts) > 0, "the first of these drafters has no drafts here: ask the next one"
    assert drafts == lookup.propose(ids, 4)[0], "the drafts of the first that has any"
    assert len(qs) == len(drafts), "a distribution for each draft"
    sequence = Sequence(model, ids, 40)
    for _ in speculative(model, [sequence], lambda sequence: first):
        pass
    assert sequence.new_ids == list(generate(model, ids, 40)), "another text than without drafts"
    for listener in before, after:
        assert listener.heard, "a drafter has heard nothing: all of them are to learn"
        assert sum([list(tokens) for _, tokens in listener.heard], []) == sequence.new_ids, (
            "every drafter learns from each pass, once"
        )
