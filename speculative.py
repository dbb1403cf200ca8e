"""Speculative decoding: a cheap drafter proposes tokens, the model verifies them all in one pass.

A pass over g + 1 tokens reads every weight once, as a pass over one token does: where it is reading
that takes the time, it costs little more. The acceptance rule leaves the model's own distribution
exactly as it was, whatever the drafter proposes and whatever the sampler (greedy is a one-hot
distribution, and needs no other rule). Leviathan et al. 2023, "Fast Inference from Transformers via
Speculative Decoding"; Chen et al. 2023.

A drafter has two methods:
    propose(ids, n) -> at most n draft ids, and for each the distribution q [n_vocab] it came from
    learn(ids, drafts, logits)  the model's logits [len(drafts) + 1, n_vocab] behind ids and drafts
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.random import Generator

from interface import Done, Drafter, Ids, Model, Sampler
from samplers import draw


def speculative(
    model: Model, prompts: list[Ids], samplers: list[Sampler], rngs: list[Generator], done: Done,
    drafters: list[Drafter], gamma: int = 4, watch: Callable[[int, Ids, Ids], None] | None = None,
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """A loop like `naive` and `cached`: yields (row, id), each row after the other, with at most
    gamma drafts a pass. watch(row, drafts, tokens) sees each round: what was proposed, and the
    tokens that came of it, the accepted drafts and, unless the row has ended before it, one of the
    model's own. ValueError for an empty prompt."""
    if not all(map(len, prompts)):
        raise ValueError("a prompt needs at least one token")
    for row, prompt in enumerate(prompts):
        ids, drafter = list(prompt), drafters[row]
        source = model.select([row])
        cache = source.new_cache(1)
        while not done(row, ids):
            room = source.n_ctx - len(ids) - 1
            drafts, qs = drafter.propose(ids, min(gamma, room))
            new = np.array([ids[cache.length :] + drafts])  # [1, n_new]
            logits = source(new, cache, last=len(drafts) + 1)[0]  # [len(drafts) + 1, n_vocab]
            drafter.learn(ids, drafts, logits)
            tokens = []
            before = list(ids)  # for ids grows meanwhile
            for token in verify(logits, before, drafts, qs, samplers[row], rngs[row]):
                ids.append(token)
                tokens.append(token)
                yield row, token
                if done(row, ids):  # a stop among the accepted drafts ends the row there
                    break
            if watch:
                watch(row, drafts, tokens)
            cache.cut(len(ids) - 1)  # forget what was rejected; the last token has yet to pass


def verify(
    logits: np.ndarray, ids: Ids, drafts: Ids, qs: list[np.ndarray], sampler: Sampler,
    rng: Generator,
) -> Iterator[int]:  # fmt: skip
    """Yield the tokens that replace the drafts: distributed as if drawn from p one by one.

    Accept draft x ~ q with probability min(1, p(x) / q(x)); at the first rejection draw from what
    p has more than q, norm(max(0, p - q)), and stop; if all pass, draw one more from p.
    """
    for i, (draft, q) in enumerate(zip(drafts, qs)):
        p = sampler(logits[i], ids + drafts[:i])  # [n_vocab]
        if rng.random() * q[draft] >= p[draft]:  # u >= p / q, and q may be 0
            yield draw(residual(p, q), rng)
            return
        yield draft
    yield draw(sampler(logits[-1], ids + drafts), rng)


def residual(p, q):  # [n_vocab] x 2 -> [n_vocab], not normalised: `draw` does that
    more = np.maximum(p - q, 0)
    return more if more.any() else p  # p = q but for rounding


class DraftModel:
    """Drafts by a smaller model with the same vocabulary, which samples as the large one does. Its
    `rng` must be independent of the loop's: with one seed for both the text is biased."""

    def __init__(self, model: Model, sampler: Sampler, rng: Generator):
        self.model, self.sampler, self.rng = model, sampler, rng
        self.cache, self.seen = model.new_cache(1), []

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        drafts, qs = [], []
        n = min(n, self.model.n_ctx - len(ids))
        kept = common_prefix(self.seen, ids[:-1])
        self.cache.cut(kept)
        new = ids[kept:]
        for _ in range(n):
            logits = self.model(np.array([new]), self.cache, last=1)[0, -1]  # [n_vocab]
            try:
                qs.append(self.sampler(logits, ids + drafts))
            except ValueError:  # nothing may follow: the row will end before, or the model say so
                break
            drafts.append(draw(qs[-1], self.rng))
            new = drafts[-1:]
        self.seen = (ids + drafts)[: self.cache.length]
        return drafts, qs

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray) -> None:
        pass


class NGramStore:
    """Drafts the token that most often followed the last tokens: counts of k-grams, k = 2..n, the
    longest known context first. It learns from the text, and from what the model would have said
    at each verified position: its `filler_top_k` best tokens (1: ANPD, Ou et al. 2024; more: NASD).
    `before` is text to learn from at once, such as an encoder-decoder's source. One store may serve
    many prompts, and knows more with each."""

    def __init__(self, n_vocab: int, n: int = 3, filler_top_k: int = 1, before: Sequence[int] = ()):
        self.n_vocab, self.n, self.filler_top_k = n_vocab, n, filler_top_k
        self.counts, self.seen = defaultdict(Counter), []
        self.read(list(before))

    def count(self, ids, token):
        for k in range(2, min(self.n, len(ids) + 1) + 1):
            self.counts[tuple(ids[-(k - 1) :])][token] += 1

    def read(self, ids: Ids) -> None:
        """Count what is new in ids since the last call."""
        for i in range(max(1, common_prefix(self.seen, ids)), len(ids)):
            self.count(ids[max(0, i - self.n) : i], ids[i])
        self.seen = list(ids)

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        self.read(ids)
        drafts = []
        while len(drafts) < n and (token := self.next(ids + drafts)) is not None:
            drafts.append(token)
        return drafts, certain(drafts, self.n_vocab)

    def next(self, ids: Ids) -> int | None:
        """The most frequent successor of the longest known context, or None."""
        for k in range(min(self.n, len(ids) + 1), 1, -1):
            if successors := self.counts.get(tuple(ids[-(k - 1) :])):
                return max(successors, key=successors.__getitem__)
        return None

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray) -> None:
        for i, row in enumerate(logits):
            context = (ids[-self.n :] + drafts[:i])[-self.n :]
            for token in best(row, self.filler_top_k):  # of equal counts the first is drafted
                self.count(context, token)


class PromptLookup:
    """Drafts what followed the latest occurrence of the longest suffix, of at most n tokens, that
    occurs earlier in the text (Saxena 2023), or in `before`, an encoder-decoder's source."""

    def __init__(self, n_vocab: int, n: int = 3, before: Sequence[int] = ()):
        self.n_vocab, self.n, self.before = n_vocab, n, list(before)

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        text = self.before + ids
        for size in range(min(self.n, len(text) - 1), 0, -1):
            for start in range(len(text) - size - 1, -1, -1):
                if text[start : start + size] == text[-size:]:
                    drafts = self.copy(text, start + size, n)
                    return drafts, certain(drafts, self.n_vocab)
        return [], []

    @staticmethod
    def copy(text, start, n):
        """The n tokens from `start`; past the end of the text the copy goes on with itself."""
        period = len(text) - start
        return [text[start + i % period] for i in range(n)]

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray) -> None:
        pass


class Replay:
    """Drafts a known text, each token right with a given probability: to see what speculation
    gains at that acceptance rate. (On greedy text, the rate is the acceptance rate.)"""

    def __init__(self, n_vocab: int, text: Sequence[int], rate: float, rng: Generator):
        self.n_vocab, self.text, self.rate, self.rng = n_vocab, list(text), rate, rng

    def propose(self, ids: Ids, n: int) -> tuple[Ids, list[np.ndarray]]:
        right = self.text[len(ids) : len(ids) + n]
        drafts = [t if self.rng.random() < self.rate else (t + 1) % self.n_vocab for t in right]
        return drafts, certain(drafts, self.n_vocab)

    def learn(self, ids: Ids, drafts: Ids, logits: np.ndarray) -> None:
        pass


def best(logits: np.ndarray, k: int) -> Ids:
    """The ids of the k largest logits [n_vocab], the best first."""
    top = np.argpartition(-logits, min(k, len(logits)) - 1)[:k]
    return top[np.argsort(-logits[top])].tolist()


def certain(drafts: Ids, n_vocab: int) -> list[np.ndarray]:
    """One-hot distributions [n_vocab], for drafts that were not drawn but chosen."""
    qs = np.zeros((len(drafts), n_vocab), np.float32)
    qs[range(len(drafts)), drafts] = 1
    return list(qs)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class Statistics:
    """Counts over the rounds of speculation; `record` is a `watch` for the loop."""

    def __init__(self):
        self.drafted = self.accepted = self.rejected = self.tokens = 0
        self.lengths = Counter()  # accepted drafts in a round -> how many rounds
        self.sizes = Counter()  # drafts in a round -> how many rounds

    def record(self, row: int, drafts: Ids, tokens: Ids) -> None:
        accepted = common_prefix(drafts, tokens)
        self.drafted += len(drafts)
        self.accepted += accepted
        self.rejected += accepted < min(len(drafts), len(tokens))
        self.tokens += len(tokens)
        self.lengths[accepted] += 1
        self.sizes[len(drafts)] += 1

    @property
    def acceptance(self) -> float:
        """a: the share accepted of the drafts that were looked at (none behind a rejection is)."""
        return self.accepted / max(1, self.accepted + self.rejected)

    @property
    def tokens_per_call(self) -> float:
        """Measured tokens per pass of the model."""
        return self.tokens / max(1, self.lengths.total())

    @property
    def expected_tokens_per_call(self) -> float:
        """1 + a + ... + a^g, that is (1 - a^(g + 1)) / (1 - a), for a pass over g drafts (Leviathan
        et al. 2023, equation 1): the mean over the rounds, as some have fewer drafts than gamma."""
        powers = [self.acceptance**i for i in range(max(self.sizes, default=0) + 1)]
        total = sum(n * sum(powers[: g + 1]) for g, n in self.sizes.items())
        return total / max(1, self.sizes.total())
