"""Train a small GPT-2 or Llama on text files, and save it in Hugging Face's layout.

    python -m training.train_lm models/stories corpus/*.txt --epochs 10

If the folder has no tokenizer, a byte-level BPE is trained on the text first.
Each document is one training sequence, which starts at position 0, like a prompt. Most sequences
begin with the separator, but some do not. Thus the model learns to continue prompts with and
without a separator. Muon trains the hidden matrices; AdamW trains embeddings, biases and gains.
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

from loading.tokenizer import read_gpt2_tokenizer
from training.corpus import read_documents, without_overlap
from training.loop import batches, fit
from training.torch_gpt2 import GPT2
from training.torch_llama import Llama
from training.train_bpe import count_words, learn_tokens, save_tokens

ARCHITECTURES = {"gpt2": GPT2, "llama": Llama}


def initialize(model, n_layer):
    """Draw the matrices from normal distributions, and set the biases to zero. The results of
    2 * n_layer matrices are added to the residual stream. As in GPT-2, the weights of these
    matrices are smaller, so that the sum does not grow with the number of layers."""
    for name, p in model.named_parameters():
        if p.ndim == 2:
            std = 0.02 / math.sqrt(2 * n_layer) if name.endswith(model.residual) else 0.02
            nn.init.normal_(p, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(p)


def examples(documents, separator, n_ctx, rng):
    """Yield each document, a list of ids, as a pair (input ids, target ids). If a document is
    longer than n_ctx, only a random part of it is used."""
    for ids in documents:
        ids = ([separator] if rng.random() < 0.7 else []) + ids + [separator]
        start = rng.randrange(max(1, len(ids) - n_ctx))
        ids = ids[start : start + n_ctx + 1]
        yield ids[:-1], ids[1:]


def train(model, documents, separator, args):
    """Train the model on 98 % of the documents. After each epoch, save the model and print its loss
    on the remaining 2 %. documents: lists of ids; separator: the separator's id; args: those
    of the command."""
    rng = random.Random(0)

    def epoch(documents):
        pairs = [*examples(documents, separator, args.n_ctx, rng)]
        return batches(pairs, separator, args.batch, rng)

    n_held_back = len(documents) // 50
    held_back = epoch(documents[:n_held_back])
    epochs = [epoch(documents[n_held_back:]) for _ in range(args.epochs)]
    matrices = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    others = [p for p in model.parameters() if all(p is not matrix for matrix in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=args.muon_lr, weight_decay=0.1),
        torch.optim.AdamW(others, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.01),
    ]

    def loss_of(inputs, targets):  # 2 x [n_rows, n_seq] -> a number
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.autocast):
            logits = model(inputs)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    for number in fit(model, optimizers, epochs, loss_of):
        dtype = getattr(torch, args.dtype)
        tensors = {name: p.to(dtype).contiguous() for name, p in model.tensors().items()}
        save_file(tensors, args.folder / "model.safetensors", metadata={"format": "pt"})
        print(f"epoch {number}: held-back loss {mean_loss(model, held_back, loss_of):.4f}")


@torch.no_grad()
def mean_loss(model, held_back, loss_of):
    """Return the mean loss in nats per token. held_back: batches not used for training."""
    model.eval()
    losses = [loss_of(*batch).item() for batch in held_back]
    model.train()
    return np.average(losses, weights=[(targets >= 0).sum() for _, targets in held_back])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the model's folder")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--held-out", nargs="*", type=Path, default=[], help="text files for tests")
    parser.add_argument("--opening", help="regular expression that begins a document")
    parser.add_argument("--merges", type=int, default=3072, help="of a new tokenizer")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="gpt2")
    parser.add_argument("--n-ctx", type=int, default=512)
    parser.add_argument("--n-embd", type=int, default=224)
    parser.add_argument("--n-head", type=int, default=7)
    parser.add_argument("--n-layer", type=int, default=5)
    parser.add_argument("--n-kv-head", type=int, default=2, help="llama: key-value heads")
    parser.add_argument("--n-inner", type=int, default=576, help="llama: width of the MLP")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8192, help="tokens per step")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--autocast", action="store_true", help="multiply in bfloat16")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="float32")
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(0)
    documents = read_documents(args.files, args.opening)
    if not (args.folder / "vocab.json").exists():
        args.folder.mkdir(parents=True, exist_ok=True)
        save_tokens(args.folder, *learn_tokens(count_words(documents), args.merges))
    tokenizer = read_gpt2_tokenizer(args.folder)
    separator = tokenizer.end_of_text
    documents = without_overlap(documents, read_documents(args.held_out, args.opening))
    if len(documents) < 50:
        sys.exit(f"{len(documents)} documents are too few; give at least 50 (one is held back)")
    random.Random(0).shuffle(documents)
    documents = [tokenizer.encode(document) for document in documents]
    model = ARCHITECTURES[args.architecture](tokenizer.n_vocab, args)
    initialize(model, args.n_layer)
    if args.architecture == "llama":  # Llama's loader needs to be told
        kind = json.dumps({"tokenizer_class": "GPT2Tokenizer"})
        (args.folder / "tokenizer_config.json").write_text(kind)
    config = model.config() | {"bos_token_id": separator, "eos_token_id": separator}
    config |= {"tie_word_embeddings": True, "torch_dtype": args.dtype}
    (args.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    train(model, documents, separator, args)


if __name__ == "__main__":
    main()
