"""Learn a tokenizer and a tiny GPT-2 from a text, with NumPy alone.

    python -m training.learn TEXT.txt             # some minutes; writes models/TEXT
    python generate.py "A beginning" --model TEXT

The last tenth of the text is held out: it is measured, but not learnt. Ctrl-C ends the learning and
keeps what was learnt.
"""

import argparse
import json
import math
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from decoding.score import score_ids
from encoder import Tokenizer, gpt2_words
from generate import generate
from gpt2 import GPT2
from samplers import Sampler, temperature
from training.backward import loss_and_gradients
from training.corpus import read_documents
from training.train_bpe import learn_tokens, save_tokens
from utils import MODELS

N_CTX, D_HEAD = 128, 32  # tokens in a window; numbers in an attention head


def new_params(n_vocab, n_ctx, n_embd, n_layer, seed=0):
    """Return random parameters as GPT-2 begins with them: nested like GPT2.params, float32."""
    rng = np.random.default_rng(seed)

    def matrix(n_out, n_in, deviation=0.02):
        return rng.normal(0, deviation, (n_out, n_in)).astype(np.float32)

    def dense(n_in, n_out, deviation=0.02):
        return {"w": matrix(n_out, n_in, deviation), "b": np.zeros(n_out, np.float32)}

    def norm():
        return {"g": np.ones(n_embd, np.float32), "b": np.zeros(n_embd, np.float32)}

    def block(d, small):  # small: the stream is a sum of 2 * n_layer results, and must not grow
        attn = {"c_attn": dense(d, 3 * d), "c_proj": dense(d, d, small)}
        mlp = {"c_fc": dense(d, 4 * d), "c_proj": dense(4 * d, d, small)}
        return {"ln_1": norm(), "attn": attn, "ln_2": norm(), "mlp": mlp}

    blocks = [block(n_embd, 0.02 / math.sqrt(2 * n_layer)) for _ in range(n_layer)]
    wte, wpe = matrix(n_vocab, n_embd), matrix(n_ctx, n_embd)
    return {"wte": wte, "wpe": wpe, "blocks": blocks, "ln_f": norm()}


def train(params, n_head, ids, n_steps, n_rows=16, rate=4e-3, seed=0):
    """Train on random windows of a text's ids. Change params in place, and yield each step's loss
    in nats per token. The learning rate rises to `rate` in 20 steps, then falls linearly to 0."""
    rng, optimizer = np.random.default_rng(seed), AdamW(params)
    for step in range(n_steps):
        inputs, targets = windows(ids, n_rows, len(params["wpe"]), rng)
        loss, gradients = loss_and_gradients(params, n_head, inputs, targets)
        optimizer.step(gradients, rate * min(1, (step + 1) / 20) * (1 - step / n_steps))
        yield float(loss)


def windows(ids, n_rows, n_seq, rng):  # [n] -> inputs and targets, 2 x [n_rows, n_seq]
    starts = rng.integers(0, len(ids) - n_seq, (n_rows, 1))
    rows = np.asarray(ids)[starts + np.arange(n_seq + 1)]  # [n_rows, n_seq + 1]
    return rows[:, :-1], rows[:, 1:]


class AdamW:
    """The optimizer of Kingma & Ba 2015 ("Adam") and Loshchilov & Hutter 2019 ("Decoupled Weight
    Decay"). For each number of params, it remembers the mean of its gradients and of their squares.
    In these means, recent gradients count most."""

    def __init__(self, params, betas=(0.9, 0.95), weight_decay=0.1):
        self.params, self.n_steps = flat(params), 0
        self.betas, self.weight_decay = betas, weight_decay
        self.means, self.squares = ({n: 0 * p for n, p in self.params.items()} for _ in range(2))

    def step(self, gradients, rate):
        """Change params in place. Each number moves by `rate` or less, against its gradient."""
        self.n_steps += 1
        known_1, known_2 = (1 - beta**self.n_steps for beta in self.betas)  # the means began at 0
        for name, gradient in flat(gradients).items():
            p, mean, square = self.params[name], self.means[name], self.squares[name]
            mean += (1 - self.betas[0]) * (gradient - mean)
            square += (1 - self.betas[1]) * (gradient * gradient - square)
            p *= 1 - rate * self.weight_decay * (p.ndim > 1)  # only matrices decay
            p -= rate * (mean / known_1) / (np.sqrt(square / known_2) + 1e-8)


def flat(tree, name=""):  # {"blocks": [{"ln_1": {"g": array}}]} -> {".blocks.0.ln_1.g": array}
    if isinstance(tree, np.ndarray):
        return {name: tree}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {n: array for key, part in parts for n, array in flat(part, f"{name}.{key}").items()}


def save(folder, params, n_head, end):
    """Write config.json and model.safetensors in Hugging Face's layout; end: the stop id."""
    from safetensors.numpy import save_file

    tensors = {}
    for name, array in flat(params).items():
        stem, _, last = name[1:].replace("blocks.", "h.").rpartition(".")
        key = f"{stem}.bias" if last == "b" else f"{stem or last}.weight"
        tensors[key] = np.ascontiguousarray(array.T if last == "w" else array)  # [n_in, n_out]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    sizes = {"vocab_size": len(params["wte"]), "n_positions": len(params["wpe"])}
    sizes |= {"n_embd": params["wte"].shape[1], "n_head": n_head, "n_layer": len(params["blocks"])}
    kind = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    config = kind | sizes | {"bos_token_id": end, "eos_token_id": end}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


# --- the command ----------------------------------------------------------------------------------


def read(path, n_merges):
    """Learn a tokenizer from a text file. Return it and the text's ids."""
    documents = read_documents([path])
    words = frequent_words(documents)
    what = f"{n_merges} merges, from {len(words):,} words"
    announce(what, n_merges, lambda: learn_tokens(words, 1))
    vocab, merges = learn_tokens(words, n_merges)
    tokenizer = Tokenizer(vocab, merges)
    end = [tokenizer.end_of_text]
    ids = end + [id for document in documents for id in tokenizer.encode(document) + end]
    return tokenizer, ids


def frequent_words(documents):
    """Return how often each of the 10,000 most frequent words occurs, as a Counter. Words are cut
    at 30 bytes, because a Chinese sentence is one word."""
    words, cut = Counter(w for document in documents for w in gpt2_words(document)), Counter()
    for word, n in words.most_common(10_000):
        cut[word.encode()[:30].decode(errors="ignore")] += n
    return cut


def announce(what, n, action):
    """Run an action twice. Then say how long n runs take."""
    action()
    start = time.perf_counter()
    action()
    seconds = n * (time.perf_counter() - start)
    duration = f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    print(f"{what}: about {duration}", flush=True)


def report(tokenizer, model, prompt, held_out):
    """Return the model's bits per byte of the held-out ids, and a text that it writes."""
    n_bytes = sum(len(tokenizer.token_bytes(id)) for id in held_out)
    bits = score_ids(model, prompt[:1], held_out, n_bytes)["bits_per_byte"]
    written = generate(model, prompt, 60, Sampler(temperature(0.7)))
    text = " ".join(tokenizer.decode([*prompt[1:], *written]).split())
    return f"{bits:.2f} bits per byte of held-out text. The model writes: {text}"


def learn(args, folder):
    """Learn until the last step or Ctrl-C, and write the folder. Return the text's beginning."""
    from tqdm import tqdm

    tokenizer, ids = read(args.text, args.merges)
    n_learnt, n_head = len(ids) * 9 // 10, args.n_embd // D_HEAD
    if n_learnt < N_CTX + 2:
        sys.exit(f"{args.text} has {len(ids)} tokens; learning needs {(N_CTX + 2) * 10 // 9 + 1}")
    sizes = tokenizer.n_vocab, N_CTX, args.n_embd, args.n_layer
    trial = train(new_params(*sizes), n_head, ids[:n_learnt], 2)
    announce(f"{args.steps:,} steps on {n_learnt:,} tokens", args.steps, lambda: next(trial))
    params, step = new_params(*sizes, args.seed), 0
    model = GPT2(params, n_head, [tokenizer.end_of_text])
    losses = train(params, n_head, ids[:n_learnt], args.steps, seed=args.seed)
    bar = tqdm(losses, total=args.steps, unit="step")
    try:
        for step, loss in enumerate(bar, 1):
            bar.set_postfix_str(f"loss {loss:.2f}", refresh=False)
            if step == 1 or step % max(1, args.steps // 10) == 0:
                said = report(tokenizer, model, ids[:4], ids[n_learnt:][:2000])
                bar.write(f"\nafter step {step}: {said}")
    except KeyboardInterrupt:
        if not step:
            raise
        bar.close()
    folder.mkdir()
    save_tokens(folder, tokenizer.vocab, tokenizer.merges)
    save(folder, params, n_head, tokenizer.end_of_text)
    return tokenizer.decode(ids[1:4])


def positive(text):
    if (number := int(text)) < 1:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="a text file of a page or more, in UTF-8")
    parser.add_argument("--folder", type=Path, help="what to write, by default models/TEXT")
    parser.add_argument("--steps", type=positive, default=1000)
    parser.add_argument("--merges", type=positive, default=500)
    parser.add_argument("--n-embd", type=positive, default=96, help=f"a multiple of {D_HEAD}")
    parser.add_argument("--n-layer", type=positive, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.n_embd % D_HEAD:
        parser.error(f"--n-embd {args.n_embd}: use a multiple of {D_HEAD}")
    folder = args.folder or MODELS / args.text.stem
    if folder.exists():
        sys.exit(f"{folder} exists: delete it, or name another folder with --folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:  # so nothing is half-written
            beginning = learn(args, Path(place, "model"))
            Path(place, "model").rename(folder)
    except KeyboardInterrupt:
        sys.exit("\nnothing was learnt yet")
    except OSError as error:
        sys.exit(str(error))
    name = folder.name if folder.parent == MODELS else folder
    print("\n" + shlex.join(["python", "generate.py", beginning, "--model", str(name)]))


if __name__ == "__main__":
    main()
