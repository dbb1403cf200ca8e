"""The figures of examples/README.md, measured anew.

    python examples/measure.py bleu          # needs sacrebleu; some 20 minutes
    python examples/measure.py watermark     # some minutes
    python examples/measure.py constrained FOLDER   # of GPT-2's encoder.json and vocab.bpe
    python examples/measure.py drafts
"""

import argparse
import functools
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOUSE))

import utils  # noqa: E402 (the project's own rooms are one folder up)
from beam import beam_search  # noqa: E402
from examples.choosing import best_of, mbr  # noqa: E402
from generate import cached, generate  # noqa: E402
from samplers import Sampler, greedy, temperature  # noqa: E402


def bleu(n_sentences=1000):
    """BLEU of en-de on the held-out sentences: greedy, beam search, best of 32, MBR of 32."""
    import sacrebleu  # late: only this needs it

    tokenizer, model = utils.load("en-de")
    text = (HOUSE / "models/en-de/held_out.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines()][:n_sentences]
    sources = [model.add_special_tokens(tokenizer.encode(source)) for source, *_ in lines]
    most = max(len(references) for _, *references in lines)
    streams = [[refs[i] if i < len(refs) else None for _, *refs in lines] for i in range(most)]

    def beam(model, sequences):  # beam search as a loop
        [sequence] = sequences
        for token in beam_search(model, sequence.ids, sequence.n_left, 4)[0].ids:
            yield sequence, token

    ways = {"greedy": (cached, greedy), "beam 4": (beam, greedy)}
    for t in (1.0, 0.5):
        ways[f"best of 32, temperature {t}"] = best_of(32), Sampler(temperature(t))
        ways[f"MBR of 32, temperature {t}"] = mbr(32, tokenizer), Sampler(temperature(t))
    for name, (loop, sampler) in ways.items():
        answers = [
            tokenizer.decode(generate(model, source, 100, sampler, seed, loop))
            for seed, source in enumerate(sources)
        ]
        chrf = sacrebleu.corpus_chrf(answers, streams).score
        print(f"{name}: BLEU {sacrebleu.corpus_bleu(answers, streams).score:.1f}, chrF {chrf:.1f}")


if __name__ == "__main__":
    bleu(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
