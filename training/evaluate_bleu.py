"""Measure a translation model's BLEU on held-out sentences. The model runs in tokenwise itself.

    python training/evaluate_bleu.py models/en-de models/en-de/held_out.tsv

Each line of the file contains a source sentence and all its translations, separated by tabs.
"""

import argparse
import sys
from pathlib import Path

import sacrebleu
from corpus import utf8  # corpus.py also makes the project's own modules importable

import utils
from decoding.beam import beam_search
from generate import begin


def translate(tokenizer, model, text, width, n=100):
    """Return the best translation of `text` that a beam search finds. width: the number of beams;
    n: the maximum number of new tokens."""
    decoder, start = begin(model, tokenizer.encode(text))
    best = beam_search(decoder, start, n, width)[0]
    return tokenizer.decode([token for token in best.ids if token not in model.stop_ids])


def main():
    """Translate the sentences of a file. Print the BLEU and the first ten translations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder")
    parser.add_argument("pairs", type=Path, help="lines: source TAB translation TAB ...")
    parser.add_argument("--beams", type=int, default=4)
    args = parser.parse_args()
    try:
        tokenizer, model = utils.load(args.model)
        with utf8(args.pairs):
            lines = [line.split("\t") for line in args.pairs.read_text("utf-8-sig").splitlines()]
    except (utils.UserError, OSError, ValueError) as error:
        sys.exit(str(error))
    if not lines or any(len(line) < 2 for line in lines):
        sys.exit(f"{args.pairs}: each line must be a source, a tab and its translations")
    answers = [translate(tokenizer, model, source, args.beams) for source, *_ in lines]
    most = max(len(references) for _, *references in lines)
    streams = [[refs[i] if i < len(refs) else None for _, *refs in lines] for i in range(most)]
    print(sacrebleu.corpus_bleu(answers, streams))
    for (source, *_), answer in list(zip(lines, answers))[:10]:
        print(f"{source}\t{answer}")


if __name__ == "__main__":
    main()
