"""Write small random checkpoints for the tests, copy and change the fixtures, and load them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from encoder import BYTE_TO_CHAR
from generate import begin
from loading.errors import UserError
from tests.fixtures.make_tokenizers import added, by_bytes
from utils import load

CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 259,
    "n_positions": 16,
    "n_ctx": 16,
    "n_embd": 12,
    "n_head": 3,
    "n_layer": 2,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "eos_token_id": 258,
    "tie_word_embeddings": True,
}
TOKENS, END = [*sorted(BYTE_TO_CHAR.values()), "th", "the"], "<|endoftext|>"
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
FOLDERS = {path.parent.name: path.parent for path in sorted(FIXTURES.glob("*/*/config.json"))}


def random_arrays(config=CONFIG, seed=0):
    """Return random weights {name: array} in Hugging Face's layout, with matrices [n_in, n_out]."""
    rng, d = np.random.default_rng(seed), config["n_embd"]
    block = {"ln_1": (d,), "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d)}
    block |= {"ln_2": (d,), "mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d)}
    layers = {f"h.{i}.{name}": block[name] for i in range(config["n_layer"]) for name in block}
    shapes = {"wte.weight": (config["vocab_size"], d), "wpe.weight": (config["n_positions"], d)}
    for name, shape in (layers | {"ln_f": (d,)}).items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[-1:]}
    if not config.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (config["vocab_size"], d)
    return {name: rng.normal(0, 0.8, shape).astype(np.float32) for name, shape in shapes.items()}


def write_tokenizer(folder, tokens=(*TOKENS, END), merges=(("t", "h"), ("th", "e"))):
    """Write vocab.json and merges.txt: 256 bytes, two merged tokens and <|endoftext|>."""
    vocab = {token: id for id, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_folder(folder, config=CONFIG, arrays=None, **files):
    """Write a checkpoint in Hugging Face's layout. files: more JSON, generation_config={...}."""
    from safetensors.numpy import save_file  # the official writer, to test our loader

    folder.mkdir(exist_ok=True, parents=True)
    write_tokenizer(folder)
    arrays = random_arrays(config) if arrays is None else arrays
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    for stem, value in {"config": config, **files}.items():
        (folder / f"{stem}.json").write_text(json.dumps(value))
    return folder


def copied(name, folder):
    """Copy a fixture, such as "llama", into a folder. If it has no tokenizer, write one without
    merges: the first bytes and <|endoftext|>."""
    copy = Path(shutil.copytree(FOLDERS[name], folder / name))
    config = json.loads((copy / "config.json").read_text())
    if not (copy / "vocab.json").exists() and not (copy / "tokenizer.json").exists():
        end = config["vocab_size"] - 1
        vocab = {token: id for id, token in enumerate([*TOKENS[:end], END])}
        model = {"type": "BPE", "vocab": vocab, "merges": []}
        file = {"version": "1.0", "normalizer": None, "post_processor": None, "model": model}
        file |= {"pre_tokenizer": by_bytes(), "decoder": by_bytes()}
        file |= {"added_tokens": [added(end, END)]}
        (copy / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    return copy


def change(folder, *dropped, file="config.json", **entries):
    """Remove the keys `dropped` from a JSON file and set the `entries`."""
    config = json.loads((folder / file).read_text()) | entries
    config = {key: value for key, value in config.items() if key not in dropped}
    (folder / file).write_text(json.dumps(config))


def logits(folder):
    """Load a model, and return its logits [n, n_vocab] for some ids."""
    _, model = load(folder)
    model, _ = begin(model, [5, 6, 7])
    return model(range(3, min(33, model.n_ctx)))


def assert_refused(name, words):
    """Assert that load raises a UserError whose message is one line and matches `words`."""
    with pytest.raises(UserError, match=words) as error:
        load(name)
    assert str(error.value).isprintable()
