"""Train a small T5 on lines "source TAB translation". Save it in Hugging Face's layout.

    python -m training.train_t5 models/en-de eng-deu.tsv.gz --epochs 6

1,000 source sentences and all their translations are held out: they are not used for training, but
written to held_out.tsv. Muon trains the hidden matrices; AdamW trains the other weights.

With a teacher, the model has its tokenizer, and learns not the translations, but what the teacher
writes greedily (Kim and Rush 2016, "Sequence-Level Knowledge Distillation").
"""

import argparse
import gzip
import math
import random
import shutil
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import SentencePieceUnigramTokenizer, Tokenizer
from tokenizers.processors import TemplateProcessing
from tqdm import tqdm
from transformers import T5Config, T5ForConditionalGeneration

from training.loop import batches, fit, split

PAD, END = 0, 1  # T5's special ids; the decoder's input starts with PAD
SIZES = {"d_model": 192, "d_kv": 32, "d_ff": 768, "num_heads": 6}
SIZES |= {"num_layers": 4, "num_decoder_layers": 3}


def read_pairs(path, n_held_out):
    """Read a gzipped file. Return the training pairs [(source, target)] and n_held_out other
    sentences {source: [targets]}."""
    pairs = {}
    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        for line in file:
            source, target = line.rstrip("\n").split("\t")[:2]
            pairs.setdefault(source, []).append(target)
    sources = sorted(pairs)
    random.Random(0).shuffle(sources)
    held_out = {source: pairs[source] for source in sources[:n_held_out]}
    return [(s, t) for s in sources[n_held_out:] for t in dict.fromkeys(pairs[s])], held_out


def train_tokenizer(file, texts, n_vocab):
    """Train one unigram model on the texts of both languages, and save it. It has T5's ids."""
    tokenizer = SentencePieceUnigramTokenizer()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        texts, vocab_size=n_vocab, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.post_processor = TemplateProcessing("$A </s>", special_tokens=[("</s>", END)])
    tokenizer.save(str(file))


@torch.no_grad()
def write(teacher, sources):
    """Return pairs (source ids, ids that the teacher writes greedily). sources: lists of ids."""
    pairs, rng = [], random.Random(0)
    for inputs, _ in tqdm(batches([(ids, ids) for ids in sources], PAD, 2048, rng)):
        answers = teacher.generate(inputs, attention_mask=inputs != PAD, num_beams=1)
        for rows in zip(inputs.tolist(), answers.tolist()):
            pairs.append(tuple([token for token in ids if token != PAD] for ids in rows))
    return pairs


def optimizers_for(model):
    """Return the optimizers. T5 does not divide its attention scores by sqrt(d_kv). To make up for
    this, the learning rate of the query matrices is divided by sqrt(d_kv)."""
    hidden, others = split(model)
    queries = [hidden.pop(name) for name in [*hidden] if name.endswith(".q.weight")]
    slow = {"params": queries, "lr": 0.02 / math.sqrt(model.config.d_kv)}
    return [
        torch.optim.Muon([{"params": hidden.values()}, slow], lr=0.02, weight_decay=0.05),
        torch.optim.AdamW(others, lr=0.01, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(model, pairs, args):
    """Train the model, and save it after each epoch. pairs: a list of (source ids, target ids)."""
    rng = random.Random(0)
    epochs = [batches(pairs, PAD, args.batch, rng) for _ in range(args.epochs)]

    def loss_of(inputs, labels):  # [n_rows, n_source], [n_rows, n_target] -> a number
        starts = F.pad(labels[:, :-1].clamp(min=PAD), (1, 0), value=PAD)  # what the decoder reads
        logits = model(inputs, inputs != PAD, starts).logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)

    for number in fit(model, optimizers_for(model), epochs, loss_of, args):
        print(f"epoch {number} saved", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the model's folder")
    parser.add_argument("pairs", type=Path, help="gzipped lines: source TAB translation")
    parser.add_argument("--teacher", type=Path, help="the folder of a T5 to learn from")
    parser.add_argument("--sources", type=int, help="how many sources it translates; default: all")
    parser.add_argument("--n-vocab", type=int, default=4000, help="of a new tokenizer")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4096, help="target tokens per step")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    pairs, held_out = read_pairs(args.pairs, 1000)
    file = args.folder / "tokenizer.json"
    if args.teacher:
        shutil.copy(args.teacher / "tokenizer.json", file)
    else:
        lines = ["\t".join([source, *targets]) for source, targets in held_out.items()]
        (args.folder / "held_out.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        train_tokenizer(file, [text for pair in pairs for text in pair], args.n_vocab)
    tokenizer = Tokenizer.from_file(str(file))

    def encoded(texts):  # each ends with END
        return [encoding.ids for encoding in tokenizer.encode_batch(texts)]

    if args.teacher:
        teacher = T5ForConditionalGeneration.from_pretrained(args.teacher)
        sources = [*dict.fromkeys(source for source, _ in pairs)][: args.sources]
        pairs = write(teacher, encoded(sources))
    else:
        pairs = [*zip(*map(encoded, zip(*pairs)))]
    sizes = {name: getattr(args, name) for name in SIZES}
    sizes |= {"vocab_size": tokenizer.get_vocab_size()}
    config = T5Config(**sizes, dropout_rate=0.0, decoder_start_token_id=PAD)
    model = T5ForConditionalGeneration(config)
    model.generation_config.update(num_beams=4, max_new_tokens=100)
    if args.teacher:  # begin with the principal components of its embeddings
        u, s, _ = torch.linalg.svd(teacher.shared.weight.data, full_matrices=False)
        model.shared.weight.data = (u * s)[:, : args.d_model].contiguous()
    train(model, pairs, args)


if __name__ == "__main__":
    main()
