"""Checks: the loop, acceptance rates, the number of drafts, several drafters."""

import numpy as np
from lessons import Watched, random_gpt2  # lessons makes the project's files importable

import utils
from decoding.drafters import Checked, PromptLookup, common_prefix, one_hots
from generate import Sequence, generate
from speculative import speculative

tokenizer, model = utils.load("stories")


class Planned:
    """A drafter that knows the text, but proposes wrong tokens at the positions in `wrong`."""

    def __init__(self, n_vocab, text, wrong):
        self.n_vocab, self.text, self.wrong = n_vocab, text, wrong

    def propose(self, ids, n):
        """Return at most n drafts that follow ids, and for each a one-hot q [n_vocab]."""
        places = range(len(ids), min(len(ids) + n, len(self.text)))
        drafts = [(self.text[i] + (i in self.wrong)) % self.n_vocab for i in places]
        return drafts, one_hots(drafts, self.n_vocab)

    def learn(self, ids, drafts, logits, tokens):
        pass


def exercise_loop(greedy_speculation):
    """Check greedy_speculation(model, drafter, ids, n, gamma=4) -> n new ids."""
    tiny, prompt, n = random_gpt2(8, 64, 8, 2, 2, 0.6, 4, tied=False), [1, 2, 3, 4, 5], 10
    text = prompt + list(generate(tiny, prompt, n))
    plans = (4, 15, ()), (4, 15, (6, 7, 12)), (4, 15, range(15)), (2, 15, (9,)), (4, 8, ())
    for gamma, n_known, wrong in plans:  # the drafter knows the first n_known ids of the text
        ours, theirs = Watched(tiny), Watched(tiny)
        drafter = Planned(8, text[:n_known], wrong)
        list(speculative(ours, Sequence(ours, prompt, n), drafter, gamma))
        found = greedy_speculation(theirs, drafter, list(prompt), n, gamma)
        assert found is not None, "write greedy_speculation"
        held = []
        for number, (start, ids) in enumerate(theirs.passes):
            known = common_prefix(held[:start], prompt + list(found))
            assert known == start, (
                f"before pass {number} the cache differs from the text at position {known}: what"
                " has to be cut after a round?"
            )
            held = held[:start] + ids
        same = common_prefix(list(found), text[len(prompt) :])
        assert same == min(n, len(found)), f"token {same} differs from that of the greedy loop"
        assert len(found) == n, f"return {n} tokens, not {len(found)}"
        done, needed = len(theirs.passes), len(ours.passes)
        assert done <= needed, (
            f"the text is right, but it took {done} passes instead of {needed}: each pass also"
            " yields a token of the model itself"
        )
        done, needed = (sum(len(ids) for _, ids in m.passes) for m in (theirs, ours))
        assert done <= needed, (
            f"the text is right, but the model read {done} tokens instead of {needed}, some twice"
        )
        most = max(len(ids) for _, ids in theirs.passes[1:])
        assert most <= gamma + 1, (
            f"with gamma = {gamma}, a pass has at most {gamma + 1} tokens, not {most}"
        )


def exercise_1(acceptance, best_certain):
    """Check acceptance(p, q) -> the probability that a draft from q is accepted, and
    best_certain(p) -> the one-hot q [n] whose draft is accepted most often."""
    p, q = np.array([0.5, 0.3, 0.2, 0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert acceptance(p, q) is not None, "write acceptance"
    with np.errstate(all="ignore"):
        rates = [acceptance(*pair) for pair in ((p, q), (q, p), (p, p))]
    assert np.shape(rates) == (3,), "return one number, the probability of acceptance"
    assert not np.isnan(rates).any(), "the result is nan if q has a 0: can you avoid the division?"
    assert np.isclose(rates[2], 1), "a draft from p itself is always accepted"
    for first, second, rate in (p, q, rates[0]), (q, p, rates[1]):
        rng = np.random.default_rng(0)
        drafts = rng.choice(4, 100_000, p=second)
        passed = rng.random(100_000) * second[drafts] < first[drafts]
        assert abs(rate - passed.mean()) < 0.01, (
            f"for p = {first}, the rule accepts {passed.mean():.3f} of 100,000 drafts from"
            f" {second}, not {rate:.3f}"
        )
    chosen = best_certain(p[::-1])
    assert chosen is not None, "write best_certain"
    assert np.shape(chosen) == (4,), "return a distribution [n], not a token"
    assert np.asarray(chosen).dtype != bool, "a distribution has numbers, not True and False"
    assert sorted(chosen) == [0, 0, 0, 1], "a one-hot distribution has one 1 and zeros otherwise"
    assert chosen[3] == 1, "a different token is accepted more often"
    tie = best_certain(np.array([0.4, 0.4, 0.2]))
    assert sorted(tie) == [0, 0, 1], "if two tokens are equally good, choose one"


def exercise_2(best_gamma):
    """Check best_gamma(a, c, b) -> a number of drafts from 0 to 16.

    a: the acceptance rate; c: the cost of a draft; b(gamma) -> the cost of a pass.
    """
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
                found = best_gamma(a, c, b)
                assert found in range(17), f"return a number of drafts from 0 to 16, not {found}"
                case = f"a = {a}, c = {c}, b = {name}"
                assert gains[found] >= 1 - 1e-9, f"with {case}, decoding without drafts is faster"
                assert np.isclose(gains[found], max(gains)), (
                    f"with {case}, {found} drafts are not the fastest"
                )


class Listener:
    """A drafter that never proposes drafts, and records what it is told to learn."""

    def __init__(self):
        self.heard, self.asked = [], 0

    def propose(self, ids, n):
        """Return two empty lists: no drafts, no distributions."""
        self.asked += 1
        return [], []

    def learn(self, ids, drafts, logits, tokens):
        self.heard.append((ids, tokens))


def exercise_3(first_of):
    """Check FirstOf(drafters), a drafter that takes its drafts from the first one that has any."""
    ids, n_vocab = tokenizer.encode("The cat and the dog. The cat and"), model.n_vocab
    before, after, lookup = Listener(), Listener(), PromptLookup(n_vocab)
    other = Planned(n_vocab, ids + [5] * 9, ())
    first = first_of([before, lookup, other, after])
    assert first.propose(ids, 4) is not None, "write propose"
    assert len(first.propose(ids, 4)) == 2, "return two lists: drafts and distributions"
    drafts, qs = first.propose(ids, 4)
    assert len(drafts) > 0, "the first of these drafters has no drafts here: ask the next one"
    assert drafts == lookup.propose(ids, 4)[0], "return the drafts of the first that has any"
    assert len(qs) == len(drafts), "return a distribution for each draft"
    short = Planned(n_vocab, ids + [7], ())
    found = first_of([short, other]).propose(ids, 4)[0]
    assert found == [7], "return the drafts of the first that has any, even if it has only one"
    assert not after.asked, "once a drafter has drafts, do not ask those after it: it costs time"
    nothing = first_of([before]).propose(ids, 4)
    assert nothing is not None, "if no drafter has drafts, return two empty lists, not None"
    assert list(nothing[0]) == [], "if no drafter has drafts, return two empty lists"
    found = list(speculative(model, Sequence(model, ids, 40), Checked(first, n_vocab)))
    assert found == list(generate(model, ids, 40)), "the drafts change the text: look at the qs"
    for listener in before, after:
        assert listener.heard, "a drafter has learnt nothing: call learn of every drafter"
        heard = sum([list(tokens) for _, tokens in listener.heard], [])
        assert heard == found, "every drafter should learn from each pass once"
