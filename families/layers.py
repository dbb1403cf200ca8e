"""Layers of models newer than GPT-2: RMS norms, gated MLPs and other activations.

GPT-2's own layers are in gpt2.py. Shape names are the same, but n_embd is called d_model here.
"""

import math

import numpy as np

import gpt2


def rms_norm(x, g, eps=1e-6):  # [..., d_model] -> same: mean square 1, times g (Zhang et al. 2019)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def feed_forward(x, c_fc, c_proj, activation, gate=None):  # [..., d_model] -> [..., d_model]
    h = gpt2.linear(x, **c_fc)
    # A gate makes it a gated linear unit (Shazeer 2020, "GLU Variants Improve Transformer").
    h = activation(gpt2.linear(x, **gate)) * h if gate else activation(h)
    return gpt2.linear(h, **c_proj)


def gelu_erf(x):  # [...] -> same: x/2 * (1 + erf(x / sqrt(2))), Hendrycks & Gimpel 2016
    z = np.abs(x) * math.sqrt(0.5)
    t = 1 / (1 + 0.3275911 * z)  # Abramowitz & Stegun 7.1.26: the error of erf is below 1.5e-7
    poly = t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    poly = t * (0.254829592 + poly)
    return 0.5 * x * (1 + np.copysign(1 - poly * np.exp(-z * z), x))


def silu(x):  # [...] -> same: x / (1 + exp(-x)), from exp(-|x|), which never overflows
    e = np.exp(-np.abs(x))
    return x * np.where(x < 0, e, np.float32(1)) / (1 + e)


ACTIVATIONS = {  # the name in config.json -> the function
    "gelu_new": gpt2.gelu,
    "gelu_pytorch_tanh": gpt2.gelu,
    "gelu": gelu_erf,
    "relu": lambda x: np.maximum(x, 0),
    "silu": silu,
}
