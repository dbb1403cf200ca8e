"""Steps 14 to 16: the acceptance rule, the speculative loop with its two caches, beam search."""

import itertools
from functools import partial

import numpy as np

from decoding import drafters
from generate import Sequence
from samplers import Sampler, draw
from workshop.compare import Seen
from workshop.engine import Part
from workshop.mistakes import mistakes
from workshop.steps.inputs import WatchedModel
from workshop.steps.loops import CHOICE, PROMPT, run

P = np.array([[0.45, 0.1, 0.15, 0.3], [0.1, 0.4, 0.2, 0.3], [0.15, 0.25, 0.5, 0.1]], np.float32)
Q = np.array([[0.05, 0.7, 0.13, 0.12], [0.5, 0.05, 0.4, 0.05]], np.float32)
IDS = [2, 1]


def by_text(logits, ids):
    """Rotate p by one position for each 2 in ids. This sampler needs the whole text."""
    p = np.exp(logits) / np.exp(logits).sum()
    return np.roll(p, list(ids).count(2)).astype(np.float32)


def see_rule(m, seed):
    rng = np.random.default_rng([seed, 7])

    def verify(p, drafts, qs, ids=()):
        """Call m.verify. p[i]: the sampler's result if all drafts before drafts[i] are accepted."""
        texts = [[*IDS, *drafts[:i]] for i in range(len(p))]
        rows = np.array([np.roll(row, -text.count(2)) for row, text in zip(p, texts)])
        tokens = m.verify(np.log(rows + 1e-9), ids or [*IDS], list(drafts), list(qs), by_text, rng)
        return tuple(map(int, tokens))

    def many(n, *how):
        return [verify(*how) for _ in range(n)]

    def sure(p, drafts, ids=()):
        one = np.eye(4, dtype=np.float32)
        return verify(one[p], drafts, one[drafts], ids)

    for p, drafts in (
        ([1, 0, 3, 2], [1, 0, 3]),
        ([1, 1, 3, 1], [1, 0, 3]),
        ([2, 1, 3, 1], [2, 2, 0]),
        ([1, 2, 0, 3], [1, 2, 0]),
        ([1], []),
    ):
        name = f"drafts {drafts}, as q is certain of, where p is certain of {p}"
        yield Seen(name, partial(sure, p, drafts))
    ids = list(IDS)
    yield Seen("ids after the call", lambda: (sure([1, 0, 3, 2], [1, 0, 3], ids), ids)[1])
    for n, drafts in (80, [1, 0]), (600, [1, 0]), (600, [0, 2]):  # 80 reveal most mistakes
        found = partial(many, n, P, drafts, Q)
        yield Seen(f"the tokens of {n} calls with the drafts {drafts}", found, "~")


def best(ids, n):
    """Return the n drafts that a right drafter proposes."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(np.argmax(CHOICE(WatchedModel().after(tuple(ids)), ids))))
    return ids[len(ids) - n :]


def see_drafts(m):
    model, text = WatchedModel(m), list(PROMPT)
    drafter, found = m.DraftModel(model, CHOICE, 3), [[], []]

    def drafts(ids, n):
        found[:] = drafter.propose(ids, n)
        return [int(x) for x in found[0]]

    yield Seen("q of the first draft", lambda: drafts(text, 3) and found[1][0], "n_vocab")
    if any(np.max(q) < 0.99 for q in found[1]):  # the drafts are drawn, so that they vary
        name = "the first draft is the token that the sampler is certain of"
        yield Seen(name, lambda: found[0][0] == best(PROMPT, 1)[0])
        return
    yield Seen("three drafts", lambda: [int(x) for x in found[0]])
    yield Seen("their distributions", lambda: np.array([*found[1]]), "n, n_vocab")
    yield Seen("ids after the call", text)
    yield Seen("tokens run through the small model: 5, then 2 drafts", model.n_rows, "<=")
    ids = [*PROMPT, *best(PROMPT, 2), 0]
    yield Seen("three drafts after two that were accepted", partial(drafts, ids, 3))
    yield Seen("tokens run through it when the beginning is in the cache", model.n_rows, "<=1")
    ids = [*PROMPT, 6]
    yield Seen("two drafts after none were accepted", partial(drafts, ids, 2))
    ids = [*ids, *best(ids, 2), 4]
    yield Seen("two drafts after all were accepted", partial(drafts, ids, 2))
    other = [*PROMPT[:2], 6, 6, 0, 6, 2, 2, 0, 0, 1]
    name = "two drafts after a different text with the same beginning"
    yield Seen(name, lambda: drafts(other, 2))
    yield Seen("two drafts after a text that begins differently", partial(drafts, other[2:], 2))


def see_draft_model(m, seed):
    yield from see_drafts(m)

    def draw_nine():
        return [*m.DraftModel(WatchedModel(m), Sampler(), 5).propose([0, 1], 9)[0]]

    yield Seen("the same seed gives the same drafts", lambda: draw_nine() == draw_nine())
    model, equal, last, own_draw = WatchedModel(m, n_vocab=3), [], [], getattr(m, "draw", draw)

    def texts():
        for i in range(300):
            model.passes.clear()
            drafter = m.DraftModel(model, Sampler(), 1000 * seed + i)
            drafts, last[:] = drafter.propose([0, 1], 2)
            mine = own_draw(last[0], np.random.default_rng(1000 * seed + i))
            equal.append(bool(drafts[0] == mine))
            yield (*map(int, drafts), int(drafter.propose([0, 1, 2, 2], 1)[0][0]))

    yield Seen("drafts of 300 seeds: two, and one more in a second call", lambda: [*texts()], "~")
    yield Seen("the first draft is the token that the text's rng would draw", equal, "~")


GOOD = True, True, False, True, True, True, True, False


class Script:
    """A drafter whose drafts are wrong where `good` is False. It records its calls."""

    def __init__(self, good):
        self.model, self.good, self.heard = WatchedModel(), good, []

    def propose(self, ids, n):
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
    tokens, model, first, _ = run(m, "speculative", n, drafter=script, gamma=gamma, **how)
    yield Seen(f"the tokens {name}", tokens)
    if "end" not in how and isinstance(tokens, list):
        yield Seen(f"sequence.ids {name}, when the first token is yielded", first)
        yield Seen(f"tokens run through the model {name}", model.n_rows, "<=")
        yield Seen(f"passes through the model {name}", len(model.passes), "<=1")
        yield Seen(f"the arguments of drafter.learn {name}", script.heard)


def see_speculative(m, seed):
    yield from see_loop(m, 17, "with gamma = 3")
    yield from see_loop(m, 9, "if all drafts are right, gamma = 5", 5, good=(True,))
    yield from see_loop(m, 9, "if all drafts are wrong", good=(False,))
    yield from see_loop(m, 17, "when a stop id is drawn", stop_ids=(3,))
    yield from see_loop(m, 17, "when the caller ends the text after 5", end=5)
    yield from see_loop(m, 0, "when 0 tokens are wanted")
    model, small = (WatchedModel(m, n_vocab=3, seed=i, scale=1.2) for i in (5, 6))
    equal = []

    def text(i):
        model.passes.clear()
        small.passes.clear()
        sequence = Sequence(model, [0, 1], 3, Sampler(), [seed, i])
        drafter = drafters.DraftModel(small, Sampler(), np.random.default_rng([seed, i, 9]))
        tokens = m.speculative(model, sequence, drafter, 2)
        found = [int(token) for token in itertools.islice(tokens, 9)]
        equal.append(found == sequence.new_ids)
        return tuple(found)

    yield Seen("300 texts of three tokens", lambda: [text(i) for i in range(300)], "~")
    name = "speculative yields the tokens in sequence.ids, if they are random"
    yield Seen(name, lambda: all(equal))


def see_texts(m, name, n, width, stop_ids=(), seed=2, **more):
    model = WatchedModel(m, n_vocab=5, stop_ids=stop_ids, seed=seed, scale=1.2, most=60)
    prompt, found = [3, 1, 4], []

    def texts():
        found[:] = m.beam_search(model, prompt, n, width, **more)
        return [[int(id) for id in ids] for ids, _, _ in found]

    yield Seen(f"the texts {name}", texts)
    if not found:  # an error: what follows would prove nothing
        return
    for label, i in ("log P", 1), ("scores", 2):
        scores = np.array([float(text[i]) for text in found], np.float32)
        yield Seen(f"their {label} {name}", scores, "text")
    yield Seen(f"the prompt after the call {name}", prompt)
    yield Seen(f"tokens run through the model {name}", model.n_rows, "<=")
    yield Seen(f"passes through the model {name}", len(model.passes), "<=")


def see_beam(m, seed):
    yield from see_texts(m, "with width 3", 4, 3)
    yield from see_texts(m, "with a stop id", 5, 3, (2,))
    yield from see_texts(m, "with two stop ids", 6, 4, (0, 2))
    yield from see_texts(m, "with length_penalty=2", 6, 4, (1,), length_penalty=2.0)
    yield from see_texts(m, "with length_penalty=0", 6, 4, (1,), seed=16, length_penalty=0.0)
    yield from see_texts(m, "with a stop id among the best", 4, 2, (2,), seed=1)
    yield from see_texts(m, "with n=1, width 1", 1, 1)


WRONG = mistakes(r"""
[speculative.py verify]
with q / p instead of p / q
    rng.random() * q[x] >= p[x] -> rng.random() * p[x] >= q[x]
with a draft accepted if p(x) >= q(x), without a random number
    rng.random() * q[x] >= p[x] -> q[x] > p[x]
with a draw from p without the rejected draft instead of max(0, p - q)
    residual(p, q) -> np.where(np.arange(len(p)) == x, 0, p) / (1 - p[x])
with no token to replace a rejected draft
    return [*tokens, draw(residual(p, q), rng)] -> return tokens
with the later drafts considered after a rejection
    return [*tokens, draw(residual(p, q), rng)]
    -> tokens.append(draw(residual(p, q), rng)); continue
without the token after all accepted drafts
    => return tokens
[workshop/reference.py DraftModel]
with the text's seed for the drafts, which then depend on the text's draws
    np.random.default_rng([seed, 1]) -> np.random.default_rng(seed)
with the cache cut to the new text's length, but it may contain other tokens
    self.cache.cut(kept) -> kept = min(self.cache.length, len(ids) - 1); self.cache.cut(kept)
with a softmax of the logits instead of the sampler
    self.sampler(logits, ids + drafts) -> np.exp(logits) / np.exp(logits).sum()
with the most probable draft instead of a draw from q
    draw(q, self.rng) -> int(np.argmax(q))
with a draw from the sampler's distribution, but a q without the sampler
    qs.append(q) -> qs.append(np.exp(logits) / np.exp(logits).sum())
[workshop/reference.py speculative]
of a loop that appends to sequence.ids: only sequence.append notices the end
    yield sequence.append(token) -> sequence.ids.append(token); yield token
[workshop/reference.py beam_search]
with the rank of a candidate instead of the row of the beam that it continues
    parents.append(row) -> parents.append(place)
with the score instead of log P as the beginning of the next sum
    kept.append((ids, log_p)) -> kept.append((ids, log_p / len(ids) ** length_penalty))
of a search that ends as soon as `width` texts are finished
    if not kept: -> if not kept or len(finished) >= width:
with fewer beams after a text is finished: finished candidates take the place of beams
    elif len(kept) < width: -> elif place < width:
with the prompt's tokens counted in the length
    log_p / len(ids) -> log_p / (len(prompt) + len(ids))
    # huggingface/transformers, issue 26624
""")
WHOLE_LOOP = '"Speculation": The whole loop, step by step.'


METHODS = "DraftModel.__init__", "DraftModel.propose"
RULE = Part(("verify",), see_rule, WRONG, '"Speculation": The rule for samples.')
SPECULATION = (
    Part(("DraftModel",), see_draft_model, WRONG, WHOLE_LOOP, needs=METHODS),
    Part(("speculative",), see_speculative, WRONG, WHOLE_LOOP),
)
BEAM = Part(("beam_search",), see_beam, WRONG, '"Search": Try them all.')
