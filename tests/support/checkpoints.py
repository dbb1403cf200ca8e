"""Write small random checkpoints for the tests, in Hugging Face's and in OpenAI's layout."""

import json
from pathlib import Path

import numpy as np
import pytest

from loading.errors import UserError
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
VARIANTS = {  # name -> the settings that differ from CONFIG
    "plain": {},
    "distilled": {"n_layer": 1},
    "wide": {"n_inner": 20, "n_head": 2, "n_layer": 3},
    "relu": {"activation_function": "relu", "layer_norm_epsilon": 1e-3},
    "gelu": {"activation_function": "gelu"},
    "silu": {"activation_function": "silu"},
    "untied": {"tie_word_embeddings": False},
    "unscaled": {"scale_attn_weights": False},
    "by_layer": {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3},
    "unscaled_by_layer": {
        "scale_attn_weights": False,
        "scale_attn_by_inverse_layer_idx": True,
        "n_layer": 3,
    },
}
ROOT = Path(__file__).parents[2]
LOGITS = json.loads((ROOT / "tests/fixtures/gpt2_variants.json").read_text())
IDS = [5, 0, 255, 258, 97, 97, 11]


def random_arrays(config, seed=0):
    """Return random weights {name: array} in Hugging Face's layout.

    In this layout, the matrices of attention and of the feed-forward network are [n_in, n_out].
    """
    rng, d = np.random.default_rng(seed), config["n_embd"]
    n_inner = config.get("n_inner") or 4 * d
    shapes = {"wte.weight": (config["vocab_size"], d), "wpe.weight": (config["n_positions"], d)}
    for i in range(config["n_layer"]):
        shapes |= {
            f"h.{i}.ln_1.weight": (d,),
            f"h.{i}.ln_1.bias": (d,),
            f"h.{i}.attn.c_attn.weight": (d, 3 * d),
            f"h.{i}.attn.c_attn.bias": (3 * d,),
            f"h.{i}.attn.c_proj.weight": (d, d),
            f"h.{i}.attn.c_proj.bias": (d,),
            f"h.{i}.ln_2.weight": (d,),
            f"h.{i}.ln_2.bias": (d,),
            f"h.{i}.mlp.c_fc.weight": (d, n_inner),
            f"h.{i}.mlp.c_fc.bias": (n_inner,),
            f"h.{i}.mlp.c_proj.weight": (n_inner, d),
            f"h.{i}.mlp.c_proj.bias": (d,),
        }
    shapes |= {"ln_f.weight": (d,), "ln_f.bias": (d,)}
    if not config.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (config["vocab_size"], d)
    return {name: rng.normal(0, 0.8, shape).astype(np.float32) for name, shape in shapes.items()}


def openai_arrays(arrays):
    """Convert arrays to OpenAI's layout. For example, model/h0/mlp/c_fc/w is [1, n_in, n_out]."""
    found = {}
    for name, array in arrays.items():
        name = name.replace("h.", "h", 1) if name.startswith("h.") else name
        path = name.replace(".", "/")
        if name in ("wte.weight", "wpe.weight"):
            path = path.removesuffix("/weight")
        elif array.ndim == 2:
            path, array = path.removesuffix("weight") + "w", array[None]
        else:
            path = path.replace("/weight", "/g").replace("/bias", "/b")
        found[f"model/{path}"] = array
    return found


def write_tokenizer(folder, names=("vocab.json", "merges.txt")):
    """Write a byte-level BPE of 259 tokens: 256 bytes, two merged tokens and <|endoftext|>."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    symbols = [chr(b) for b in printable] + [chr(256 + n) for n in range(len(others))]
    symbols += ["th", "the", "<|endoftext|>"]
    vocab = {symbol: id for id, symbol in enumerate(symbols)}
    (folder / names[0]).write_text(json.dumps(vocab), encoding="utf-8")
    (folder / names[1]).write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")


def write_tokenizer_json(folder):
    """Write the BPE of write_tokenizer in two formats: GPT-2's, and the newer tokenizer.json."""
    write_tokenizer(folder)
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    byte_level |= {"trim_offsets": False, "use_regex": True}
    end = {"id": 258, "content": "<|endoftext|>", "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    file = {
        "version": "1.0",
        "added_tokens": [end],
        "normalizer": None,
        "post_processor": None,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": ["t h", "th e"]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")


def write_folder(folder, config=CONFIG, arrays=None, **files):
    """Write a checkpoint in Hugging Face's layout.

    files: the contents of more JSON files, such as generation_config={...}.
    """
    from safetensors.numpy import save_file  # the official writer, to test our loader

    folder.mkdir(exist_ok=True, parents=True)
    write_tokenizer(folder)
    arrays = random_arrays(config) if arrays is None else arrays
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    for stem, value in {"config": config, **files}.items():
        (folder / f"{stem}.json").write_text(json.dumps(value))
    return folder


def write_openai(folder, config=CONFIG, arrays=None):
    """Write a checkpoint in OpenAI's layout. This needs TensorFlow."""
    import tensorflow as tf

    folder.mkdir(exist_ok=True, parents=True)
    write_tokenizer(folder, ("encoder.json", "vocab.bpe"))
    arrays = openai_arrays(random_arrays(config)) if arrays is None else arrays
    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(arrays[name]) for name in names],
    )
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt"\n')
    hparams = {"n_vocab": config["vocab_size"]}
    hparams |= {key: config[key] for key in ("n_ctx", "n_embd", "n_head", "n_layer")}
    (folder / "hparams.json").write_text(json.dumps(hparams))
    return folder


def assert_logits(model, expected):
    logits = model(IDS)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[:, :12], expected, rtol=1e-5, atol=3e-5)


def assert_refused(folder, match):
    with pytest.raises(UserError, match=match) as error:
        load(folder)
    assert "\n" not in str(error.value)


def write_shards(
    folder, config=CONFIG, files=("model-1-of-2.safetensors", "model-2-of-2.safetensors")
):
    """Write a checkpoint with two weight files. Return their index {array name: file}."""
    from safetensors.numpy import save_file

    arrays = random_arrays(config)
    write_folder(folder, config, arrays)
    (folder / "model.safetensors").unlink()
    places = {name: files[i % 2] for i, name in enumerate(sorted(arrays))}
    for file in files:
        save_file({name: arrays[name] for name in arrays if places[name] == file}, folder / file)
    write_index(folder, places)
    return places


def write_index(folder, places):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def make_reference_logits():
    """Write gpt2_variants.json: the logits of all variants, computed by transformers.

    Run: python -m tests.support.checkpoints
    """
    import tempfile

    import torch
    import transformers

    found = {}
    for name, change in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_folder(Path(folder), CONFIG | change)
            model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
            with torch.no_grad():
                logits = model.eval()(torch.tensor([IDS])).logits[0, :, :12]
        found[name] = [[round(x, 5) for x in row] for row in logits.double().tolist()]
    path = Path(__file__).parents[1] / "fixtures/gpt2_variants.json"
    rows = ",\n".join(f'"{name}": {json.dumps(logits)}' for name, logits in found.items())
    path.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    make_reference_logits()
