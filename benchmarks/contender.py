"""Measure one contender in its own process, and print one JSON object.

    python -m benchmarks.contender tokenwise FOLDER speeds 9

benchmark.py starts these processes. All contenders do the same work in float32: they prefill, take
steps and cut their caches. They compute only the logits of the last position, except when they
verify drafts: then they compute the logits of all positions.
"""

import importlib.util
import json
import statistics
import sys
import time

import numpy as np
from threadpoolctl import threadpool_info

import utils
from decoding.batching import continuous
from decoding.drafters import one_hots
from examples.wavefront import prefill
from generate import Sequence, advance, generate, naive
from speculative import Drafter, speculative

PASSES = {  # name -> rows, tokens in the cache, new tokens per row
    "decode at 64": (1, 64, 1),
    "decode at 900": (1, 900, 1),
    "batch of 8 at 64": (8, 64, 1),
    "verify 4": (1, 64, 5),
    "verify 8": (1, 64, 9),
    "verify 16": (1, 64, 17),
    "prefill 10": (1, 0, 10),
    "prefill 64": (1, 0, 64),
    "prefill 512": (1, 0, 512),
    "prefill 1000": (1, 0, 1000),
    "wavefront 512": (1, 0, 512),  # tokenwise with examples/wavefront.py
    "wavefront 1000": (1, 0, 1000),
}


class Tokenwise:
    """tokenwise as a contender. Every contender has these methods, but for `wavefront`."""

    def __init__(self, folder):
        self.tokenizer, self.model = utils.load(folder)
        self.n_vocab, self.n_ctx = self.model.n_vocab, self.model.n_ctx

    def encode(self, text):  # str -> ids
        return self.tokenizer.encode(text)

    def fresh(self, n_rows):  # makes an empty cache of n_rows rows
        self.cache = self.model.new_cache(n_rows)

    def step(self, ids, last=1):  # [n_rows, n_new] -> logits [n_rows, last, n_vocab]
        for i in range(0, ids.shape[1], 256):  # long prompts run in chunks, as in generate.advance
            logits = self.model(ids[:, i : i + 256], self.cache, last=last)
        return logits

    def wavefront(self, ids, last=1):  # a step with on_all_cores
        prefill(self.model, ids[:, :-1], self.cache)
        return advance(self.model, ids, self.cache)

    def cut(self, length):  # the cache keeps its first `length` tokens
        self.cache.cut(length)

    def kernel(self):
        return threadpool_info()[0]["architecture"]


class Transformers:
    """GPT-2 or Llama in transformers, with its default attention, "sdpa"."""

    def __init__(self, folder):
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        self.transformers, self.torch = transformers, torch
        load = transformers.AutoModelForCausalLM.from_pretrained
        self.model = load(folder, dtype=torch.float32).eval().requires_grad_(False)
        config = self.model.config
        self.n_vocab, self.n_ctx = config.vocab_size, config.max_position_embeddings

    def encode(self, text):  # str -> ids
        return self.transformers.AutoTokenizer.from_pretrained(self.model.name_or_path).encode(text)

    def kernel(self):
        return self.torch.backends.cpu.get_cpu_capability()

    def fresh(self, n_rows):  # makes an empty cache for any number of rows
        self.cache = self.transformers.DynamicCache(config=self.model.config)

    def step(self, ids, last=1):  # [n_rows, n_new] -> [n_rows, last, n_vocab]
        ids = self.torch.from_numpy(ids)
        return self.model(ids, past_key_values=self.cache, logits_to_keep=last).logits

    def cut(self, length):  # the cache keeps its first `length` tokens
        if length == 0:
            self.fresh(None)
        else:
            self.cache.crop(length - self.cache.get_seq_length())  # crop(-n) removes n tokens


CONTENDERS = {"tokenwise": Tokenwise, "transformers": Transformers}


def installed():
    """Return the names of the contenders that are installed."""
    return ["tokenwise", *["transformers"] * bool(importlib.util.find_spec("transformers"))]


def agrees(name, folder, repeats):
    """Check that the contender's ids and logits agree with tokenwise's. Return the name of its
    kernels."""
    ours = Tokenwise(folder)
    theirs = CONTENDERS[name](folder)
    assert list(theirs.encode("The weather")) == ours.encode("The weather"), name
    np.testing.assert_allclose(trace(theirs), trace(ours), rtol=0, atol=1e-3, err_msg=name)
    return {"kernels": theirs.kernel()}


def trace(contender):
    """Return the logits of three passes: over a prompt, over more tokens after a cut, and over a
    second prompt. They run first with one row, which reads ten tokens after the cut, and then with
    three rows, each of which reads one token after the cut."""
    found, rng = [], np.random.default_rng(0)
    for n_rows, n_new in ((1, 10), (3, 1)):
        contender.fresh(n_rows)
        for length, n, last in ((0, 30, 1), (20, n_new, n_new), (0, 30, 1)):
            contender.cut(length)
            ids = rng.integers(0, contender.n_vocab, (n_rows, n))
            found.append(np.asarray(contender.step(ids, last)).flatten())
    return np.concatenate(found)


def speeds(name, folder, repeats):
    """Time all PASSES. Return {name: median seconds}."""
    contender = CONTENDERS[name](folder)
    rng, found = np.random.default_rng(0), {}
    for measure, (n_rows, length, n_new) in PASSES.items():
        length, n_new = (min(n, contender.n_ctx - 20) for n in (length, n_new))
        contender.fresh(n_rows)
        if length:
            contender.step(rng.integers(0, contender.n_vocab, (n_rows, length)))
        ids = rng.integers(0, contender.n_vocab, (n_rows, n_new))
        last, times = n_new if measure.startswith("verify") else 1, []
        step = contender.step
        if measure.startswith("wavefront"):
            step = getattr(contender, "wavefront", step)
        for _ in range(1 + (3 if n_new > 100 else repeats)):
            times.append(seconds(step, ids, last))
            contender.cut(length)
        found[measure] = statistics.median(times[1:])  # the first pass is a warm-up
    return found


class Replay(Drafter):
    """A drafter that knows the text. A draft is right with the probability `share`, at random."""

    def __init__(self, n_vocab, text, share):
        self.n_vocab, self.text, self.share = n_vocab, text, share
        self.rng = np.random.default_rng(0)

    def propose(self, ids, n):  # -> at most n drafts, and a one-hot q [n_vocab] for each
        right = self.text[len(ids) : len(ids) + n]
        drafts = [t if self.rng.random() < self.share else (t + 1) % self.n_vocab for t in right]
        return drafts, one_hots(drafts, self.n_vocab)


def methods(name, folder, repeats, n_prompt=64, n=32):
    """Return the seconds per token of tokenwise's methods, which continue a prompt by n tokens."""
    model = Tokenwise(folder).model
    prompt = (np.arange(n_prompt) % model.n_vocab).tolist()
    model.stop_ids = ()
    text = prompt + list(generate(model, prompt, n))

    def speculate():
        drafter = Replay(model.n_vocab, text, 0.8)
        list(speculative(model, Sequence(model, prompt, n), drafter))

    ways = {
        "naive": lambda: list(generate(model, prompt, n, loop=naive)),
        "cached": lambda: list(generate(model, prompt, n)),
        "speculative, 80 % right": speculate,
        "batch of 8": lambda: list(continuous([Sequence(model, prompt, n) for _ in range(8)])),
    }
    times = [[seconds(way) / n for way in ways.values()] for _ in range(1 + min(3, repeats))]
    medians = map(statistics.median, zip(*times[1:]))  # the first round is a warm-up
    found = dict(zip(ways, medians))
    return found | {"batch of 8": found["batch of 8"] / 8}


def seconds(f, *args):
    """Return how many seconds f(*args) takes."""
    begun = time.perf_counter()
    f(*args)
    return time.perf_counter() - begun


if __name__ == "__main__":
    name, folder, measure, repeats = sys.argv[1:]
    print(json.dumps(globals()[measure](name, folder, int(repeats))))
