"""Reproduce the figures in this folder's README.md.

python -m examples.measure watermark    # takes some minutes
python -m examples.measure drafts
python -m examples.measure translations
"""

import sys
import time

import numpy as np

import utils
from decoding.batching import continuous
from decoding.drafters import DraftModel, Measured
from examples.drafts import Jacobi, Recycling
from examples.watermark import detect, watermark
from generate import Sequence, begin, cached
from samplers import Sampler, greedy, min_length, temperature
from speculative import speculative


def watermarks(n_unmarked=1000, n_marked=200):
    """Print the detector's mean z and the shares of texts with z > 2, 3 and 4, without and
    with a watermark. Each text has its own key."""
    tokenizer, model = utils.load("stories")
    prompt = tokenizer.encode("Once upon a time")

    def print_rows(name, new_filters, n_texts, lengths):  # new_filters(key) -> filters
        texts, n = [], max(lengths)
        no_end = min_length(len(prompt) + n, model.stop_ids)
        for start in range(0, n_texts, 100):  # in batches of 100
            samplers = {
                key: Sampler(no_end, *new_filters(key)) for key in range(start, start + 100)
            }
            batch = [Sequence(model, prompt, n, sampler, key) for key, sampler in samplers.items()]
            list(continuous(batch, max_rows=100))
            texts += [sequence.new_ids for sequence in batch]
        for n in lengths:
            z = np.array([detect(text[:n], key, model.n_vocab) for key, text in enumerate(texts)])
            shares = " | ".join(f"{100 * np.mean(z > least):.1f} %" for least in (2, 3, 4))
            print(f"| {name} | {n} | {z.mean():.1f} | {shares} |", flush=True)

    print("| text | tokens | mean z | z > 2 | z > 3 | z > 4 |\n|---|---|---|---|---|---|")
    print_rows("no mark, temperature 1", lambda key: [], n_unmarked, [100])
    for t in (0.5, 0.8, 1.0):

        def filters(key, t=t):
            return [temperature(t), watermark(key)]

        print_rows(f"marked, temperature {t}", filters, n_marked, [25, 50, 100, 200])


def drafts(n=200):
    """For each drafter, print the share of accepted drafts and the tokens per pass, averaged over
    four prompts for the model `stories`."""
    tokenizer, model = utils.load("stories")
    for new in (Jacobi, Recycling):
        measured = []
        for prompt in ("Once upon a time", "The dragon was", "Tim saw a", "One day"):
            sequence = Sequence(model, tokenizer.encode(prompt), n)
            measured.append(Measured(new(model)))
            list(speculative(model, sequence, measured[-1]))
        accepted = np.mean([one.acceptance for one in measured])
        tokens = np.mean([one.tokens_per_pass for one in measured])
        print(f"{new.__name__}: {100 * accepted:.0f} % accepted, {tokens:.2f} tokens per pass")


def translations(n_sentences=500):
    """Print how well en-de-draft drafts for en-de, on held-out sentences: the share of accepted
    drafts, the tokens per pass, and the median speed-up (cached's seconds / speculative's)."""
    tokenizer, model = utils.load("en-de")
    _, small = utils.load("en-de-draft")
    lines = (utils.MODELS / "en-de" / "held_out.tsv").read_text("utf-8").splitlines()
    sources = [tokenizer.encode(line.split("\t")[0]) for line in lines[:n_sentences]]
    print("| sampler | gamma | accepted | per pass | speed-up |\n|---|---|---|---|---|")
    for name, sampler in (("greedy", greedy), ("temperature 1", Sampler())):
        for gamma in (2, 4):
            measured, ratios = [], []
            for seed, source in enumerate(sources):
                decoder, ids = begin(model, source)
                alone, drafted = (Sequence(decoder, ids, 100, sampler, seed) for _ in range(2))
                times = [time.perf_counter()]
                list(cached(decoder, alone))
                times.append(time.perf_counter())
                draft, _ = begin(small, source)
                drafter = DraftModel(draft, sampler, np.random.default_rng([seed, 1]))
                measured.append(Measured(drafter))
                list(speculative(decoder, drafted, measured[-1], gamma))
                times.append(time.perf_counter())
                per_token = np.diff(times) / (len(alone.new_ids), len(drafted.new_ids))
                ratios.append(per_token[0] / per_token[1])
            accepted = sum(one.accepted for one in measured) / sum(one.tested for one in measured)
            tokens = sum(one.tokens for one in measured)
            per_pass = tokens / sum(one.lengths.total() for one in measured)
            row = f"{name} | {gamma} | {100 * accepted:.1f} % | {per_pass:.2f}"
            print(f"| {row} | {np.median(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    kinds = {"watermark": watermarks, "drafts": drafts, "translations": translations}
    if sys.argv[1:] not in ([kind] for kind in kinds):
        sys.exit(__doc__)
    kinds[sys.argv[1]]()
