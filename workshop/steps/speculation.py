"""Steps 14 and 15: the rule of speculation, and its loop with two caches."""

import numpy as np

from generate import Sequence
from samplers import Sampler
from workshop.engine import Part, Seen, Step, mistakes
from workshop.steps.inputs import WatchedModel, attempt
from workshop.steps.loops import CHOICE, PROMPT

P = np.array([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.25, 0.15, 0.6]], np.float32)
Q = np.array([[0.2, 0.7, 0.1], [0.45, 0.2, 0.35]], np.float32)
SURE = np.eye(3, dtype=np.float32)


def by_text(logits, ids):
    """A sampler that needs the whole text: it turns p round once for each 2 in ids."""
    return np.roll(np.exp(logits) / np.exp(logits).sum(), list(ids).count(2)).astype(np.float32)


def see_rule(m, seed):
    def verify(p, drafts, qs, rng=None, sampler=by_text, ids=(0, 1)):
        with np.errstate(divide="ignore"):
            return m.verify(np.log(p), list(ids), list(drafts), list(qs), sampler, rng)

    def sure(p, drafts, q):
        rng = np.random.default_rng(seed)
        return [int(token) for token in verify(SURE[p], drafts, SURE[q], rng)]

    rng = np.random.default_rng([seed, 7])
    yield Seen("verify without drafts, p certain of 1", sure([1], [], []))
    yield Seen("drafts 1 0, p certain of 1, 0, then 1", sure([1, 0, 1], [1, 0], [1, 0]))
    yield Seen("drafts 1 0, p certain of 0", sure([0, 0, 1], [1, 0], [1, 0]))
    yield Seen("drafts 1 0, p certain of 1, then of 1", sure([1, 1, 0], [1, 0], [1, 0]))
    yield Seen("drafts 2 0 with a sampler that needs the text", sure([2, 2, 1], [2, 0], [2, 0]))
    ids, drafts = [0, 1], [1, 0]
    with np.errstate(divide="ignore"):
        m.verify(np.log(P), ids, drafts, list(Q), by_text, rng)
    yield Seen("ids and drafts, afterwards", [ids, drafts])
    for drafts in ([1, 0], [0, 2], [2, 2], [1, 1]):
        found = [tuple(map(int, verify(P, drafts, Q, rng))) for _ in range(1500)]
        yield Seen(f"what 1500 calls with the drafts {drafts} give", found, "~")


ACCEPT = "rng.random() * q[x] >= p[x]"
RESIDUAL = "return [*tokens, draw(residual(p, q), rng)]"
RULE = mistakes(
    "verify",
    r"""
accept always: with every draft accepted
    rng.random() * q[x] >= p[x] -> False
accept never: with every draft rejected
    rng.random() * q[x] >= p[x] -> True
p and q exchanged: with q / p instead of p / q
    rng.random() * q[x] >= p[x] -> rng.random() * p[x] >= q[x]
accepted with p: with a draft accepted with probability p(x) instead of p(x) / q(x)
    rng.random() * q[x] >= p[x] -> rng.random() >= p[x]
accepted with q: with a draft accepted with probability q(x)
    rng.random() * q[x] >= p[x] -> rng.random() >= q[x]
accepted with p q: with a draft accepted with probability p(x) q(x)
    rng.random() * q[x] >= p[x] -> rng.random() >= p[x] * q[x]
accepted with 1 - p / q: with drafts accepted where they should be rejected
    rng.random() * q[x] >= p[x] -> rng.random() * q[x] < p[x]
accepted if p >= q: with a draft accepted if p(x) >= q(x), without chance
    rng.random() * q[x] >= p[x] -> q[x] > p[x]
accepted if the best: with a draft accepted if it is the most probable token of p
    rng.random() * q[x] >= p[x] -> x != int(np.argmax(p))
accepted with 1/2: with a draft accepted with probability 1/2
    rng.random() * q[x] >= p[x] -> rng.random() >= 0.5
accepted if drawn: with a draft accepted if a draw from p gives it
    rng.random() * q[x] >= p[x] -> draw(p, rng) != x
residual is p: with a draw from p after a rejection instead of max(0, p - q)
    draw(residual(p, q), rng) -> draw(p, rng)
residual is q: with a draw from q after a rejection
    draw(residual(p, q), rng) -> draw(q, rng)
residual turned round: with max(0, q - p) after a rejection
    residual(p, q) -> residual(q, p)
|p - q|: with |p - q| after a rejection instead of max(0, p - q)
    residual(p, q) -> abs(p - q) / abs(p - q).sum()
p without the draft: with p without the rejected draft after a rejection
    residual(p, q) -> np.where(np.arange(len(p)) == x, 0, p) / (1 - p[x] + 1e-9)
residual of the best: with the best token of max(0, p - q) instead of a draw
    draw(residual(p, q), rng) -> int(np.argmax(residual(p, q)))
not normalised: with max(0, p - q) not normalised
    residual(p, q) -> np.maximum(p - q, 0)
no token after a rejection: with nothing in the place of a rejected draft
    return [*tokens, draw(residual(p, q), rng)] -> return tokens
goes on after a rejection: with the later drafts looked at after a rejection
    return [*tokens, draw(residual(p, q), rng)] -> tokens.append(draw(residual(p, q), rng)); continue
rejected draft skipped: with a rejected draft left out, and the next one looked at
    return [*tokens, draw(residual(p, q), rng)] -> continue
rejected draft kept: with the rejected draft, and a token after it
    return [*tokens, draw(residual(p, q), rng)] -> return [*tokens, x, draw(residual(p, q), rng)]
one more after a rejection: with one more token after the one in the place of a rejected draft
    return [*tokens, draw(residual(p, q), rng)] -> tokens.append(draw(residual(p, q), rng)); break
drawn from p at the end: with a draw from the last p at the end, also after a rejection
    return [*tokens, draw(residual(p, q), rng)] -> break
no bonus token: without the token after all accepted drafts
    return [*tokens, draw(p, rng)] -> return tokens
bonus from row 0: with the token after all drafts drawn from the first row
    logits[-1] -> logits[0]
bonus from the last draft's row: with the token after all drafts drawn from the last draft's row
    logits[-1] -> logits[max(len(tokens) - 1, 0)]
bonus from q: with the token after all drafts drawn from the last q
    return [*tokens, draw(p, rng)] -> return [*tokens, draw(qs[-1] if qs else p, rng)]
bonus is the best: with the most probable token after all drafts instead of a draw
    return [*tokens, draw(p, rng)] -> return [*tokens, int(np.argmax(p))]
row after the draft: with the row behind a draft instead of the row before it
    logits[len(tokens)] -> logits[len(tokens) + 1]
row 0 for all: with the first row for all drafts
    logits[len(tokens)] -> logits[0]
last row for all: with the last row for all drafts
    logits[len(tokens)] -> logits[-1]
q of the first: with the first q for all drafts
    rng.random() * q[x] >= p[x] -> rng.random() * qs[0][x] >= p[x] | residual(p, q) -> residual(p, qs[0])
sampler without the drafts: with ids alone for the sampler: it needs the accepted drafts, too
    p = sampler(logits[len(tokens)], ids + tokens) -> p = sampler(logits[len(tokens)], ids) | p = sampler(logits[-1], ids + tokens) -> p = sampler(logits[-1], ids)
sampler without the drafts before a draft: with ids alone for the sampler before a draft
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids)
sampler without the drafts at the end: with ids alone for the sampler of the last token
    sampler(logits[-1], ids + tokens) -> sampler(logits[-1], ids)
sampler with all drafts: with all drafts for the sampler, also those that are not accepted yet
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids + list(drafts))
sampler with the draft: with the draft itself in the text for the sampler
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids + tokens + [x])
sampler with the tokens alone: with the accepted drafts alone for the sampler
    p = sampler(logits[len(tokens)], ids + tokens) -> p = sampler(logits[len(tokens)], list(tokens)) | p = sampler(logits[-1], ids + tokens) -> p = sampler(logits[-1], list(tokens))
sampler not used: with a softmax of the logits instead of the sampler
    p = sampler(logits[len(tokens)], ids + tokens) -> p = np.exp(logits[len(tokens)]) / np.exp(logits[len(tokens)]).sum() | p = sampler(logits[-1], ids + tokens) -> p = np.exp(logits[-1]) / np.exp(logits[-1]).sum()
ids included: of ids and the new tokens: return the new tokens alone
    return [*tokens, draw(residual(p, q), rng)] -> return [*ids, *tokens, draw(residual(p, q), rng)] | return [*tokens, draw(p, rng)] -> return [*ids, *tokens, draw(p, rng)]
one u for all: with one random number for all drafts
    tokens: Ids = [] -> tokens: Ids = []; u = rng.random() | rng.random() * q[x] -> u * q[x]
u drawn again: with the residual drawn by the u of the rejection
    draw(residual(p, q), rng) -> int(np.searchsorted(np.cumsum(residual(p, q)), min(u, 0.99999))) | if rng.random() * q[x] -> u = rng.random()\n        if u * q[x]
a new rng: with an rng of its own, always with the same seed
    tokens: Ids = [] -> tokens: Ids = []; rng = np.random.default_rng(0)
first draft only: with the first draft alone looked at
    zip(drafts, qs) -> [*zip(drafts, qs)][:1]
last draft not looked at: without a look at the last draft
    zip(drafts, qs) -> [*zip(drafts, qs)][:-1]
ids changed: of a verify that lengthens ids
    tokens.append(x) -> tokens.append(x); ids.append(x)
a count: of the number of accepted drafts instead of tokens
    return [*tokens, draw(residual(p, q), rng)] -> return len(tokens) | return [*tokens, draw(p, rng)] -> return len(tokens)
no return: of a function that returns nothing
    return [*tokens, draw(residual(p, q), rng)] -> return None | return [*tokens, draw(p, rng)] -> return None
""",
)


def plenty(n):
    """A model of three tokens that knows the text, and one that drafts like it, but worse."""
    model = WatchedModel(n_vocab=3, seed=5, scale=1.0, most=10**6)
    draft = WatchedModel(n_vocab=3, seed=6, scale=1.0, most=10**6)
    return model, draft


def see_draft_model(m, seed):
    def draft(sampler=CHOICE, seed=3, **more):
        model = WatchedModel(**more)
        return model, m.DraftModel(model, sampler, seed)

    def propose(drafter, ids, n):
        drafts, qs = drafter.propose(list(ids), n)
        return [int(x) for x in drafts], np.array([np.array(q) for q in qs])

    model, drafter = draft()
    drafts, qs = propose(drafter, PROMPT, 3)
    yield Seen("three drafts", drafts)
    yield Seen("their distributions", qs, "n, n_vocab")
    yield Seen("tokens that passed through the small model: 5, then 2 drafts", model.n_rows, "<=")
    ids = [*PROMPT, *drafts[:2], 0]
    yield Seen("three drafts after two that were accepted", propose(drafter, ids, 3)[0])
    yield Seen("tokens that passed, then (the cache holds the common beginning)", model.n_rows, "<=")
    ids = [*PROMPT, 6]
    yield Seen("two drafts after none that were accepted", propose(drafter, ids, 2)[0])
    yield Seen("no drafts", propose(drafter, ids, 0)[0])
    ids = [*PROMPT, 6, *propose(drafter, ids, 2)[0], 4]
    yield Seen("drafts after all that were accepted", propose(drafter, ids, 2)[0])
    yield Seen("tokens that passed in all", model.n_rows, "<=")
    yield Seen("passes in all", len(model.passes), "<=")
    given = list(PROMPT)
    draft()[1].propose(given, 2)
    yield Seen("ids, afterwards", given)
    found = []
    for i in range(400):
        model, drafter = draft(Sampler(), seed=[seed, i], n_vocab=3, seed_of_model=6)
        drafts, qs = propose(drafter, [0, 1], 2)
        found.append(tuple(drafts))
    yield Seen("the drafts of 400 seeds", found, "~")
    yield Seen("the distributions of the last ones", qs[:1], "n, n_vocab")


STEPS = []
