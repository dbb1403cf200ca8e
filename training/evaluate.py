"""Measure a model's bits per byte on held-out text. The model runs in tokenwise itself.

    python training/evaluate.py models/stories held_out.txt

Each document has its own context, which begins with the separator. The model must also predict the
separator at the document's end. The loss includes this prediction, but the number of bytes does not
include the separator.
"""

import argparse
import math
import sys
from pathlib import Path

from corpus import read_documents  # corpus.py also makes the project's own modules importable

import utils
from decoding import score


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    args = parser.parse_args()
    try:
        tokenizer, model = utils.load(args.model)
        documents = read_documents(args.files)
    except (utils.UserError, OSError, ValueError) as error:
        sys.exit(str(error))
    if tokenizer.end_of_text is None:
        sys.exit(f"{args.model} is not a language model with an end-of-text token")
    if not documents:
        sys.exit("there is no text in these files")
    bits, nats, n_tokens, n_bytes = bits_per_byte(tokenizer, model, documents)
    sizes = f"{n_tokens:,} tokens, {n_bytes:,} bytes"
    print(f"{bits:.4f} bits per byte, {nats:.4f} nats per token ({sizes})")
