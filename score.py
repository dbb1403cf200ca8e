"""The probability of a text: P(x_1 .. x_n) is the product of P(x_i | x_<i), the chain rule.

One pass gives every factor at once (teacher forcing), and logarithms turn the product, which would
soon be 0 in floating point, into a sum.
"""

import math
from typing import Any

import numpy as np

from gpt2 import log_softmax
from interface import Ids, Model, Tokenizer


def log_probabilities(model: Model, ids: Ids, chunk: int = 128) -> np.ndarray:
    """log P(ids[i] | ids[:i]) in nats for i = 1, 2, ... -> [len(ids) - 1] float32.

    One pass (teacher forcing), `chunk` positions at a time so that the logits stay small. A text
    longer than the context is scored in overlapping windows: each new token sees at least
    n_ctx // 2 tokens before it. ValueError for a context of one token.
    """
    if model.n_ctx < 2:
        raise ValueError("a context of one token cannot hold both a token and the one before it")
    scores: list[float] = []
    while len(scores) + 1 < len(ids):
        known = len(scores) + 1  # the first token without a score
        begin = max(0, known - model.n_ctx // 2) if known > model.n_ctx else 0
        end = min(begin + model.n_ctx, len(ids) - 1)  # inputs: ids[begin:end]
        cache = model.new_cache(1)
        for i in range(begin, end, chunk):
            j = min(i + chunk, end)
            last = j - max(i, known - 1)  # inputs whose next token has no score yet
            logits = model(np.array([ids[i:j]]), cache, last=max(1, last))[0]
            if last > 0:
                targets = ids[j - last + 1 : j + 1]  # the input at i predicts the token at i + 1
                scores += log_softmax(logits)[range(last), targets].tolist()
    return np.array(scores, np.float32)


def score(tokenizer: Tokenizer, model: Any, text: str) -> dict:
    """A text under the model, from a fresh start: a dict of ids, logprobs (nats, one per token),
    total (nats), bits_per_byte (of UTF-8) and perplexity (per token).

    Without an end-of-text token to start from, the first token has no probability; it and its bytes
    are left out. An encoder-decoder is conditioned first; `text` is an answer, after the ids that
    each answer begins with. ValueError if the logits are not numbers, or far too large.
    """
    bos = tokenizer.encode("")  # [], where the tokenizer has none
    ids = tokenizer.encode(text)[len(bos) :]
    n_bytes = len(text.encode("utf-8", "replace"))  # invalid UTF-8: a byte per character
    start: list = model.prefix if model.has_source else bos or [tokenizer.end_of_text]
    if start == [None]:
        bpe: Any = tokenizer  # only byte-level BPE has no token to start from
        first = bpe.token_bytes(ids[0]) if ids else b""
        start, n_bytes = [], n_bytes - len(first)
    logprobs = log_probabilities(model, start + ids)[max(0, len(start) - 1) :]
    total = float(logprobs.sum(dtype=np.float64))
    nats = abs(total)  # not -total, which can be -0.0
    mean = nats / max(1, len(logprobs))
    if not mean < 700:  # or NaN; the perplexity e^mean would overflow
        raise ValueError("the text has no probability: logits are not numbers, or far too large")
    return {
        "ids": ids[len(ids) - len(logprobs) :],
        "logprobs": logprobs.tolist(),
        "total": total,
        "bits_per_byte": nats / math.log(2) / max(1, n_bytes),
        "perplexity": math.exp(mean),
    }
