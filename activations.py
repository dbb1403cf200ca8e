"""What stands between the two matrices of an MLP, in GPT-2's variants and its cousins.

GPT-2's own `gelu` is in gpt2.py. Hendrycks & Gimpel 2016, "Gaussian Error Linear Units".
"""

import math

import numpy as np

from gpt2 import gelu


def gelu_erf(x):  # [...] -> [...]: x/2 * (1 + erf(x / sqrt(2))), the Gaussian CDF itself
    z = np.abs(x) * math.sqrt(0.5)
    t = 1 / (1 + 0.3275911 * z)  # erf by Abramowitz & Stegun 7.1.26, to 1.5e-7
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
