"""Train a byte-level BPE on text files.

    python training/train_bpe.py models/stories --merges 3072 corpus/*.txt

This writes vocab.json and merges.txt to models/stories, in GPT-2's format.
"""

import argparse
import json
from pathlib import Path

from corpus import SEPARATOR, read_documents
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def train(documents, n_merges):
    """Return a tokenizer. Its tokens are the 256 bytes, then one token for each merge, and finally
    the separator. There are at most n_merges merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + n_merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.add_special_tokens([SEPARATOR])
    return tokenizer


def save(tokenizer, folder):
    """Write vocab.json and merges.txt to the folder. vocab.json includes the separator."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    vocabulary = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
    text = json.dumps(vocabulary, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where vocab.json and merges.txt go")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--merges", type=int, default=3072)
    parser.add_argument("--opening", help="regular expression that begins a document")
    args = parser.parse_args()
    tokenizer = train(read_documents(args.files, args.opening), args.merges)
    save(tokenizer, args.folder)
    print(f"{tokenizer.get_vocab_size()} tokens in {args.folder}")
