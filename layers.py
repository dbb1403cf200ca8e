"""Layers of other models in the place of GPT-2's: RMS norm, gated MLPs, other activations.

GPT-2's own layers are in gpt2.py. Shapes are written as there.
"""

import math

import numpy as np

from gpt2 import gelu, linear


def rms_norm(x, g, eps=1e-6):  # [..., d_model] -> same: mean square 1, then g (Zhang et al. 2019)
    x = x / np.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + eps)
    x *= g
    return x


def feed_forward(x, c_fc, c_proj, activation, gate=None):  # [..., d_model] -> [..., d_model]
    h = activation(linear(x, **c_fc))
    if gate is not None:  # a gated linear unit (Shazeer 2020, "GLU Variants Improve Transformer")
        h *= linear(x, **gate)
    return linear(h, **c_proj)


def gelu_erf(x):  # [...] -> same: x/2 * (1 + erf(x / sqrt(2))), Hendrycks & Gimpel 2016
    z = np.abs(x) * math.sqrt(0.5)
    t = 1 / (1 + 0.3275911 * z)  # erf by Abramowitz & Stegun 7.1.26, error below 1.5e-7
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741
                + t * (-1.453152027 + t * 1.061405429))))  # fmt: skip
    return 0.5 * x * (1 + np.copysign(1 - poly * np.exp(-z * z), x))


ACTIVATIONS = {  # by the names that config.json uses
    "gelu_new": gelu,
    "gelu_pytorch_tanh": gelu,
    "gelu": gelu_erf,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),  # x / (1 + exp(-x)), no overflow
}
