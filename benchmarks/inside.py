"""Measure where tokenwise spends the time for a token, and the least time that the machine allows.

    python -m benchmarks.inside FOLDER products 9     (or: machine, loops, methods, overhead, ...)

Each measure is a function of the model's folder and the number of repeats. It returns a dict of
numbers. Times are in seconds.
"""

import functools
import json
import pydoc_data.topics
import statistics
import sys
from collections import defaultdict

import numpy as np

import utils
from benchmarks.contender import Tokenwise, seconds
from benchmarks.replay import Replay
from decoding.batching import continuous
from decoding.drafters import PromptLookup
from encoder import PATTERN
from generate import Sequence, cached, generate, naive
from samplers import Sampler, temperature, top_k, top_p
from speculative import speculative


def interleaved(repeats, **contestants):
    """Call the functions in turn, 1 + repeats times. Return {name: median seconds}. The first round
    is a warm-up and does not count."""
    times = defaultdict(list)
    for _ in range(1 + repeats):
        for name, f in contestants.items():
            times[name].append(seconds(f))
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def machine(folder, repeats):
    """Return two rates that NumPy reaches on this machine: bytes/s in a matrix-vector product
    with a matrix larger than the processor's caches, and floating-point operations/s in a product
    of two square matrices."""
    wide, x = np.ones((50000, 2000), np.float32), np.ones(2000, np.float32)  # 400 MB
    square = np.ones((1536, 1536), np.float32)
    found = interleaved(repeats, read=lambda: wide @ x, multiply=lambda: square @ square)
    return {"bytes/s": wide.nbytes / found["read"], "FLOP/s": 2 * 1536**3 / found["multiply"]}


def matrices(params):
    """Return all matrices [n_out, n_in] that a pass multiplies by a token's vector. The head is the
    last."""
    parts = ("attn", "c_attn"), ("attn", "c_proj"), ("mlp", "c_fc"), ("mlp", "c_proj")
    blocks = [block[part][name]["w"] for block in params["blocks"] for part, name in parts]
    return [*blocks, params.get("lm_head", params["wte"])]


def products(folder, repeats):
    """Time a step at position 64 and, separately, its matrix-vector products alone.

    In the result, "bytes" is the size of the matrices in these products."""
    contender = Tokenwise(folder)
    weights = matrices(contender.model.params)
    inputs = [np.ones((1, w.shape[1]), np.float32) for w in weights]
    length = min(64, contender.n_ctx // 2)
    contender.fresh(1)
    contender.step(np.zeros((1, length), int))

    def step():  # one token at position `length`; then cut it from the cache
        contender.step(np.zeros((1, 1), int))
        contender.cut(length)

    def bare():  # [1, n_in] x [n_out, n_in] -> [1, n_out], for each weight
        for x, w in zip(inputs, weights):
            x @ w.T

    found = interleaved(repeats, step=step, products=bare)
    return found | {"bytes": sum(w.nbytes for w in weights)}


def loops(folder, repeats, n_prompt=16, n=24):
    """Time the loops `naive` and `cached` and, separately, their passes alone. For each token,
    naive makes a pass over the whole text. cached makes a pass over the prompt, then a step for
    each token. "FLOP ratio" is naive's number of floating-point operations, divided by cached's."""
    contender = Tokenwise(folder)
    model, prompt = contender.model, [1] * n_prompt
    lengths = range(n_prompt, n_prompt + n)

    def passes():  # [1, length] -> logits [1, 1, n_vocab], for each length
        for length in lengths:
            model(np.ones((1, length), int), last=1)

    def steps():  # reads the prompt [1, n_prompt], then one token [1, 1] at a time
        contender.fresh(1)
        contender.step(np.ones((1, n_prompt), int))
        for _ in lengths[1:]:
            contender.step(np.ones((1, 1), int))

    *blocks, head = (w.size for w in matrices(model.params))

    def operations(new, past):  # FLOP of a pass that computes the logits of one position
        attention = 4 * len(model.params["blocks"]) * model.n_embd * new * (new + past)
        return 2 * (sum(blocks) * new + head) + attention

    flop = sum(operations(length, 0) for length in lengths)
    flop /= operations(n_prompt, 0) + sum(operations(1, length) for length in lengths[:-1])
    found = interleaved(
        min(3, repeats),
        passes=passes,
        steps=steps,
        naive=lambda: list(generate(model, prompt, n, loop=naive)),
        cached=lambda: list(generate(model, prompt, n, loop=cached)),
    )
    return found | {"FLOP ratio": flop}


def methods(folder, repeats, n_prompt=64, n=32):
    """Return the seconds per token of each method. The text is generated beforehand: "replay"
    copies its drafts from this text, and replaces some of them, so that a given share is right."""
    model = Tokenwise(folder).model
    prompt = (np.arange(n_prompt) % model.n_vocab).tolist()
    text = prompt + list(generate(model, prompt, n))

    def batch():  # 8 rows
        list(continuous([Sequence(model, prompt, n) for _ in range(8)]))

    def replay(rate):  # one row
        drafter = Replay(model.n_vocab, text, rate, np.random.default_rng(0))
        sequence = Sequence(model, prompt, n)
        list(speculative(model, sequence, drafter, gamma=4))

    def lookup():  # the prompt repeats the last 8 tokens of the text four times
        sequence = Sequence(model, 4 * text[-8:], n)
        list(speculative(model, sequence, PromptLookup(model.n_vocab), gamma=4))

    replays = {f"replay {rate}": functools.partial(replay, rate) for rate in (0.8, 0.95)}
    found = interleaved(
        min(3, repeats),
        batch=batch,
        lookup=lookup,
        **replays,
        naive=lambda: list(generate(model, prompt, n, loop=naive)),
        cached=lambda: list(generate(model, prompt, n, loop=cached)),
    )
    found["batch"] /= 8
    return {name: time / n for name, time in found.items()}


def serving(folder, repeats, n_prompts=64, max_rows=8):
    """Time how texts of different lengths are generated: one by one, and with continuous
    batching."""
    model = Tokenwise(folder).model
    lengths = np.random.default_rng(0).integers(4, 48, (n_prompts, 2)).tolist()

    def sequences():
        return [Sequence(model, list(range(n)), n_new) for n, n_new in lengths]

    def one_by_one():
        for sequence in sequences():
            list(cached(model, sequence))

    def batched():
        list(continuous(sequences(), max_rows))

    return interleaved(1, **{"one by one": one_by_one, "continuous": batched})


def overhead(folder, repeats, n=32):
    """Time n tokens that are sampled and streamed as text and, separately, n steps alone."""
    contender = Tokenwise(folder)
    sampler = Sampler(temperature(0.8), top_k(40), top_p(0.95))

    def whole():  # n tokens, sampled and decoded to text
        text = contender.tokenizer.stream()
        for token in generate(contender.model, [1], n, sampler):
            text.feed(token)

    def steps():  # n passes over one token [1, 1]
        contender.fresh(1)
        for _ in range(n):
            contender.step(np.ones((1, 1), int))

    return interleaved(repeats, whole=whole, steps=steps)


def small(folder, repeats, n=200):
    """Return a small model's tokens/s in the cached loop. The time includes the prompt's pass."""
    tokenizer, model = utils.load(folder)
    model.stop_ids, n = (), min(n, model.n_ctx // 2)
    prompt = tokenizer.encode("Once upon a time")
    found = interleaved(repeats, all=lambda: list(generate(model, prompt, n)))
    return {"tokens/s": n / found["all"]}


def encode(folder, repeats):
    """Time the encoding of 2 MB of English with tokenwise, and with tiktoken and the same
    vocabulary. The text is Python's own help, repeated. Return {} if tiktoken is not installed."""
    try:
        import tiktoken
    except ImportError:
        return {}
    text = "\n".join(pydoc_data.topics.topics.values())
    text = (text * 3)[:2_000_000]
    ours = utils.load(folder)[0]
    ranks = {ours.token_bytes(i): i for i in range(ours.n_vocab) if i != ours.end_of_text}
    theirs = tiktoken.Encoding("ours", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    assert ours.encode(text) == theirs.encode_ordinary(text)

    def tokenwise():  # a new tokenizer, whose cache of words is empty
        utils.load(folder)[0].encode(text)

    def others():
        theirs.encode_ordinary(text)

    return interleaved(min(3, repeats), tokenwise=tokenwise, tiktoken=others)


if __name__ == "__main__":
    folder, measure, repeats = sys.argv[1:]
    print(json.dumps(globals()[measure](folder, int(repeats))))
