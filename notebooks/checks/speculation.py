"""Checks: the loop, the rule, the draft model, the number of drafts."""

from types import SimpleNamespace

import numpy as np

from decoding.drafters import DraftModel
from samplers import greedy
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel
from workshop.steps.speculation import see_draft_model, see_rule

WRONG = mistakes("""
[notebooks/speculation.ipynb greedy_speculation]
without the cut, so that rejected drafts stay in the cache
    cache.cut(len(text) - 1) -> pass
with the cache cut to the length of the text, but the model has not read its last token
    cache.cut(len(text) - 1) -> cache.cut(len(text))
with a token of the row after the first rejected draft
    best[n_accepted] -> best[min(n_accepted + 1, len(drafts))]
without drafts, so that each pass yields one token
    n_drafts = min(gamma, end - len(text) - 1) -> n_drafts = 0
with gamma drafts even at the end, where fewer tokens are wanted
    n_drafts = min(gamma, end - len(text) - 1) -> n_drafts = gamma
with drafts past the end: a pass can add one token more than the round has drafts
    end - len(text) - 1 -> end - len(text)
of a loop that keeps the accepted drafts alone: each pass also yields a token of the model
    text += [*drafts[:n_accepted], int(best[n_accepted])]
    -> text += drafts[:n_accepted] or [int(best[0])]
[notebooks/speculation.ipynb residual]
that are not normalised: the residual must sum to 1
    => return excess
[notebooks/speculation.ipynb accept]
with a draw from p after a rejection: these tokens have had their share already
    draw(residual(p, q), rng) -> draw(p, rng)
with later drafts considered after a rejection
    return [*tokens, draw(residual(p, q), rng)]
    -> tokens.append(draw(residual(p, q), rng)); continue
with one random number for all drafts
    tokens = [] -> tokens = []; u = rng.random()
    rng.random() * q[x] -> u * q[x]
without the token after all accepted drafts
    => return tokens
[notebooks/speculation.ipynb propose]
without the cut, so that rejected drafts stay in the cache
    drafter.cache.cut(common_prefix(drafter.seen, ids)) -> pass
with the drafts forgotten, so that accepted drafts run again
    drafter.seen = [*ids, *drafts] -> drafter.seen = list(ids)
with an empty cache in each call: keep what `drafter.seen` and ids have in common
    drafter.cache.cut(common_prefix(drafter.seen, ids)) -> drafter.cache.cut(0)
with drafts that the model does not read: each follows only ids
    text = [*ids, *drafts] -> text = list(ids)
with the most probable draft instead of a draw from q
    draw(qs[-1], drafter.rng) -> int(np.argmax(qs[-1]))
[notebooks/speculation.ipynb best_gamma]
for the most tokens per pass, not for the greatest speed-up
    / (b(gamma) + c * gamma) -> / 1
with at least one draft, although 0 drafts may be the fastest
    range(17) -> range(1, 17)
""")


class Small(WatchedModel):
    """A model for drafts. Its best token is wrong at every `every`-th position."""

    def after(self, text):
        return np.roll(super().after(text), len(text) % self.every == 0)


def see_loop(m, seed):
    """Look at the tokens, the passes and the work with good and bad drafts."""
    for gamma, n, every in (4, 10, 3), (3, 9, 99), (2, 8, 1), (5, 4, 7):
        model, small, case = WatchedModel(), Small(), f"with gamma = {gamma} and n = {n}"
        small.every, drafter = every, DraftModel(small, greedy, np.random.default_rng(0))
        tokens = m.greedy_speculation(model, drafter, [3, 1, 4, 1, 5], n, gamma)
        yield Seen(f"the new tokens {case}", list(tokens))
        most = max(n_new for _, n_new in model.passes[1:])
        yield Seen(f"the most tokens in a pass {case}", most, "<=")
        yield Seen(f"passes through the model {case}", len(model.passes), "<=")
        yield Seen(f"tokens run through the model {case}", model.n_rows, "<=")


def see_accept(m, seed):
    """Look at the residual, and at what the workshop sees of the rule."""

    def verify(logits, ids, drafts, qs, sampler, rng):
        ps = [sampler(row, [*ids, *drafts[:i]]) for i, row in enumerate(logits)]
        return m.accept(drafts, ps, qs, rng)

    p, q = np.array([[0.5, 0.3, 0.2, 0], [0.1, 0.2, 0.3, 0.4]], np.float32)
    yield Seen("the residual of two distributions", m.residual(p, q), "n_vocab")
    found = m.accept([], [np.eye(4)[2]], [], np.random.default_rng(0))
    found = found if found is None else np.array(found)
    yield Seen("the tokens without drafts", found, "token")
    yield from see_rule(SimpleNamespace(verify=verify), seed)


def see_propose(m, seed):
    """Look at the first draft, and at what the workshop sees of a drafter."""

    def made(model, sampler, seed):
        drafter = SimpleNamespace(model=model, sampler=sampler, cache=model.new_cache(), seen=[])
        drafter.rng = np.random.default_rng([seed, 1])
        drafter.propose = lambda ids, n: m.propose(drafter, ids, n)
        return drafter

    found = made(WatchedModel(), greedy, seed).propose([3, 1, 4], 1)
    yield Seen("the first draft", found and np.array(found[0]), "draft")
    yield from see_draft_model(SimpleNamespace(DraftModel=made), seed)


def see_gamma(m, seed):
    """Look at the best gamma for six rates and costs, and three kinds of passes."""
    costs = {
        "1": lambda gamma: 1.0,
        "1 + 0.1 gamma": lambda gamma: 1 + 0.1 * gamma,
        "3 from two tokens on": lambda gamma: 3.0 if gamma else 1.0,
    }
    for a, c in (0.3, 0.0), (0.6, 0.1), (0.8, 0.1), (0.9, 0.0), (0.9, 0.6), (1.0, 0.1):
        for name, b in costs.items():
            yield Seen(f"with a = {a}, c = {c}, b = {name}", m.best_gamma(a, c, b))


exercise_loop = Part(("greedy_speculation",), see_loop, WRONG)
exercise_accept = Part(("accept", "residual"), see_accept, WRONG)
exercise_propose = Part(("propose",), see_propose, WRONG)
exercise_1 = Part(("best_gamma",), see_gamma, WRONG)
