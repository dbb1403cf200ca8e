"""The checkpoints, small models, wrappers that record calls, and comparisons for the tests."""

import functools
import math

import numpy as np

import utils
from gpt2 import GPT2
from loading.config import read_json
from loading.llama import read_llama
from speculative import speculative
from tests.support.checkpoints import FIXTURES, ROOT
from training.learn import flat, new_params


def checkpoints(*folders):
    """Return the names of all checkpoints in these folders, such as "gpt2/plain"."""
    found = [*FIXTURES.glob("*/*/config.json"), *ROOT.glob("models/*/config.json")]
    return sorted("/".join(path.parts[-3:-1]) for path in found if path.parts[-3] in folders)


@functools.cache
def checkpoint(name):
    """Return a checkpoint's model. utils.load cannot read llama's: they have no tokenizer."""
    folder = (ROOT if name.startswith("models") else FIXTURES) / name
    if not name.startswith("llama"):
        return utils.load(folder)[1]
    model = read_llama(folder, read_json(folder / "config.json"), 64)
    model.stop_ids = (2,)
    return model


def tiny_gpt2(n_vocab=11, n_ctx=24, n_embd=8, n_layer=2, seed=8, n_head=2, **more):
    """Return a random GPT-2. Its weights are large, its norms are close to the identity, and its
    lm_head is not wte. Otherwise its texts would repeat one token."""
    rng = np.random.default_rng(seed)

    def random(name, shape):
        mean, deviation = float(name.endswith(".g")), 0.25 if "ln_" in name else 1
        return rng.normal(mean, deviation, shape)

    model = GPT2(filled((n_vocab, n_ctx, n_embd, n_layer), random), n_head)
    vars(model).update(more)
    return model


def filled(sizes, make):
    """Return GPT-2's params with an lm_head. Each array is make(name, shape), and sizes are those
    of new_params."""
    params = new_params(*sizes)
    params["lm_head"] = np.empty_like(params["wte"])
    for name, array in flat(params).items():
        array[...] = make(name, array.shape)
    return params


def opposite(model):
    """Return a model with the negated logits of this model: the worst token becomes the best."""
    return GPT2({**model.params, "lm_head": -model.params["lm_head"]}, model.n_head)


def of_last_token(**sizes):
    """Return a GPT-2 without layers and positions: its logits depend on the last token alone."""
    model = tiny_gpt2(**sizes)
    model.params["blocks"].clear()
    model.params["wpe"][:] = 0
    return model


class Watched:
    """A wrapper around a model. It records the shape of the ids and the `last` of each call."""

    def __init__(self, model):
        self.model, self.shapes, self.lasts = model, [], set()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, ids, cache=None, last=None):
        self.shapes.append(np.shape(ids))
        self.lasts.add(last)
        return self.model(ids, cache, last)


def drafted_by(drafter, gamma=4):
    """Return the loop `speculative` with this drafter."""
    return functools.partial(speculative, drafter=drafter, gamma=gamma)


class Traced(np.ndarray):
    """Arrays that record their dtypes in `seen`, as do all arrays computed from them."""

    seen = set()

    def __array_finalize__(self, parent):
        self.seen.add(self.dtype)


def traced(params):
    if isinstance(params, np.ndarray):
        return params.view(Traced)
    if isinstance(params, list):
        return [traced(part) for part in params]
    return {key: traced(part) for key, part in params.items()}


def close(logits, expected):
    """Assert that logits of about -10 to 10 are equal up to float32 rounding."""
    assert logits.shape == expected.shape
    assert logits.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=5e-5)


def same_greedy(model, prompt, ids, expected):
    """Assert that ids and expected are equal, or that they first differ where two logits nearly
    tie. Print such a near tie."""
    for i, (token, other) in enumerate(zip(ids, expected, strict=True)):
        if token != other:
            logits = model([*prompt, *ids[:i]])[-1]
            gap = abs(float(logits[token] - logits[other]))
            # BLAS rounds single rows and batches differently.
            assert gap < 1e-4, f"{ids} instead of {expected}: their logits differ by {gap}"
            print(f"near tie after {[*prompt, *ids[:i]]}: {token} or {other}, {gap:.1e} apart")
            return


def until(ids, stop_ids):
    """Return the ids up to and including the first stop id. transformers pads what follows."""
    ends = [i for i, token in enumerate(ids) if token in stop_ids]
    return ids[: ends[0] + 1] if ends else ids


def p_value(counts, probabilities):
    """Return the p-value of Pearson's chi-square test. counts: {outcome: count}; probabilities:
    {outcome: expected probability}. Outcomes expected fewer than 5 times are merged into one."""
    n = sum(counts.values())
    possible = {outcome: p for outcome, p in probabilities.items() if p > 0}
    assert counts.keys() <= possible.keys(), "an impossible outcome"
    cells = {}  # {outcome: [observed, expected]}; the key None is for all rare outcomes together
    for outcome, p in possible.items():
        cell = cells.setdefault(outcome if n * p >= 5 else None, [0, 0.0])
        cell[0] += counts.get(outcome, 0)
        cell[1] += n * p
    statistic = sum((o - e) ** 2 / e for o, e in cells.values())
    # The cube root of a chi-square variable is nearly normal (Wilson and Hilferty 1931).
    variance = 2 / 9 / (len(cells) - 1)
    z = ((statistic / (len(cells) - 1)) ** (1 / 3) - 1 + variance) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2)) / 2


def chain_rule(model, prompt, n, sampler, ids=(), p=1.0):
    """Return {new ids: their probability by the chain rule} for every text that may follow the
    prompt. A text ends with a stop id or after n new ids."""
    if len(ids) == n or ids and ids[-1] in model.stop_ids:
        return {ids: p}
    text, found = [*prompt, *ids], {}
    probs = sampler(model(np.array(text), last=1)[-1], text).astype(float)
    for token, q in enumerate(probs / probs.sum()):
        if q > 0:
            found |= chain_rule(model, prompt, n, sampler, (*ids, token), p * q)
    return found
