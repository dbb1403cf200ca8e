"""Train a small GPT-2 on text files and write it in Hugging Face layout.

    python training/train_bpe.py models/stories corpus/*.txt
    python training/train_gpt2.py models/stories corpus/*.txt --epochs 10

Each document is one training sequence that starts at position 0, as it will be read when text is
generated; most are preceded by the separator, some are not, so that the model can start either way.
Hidden matrices are trained by Muon, embeddings and vectors by AdamW; the learning rate rises
briefly and then falls linearly to zero.
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from corpus import SEPARATOR, read_documents, without_overlap
from muon import Muon, fit
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.n_head, self.drop = n_head, nn.Dropout(dropout)
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.q, self.k, self.v, self.out = (nn.Linear(n_embd, n_embd) for _ in range(4))
        self.fc, self.proj = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def attend(self, x):  # [batch, n_seq, n_embd] -> the same
        def heads(t):
            return t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x.transpose(1, 2).flatten(-2))

    def forward(self, x):
        x = x + self.drop(self.attend(self.ln_1(x)))
        return x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))


class GPT2(nn.Module):
    def __init__(self, n_vocab, n_ctx, n_embd, n_head, n_layer, dropout):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(n_vocab, n_embd), nn.Embedding(n_ctx, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head, dropout) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                residual = name.endswith(("out.weight", "proj.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * n_layer) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def load_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE.from_file(f"{folder}/vocab.json", f"{folder}/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([SEPARATOR])
    return tokenizer


def batches(documents, separator, n_ctx, tokens_per_batch, rng):
    """One epoch of (inputs, targets) [rows, n_seq]: documents of like length side by side, targets
    padded by -100. A document longer than the context is cut at a random place."""
    documents = documents[:]
    rng.shuffle(documents)
    result = []
    for start in range(0, len(documents), 1024):
        rows = []
        for ids in documents[start : start + 1024]:
            ids = ([separator] if rng.random() < 0.7 else []) + ids + [separator]
            if len(ids) > n_ctx + 1:
                cut = rng.randrange(len(ids) - n_ctx)
                ids = ids[cut : cut + n_ctx + 1]
            rows.append(ids)
        rows.sort(key=len)
        while rows:
            n_seq = min(n_ctx, 32 * math.ceil((len(rows[-1]) - 1) / 32))
            group = [rows.pop() for _ in range(min(len(rows), max(1, tokens_per_batch // n_seq)))]
            inputs = torch.full((len(group), n_seq), separator)
            targets = torch.full((len(group), n_seq), -100)
            for i, ids in enumerate(group):
                inputs[i, : len(ids) - 1] = torch.tensor(ids[:-1])
                targets[i, : len(ids) - 1] = torch.tensor(ids[1:])
            result.append((inputs, targets))
    rng.shuffle(result)
    return result


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


@torch.no_grad()
def check(model, held_back):
    """Mean loss in nats per token over batches that are not trained on."""
    model.eval()
    losses = [(cross_entropy(model(x), y).item(), (y >= 0).sum().item()) for x, y in held_back]
    model.train()
    return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)


def save(model, folder, config):
    """Write config.json and model.safetensors in Hugging Face's GPT-2 layout: [in, out] weights."""
    state, tensors = model.state_dict(), {}
    for name in ("wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"):
        tensors[name] = state[name]
    for i in range(config["n_layer"]):
        h = f"h.{i}."
        for ln in ("ln_1", "ln_2"):
            tensors[f"{h}{ln}.weight"], tensors[f"{h}{ln}.bias"] = (
                state[f"{h}{ln}.weight"],
                state[f"{h}{ln}.bias"],
            )
        for kind in ("weight", "bias"):
            qkv = torch.cat([state[f"{h}{part}.{kind}"] for part in "qkv"])
            tensors[f"{h}attn.c_attn.{kind}"] = qkv.t()
            names = {"out": "attn.c_proj", "fc": "mlp.c_fc", "proj": "mlp.c_proj"}
            for ours, theirs in names.items():
                tensors[f"{h}{theirs}.{kind}"] = state[f"{h}{ours}.{kind}"].t()
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
    Path(folder, "config.json").write_text(json.dumps(config, indent=2) + "\n")


def train(model, documents, separator, args, config):
    rng = random.Random(args.seed)
    held_back, documents = documents[: len(documents) // 50], documents[len(documents) // 50 :]
    held_back = batches(held_back, separator, args.n_ctx, args.batch, random.Random(0))
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and name[0] == "h"]
    others = [p for name, p in model.named_parameters() if p.ndim == 1 or name[0] != "h"]
    optimizers = [
        Muon(matrices, lr=args.muon_lr, weight_decay=args.weight_decay),
        torch.optim.AdamW(others, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.01),
    ]
    epochs = [batches(documents, separator, args.n_ctx, args.batch, rng)
              for _ in range(args.epochs)]  # fmt: skip

    def loss_of(inputs, targets):
        return cross_entropy(model(inputs), targets)

    def save_epoch(epoch):
        save(model, args.folder, config)
        print(f"epoch {epoch}: held-back loss {check(model, held_back):.4f}", flush=True)

    fit(model, optimizers, epochs, loss_of, save_epoch)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="has vocab.json and merges.txt, gets the model")
    parser.add_argument("files", nargs="+", type=Path, help="text files")
    parser.add_argument("--held-out", nargs="*", type=Path, default=[], help="never trained on")
    parser.add_argument("--opening", help="regular expression that begins a document")
    parser.add_argument("--n-ctx", type=int, default=512)
    parser.add_argument("--n-embd", type=int, default=224)
    parser.add_argument("--n-head", type=int, default=7)
    parser.add_argument("--n-layer", type=int, default=5)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8192, help="tokens a step")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    tokenizer = load_tokenizer(args.folder)
    separator = tokenizer.token_to_id(SEPARATOR)
    documents = read_documents(args.files, args.opening)
    documents = without_overlap(documents, read_documents(args.held_out))
    if len(documents) < 50:
        sys.exit(f"{len(documents)} documents are too few: 50 at least, one of which is held back")
    random.Random(args.seed).shuffle(documents)
    documents = [encoding.ids for encoding in tokenizer.encode_batch(documents)]
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "vocab_size": tokenizer.get_vocab_size(), "n_positions": args.n_ctx, "n_ctx": args.n_ctx,
        "n_embd": args.n_embd, "n_head": args.n_head, "n_layer": args.n_layer,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "bos_token_id": separator, "eos_token_id": separator, "tie_word_embeddings": True,
    }  # fmt: skip
    model = GPT2(config["vocab_size"], args.n_ctx, args.n_embd, args.n_head, args.n_layer,
                 args.dropout)  # fmt: skip
    n_parameters = sum(p.numel() for p in model.parameters())
    n_tokens = sum(len(ids) + 1 for ids in documents)
    print(f"{n_parameters:,} parameters, {len(documents):,} documents, {n_tokens:,} tokens")
    train(model, documents, separator, args, config)


if __name__ == "__main__":
    main()
