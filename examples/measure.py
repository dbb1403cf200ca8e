"""Reproduce the figures in this folder's README.md.

python examples/measure.py bleu                 # needs sacrebleu and an hour
python examples/measure.py watermark            # takes some minutes
python examples/measure.py drafts
python examples/measure.py constrained FOLDER   # a folder with GPT-2's encoder.json and vocab.bpe
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HOUSE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOUSE))

import utils  # noqa: E402 (the project's own modules are one folder up)
from decoding.batching import continuous  # noqa: E402
from decoding.beam import beam_search  # noqa: E402
from decoding.drafters import Measured  # noqa: E402
from encoder import Tokenizer  # noqa: E402
from examples import automaton, constrained  # noqa: E402
from examples.choosing import best_of, mbr  # noqa: E402
from examples.drafts import Jacobi, Recycling  # noqa: E402
from examples.watermark import detect, watermark  # noqa: E402
from generate import Sequence, cached, generate  # noqa: E402
from samplers import Sampler, greedy, min_length, temperature  # noqa: E402
from speculative import speculative  # noqa: E402


def bleu(n_sentences=1000):
    """Print the BLEU and chrF of en-de on the held-out sentences, for greedy decoding, beam search,
    MBR of 32 and best of 32."""
    import sacrebleu  # only this function needs it

    model: Any  # an encoder-decoder has more attributes than a Model
    tokenizer, model = utils.load("en-de")
    text = (HOUSE / "models/en-de/held_out.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines()][:n_sentences]
    sources = [model.add_special_tokens(tokenizer.encode(source)) for source, *_ in lines]
    most = max(len(references) for _, *references in lines)
    streams = [[refs[i] if i < len(refs) else None for _, *refs in lines] for i in range(most)]

    def beam(model, sequence):  # beam search as a loop
        yield from beam_search(model, sequence.ids, sequence.n_left, 4)[0].ids

    ways = {"greedy": (cached, greedy), "beam 4": (beam, greedy)}
    for t in (1.0, 0.5):
        ways[f"MBR of 32, temperature {t}"] = mbr(32, tokenizer), Sampler(temperature(t))
    ways["best of 32, temperature 1.0"] = best_of(32), Sampler()
    for name, (loop, sampler) in ways.items():
        answers = [
            tokenizer.decode(generate(model, source, 100, sampler, seed, loop))
            for seed, source in enumerate(sources)
        ]
        chrf = sacrebleu.corpus_chrf(answers, streams).score
        print(f"{name}: BLEU {sacrebleu.corpus_bleu(answers, streams).score:.1f}, chrF {chrf:.1f}")


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


def constraints(folder):
    """Print how long automaton.py and constrained.py take to start, and how long they take per
    step. folder: a folder with GPT-2's encoder.json and vocab.bpe."""
    vocab = json.loads((Path(folder) / "encoder.json").read_text(encoding="utf-8"))
    lines = (Path(folder) / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
    tokenizer = Tokenizer(vocab, [tuple(line.split()) for line in lines])  # type: ignore[misc]
    pattern = r'\{"name": "[A-Za-z ]+", "age": [0-9]{1,3}, "likes": \["[^"]*"(, "[^"]*")*\]\}'
    text = '{"name": "Lily Brown", "age": 12, "likes": ["' + 'the sea and the wind", "' * 20
    ids, logits = tokenizer.encode(text)[:100], np.zeros(tokenizer.n_vocab, np.float32)
    _, model = utils.load("stories")  # the filters need a stop id
    for name, n, maker in ("automaton", 100, automaton), ("regex", 10, constrained):
        begin = time.perf_counter()
        constrain = maker.matching(pattern, tokenizer, model, 0)
        ready = time.perf_counter()
        for i in range(0, 100, 100 // n):
            constrain(logits, ids[:i])
        step = (time.perf_counter() - ready) / n
        print(f"{name}: {ready - begin:.1f} s to start, {1000 * step:.1f} ms per step")


if __name__ == "__main__":
    kinds = {"bleu": bleu, "watermark": watermarks, "drafts": drafts, "constrained": constraints}
    if len(sys.argv) < 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]](*sys.argv[2:])
