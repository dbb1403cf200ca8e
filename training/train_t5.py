"""Train a small T5 on lines "source TAB translation". Save it in Hugging Face's layout.

    python -m training.train_t5 models/en-de eng-deu.tsv.gz --epochs 6

1,000 source sentences and all their translations are held out: they are not used for training, but
written to held_out.tsv. Muon trains the hidden matrices; AdamW trains the other weights.
"""

import argparse
import gzip
import math
import random
from pathlib import Path

import sentencepiece
import torch
from tokenizers import Tokenizer
from transformers import T5Config, T5ForConditionalGeneration, T5Tokenizer

from training.muon import Muon, fit

PAD, END, UNKNOWN = 0, 1, 2  # T5's special ids; the decoder's input starts with PAD


def read_pairs(path):
    """Read a gzipped file. Return {source sentence: [its translations]} in the file's order."""
    pairs = {}
    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        for line in file:
            source, target = line.rstrip("\n").split("\t")[:2]
            pairs.setdefault(source, []).append(target)
    return pairs


def split(pairs, n_held_out, seed):
    """Return the training pairs [(source, target)] and the held-out sentences {source: [targets]}.
    n_held_out: how many source sentences are held out."""
    sources = sorted(pairs)
    random.Random(seed).shuffle(sources)
    held_out = {source: pairs[source] for source in sources[:n_held_out]}
    return [(s, t) for s in sources[n_held_out:] for t in dict.fromkeys(pairs[s])], held_out


def train_tokenizer(folder, texts, n_vocab):
    """Train one SentencePiece unigram model on the texts of both languages. It has T5's special
    ids. Save it as tokenizer.json, and return it as a Tokenizer."""
    lines = folder / "lines.txt"
    lines.write_text("\n".join(texts), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(lines),
        model_prefix=str(folder / "spiece"),
        vocab_size=n_vocab,
        pad_id=PAD,
        eos_id=END,
        unk_id=UNKNOWN,
        bos_id=-1,
        character_coverage=1.0,
        minloglevel=2,
    )
    T5Tokenizer.from_pretrained(folder, extra_ids=0).save_pretrained(folder)
    for path in (lines, folder / "spiece.model", folder / "spiece.vocab"):
        path.unlink()
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def batches(pairs, tokens_per_batch, rng):
    """Return the batches of one epoch: tuples (inputs, mask, labels), each [n_rows, n_longest].

    pairs: a list of (source ids, target ids); tokens_per_batch: the maximum number of target tokens
    in a batch, including padding. The pairs of a batch have similar lengths."""
    pairs = pairs[:]
    rng.shuffle(pairs)
    result = []
    for start in range(0, len(pairs), 4096):
        group = sorted(pairs[start : start + 4096], key=lambda pair: (len(pair[1]), len(pair[0])))
        while group:
            n_rows = max(1, tokens_per_batch // len(group[-1][1]))
            rows, group = group[-n_rows:], group[:-n_rows]
            inputs = pad([source for source, _ in rows], PAD)
            result.append((inputs, inputs != PAD, pad([target for _, target in rows], -100)))
    rng.shuffle(result)
    return result


def pad(rows, value):  # lists of ids -> [n_rows, n_longest]
    longest = max(map(len, rows))
    return torch.tensor([ids + [value] * (longest - len(ids)) for ids in rows])


def optimizers_for(model, args):
    """Return the optimizers. T5 does not divide its attention scores by sqrt(d_kv). To make up for
    this, the learning rate of the query matrices is divided by sqrt(d_kv)."""
    hidden = {n: p for n, p in model.named_parameters() if p.ndim == 2 and "block" in n}
    hidden = {n: p for n, p in hidden.items() if "relative" not in n}
    queries = [p for n, p in hidden.items() if n.endswith(".q.weight")]
    matrices = [p for n, p in hidden.items() if not n.endswith(".q.weight")]
    others = [p for n, p in model.named_parameters() if n not in hidden]
    slow = args.muon_lr / math.sqrt(model.config.d_kv)
    return [
        Muon(matrices, lr=args.muon_lr, weight_decay=0.05),
        Muon(queries, lr=slow, weight_decay=0.05),
        torch.optim.AdamW(others, lr=args.adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(model, pairs, args):
    """Train the model, and save it after each epoch. pairs: a list of (source ids, target ids)."""
    rng = random.Random(args.seed)
    epochs = [batches(pairs, args.batch, rng) for _ in range(args.epochs)]

    def loss_of(inputs, mask, labels):
        logits = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.1
        )

    def save(epoch):
        model.save_pretrained(args.folder)
        print(f"epoch {epoch} saved", flush=True)

    fit(model, optimizers_for(model, args), epochs, loss_of, save)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the model's folder")
    parser.add_argument("pairs", type=Path, help="gzipped lines: source TAB translation")
    parser.add_argument("--n-vocab", type=int, default=4000)
    parser.add_argument("--d-model", type=int, default=192)
    parser.add_argument("--n-head", type=int, default=6)
    parser.add_argument("--encoder-layers", type=int, default=4)
    parser.add_argument("--decoder-layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4096, help="target tokens per step")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    pairs, held_out = split(read_pairs(args.pairs), 1000, args.seed)
    lines = ["\t".join([source, *targets]) for source, targets in held_out.items()]
    (args.folder / "held_out.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    texts = [text for pair in pairs for text in pair]
    tokenizer = train_tokenizer(args.folder, texts, args.n_vocab)
    sides = [tokenizer.encode_batch(side, add_special_tokens=False) for side in zip(*pairs)]
    ids = [[encoding.ids + [END] for encoding in side] for side in sides]
    config = T5Config(
        vocab_size=args.n_vocab,
        d_model=args.d_model,
        d_kv=args.d_model // args.n_head,
        d_ff=4 * args.d_model,
        num_heads=args.n_head,
        num_layers=args.encoder_layers,
        num_decoder_layers=args.decoder_layers,
        feed_forward_proj="relu",
        dropout_rate=0.0,
        decoder_start_token_id=PAD,
    )
    model = T5ForConditionalGeneration(config)
    model.generation_config.update(num_beams=4, max_new_tokens=100)
    n_parameters = sum(p.numel() for p in model.parameters())
    print(f"{n_parameters:,} parameters, {len(pairs):,} pairs", flush=True)
    train(model, list(zip(*ids)), args)


if __name__ == "__main__":
    main()
