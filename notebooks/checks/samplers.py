"""Checks: typical sampling, the Gumbel trick, sampling with a chosen entropy."""

import functools

import numpy as np

import utils
from gpt2 import softmax


@functools.cache
def positions():
    """Return {prompt: the logits [n_vocab] of the next token}."""
    tokenizer, model = utils.load("stories")
    prompts = "Once upon a time, there was a little", "Tim looked at the"
    return {prompt: model(tokenizer.encode(prompt), last=1)[-1] for prompt in prompts}


def exercise_1(typical):
    """Check typical(mass) -> a filter."""
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))  # the entropy is 1.75 bits
    assert typical(0.2)(row, []) is not None, "write typical"
    few, more = (np.isfinite(typical(mass)(row, [])).tolist() for mass in (0.2, 0.6))
    given = "of the probabilities 1/2, 1/4, 1/8, 1/8,"
    assert sum(few) > 0, f"{given} none is left for a mass of 0.2: keep tokens until they have it"
    assert sum(few) == 1, f"{given} one is enough for a mass of 0.2, but you keep {sum(few)}"
    assert not few[0], "remove the token of 1/2: 1 bit is not the nearest to the entropy, 1.75 bits"
    assert few[1], "keep the token of 1/4: its 2 bits are the nearest to the entropy, 1.75 bits"
    assert sum(more) >= 2, f"{given} the nearest token alone does not reach a mass of 0.6"
    assert more == [True, True, False, False], f"{given} the wrong tokens are kept for 0.6"
    n_kept = np.isfinite(typical(0.5)(np.zeros(4, np.float32), [])).sum()
    assert n_kept != 3, "of four equal tokens, two are enough for a mass of 0.5, but you keep 3"
    for prompt, row in positions().items():
        kept = np.isfinite(typical(0.9)(row, []))
        mass = softmax(row)[kept].sum()
        assert mass >= 0.9, f"after {prompt!r}, the kept tokens do not reach a mass of 0.9"
        assert mass < 0.98, f"after {prompt!r}, fewer tokens would reach a mass of 0.9"
        same = np.array_equal(typical(0.9)(row, [])[kept], row[kept])
        assert same, "the logits of the kept tokens should stay as they are"


class Random:
    """A random generator that has only the method `random`, and counts the numbers it returns."""

    def __init__(self, seed):
        self.rng, self.n_given = np.random.default_rng(seed), 0

    def random(self, size=None, **kwargs):
        self.n_given += 1 if size is None else int(np.prod(size))
        return self.rng.random(size, **kwargs)

    def __getattr__(self, name):
        raise AssertionError(f"rng.random is enough: rng.{name} does more than the trick needs")


def exercise_2(gumbel_draw):
    """Check gumbel_draw(logits, rng) -> an id. logits: [n_vocab]."""
    rng = Random(0)
    assert gumbel_draw(np.zeros(5, np.float32), rng) is not None, "write gumbel_draw"
    assert rng.n_given == 5, f"five logits need five numbers from rng.random, not {rng.n_given}"
    named = {*gumbel_draw.__wrapped__.__code__.co_names}
    extra = named & {"softmax", "exp", "sum", "cumsum", "draw", "Sampler", "log_softmax", "choice"}
    assert not extra, f"the trick needs no {', '.join(sorted(extra))}"
    row = np.array([2.0, 1.0, 0.0, -1.0, -np.inf], np.float32)
    drawn = [gumbel_draw(row, Random(seed)) for seed in range(6000)]
    share = np.bincount(drawn, minlength=5) / len(drawn)
    assert share[4] == 0, "a token was drawn whose logit is -inf: the logit should stay -inf"
    assert len(set(drawn)) > 1, (
        "the same token is drawn each time: there is too little noise. Most g are between -2 and 5"
    )
    difference = np.abs(share - softmax(row)).max()
    assert difference < 0.025, f"the frequencies differ from softmax by up to {difference:.2f}"


def exercise_3(at_entropy):
    """Check at_entropy(bits) -> a filter."""
    for bits in (0.5, 3, 6):
        for prompt, row in positions().items():
            changed = at_entropy(bits)(row, [])
            assert changed is not None, "write at_entropy"
            p = softmax(changed)
            found = -(p[p > 0] * np.log2(p[p > 0])).sum()
            entropy = f"after {prompt!r}, the entropy is {found:.2f} bits"
            assert abs(found - bits) < 0.01, f"{entropy} instead of {bits}"
            linear = np.corrcoef(changed, row)[0, 1] > 0.999
            assert linear, "the filter should only divide the logits by a temperature"
