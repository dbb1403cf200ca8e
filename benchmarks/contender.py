"""One contender in a process of its own: takes one kind of measure, and prints one JSON object.

    python -m benchmarks.contender tokenwise FOLDER speeds 9

benchmark.py starts these in turn. All do the same work: a contender prefills, takes steps and cuts
back its cache; logits are those of the last position alone, or of all where drafts are verified.
"""

import json
import resource
import statistics
import sys
import time

import numpy as np

import beam
import utils

PASSES = {  # name -> rows, tokens in the cache, new tokens a pass
    "decode at 64": (1, 64, 1), "decode at 900": (1, 900, 1), "batch of 8 at 64": (8, 64, 1),
    "verify 4": (1, 64, 5), "verify 8": (1, 64, 9), "verify 16": (1, 64, 17),
    "prefill 10": (1, 0, 10), "prefill 64": (1, 0, 64), "prefill 512": (1, 0, 512),
}  # fmt: skip


class Tokenwise:
    def __init__(self, folder, source=None):
        self.encoder, self.model = utils.load(folder)
        self.n_vocab, self.n_ctx = self.model.n_vocab, self.model.n_ctx
        if source is not None:
            self.source, self.model.stop_ids = source, ()
            self.unconditioned, self.model = self.model, self.model.condition([source])

    def fresh(self, n_rows):
        self.cache = self.model.new_cache(n_rows)

    def step(self, ids, last=1):  # [n_rows, n_new] -> logits [n_rows, last, n_vocab]
        return self.model(ids, self.cache, last=last)

    def cut(self, length):
        self.cache.cut(length)

    def beam(self, n):
        model = self.unconditioned.condition([self.source])
        beam.beam_search(model, [0], n, width=4)


class Transformers:
    """GPT-2; see TransformersSource for encoder-decoders."""

    kind = "AutoModelForCausalLM"

    def __init__(self, folder, attention):
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        torch.set_grad_enabled(False)
        self.transformers, self.torch = transformers, torch
        load = getattr(transformers, self.kind).from_pretrained
        self.model = load(folder, attn_implementation=attention, dtype=torch.float32).eval()
        config = self.model.config
        self.n_vocab, self.n_ctx = config.vocab_size, getattr(config, "n_positions", 512)

    def fresh(self, n_rows):
        self.cache = self.transformers.DynamicCache(config=self.model.config)

    def step(self, ids, last=1):
        ids = self.torch.from_numpy(ids)
        return self.model(ids, past_key_values=self.cache, logits_to_keep=last).logits

    def cut(self, length):
        if length == 0:
            self.fresh(None)
        else:
            self.cache.crop(length - self.cache.get_seq_length())  # takes off that many


class TransformersSource(Transformers):
    kind = "AutoModelForSeq2SeqLM"

    def __init__(self, folder, attention, source):
        super().__init__(folder, attention)
        self.source = self.torch.tensor([source])
        self.encoded = self.model.get_encoder()(self.source)

    def fresh(self, n_rows):
        caches = [self.transformers.DynamicCache() for _ in range(2)]
        self.cache = self.transformers.EncoderDecoderCache(*caches)

    def step(self, ids, last=1):
        ids = self.torch.from_numpy(ids)
        return self.model(
            decoder_input_ids=ids, encoder_outputs=self.encoded, past_key_values=self.cache
        ).logits

    def beam(self, n):
        self.model.generate(self.source, num_beams=4, max_new_tokens=n, min_new_tokens=n,
                            do_sample=False, no_repeat_ngram_size=0)  # fmt: skip


CONTENDERS = {
    "tokenwise": (Tokenwise, Tokenwise, ()),
    "transformers eager": (Transformers, TransformersSource, ("eager",)),
    "transformers sdpa": (Transformers, TransformersSource, ("sdpa",)),
}


def speeds(name, folder, repeats):
    """Median seconds of a pass, by the names of PASSES."""
    contender = CONTENDERS[name][0](folder, *CONTENDERS[name][2])
    rng, found = np.random.default_rng(0), {}
    for measure, (n_rows, length, n_new) in PASSES.items():
        length, n_new = (min(n, contender.n_ctx // 2) for n in (length, n_new))
        contender.fresh(n_rows)
        if length:
            contender.step(rng.integers(0, contender.n_vocab, (n_rows, length)))
        ids = rng.integers(0, contender.n_vocab, (n_rows, n_new))
        last, times = n_new if measure.startswith("verify") else 1, []
        for _ in range(1 + (3 if n_new > 100 else repeats)):
            times.append(seconds(contender.step, ids, last))
            contender.cut(length)
        found[measure] = statistics.median(times[1:])  # the first one warms up
    return found


def start(name, folder, repeats):
    """Says when the first token is there; 64 more, and the peak of memory, in bytes."""
    if name == "tokenwise":
        contender = Tokenwise(folder)
        ids = np.array([contender.encoder.encode("The weather")])
    else:
        contender = Transformers(folder, *CONTENDERS[name][2])
        encoder = contender.transformers.AutoTokenizer.from_pretrained(folder)
        ids = np.array([encoder.encode("The weather")])
    contender.fresh(1)
    for _ in range(65):
        logits = contender.step(ids)
        ids = np.array([[int(np.asarray(logits).reshape(-1).argmax())]])
        print("token", flush=True)
    return {"peak memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def seq2seq(name, folder, repeats):
    """Median seconds of a decoder's step over 32 steps, and of one by beam search of width 4."""
    source = np.random.default_rng(0).integers(5, 2000, 64).tolist()
    contender = CONTENDERS[name][1](folder, *CONTENDERS[name][2], source)
    times, beams, n = [], [], 4 * repeats
    for _ in range(3):
        contender.fresh(1)
        times += [seconds(contender.step, np.array([[i]])) for i in range(n)]
        beams.append(seconds(contender.beam, n) / n)
    return {"decode": statistics.median(times), "beam 4": statistics.median(beams)}


def seconds(f, *args):
    begun = time.perf_counter()
    f(*args)
    return time.perf_counter() - begun


if __name__ == "__main__":
    name, folder, measure, repeats = sys.argv[1:]
    print(json.dumps(globals()[measure](name, folder, int(repeats))))
