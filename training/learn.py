"""Learn a tokenizer and a tiny GPT-2 from a text, with NumPy alone.

    python -m training.learn TEXT.txt             # some minutes; writes models/TEXT
    python generate.py "A beginning" --model TEXT

How a model learns is the first half of this file: new_params, train and AdamW. The second half is
the tool around it. The last tenth of the text is not learnt: the loss on it shows what the model
has understood. Ctrl-C ends the learning and keeps what was learnt.
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

from decoding.score import log_probabilities
from encoder import Tokenizer
from generate import generate
from gpt2 import GPT2
from samplers import Sampler, temperature
from training.backward import loss_and_gradients
from training.corpus import read_documents
from training.train_bpe import count_words, learn_tokens, save_tokens
from utils import MODELS

MERGES, N_CTX, N_EMBD, N_HEAD, N_LAYER = 500, 128, 96, 3, 3  # larger: better, but slower


def new_params(n_vocab, n_ctx, n_embd, n_layer, seed=0):
    """Return random parameters as GPT-2 begins with them: nested like GPT2.params, float32."""
    rng, d = np.random.default_rng(seed), n_embd
    small = 0.02 / math.sqrt(2 * n_layer)  # 2 * n_layer results are added to the residual stream

    def matrix(n_out, n_in, deviation=0.02):
        return rng.normal(0, deviation, (n_out, n_in)).astype(np.float32)

    def dense(n_in, n_out, deviation=0.02):
        return {"w": matrix(n_out, n_in, deviation), "b": np.zeros(n_out, np.float32)}

    def norm():
        return {"g": np.ones(d, np.float32), "b": np.zeros(d, np.float32)}

    def block():  # of one layer: {"ln_1", "attn", "ln_2", "mlp"}
        attn = {"c_attn": dense(d, 3 * d), "c_proj": dense(d, d, small)}
        mlp = {"c_fc": dense(d, 4 * d), "c_proj": dense(4 * d, d, small)}
        return {"ln_1": norm(), "attn": attn, "ln_2": norm(), "mlp": mlp}

    tables = {"wte": matrix(n_vocab, d), "wpe": matrix(n_ctx, d)}
    return tables | {"blocks": [block() for _ in range(n_layer)], "ln_f": norm()}


def train(params, n_head, ids, n_steps, n_rows=16, rate=3e-3, seed=0):
    """Train on random windows of a text's ids. Change params in place, and yield each step's loss
    in nats per token. The learning rate rises to `rate` in 20 steps, then falls linearly to 0."""
    rng, optimizer, ids = np.random.default_rng(seed), AdamW(params), np.asarray(ids)
    for step in range(n_steps):
        inputs, targets = windows(ids, n_rows, len(params["wpe"]), rng)
        loss, gradients = loss_and_gradients(params, n_head, inputs, targets)
        optimizer.step(gradients, rate * min(1, (step + 1) / 20) * (1 - step / n_steps))
        yield float(loss)


def windows(ids, n_rows, n_seq, rng):  # [n] -> inputs and targets, 2 x [n_rows, n_seq]
    starts = rng.integers(0, len(ids) - n_seq, (n_rows, 1))
    rows = ids[starts + np.arange(n_seq + 1)]  # [n_rows, n_seq + 1]
    return rows[:, :-1], rows[:, 1:]


class AdamW:
    """The optimizer of Kingma & Ba 2015 ("Adam") and Loshchilov & Hutter 2019 ("Decoupled Weight
    Decay"). For each number of params, it remembers the mean of its gradients and of their squares.
    In these means, recent gradients count most."""

    def __init__(self, params):
        self.params, self.n_steps = flat(params), 0
        self.betas, self.weight_decay = (0.9, 0.95), 0.1
        self.means, self.squares = ({n: 0 * p for n, p in self.params.items()} for _ in range(2))

    def step(self, gradients, rate):
        """Change params in place. Each number moves by about `rate` or less, against its gradient.
        If the gradients, as one vector, are longer than 1, they are shortened first."""
        self.n_steps += 1
        # The means began at 0. Divided by these two, they are means of the gradients alone.
        share_1, share_2 = (1 - beta**self.n_steps for beta in self.betas)
        gradients = flat(gradients)
        length = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
        for name, gradient in gradients.items():
            p, mean, square = self.params[name], self.means[name], self.squares[name]
            g = gradient / max(1, length)
            mean += (1 - self.betas[0]) * (g - mean)
            square += (1 - self.betas[1]) * (g * g - square)
            p *= 1 - rate * self.weight_decay * (p.ndim > 1)  # only matrices decay
            p -= rate * (mean / share_1) / (np.sqrt(square / share_2) + 1e-8)


def flat(tree, name=""):  # {"blocks": [{"ln_1": {"g": array}}]} -> {".blocks.0.ln_1.g": array}
    if isinstance(tree, np.ndarray):
        return {name: tree}
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return {n: array for key, part in parts for n, array in flat(part, f"{name}.{key}").items()}


# --- the tool: a folder to save to, a tokenizer, a report, the command line ----------------------


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


def frequent_words(documents):
    """Return how often each of the 10,000 most frequent words occurs, as a Counter. Words are cut
    at 30 bytes, because a Chinese sentence has no spaces, and would be one word."""
    cut = Counter()
    for word, n in count_words(documents).most_common(10_000):
        cut[word.encode()[:30].decode(errors="ignore")] += n
    return cut


def announce(what, n, action):
    """Say how long n runs of an action take, after one run to warm up and one to measure."""
    action()
    start = time.perf_counter()
    action()
    seconds = n * (time.perf_counter() - start)
    duration = f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    print(f"{what}: about {duration}", flush=True)


def report(tokenizer, model, prompt, held_out):
    """Return the model's bits per byte of the held-out ids, and a text that it writes."""
    n_bytes = sum(len(tokenizer.token_bytes(id)) for id in held_out)
    nats = -log_probabilities(model, [*prompt[:1], *held_out]).sum(dtype=np.float64)
    written = generate(model, prompt, 60, Sampler(temperature(0.7)))
    text = " ".join(tokenizer.decode([*prompt[1:], *written]).split())
    bits = nats / math.log(2) / n_bytes
    return f"{bits:.2f} bits per byte of held-out text. The model writes: {text}"


def read(path):
    """Learn a tokenizer from a text file. Return it, the text's ids and its first words."""
    words = frequent_words(documents := read_documents([path]))
    what = f"{MERGES} merges, learnt from {len(words):,} words"
    announce(what, MERGES, lambda: learn_tokens(words, 1))
    tokenizer = Tokenizer(*learn_tokens(words, MERGES))
    end = [tokenizer.end_of_text]
    ids = end + [id for document in documents for id in tokenizer.encode(document) + end]
    if (n_least := (N_CTX + 2) * 10 // 9 + 1) > len(ids):
        sys.exit(f"{path} has {len(ids)} tokens, but learning needs {n_least}: take a longer text")
    line = documents[0].partition("\n")[0][:16]
    return tokenizer, ids, line.rpartition(" ")[0] or line


def learn(path, n_steps, folder):
    """Learn until the last step or Ctrl-C, and write the folder. Return the text's first words."""
    from tqdm import tqdm

    tokenizer, ids, beginning = read(path)
    end, n_learnt = [tokenizer.end_of_text], len(ids) * 9 // 10
    prompt = end + tokenizer.encode(beginning)
    sizes = tokenizer.n_vocab, N_CTX, N_EMBD, N_LAYER
    trial = train(new_params(*sizes), N_HEAD, ids[:n_learnt], 2)
    announce(f"{n_steps:,} steps, on {n_learnt:,} tokens", n_steps, lambda: next(trial))
    params, step = new_params(*sizes), 0
    model = GPT2(params, N_HEAD)
    model.stop_ids = end
    losses = train(params, N_HEAD, ids[:n_learnt], n_steps)
    try:
        with tqdm(losses, total=n_steps, unit="step") as bar:
            for step, loss in enumerate(bar, 1):
                bar.set_postfix_str(f"loss {loss:.2f}", refresh=False)
                if step == 1 or step % max(1, n_steps // 10) == 0:
                    said = report(tokenizer, model, prompt, ids[n_learnt:][:2000])
                    bar.write(f"\nafter step {step}: {said}")
    except KeyboardInterrupt:
        if not step:
            raise
    folder.mkdir()
    save_tokens(folder, tokenizer.vocab, tokenizer.merges)
    save(folder, params, N_HEAD, *end)
    return beginning


def main():  # writes the whole folder, or nothing
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="a text file of a page or more, in UTF-8")
    parser.add_argument("--folder", type=Path, help="what to write, by default models/TEXT")
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    folder = args.folder or MODELS / args.text.stem
    if folder.exists():
        sys.exit(f"{folder} exists: delete it, or name another folder with --folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:  # so nothing is half-written
            beginning = learn(args.text, args.steps, Path(place, "model"))
            Path(place, "model").rename(folder)
    except KeyboardInterrupt:
        sys.exit("\nnothing was learnt yet")
    except OSError as error:
        sys.exit(str(error))
    name = folder.name if folder.parent == MODELS else str(folder)
    print("\n" + shlex.join(["python", "generate.py", beginning, "--model", name]))


if __name__ == "__main__":
    main()
