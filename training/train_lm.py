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
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from loading.tokenizer import read_gpt2_tokenizer
from training.corpus import read_documents, without_overlap
from training.loop import batches, fit, split
from training.train_bpe import count_words, learn_tokens, save_tokens


def new_model(args, tokenizer):
    """Return a GPT-2 or a Llama of transformers, with random weights. As in GPT-2, the weights of
    the 2 * n_layer matrices whose results are added to the residual stream are smaller, so that the
    sum does not grow with the number of layers. Dropout comes only after these matrices."""
    end = tokenizer.end_of_text
    shared = {"vocab_size": tokenizer.n_vocab, "bos_token_id": end, "eos_token_id": end}
    if args.architecture == "gpt2":
        shared |= {"n_positions": args.n_ctx, "n_embd": args.n_embd}
        shared |= {"n_head": args.n_head, "n_layer": args.n_layer}
        model = GPT2LMHeadModel(GPT2Config(embd_pdrop=0, attn_pdrop=0, resid_pdrop=0, **shared))
    else:
        shared |= {"max_position_embeddings": args.n_ctx, "hidden_size": args.n_embd}
        shared |= {"num_attention_heads": args.n_head, "num_key_value_heads": args.n_kv_head}
        shared |= {"num_hidden_layers": args.n_layer, "intermediate_size": args.n_inner}
        model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, rms_norm_eps=1e-5, **shared))
    for name, module in model.named_modules():
        if name.endswith(("c_proj", "o_proj", "down_proj")):
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * args.n_layer))
            module.register_forward_hook(
                lambda part, _, x: F.dropout(x, args.dropout, part.training)
            )
    return model


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
    matrices, others = split(model)
    optimizers = [
        torch.optim.Muon(matrices.values(), lr=args.muon_lr, weight_decay=0.1),
        torch.optim.AdamW(others, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.01),
    ]

    def loss_of(inputs, targets):  # 2 x [n_rows, n_seq] -> a number
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.autocast):
            logits = model(inputs, use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    for number in fit(model, optimizers, epochs, loss_of, args):
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
    parser.add_argument("--architecture", choices=["gpt2", "llama"], default="gpt2")
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
    if args.architecture == "llama":  # Llama's loader needs to be told
        kind = json.dumps({"tokenizer_class": "GPT2Tokenizer"})
        (args.folder / "tokenizer_config.json").write_text(kind)
    train(new_model(args, tokenizer), documents, separator, args)


if __name__ == "__main__":
    main()
