"""Small models with random weights, and comparisons, for the tests of the core."""

from pathlib import Path

import numpy as np

from gpt2 import GPT2

GPT2_FOLDERS = Path(__file__).parent / "fixtures" / "gpt2"
NEAR_TIE = 1e-4  # BLAS sums one row and many rows in different order


def tiny_gpt2(n_vocab=11, n_ctx=24, n_embd=8, n_head=2, n_layer=2, n_inner=None, seed=0, **more):
    """A GPT-2 whose weights are large enough that its text does not settle on one token."""
    rng, d, inner = np.random.default_rng(seed), n_embd, n_inner or 4 * n_embd

    def matrix(*shape, mean=0.0, scale=0.6):
        return rng.normal(mean, scale, shape).astype(np.float32)

    def dense(n_out, n_in):
        return {"w": matrix(n_out, n_in), "b": matrix(n_out)}

    def norm():
        return {"g": matrix(d, mean=1.0), "b": matrix(d)}

    def block():
        attn = {"c_attn": dense(3 * d, d), "c_proj": dense(d, d)}
        mlp = {"c_fc": dense(inner, d), "c_proj": dense(d, inner)}
        return {"ln_1": norm(), "attn": attn, "ln_2": norm(), "mlp": mlp}

    params = {"wte": matrix(n_vocab, d), "wpe": matrix(n_ctx, d, scale=1.5)}
    params |= {"blocks": [block() for _ in range(n_layer)], "ln_f": norm()}
    return GPT2(params, n_head, **more)


def arrays(params):
    """Every array of the nested parameters."""
    if isinstance(params, np.ndarray):
        return [params]
    parts = params.values() if isinstance(params, dict) else params
    return [array for part in parts for array in arrays(part)]


class Traced(np.ndarray):
    """An array that notes the type of every array that is computed from it."""

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
    """Equal to float32 rounding, for logits of the order of 10."""
    assert logits.shape == expected.shape
    assert logits.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=5e-5)


def same_greedy(model, prompt, ids, expected):
    """The same new ids, or from the first difference on a near tie of the two, which is printed."""
    for i, (token, other) in enumerate(zip(ids, expected, strict=True)):
        if token != other:
            logits = model([*prompt, *ids[:i]])[-1]
            gap = abs(float(logits[token] - logits[other]))
            assert gap < NEAR_TIE, f"{ids} instead of {expected}: the logits differ by {gap}"
            print(f"near tie after {[*prompt, *ids[:i]]}: {token} or {other}, {gap:.1e} apart")
            return


def chi_square(counts, probabilities):
    """Pearson's statistic of {outcome: count}; every outcome must be possible."""
    n = sum(counts.values())
    assert counts.keys() <= {outcome for outcome, p in probabilities.items() if p > 0}
    expected = {outcome: n * p for outcome, p in probabilities.items() if p > 0}
    return sum((counts.get(x, 0) - e) ** 2 / e for x, e in expected.items())
