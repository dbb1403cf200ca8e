"""Steps 14 and 15: the acceptance rule, and the speculative loop with its two caches."""

import itertools

import numpy as np

from decoding import drafters
from generate import Sequence
from samplers import Sampler, draw
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel, attempt
from workshop.steps.loops import CHOICE, PROMPT, run

P = np.array([[0.45, 0.1, 0.15, 0.3], [0.1, 0.4, 0.2, 0.3], [0.15, 0.25, 0.5, 0.1]], np.float32)
Q = np.array([[0.05, 0.7, 0.13, 0.12], [0.5, 0.05, 0.4, 0.05]], np.float32)
IDS = [2, 1]


def by_text(logits, ids):
    """Rotate p by one position for each 2 in ids. This sampler needs the whole text."""
    p = np.exp(logits) / np.exp(logits).sum()
    return turned(p, list(ids).count(2)).astype(np.float32)


def turned(p, n):  # np.roll(p, n), but faster
    return p[(np.arange(4) - n) % 4]


def see_rule(m, seed):
    rng = np.random.default_rng([seed, 7])

    def verify(p, drafts, qs):
        """Call m.verify. p[i]: the sampler's result if all drafts before drafts[i] are accepted."""
        texts = [[*IDS, *drafts[:i]] for i in range(len(p))]
        rows = np.array([turned(row, -text.count(2)) for row, text in zip(p, texts)])
        tokens = m.verify(np.log(rows + 1e-9), list(IDS), list(drafts), list(qs), by_text, rng)
        return tuple(map(int, tokens))

    def sure(p, drafts):
        return verify(np.eye(4, dtype=np.float32)[p], drafts, np.eye(4, dtype=np.float32)[drafts])

    yield Seen("no drafts, p certain of 1", sure([1], []))
    yield Seen("drafts 1 0 3, p certain of 1 0 3, then of 2", sure([1, 0, 3, 2], [1, 0, 3]))
    yield Seen("drafts 1 0 3, p certain of 2", sure([2, 0, 3, 1], [1, 0, 3]))
    yield Seen("drafts 1 0 3, p certain of 1, then of 1", sure([1, 1, 3, 1], [1, 0, 3]))
    yield Seen("drafts 2 2 0, p certain of 2, then of 1", sure([2, 1, 3, 1], [2, 2, 0]))
    yield Seen("drafts 1 2 0, p certain of 1 2 0, then of 3", sure([1, 2, 0, 3], [1, 2, 0]))
    ids, drafts = [2, 1], [1, 0]
    m.verify(np.log(P), ids, drafts, list(Q), by_text, rng)
    yield Seen("ids and drafts after the call", [ids, drafts])
    for n in 80, 600:  # 80 calls are enough to reveal most mistakes
        for drafts in ([1, 0], [3, 0], [0, 2]):
            found = [verify(P, drafts, Q) for _ in range(n)]
            yield Seen(f"the tokens of {n} calls with the drafts {drafts}", found, "~")


RULE_WRONG = mistakes(r"""
[speculative.py verify]
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
accepted with 1 - p / q: with drafts accepted when they should be rejected
    rng.random() * q[x] >= p[x] -> rng.random() * q[x] < p[x]
accepted if p >= q: with a draft accepted if p(x) >= q(x), without a random number
    rng.random() * q[x] >= p[x] -> q[x] > p[x]
accepted if the best: with a draft accepted if it is the most probable token of p
    rng.random() * q[x] >= p[x] -> x != int(np.argmax(p))
accepted with 1/2: with a draft accepted with probability 1/2
    rng.random() * q[x] >= p[x] -> rng.random() >= 0.5
residual is p: with a draw from p after a rejection instead of max(0, p - q)
    residual(p, q) -> p
residual is q: with a draw from q after a rejection
    residual(p, q) -> q
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
no token after a rejection: with no token to replace a rejected draft
    return [*tokens, draw(residual -> return tokens; draw(residual
    , rng)]\n        tokens.append(x) -> , rng)\n        tokens.append(x)
goes on after a rejection: with the later drafts considered after a rejection
    return [*tokens, draw(residual -> tokens.append(draw(residual
    , rng)]\n        tokens.append(x) -> , rng)); continue\n        tokens.append(x)
rejected draft skipped: with a rejected draft left out, and the next one considered
    return [*tokens, draw(residual -> continue; draw(residual
    , rng)]\n        tokens.append(x) -> , rng)\n        tokens.append(x)
rejected draft kept: with the rejected draft, and a token after it
    return [*tokens, draw(residual -> return [*tokens, x, draw(residual
one more after a rejection: with one more token after the one that replaces a rejected draft
    return [*tokens, draw(residual -> tokens.append(draw(residual
    , rng)]\n        tokens.append(x) -> , rng)); break\n        tokens.append(x)
drawn from p at the end: with a draw from the last p at the end, also after a rejection
    return [*tokens, draw(residual -> break; draw(residual
    , rng)]\n        tokens.append(x) -> , rng)\n        tokens.append(x)
no bonus token: without the token after all accepted drafts
    => return tokens
bonus from row 0: with the token after all drafts drawn from the first row
    logits[-1] -> logits[0]
bonus from the last draft's row: with the token after all drafts drawn from the last draft's row
    logits[-1] -> logits[max(len(tokens) - 1, 0)]
bonus from q: with the token after all drafts drawn from the last q
    => return [*tokens, draw(qs[-1] if qs else p, rng)]
bonus is the best: with the most probable token after all drafts instead of a draw
    => return [*tokens, int(np.argmax(p))]
row after the draft: with the row after a draft instead of the row before it
    logits[len(tokens)] -> logits[len(tokens) + 1]
row 0 for all: with the first row for all drafts
    logits[len(tokens)] -> logits[0]
last row for all: with the last row for all drafts
    logits[len(tokens)] -> logits[-1]
q of the first: with the first q for all drafts
    rng.random() * q[x] >= p[x] -> rng.random() * qs[0][x] >= p[x]
    residual(p, q) -> residual(p, qs[0])
sampler without the drafts: with only ids given to the sampler, which needs the accepted drafts, too
    p = sampler(logits[len(tokens)], ids + tokens) -> p = sampler(logits[len(tokens)], ids)
    p = sampler(logits[-1], ids + tokens) -> p = sampler(logits[-1], ids)
sampler without the drafts before a draft: with only ids given to the sampler before a draft
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids)
sampler without the drafts at the end: with only ids given to the sampler for the last token
    sampler(logits[-1], ids + tokens) -> sampler(logits[-1], ids)
sampler with all drafts: with all drafts given to the sampler, even those not accepted yet
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids + list(drafts))
sampler with the draft: with the draft itself in the text given to the sampler
    sampler(logits[len(tokens)], ids + tokens) -> sampler(logits[len(tokens)], ids + tokens + [x])
sampler with the tokens alone: with only the accepted drafts given to the sampler
    p = sampler(logits[len(tokens)], ids + tokens)
    -> p = sampler(logits[len(tokens)], list(tokens))
    p = sampler(logits[-1], ids + tokens) -> p = sampler(logits[-1], list(tokens))
sampler not used: with a softmax of the logits instead of the sampler
    p = sampler(logits[len(tokens)], ids + tokens)
    -> p = np.exp(logits[len(tokens)]) / np.exp(logits[len(tokens)]).sum()
    p = sampler(logits[-1], ids + tokens) -> p = np.exp(logits[-1]) / np.exp(logits[-1]).sum()
ids included: of ids and the new tokens instead of only the new tokens
    return [*tokens, draw(residual(p, q), rng)]
    -> return [*ids, *tokens, draw(residual(p, q), rng)]
    => return [*ids, *tokens, draw(p, rng)]
one u for all: with one random number for all drafts
    tokens: Ids = [] -> tokens: Ids = []; u = rng.random()
    rng.random() * q[x] -> u * q[x]
u drawn again: with the random number of the rejection used again for the draw after it
    draw(residual(p, q), rng) -> int(np.searchsorted(np.cumsum(residual(p, q)), min(u, 0.99999)))
    if rng.random() * q[x] -> u = rng.random()\n        if u * q[x]
a new rng: with a new rng, always with the same seed
    tokens: Ids = [] -> tokens: Ids = []; rng = np.random.default_rng(0)
first draft only: with only the first draft considered
    zip(drafts, qs) -> [*zip(drafts, qs)][:1]
last draft not looked at: with the last draft left out
    zip(drafts, qs) -> [*zip(drafts, qs)][:-1]
ids changed: of a verify that appends to ids
    tokens.append(x) -> tokens.append(x); ids.append(x)
a count: of the number of accepted drafts instead of tokens
    return [*tokens, draw(residual(p, q), rng)] -> return len(tokens)
    => return len(tokens)
no return: of a function that returns nothing
    return [*tokens, draw(residual(p, q), rng)] -> return None
    => return None
""")
RULE = Part(("verify",), "speculative.py", see_rule, RULE_WRONG)


def proposed(drafter, ids, n):
    drafts, qs = drafter.propose(list(ids), n)
    return [int(x) for x in drafts], np.array([np.array(q) for q in qs])


def see_drafts(m):
    model = WatchedModel()
    drafter = m.DraftModel(model, CHOICE, 3)
    drafts, qs = proposed(drafter, PROMPT, 3)
    sure = [float(np.max(q)) > 0.99 for q in qs]
    yield Seen("each q gives one token all probability, as the sampler does here", sure)
    if not all(sure):
        yield Seen("q of the first draft", qs[0], "n_vocab")
        best = int(np.argmax(CHOICE(model.after(tuple(PROMPT)), PROMPT)))
        yield Seen("the first draft is the token that the sampler is certain of", drafts[0] == best)
        return
    yield Seen("three drafts", drafts)
    yield Seen("their distributions", qs, "n, n_vocab")
    yield Seen("tokens run through the small model: 5, then 2 drafts", model.n_rows, "<=1")
    ids = [*PROMPT, *drafts[:2], 0]
    yield Seen("three drafts after two that were accepted", proposed(drafter, ids, 3)[0])
    yield Seen("tokens run through it when the beginning is in the cache", model.n_rows, "<=2")
    ids = [*PROMPT, 6]
    drafts, _ = proposed(drafter, ids, 2)
    yield Seen("two drafts after none were accepted", drafts)
    ids = [*ids, *drafts, 4]
    yield Seen("two drafts after all were accepted", proposed(drafter, ids, 2)[0])
    yield Seen("tokens run through it in all", model.n_rows, "<=5")
    yield Seen("passes through it in all", len(model.passes), "<=5")
    yield Seen("no drafts", proposed(drafter, ids, 0)[0])


def see_another_text(m):
    drafter, ids = m.DraftModel(WatchedModel(), CHOICE, 3), list(PROMPT)
    drafter.propose(ids, 3)
    yield Seen("ids after the call", ids)
    ids = [*PROMPT[:2], 6, 6, 0, 6, 2, 2]
    drafts, _ = proposed(drafter, ids, 2)
    yield Seen("two drafts after a different text with the same beginning", drafts)


def see_again(m):
    drafter = m.DraftModel(WatchedModel(), CHOICE, 3)
    drafter.propose(list(PROMPT), 3)
    yield Seen("drafts for the same ids again", proposed(drafter, PROMPT, 2)[0])


def see_chance(m, seed):
    twins = [m.DraftModel(WatchedModel(), Sampler(), 5).propose([0, 1], 9)[0] for _ in range(2)]
    yield Seen("the same seed gives the same drafts", twins[0] == twins[1])
    first, equal, model = [], [], WatchedModel(n_vocab=3)
    for i in range(300):
        model.passes.clear()
        drafter = m.DraftModel(model, Sampler(), 1000 * seed + i)
        drafts, qs = proposed(drafter, [0, 1], 2)
        first.append((*drafts, *proposed(drafter, [0, 1, 2, 2], 1)[0]))
        equal.append(drafts[0] == draw(qs[0], np.random.default_rng(1000 * seed + i)))
    yield Seen("drafts of 300 seeds: two, and one more in a second call", first, "~")
    yield Seen("distributions of the last drafts", qs[:1], "n, n_vocab")
    yield Seen("the first draft is the token that the text's rng would draw", equal, "~")


def see_draft_model(m, seed):
    yield from attempt(see_drafts(m), "drafts")
    yield from attempt(see_another_text(m), "another text")
    yield from attempt(see_again(m), "propose, called again with the same ids", "!")
    yield from attempt(see_chance(m, seed), "drafts by chance")


DRAFT_MODEL_WRONG = mistakes(r"""
[workshop/reference.py DraftModel]
one seed: with the text's seed for the drafts, which then depend on the text's draws
    np.random.default_rng([seed, 1]) -> np.random.default_rng(seed)
no seed: with an rng without a seed, so that the same text has different drafts each time
    np.random.default_rng([seed, 1]) -> np.random.default_rng()
a fixed seed: with one seed for the drafts of all texts
    np.random.default_rng([seed, 1]) -> np.random.default_rng(0)
a new rng in each call: with an rng that begins again in each call of propose
    drafts, qs = [], [] -> drafts, qs = [], []; self.rng = np.random.default_rng([self.seed, 1])
    self.rng, self.seen = np.random.default_rng([seed, 1]), [] -> self.seed, self.seen = seed, []
a fixed seed, in each call: with one seed for all texts, again in each call of propose
    drafts, qs = [], [] -> drafts, qs = [], []; self.rng = np.random.default_rng(0)
one seed, in each call: with the text's seed, again in each call of propose
    drafts, qs = [], [] -> drafts, qs = [], []; self.rng = np.random.default_rng(self.seed)
    self.rng, self.seen = np.random.default_rng([seed, 1]), [] -> self.seed, self.seen = seed, []
cache not cut: without the cut, so that rejected drafts stay in the cache
    self.cache.cut(kept) -> kept = min(self.cache.length, len(ids) - 1)
all ids in the cache: with a cache that may contain all of ids, but the model must run on the last
        token, because its logits are needed
    len(ids) - 1) and self -> len(ids)) and self
cut one too early: with the cache cut one token too early
    self.cache.cut(kept) -> kept = max(kept - 1, 0); self.cache.cut(kept)
no cache: without a cache, so that the whole text runs through the model for each draft
    logits = self.model(np.array(new), self.cache)[-1]
    -> logits = self.model(np.array(ids + drafts), None)[-1]; self.cache.length
cut to the text: with the cache cut to the new text's length, but it may contain other tokens
    self.cache.cut(kept) -> kept = min(self.cache.length, len(ids) - 1); self.cache.cut(kept)
cut to nothing: with the cache emptied in each call
    self.cache.cut(kept) -> kept = 0; self.cache.cut(0)
last token only: with only the last token run through the model
    new = ids[kept:] -> new = ids[-1:]
best: with the most probable draft instead of a draw from q
    draw(q, self.rng) -> int(np.argmax(q))
best, q certain: with the most probable draft, and a q that is certain of it
    drafts.append(draw(q, self.rng))
    -> q = np.eye(len(q), dtype=q.dtype)[np.argmax(q)]; drafts.append(int(np.argmax(q)))
q certain: with a q that is certain of the draft, although the draft was drawn
    qs.append(q) -> qs.append(np.eye(len(q), dtype=q.dtype)[drafts[-1]])
sampler not used: with a softmax of the logits instead of the sampler
    self.sampler(logits, ids + drafts) -> np.exp(logits) / np.exp(logits).sum()
logits as q: with logits instead of a distribution as q
    qs.append(q) -> qs.append(logits)
q before the sampler: with a draw from the sampler's distribution, but a q without the sampler
    qs.append(q) -> qs.append(np.exp(logits) / np.exp(logits).sum())
sampler without the drafts: with only ids given to the sampler, which needs the drafts, too
    self.sampler(logits, ids + drafts) -> self.sampler(logits, ids)
sampler with the drafts alone: with only the drafts given to the sampler
    self.sampler(logits, ids + drafts) -> self.sampler(logits, drafts)
drafts not passed: with drafts that the model does not read: each follows only ids
    new = drafts[-1:] -> new = ids[-1:]; self.cache.cut(len(ids) - 1)
first logits: with the logits of the first new token instead of the last
    self.cache)[-1] -> self.cache)[0]
one too few: with one draft too few
    for _ in range(n) -> for _ in range(n - 1)
one too many: with one draft too many
    for _ in range(n) -> for _ in range(n + 1)
drafts in ids: of a propose that appends the drafts to ids
    new = drafts[-1:] -> new = drafts[-1:]; ids = ids
    return drafts, qs -> ids += drafts; return drafts, qs
ids and drafts: of ids and the drafts instead of only the drafts
    return drafts, qs -> return ids + drafts, qs
exchanged: of qs and drafts, in this order
    return drafts, qs -> return qs, drafts
drafts alone: of the drafts without their distributions
    return drafts, qs -> return drafts
one q: of a single q instead of one for each draft
    return drafts, qs -> return drafts, qs[-1]
no return: of a function that returns nothing
    return drafts, qs -> pass
""")
DRAFTS = "DraftModel.__init__", "DraftModel.propose"
DRAFT_MODEL = Part(
    ("DraftModel",), "workshop/reference.py", see_draft_model, DRAFT_MODEL_WRONG, DRAFTS
)


GOOD = True, True, False, True, True, True, True, False


class Script:
    """A drafter whose drafts are wrong where `good` is False. It records its calls."""

    def __init__(self, good):
        self.model, self.good, self.asked, self.heard = WatchedModel(), good, [], []

    def propose(self, ids, n):
        if n:
            self.asked.append((len(ids), n))
        drafts, qs = [], []
        for i in range(n):
            q = CHOICE(self.model.after((*ids, *drafts)), [*ids, *drafts])
            if not self.good[(len(ids) + i) % len(self.good)]:
                q = np.roll(q, 1)
            qs.append(q)
            drafts.append(int(np.argmax(q)))
        return drafts, qs

    def learn(self, ids, drafts, logits, tokens):
        if len(drafts):
            self.heard.append((list(ids), list(drafts), list(np.shape(logits)), list(tokens)))


def see_loop(m, n, name, gamma=3, good=GOOD, **how):
    script = Script(good)
    tokens, sequence, model = run(m.speculative, n, drafter=script, gamma=gamma, **how)
    yield Seen(f"the tokens {name}", tokens)
    if "end" not in how:
        yield Seen(f"the text after the loop {name}", sequence.ids)
        yield Seen(f"(tokens so far, n) of each call of propose {name}", script.asked)
        yield Seen(f"tokens run through the model {name}", model.n_rows, "<=")
        yield Seen(f"passes through the model {name}", len(model.passes), "<=")
    if not how:
        yield Seen(f"the arguments of drafter.learn {name}", script.heard)


def see_first(m):
    text, model = Sequence(WatchedModel(), PROMPT, 9, CHOICE), WatchedModel()
    next(iter(m.speculative(model, text, Script((True,)), 3)), None)
    yield Seen("sequence.ids, when the first token is yielded", text.ids)


def see_speculative(m, seed):
    yield from attempt(see_loop(m, 17, "with gamma = 3"), "gamma = 3")
    yield from attempt(see_loop(m, 6, "of a short text, gamma = 5", 5), "gamma = 5")
    yield from attempt(see_loop(m, 9, "if all drafts are right", 3, good=(True,)), "right drafts")
    yield from attempt(see_loop(m, 9, "if all drafts are wrong", 3, good=(False,)), "wrong drafts")
    yield from attempt(see_loop(m, 17, "when a stop id is drawn", stop_ids=(3,)), "a stop id")
    yield from attempt(see_loop(m, 17, "when the caller ends the text after 5", end=5), "an end")
    yield from attempt(see_loop(m, 0, "when 0 tokens are wanted"), "no tokens")
    yield from attempt(see_first(m), "the first token")
    model, small = (WatchedModel(n_vocab=3, seed=i, scale=1.2) for i in (5, 6))
    for n in 60, 400:
        found = []
        for i in range(n):
            model.passes.clear()
            small.passes.clear()
            sequence = Sequence(model, [0, 1], 3, Sampler(), [seed, i])
            drafter = drafters.DraftModel(small, Sampler(), np.random.default_rng([seed, i, 9]))
            tokens = m.speculative(model, sequence, drafter, 2)
            found.append(tuple(map(int, itertools.islice(tokens, 9))))
        yield Seen(f"{n} texts of three tokens", found, "~")


SPECULATIVE_WRONG = mistakes(r"""
[workshop/reference.py speculative]
cache not cut: without the cut, so that rejected drafts stay in the cache
    => pass
cache not cut, text and drafts in one: without the cut, so that rejected drafts stay in the
        cache instead of the tokens that replaced them
    [*ids[cache.length :], *drafts] -> [*ids, *drafts][cache.length :]
    cache.cut(len(sequence.ids) - 1) -> pass
ids that grow: with sequence.ids itself as ids, but it grows: use list(sequence.ids)
    ids = list(sequence.ids) -> ids = sequence.ids
    cache.cut(len(sequence.ids) - 1) -> cache.cut(len(ids) + len(tokens) - 1)
ids that grow, text and drafts in one: with sequence.ids itself as ids, which grows with each token
    ids = list(sequence.ids) -> ids = sequence.ids
    [*ids[cache.length :], *drafts] -> [*ids, *drafts][cache.length :]
    cache.cut(len(sequence.ids) - 1) -> cache.cut(len(ids) + len(tokens) - 1)
cut one too late: with the cache cut one token too late: the model has not read the newest token
    => cache.cut(len(sequence.ids))
cut one too early: with the cache cut one token too early, so that one token runs again
    => cache.cut(len(sequence.ids) - 2)
cut to the round's beginning: with the cache cut to where the round began, so that accepted
        tokens run again
    => cache.cut(len(ids) - 1)
cut to the round's text: with the cache cut to the text before the round: accepted tokens run again
    => cache.cut(len(ids))
cache not used: with the whole text run in each round: the cache is not used, or is emptied
    new = [*ids[cache.length :], *drafts] -> new = [*ids, *drafts]
    model(np.array(new), cache) -> model(np.array(new))
whole text passed: with the whole text added to the same cache in each round
    *ids[cache.length :], -> *ids,
last token only: with only the last token and the drafts run: the prompt is missing
    *ids[cache.length :], -> ids[-1],
last token not passed: with the drafts run without the token before them
    *ids[cache.length :], -> *ids[cache.length : len(ids) - (cache.length > 0)],
drafts not passed: with the drafts not given to the model
    new = [*ids[cache.length :], *drafts] -> new = [*ids[cache.length :]]
last draft not passed: with the last draft not given to the model
    *drafts] -> *drafts[:-1]]
a pass for each draft: with a pass through the model for each token instead of one for the round
    model(np.array(new), cache) -> np.concatenate([model(np.array([x]), cache) for x in new])
passed twice: with two equal passes in each round
    logits = model -> model(np.array(new), cache); cache.cut(cache.length - len(new))
        \n        logits = model
all rows: with all rows of the pass given to verify, in the first round even those of the prompt
    [-len(drafts) - 1 :] -> 
rows one too late: with the rows of the logits one too late: row i must predict draft i
    [-len(drafts) - 1 :] -> [[*range(-len(drafts), 0), -1]]
rows of the drafts alone: with only the rows of the drafts: one is missing, and all are too late
    [-len(drafts) - 1 :] -> [-len(drafts) :]
rows one too early: with the rows of the logits one too early
    [-len(drafts) - 1 :] -> [-len(drafts) - 2 :]
gamma always: with gamma drafts even at the end, where fewer tokens are wanted
    min(gamma, sequence.n_left - 1) -> gamma
one draft too many at the end: with n_left drafts, but a round may add one token more
    sequence.n_left - 1) -> sequence.n_left)
one draft too few at the end: with n_left - 2 drafts at the end
    sequence.n_left - 1) -> max(sequence.n_left - 2, 0))
one draft too few: with gamma - 1 drafts
    min(gamma, -> min(gamma - 1,
one draft too many: with gamma + 1 drafts
    min(gamma, -> min(gamma + 1,
goes on after the end: with the rest of the tokens after the text has ended
    if sequence.running: -> if True:
first token only: with only the first token of each round
    for token in tokens: -> for token in tokens[:1]:
accepted ones only: with only the accepted drafts, without the token that verify adds
    for token in tokens: -> for token in tokens[:-1]:
added one only: with only the token that verify adds
    for token in tokens: -> for token in tokens[-1:]:
drafts alone, unchecked: with the drafts themselves, without verify and its token
    for token in tokens: -> for token in drafts:
drafts unchecked: with the drafts themselves, whatever verify says
    for token in tokens: -> for token in [*drafts, tokens[-1]]:
appended twice: with each token appended twice
    yield sequence.append(token) -> sequence.append(token); yield sequence.append(token)
yielded first: with each token yielded before it is appended: append it, then yield it
    yield sequence.append(token) -> yield token; sequence.append(token)
not appended: of a loop that does not add tokens to the text
    yield sequence.append(token) -> yield token
not yielded: of a loop that yields nothing
    yield sequence.append(token) -> sequence.append(token); yield from ()
lists: of a loop that yields a list for each round
    for token in tokens: -> for round in [tokens]:
    if sequence.running: -> if True:
    yield sequence.append(token) -> yield [sequence.append(token) for token in round]
ids.append: of a loop that appends to sequence.ids: only sequence.append notices the end
    yield sequence.append(token) -> sequence.ids.append(token); yield token
learn not called: without drafter.learn
    drafter.learn(ids, drafts, logits, tokens) -> pass
learn after the tokens: with the text after the round passed to drafter.learn as ids
    drafter.learn(ids, -> drafter.learn(ids + tokens,
learn with the tokens as drafts: with the tokens given to drafter.learn as the drafts
    drafter.learn(ids, drafts, -> drafter.learn(ids, tokens,
learn with the accepted ones: with only the accepted drafts given to drafter.learn as the tokens
    logits, tokens) -> logits, tokens[:-1])
learn without the last row: without the last row of the logits in drafter.learn
    drafter.learn(ids, drafts, logits, -> drafter.learn(ids, drafts, logits[:-1],
propose with the new ids: with only the new tokens given to drafter.propose
    drafter.propose(ids, n) -> drafter.propose(list(sequence.new_ids), n)
propose with the prompt: with only the prompt given to drafter.propose
    drafter.propose(ids, n) -> drafter.propose(ids[: sequence.n_prompt], n)
verify with the drafts in ids: with the drafts at the end of ids given to verify
    verify(logits, ids, -> verify(logits, ids + drafts,
verify with the new ids: with only the new tokens given to verify as ids
    verify(logits, ids, -> verify(logits, sequence.new_ids,
an rng of its own: with a new rng for verify, always with the same seed
    sequence.rng) -> np.random.default_rng(0))
p for q: with the model's distribution instead of q
    drafts, qs, sequence -> drafts, [sequence.sampler(row, ids) for row in logits[:-1]], sequence
no drafts: with the drafts not used, so that each pass gives one token
    drafts, qs = drafter.propose(ids, n) -> drafter.propose(ids, n); drafts, qs = [], []
one round: of a single round
    while sequence -> if sequence
""")
SPECULATIVE = Part(("speculative",), "speculative.py", see_speculative, SPECULATIVE_WRONG)
