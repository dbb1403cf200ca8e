"""Random arrays and tiny models that hide no mistake."""

import numpy as np


def numbers(*shape, scale=1.0, seed=0):
    """Return random float32 numbers [*shape]."""
    return np.random.default_rng([seed, *shape]).normal(0, scale, shape).astype(np.float32)


def dense(n_in, n_out, seed, scale=1.0):
    w = numbers(n_out, n_in, scale=scale / n_in**0.5, seed=seed)
    return {"w": w, "b": numbers(n_out, scale=0.5, seed=seed)}


def norm(n_embd, seed):
    return {"g": 1 + numbers(n_embd, scale=0.4, seed=seed), "b": numbers(n_embd, seed=seed + 1)}


def block(n_embd, seed):
    """The parameters of a block. The queries and keys are large, so that attention chooses."""
    return {
        "ln_1": norm(n_embd, seed),
        "attn": {
            "c_attn": dense(n_embd, 3 * n_embd, seed + 2, scale=2),
            "c_proj": dense(n_embd, n_embd, seed + 3),
        },
        "ln_2": norm(n_embd, seed + 4),
        "mlp": {
            "c_fc": dense(n_embd, 4 * n_embd, seed + 5),
            "c_proj": dense(4 * n_embd, n_embd, seed + 6),
        },
    }


def parameters(n_vocab=11, n_ctx=16, n_embd=12, n_layer=3, tied=False, seed=0):
    """A tiny GPT-2 without two equal parts. tied: without an lm_head."""
    head = {} if tied else {"lm_head": numbers(n_vocab, n_embd, seed=seed + 3)}
    return {
        "wte": numbers(n_vocab, n_embd, seed=seed),
        "wpe": numbers(n_ctx, n_embd, seed=seed + 1),
        "blocks": [block(n_embd, seed + 10 * layer + 10) for layer in range(n_layer)],
        "ln_f": norm(n_embd, seed + 2),
        **head,
    }
