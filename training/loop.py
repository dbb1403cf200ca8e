"""What train_lm.py and train_t5.py share: the batches, the loop, and which optimizer has what."""

import copy

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

TABLES = "wte", "wpe", "embed", "shared", "relative"  # parts of the names of embeddings


def batches(pairs, pad_id, n_tokens, rng):
    """Return the batches of one epoch: tuples (inputs, targets), each [n_rows, n_longest].

    pairs: tuples (input ids, target ids). Inputs are padded with pad_id, targets with -100, which
    the loss ignores. n_tokens: the maximum number of targets in a batch, including padding. The
    pairs of a batch have similar lengths."""
    pairs, result = rng.sample(pairs, len(pairs)), []
    for start in range(0, len(pairs), 4096):
        group = sorted(pairs[start : start + 4096], key=lambda pair: (len(pair[1]), len(pair[0])))
        while group:
            n_rows = max(1, n_tokens // len(group[-1][1]))
            inputs, targets = zip(*group[-n_rows:])
            result.append((pad(inputs, pad_id), pad(targets, -100)))
            del group[-n_rows:]
    rng.shuffle(result)
    return result


def pad(rows, value):  # lists of ids -> [n_rows, n_longest]
    return pad_sequence([torch.tensor(ids) for ids in rows], True, value)


def split(model):
    """Return the hidden matrices, for Muon: {name: parameter}; and the other parameters, a list."""
    named = dict(model.named_parameters())
    others = [n for n, p in named.items() if p.ndim != 2 or any(table in n for table in TABLES)]
    return named, [named.pop(name) for name in others]


def fit(model, optimizers, epochs, loss_of, args, warm_up=100):
    """Train on all batches of all epochs. After each epoch, save the model in Hugging Face's
    layout, and yield 1, 2, ...

    epochs: a list of batches for each epoch; loss_of(inputs, targets) -> a scalar tensor; args:
    those of the command. Each learning rate rises to its peak in warm_up steps, and falls linearly
    to 0."""
    n_steps = sum(map(len, epochs))

    def factor(step):
        return min(1, (step + 1) / warm_up) * (1 - step / n_steps)

    schedules = [torch.optim.lr_scheduler.LambdaLR(each, factor) for each in optimizers]
    with tqdm(total=n_steps, unit="step") as bar:
        for number, epoch in enumerate(epochs, 1):
            for inputs, targets in epoch:
                loss = loss_of(inputs, targets)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for part in (*optimizers, *schedules):
                    part.step()
                model.zero_grad()
                bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
                bar.update()
            copy.deepcopy(model).to(getattr(torch, args.dtype)).save_pretrained(args.folder)
            yield number
