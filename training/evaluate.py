"""Measure a model on held-out text. The model runs in tokenwise itself.

    python -m training.evaluate models/stories held_out.txt
    python -m training.evaluate models/en-de models/en-de/held_out.tsv

A language model's measure is bits per byte. Each document has its own context, which begins with
the separator. The model must also predict the separator at the document's end. The loss includes
this prediction, but the number of bytes does not include the separator.

A translation model's measure is BLEU, on lines "source TAB translation TAB ...".
"""

import argparse
import math
import sys
from pathlib import Path

import utils
from decoding import score
from decoding.beam import beam_search
from generate import begin
from training.corpus import read_documents


def bits_per_byte(tokenizer, model, documents):
    """Return (bits per byte, nats per token, number of tokens, number of bytes)."""
    nats = n_tokens = n_bytes = 0
    end = [tokenizer.end_of_text]
    for document in documents:
        logprobs = score.log_probabilities(model, end + tokenizer.encode(document) + end)
        nats -= float(logprobs.sum(dtype="float64"))
        n_tokens += len(logprobs)
        n_bytes += len(document.encode("utf-8"))
    return nats / math.log(2) / n_bytes, nats / n_tokens, n_tokens, n_bytes


def bleu(tokenizer, model, pairs, width):
    """Return sacrebleu's result and a translation of each source. pairs: lists of a source and its
    translations; width: the number of beams."""
    import sacrebleu  # only here, because language models do not need it

    answers = [translate(tokenizer, model, source, width) for source, *_ in pairs]
    most = max(len(references) for _, *references in pairs)
    streams = [[refs[i] if i < len(refs) else None for _, *refs in pairs] for i in range(most)]
    return sacrebleu.corpus_bleu(answers, streams), answers


def translate(tokenizer, model, text, width, n=100):
    """Return the best translation that a beam search finds; n: the maximum number of new tokens."""
    decoder, start = begin(model, tokenizer.encode(text))
    best = beam_search(decoder, start, n, width)[0]
    return tokenizer.decode([token for token in best.ids if token not in model.stop_ids])


def main():
    """Print a model's measure, and the first ten translations if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--opening", help="regular expression that begins a document")
    parser.add_argument("--beams", type=int, default=4, help="for a translation model")
    args = parser.parse_args()
    try:
        tokenizer, model = utils.load(args.model)
    except utils.UserError as error:
        sys.exit(str(error))
    documents = read_documents(args.files, args.opening)
    if not documents:
        sys.exit("there is no text in these files")
    if tokenizer.end_of_text is None:  # no language model: it translates
        pairs = [line.split("\t") for document in documents for line in document.splitlines()]
        if any(len(pair) < 2 for pair in pairs):
            sys.exit("to translate, each line must be a source, a tab and its translations")
        measured, answers = bleu(tokenizer, model, pairs, args.beams)
        print(measured)
        for (source, *_), answer in list(zip(pairs, answers))[:10]:
            print(f"{source}\t{answer}")
        return
    bits, nats, n_tokens, n_bytes = bits_per_byte(tokenizer, model, documents)
    sizes = f"{n_tokens:,} tokens, {n_bytes:,} bytes"
    print(f"{bits:.4f} bits per byte, {nats:.4f} nats per token ({sizes})")


if __name__ == "__main__":
    main()
