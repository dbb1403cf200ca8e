"""The probability of a text: P(x_1 .. x_n) is the product of P(x_i | x_<i), by the chain rule.

One pass gives every factor at once (teacher forcing). In floating point the product would soon be
0, so we add logarithms instead.

    >>> from utils import load
    >>> tokenizer, model = load("stories")
    >>> round(score(tokenizer, model, "Once upon a time")["perplexity"], 3)
    1.093
"""

import math
from typing import Any

import numpy as np

from encoder import as_unicode
from generate import check_prompt
from gpt2 import log_softmax
from samplers import Ids


def log_probabilities(model: Any, ids: Ids, chunk: int = 128) -> np.ndarray:
    """Return log P(ids[i] | ids[:i]) in nats for i = 1, 2, ...: [len(ids) - 1] float32.

    The model reads `chunk` tokens at a time, to keep the logits small. A text longer than the
    context is scored in windows. Later windows begin with n_ctx // 2 tokens already scored.
    """
    check_prompt(ids, model.n_vocab, max(1, len(ids)))
    scores: list[float] = []
    while len(scores) + 1 < len(ids):
        known = len(scores) + 1  # the index of the first token without a score
        begin = known - max(1, model.n_ctx // 2) if known > model.n_ctx else 0
        end = min(begin + model.n_ctx, len(ids) - 1)  # the model reads ids[begin:end]
        cache = model.new_cache()
        for i in range(begin, end, chunk):
            j = min(i + chunk, end)
            logits = model(np.array(ids[i:j]), cache)  # [j - i, n_vocab]
            new = logits[max(0, known - 1 - i) :]  # earlier rows predict tokens already scored
            targets = ids[j - len(new) + 1 : j + 1]  # the input at i predicts the token at i + 1
            scores += log_softmax(new)[range(len(new)), targets].tolist()
    return np.array(scores, np.float32)


def score(tokenizer: Any, model: Any, text: str, prefix: Ids | None = None) -> dict:
    """Return a text's ids, their logprobs (each in nats), total (their sum), bits_per_byte and
    perplexity as a dict. NaN raises ValueError.

    prefix: the ids before the text. The default is the tokenizer's BOS id, or else its end-of-text
    id. If it has neither, the first token has no probability, and the result omits it.
    """
    ids = tokenizer.plain_ids(text)
    n_bytes = len(as_unicode(text).encode())
    if prefix is None:
        prefix = tokenizer.encode("") or [id for id in [tokenizer.end_of_text] if id is not None]
    if len(prefix) == 0:
        prefix, ids = ids[:1], ids[1:]
        spelled = tokenizer.decode(prefix).encode(), b"".join(map(tokenizer.token_bytes, prefix))
        n_bytes -= min(map(len, spelled))  # U+FFFD is longer than a part of a character
    logprobs = log_probabilities(model, [*prefix, *ids])[max(0, len(prefix) - 1) :]
    nats = abs(float(logprobs.sum(dtype=np.float64)))  # abs, because -sum can be -0.0
    mean = nats / max(1, len(logprobs))
    if not mean < 700:  # NaN, or so large that e^mean overflows
        raise ValueError("the text has no probability: logits are not numbers, or far too large")
    return {
        "ids": ids,
        "logprobs": logprobs.tolist(),
        "total": -nats,
        "bits_per_byte": nats / math.log(2) / max(1, n_bytes),
        "perplexity": math.exp(mean),
    }
