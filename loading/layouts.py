"""Folders in the layout of Hugging Face -> models: config.json says what is built, and every array
of model.safetensors is checked for its name and shape.

A tree of shapes looks like the tree of parameters in gpt2.py or seq2seq.py, with a shape for each
array. A name is a path in that tree, such as encoder.blocks.0.attn.q.w; checkpoints name the same
things part by part in their own way. What does not fit raises ValueError.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoder import Encoder
from gpt2 import GPT2, gpt2_shapes
from layers import ACTIVATIONS
from loading.pieces import Pieces, mbart_pieces, t5_pieces
from loading.tensors import (
    Params,
    Shapes,
    fill,
    fill_from,
    read_checkpoint,
    read_count,
    read_eps,
    read_json,
)
from seq2seq import T5, Bart


def load_gpt2(folder: Path, config: dict) -> tuple[Encoder, GPT2]:
    """Any GPT-2 (gpt2, distilgpt2, our stories) -> (encoder, model). Raises ValueError."""
    config = with_aliases(config)
    n_head, sizes = read_sizes(config)
    n_inner = read_count(config, "n_inner", default=4 * sizes["n_embd"])
    activation, eps = read_activation(config), read_eps(config, "layer_norm_epsilon", 1e-5)
    tied = config.get("tie_word_embeddings", True)
    tensors = {
        name.removeprefix("transformer."): array
        for name, array in read_checkpoint(folder).items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # the causal mask
    }
    if tied:
        tensors.pop("lm_head.weight", None)  # it is wte once more
    shapes = gpt2_shapes(**sizes, n_inner=n_inner, tied=tied)
    params = fill_from(tensors, shapes, gpt2_name, transposed=True)
    scale_queries(params, n_head, config)
    encoder = Encoder.from_folder(folder)
    params = without_padding(params, encoder.n_vocab)
    defaults = read_defaults(folder) or {}
    stop_ids = read_stop_ids(defaults, config, encoder, sizes["n_vocab"])
    model = GPT2(params, n_head, stop_ids, activation, eps)
    model.generation_config = defaults
    return encoder, model


ALIASES = {  # names that any config.json may use -> those of the three families
    "hidden_size": ("n_embd", "d_model"),
    "head_dim": ("d_kv",),
    "num_attention_heads": ("n_head", "num_heads", "encoder_attention_heads"),
    "num_hidden_layers": ("n_layer", "num_layers", "encoder_layers"),
    "max_position_embeddings": ("n_positions",),
}


def with_aliases(config: dict) -> dict:
    """config.json with the names of its family; where it has both, its family's counts."""
    names = {name: config[alias] for alias in ALIASES.keys() & config for name in ALIASES[alias]}
    return names | config


def without_padding(params: Params, n_tokens: int) -> Params:
    """The parameters with no row past the last token: vocabularies are often padded to a round
    number of rows, and an id without a token could be drawn, but not written."""
    rows = {name: params[name][:n_tokens] for name in ("wte", "lm_head") if name in params}
    if "logits_bias" in params:  # [1, n_vocab]
        rows["logits_bias"] = params["logits_bias"][:, :n_tokens]
    return params | rows


def gpt2_name(name: str) -> str:
    """blocks.0.ln_1.g -> h.0.ln_1.weight"""
    *path, last = name.replace("blocks.", "h.").split(".")
    endings = {"b": ["bias"], "w": ["weight"], "g": ["weight"]}
    return ".".join(path + endings.get(last, [last, "weight"]))


def scale_queries(params: Params, n_head: int, config: dict) -> None:
    """Variants that scale the scores otherwise than by 1/sqrt(d_head): put it into the queries."""
    n_embd = params["wte"].shape[1]
    for layer, block in enumerate(params["blocks"]):
        scale = 1 if config.get("scale_attn_weights", True) else math.sqrt(n_embd / n_head)
        if config.get("scale_attn_by_inverse_layer_idx", False):
            scale /= layer + 1
        if scale != 1:
            rows = np.ones((3 * n_embd, 1), np.float32)  # queries, keys, values
            rows[:n_embd] = scale
            c_attn = block["attn"]["c_attn"]
            block["attn"]["c_attn"] = {"w": c_attn["w"] * rows, "b": c_attn["b"] * rows[:, 0]}


def read_activation(config: dict) -> Callable[[np.ndarray], np.ndarray]:
    """activation_function by its name -> function. Raises ValueError for an unknown one."""
    name = str(config.get("activation_function", "gelu_new"))
    if name not in ACTIVATIONS:
        raise ValueError(f"activation_function is {name}, known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def read_stop_ids(defaults: dict, config: dict, encoder: Encoder, n_vocab: int) -> tuple[int, ...]:
    """eos_token_id of generation_config.json, or of config.json: an id, a list of ids, or none.
    n_vocab: the model's; no text can end with an id past it. ValueError for one without a token."""
    ids = defaults.get("eos_token_id", config.get("eos_token_id", encoder.end_of_text))
    ids = ids if isinstance(ids, list) else [ids]
    stop_ids = tuple(id for id in ids if type(id) is int and 0 <= id < n_vocab)
    if max(stop_ids, default=0) >= encoder.n_vocab:
        raise ValueError(f"eos_token_id = {ids} has no token, added_tokens.json may be missing")
    return stop_ids


def read_sizes(config: dict) -> tuple[int, dict[str, Any]]:
    """config.json or hparams.json -> n_head, {n_vocab, n_ctx, n_embd, n_layer}, or ValueError."""
    names = {"vocab_size": "n_vocab", "n_positions": "n_ctx"}  # Hugging Face's, where they differ
    config = config | {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    n_head = read_count(config, "n_head")
    sizes = {key: read_count(config, key) for key in ("n_vocab", "n_ctx", "n_embd", "n_layer")}
    if sizes["n_embd"] % n_head:
        raise ValueError(f"n_embd = {sizes['n_embd']} is no multiple of n_head = {n_head}")
    return n_head, sizes


def read_defaults(folder: Path) -> dict | None:
    """generation_config.json, or None where there is none. Raises UserError."""
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else None


def random_gpt2(
    n_vocab: int, n_ctx: int, n_embd: int, n_layer: int, n_head: int, scale: float = 0.02,
    seed: int = 0, tied: bool = True,
) -> GPT2:  # fmt: skip
    """A GPT-2 that has learnt nothing: weights drawn from N(0, scale), the gains of norms from
    N(1, scale). It takes as long as a trained one."""
    shapes = gpt2_shapes(n_vocab, n_ctx, n_embd, n_layer, 4 * n_embd, tied)
    rng = np.random.default_rng(seed)

    def tensor(name, shape):
        mean = 1 if name.endswith(".g") else 0
        return rng.normal(mean, scale, shape).astype(np.float32)

    return GPT2(fill(shapes, tensor), n_head)


# --- encoder-decoders ----------------------------------------------------------------------------


def load_t5(folder: Path, config: dict) -> tuple[Pieces, T5]:
    """T5, v1.1, flan -> (Pieces, T5). Raises ValueError."""
    config = with_aliases(config)
    n_head, n_encoder = read_count(config, "num_heads"), read_count(config, "num_layers")
    n_layer = n_encoder, read_count(config, "num_decoder_layers", n_encoder)
    n_buckets = read_count(config, "relative_attention_num_buckets", 32)
    max_distance = read_count(config, "relative_attention_max_distance", 128)
    if n_buckets % 4 or max_distance <= n_buckets // 2:
        raise ValueError(f"{n_buckets} buckets do not reach a distance of {max_distance}")
    form, _, name = str(config.get("feed_forward_proj", "relu")).rpartition("-")
    gated = form == "gated"
    name = "gelu_new" if gated and name == "gelu" else name  # as v1.1 was trained
    if form not in ("", "gated") or name not in ACTIVATIONS:
        raise ValueError(f"feed_forward_proj = {config['feed_forward_proj']!r}")
    n_vocab, d_model = read_count(config, "vocab_size"), read_count(config, "d_model")
    d_kv, d_ff = read_count(config, "d_kv"), read_count(config, "d_ff")
    n_ctx = read_count(config, "n_positions", 512)  # T5 itself knows no bound
    eps = read_eps(config, "layer_norm_epsilon", 1e-6)
    tied = config.get("tie_word_embeddings", True)
    scale_head = config.get("scale_decoder_outputs", tied) is not False
    encoder = t5_pieces(folder / "spiece.model", n_vocab)
    defaults, ends = read_ends(folder, config, min(n_vocab, encoder.n_vocab))

    tensors = read_encoder_decoder(folder)
    untied = "lm_head.weight" in tensors
    shapes = t5_shapes(n_vocab, d_model, d_kv, d_ff, n_head, n_layer, n_buckets, gated, untied)
    params = fill_from(tensors, shapes, lambda name: t5_name(name, gated))
    params, activation = without_padding(params, encoder.n_vocab), ACTIVATIONS[name]
    model = T5(params, n_head, n_ctx, activation, scale_head, max_distance, eps, **ends)
    model.generation_config = defaults
    return encoder, model


def load_bart(folder: Path, config: dict) -> tuple[Encoder | Pieces, Bart]:
    """BART -> (Encoder, Bart); mBART -> (Pieces, Bart). Raises ValueError."""
    config = with_aliases(config)
    is_mbart, sides = config["model_type"] == "mbart", ("encoder", "decoder")
    n_head = [read_count(config, f"{side}_attention_heads") for side in sides]
    n_layer = [read_count(config, f"{side}_layers") for side in sides]
    d_ff = [read_count(config, f"{side}_ffn_dim") for side in sides]
    n_vocab, d_model = read_count(config, "vocab_size"), read_count(config, "d_model")
    n_ctx = read_count(config, "max_position_embeddings")
    if any(d_model % n for n in n_head):
        raise ValueError(f"d_model = {d_model} is no multiple of the heads {n_head}")
    activation = read_activation({"activation_function": "gelu"} | config)
    scale_embedding = config.get("scale_embedding", False) is True
    encoder: Encoder | Pieces
    if is_mbart:
        encoder = mbart_pieces(folder / "sentencepiece.bpe.model", n_vocab)
    else:
        encoder = Encoder.from_folder(folder)
    defaults, ends = read_ends(folder, config, min(n_vocab, encoder.n_vocab))

    tensors = read_encoder_decoder(folder)
    tensors.setdefault("final_logits_bias", np.zeros((1, n_vocab), np.float32))
    untied = "lm_head.weight" in tensors
    shapes = bart_shapes(n_vocab, n_ctx, d_model, d_ff, n_layer, is_mbart, untied)
    params = without_padding(fill_from(tensors, shapes, bart_name), encoder.n_vocab)
    model = Bart(params, n_head, n_ctx, activation, is_mbart, scale_embedding, **ends)
    model.generation_config = defaults
    if is_mbart and "en_XX" in encoder.special:
        model = model.for_languages(encoder.special["en_XX"])
    return encoder, model


UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"


def read_encoder_decoder(folder: Path) -> dict[str, np.ndarray]:
    """model.safetensors -> {name: array}, one name for each array. Raises ValueError."""
    tensors = {
        name.removeprefix("model."): array
        for name, array in read_checkpoint(folder).items()
        if not name.endswith(UNUSED)
    }
    for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        if copy in tensors:
            tensors.setdefault("shared.weight", tensors.pop(copy))
    return tensors


def read_ends(folder: Path, config: dict, n_vocab: int) -> tuple[dict, dict]:
    """What texts begin and end with -> the defaults of generation, and {start_ids, stop_ids,
    special_ids} as seq2seq.py has them. n_vocab: ids from there on have no token, or no row. Raises
    ValueError."""
    found = read_defaults(folder) or config
    if found.get("force_bos_token_to_be_generated") is True:  # of the first BART summarisers
        found = {"forced_bos_token_id": found.get("bos_token_id")} | found
    ends = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")}
    defaults = {"do_sample": False} | {key: config[key] for key in ends & set(config)} | found

    def ids(key):  # an id, a list of ids, or none -> list of ids
        value = defaults.get(key)
        some = value if isinstance(value, list) else [] if value is None else [value]
        if not all(type(id) is int and 0 <= id < n_vocab for id in some):
            raise ValueError(f"{key} = {value!r}")
        return some

    for key in ("forced_bos_token_id", "forced_eos_token_id"):
        defaults[key] = next(iter(ids(key)), None)
    family, stop_ids = config["model_type"], ids("eos_token_id")
    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    start = ids("decoder_start_token_id") or ids(first[family])
    if not start:
        raise ValueError("no decoder_start_token_id")
    begin = (ids("bos_token_id") or [0])[:1] if family == "bart" else []
    special_ids = tuple(begin), tuple(stop_ids[:1])
    return defaults, {"start_ids": start[:1], "stop_ids": stop_ids, "special_ids": special_ids}


T5_PARTS = {
    "wte": "shared.weight", "lm_head": "lm_head.weight", "blocks": "block", "g": "weight",
    "w": "weight", "norm": "final_layer_norm", "attn": "layer.0.SelfAttention",
    "attn_norm": "layer.0.layer_norm", "cross": "layer.1.EncDecAttention",
    "cross_norm": "layer.1.layer_norm", "gate": "wi_1", "c_proj": "wo",
    "relative_bias": "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
}  # fmt: skip
BART_PARTS = {
    "wte": "shared.weight", "lm_head": "lm_head.weight", "logits_bias": "final_logits_bias",
    "wpe": "embed_positions.weight", "embed_norm": "layernorm_embedding", "blocks": "layers",
    "g": "weight", "w": "weight", "b": "bias", "norm": "layer_norm", "attn": "self_attn",
    "attn_norm": "self_attn_layer_norm", "cross": "encoder_attn",
    "cross_norm": "encoder_attn_layer_norm", "mlp_norm": "final_layer_norm", "c_fc": "fc1",
    "c_proj": "fc2", "q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj",
}  # fmt: skip


def t5_name(name: str, gated: bool) -> str:
    """encoder.blocks.3.attn.q.w -> encoder.block.3.layer.0.SelfAttention.q.weight"""
    last = "layer.2" if name.startswith("decoder") else "layer.1"  # behind cross-attention or not
    parts = T5_PARTS | {
        "mlp": f"{last}.DenseReluDense", "mlp_norm": f"{last}.layer_norm",
        "c_fc": "wi_0" if gated else "wi",
    }  # fmt: skip
    return ".".join(parts.get(part, part) for part in name.split("."))


def bart_name(name: str) -> str:
    """encoder.blocks.3.attn.q.w -> encoder.layers.3.self_attn.q_proj.weight"""
    return ".".join(BART_PARTS.get(part, part) for part in name.split(".") if part != "mlp")


def t5_shapes(
    n_vocab: int, d_model: int, d_kv: int, d_ff: int, n_head: int, n_layer: Sequence[int],
    n_buckets: int, gated: bool, untied: bool,
) -> Shapes:  # fmt: skip
    """T5's parameters as a tree of shapes. n_layer: (encoder, decoder); d_kv: of one head."""
    norm, inner = {"g": (d_model,)}, n_head * d_kv
    attn = {name: {"w": (inner, d_model)} for name in "qkv"} | {"o": {"w": (d_model, inner)}}
    mlp = {"c_fc": {"w": (d_ff, d_model)}, "c_proj": {"w": (d_model, d_ff)}}
    if gated:
        mlp["gate"] = mlp["c_fc"]
    stack = {"relative_bias": (n_buckets, n_head), "norm": norm}
    return two_stacks(attn, (mlp, mlp), norm, stack, n_vocab, d_model, n_layer, untied)


def bart_shapes(
    n_vocab: int, n_ctx: int, d_model: int, d_ff: Sequence[int], n_layer: Sequence[int],
    final_norm: bool, untied: bool,
) -> Shapes:  # fmt: skip
    """BART's and mBART's parameters as a tree of shapes. n_layer, d_ff: (encoder, decoder);
    final_norm: mBART's, at the end of each stack."""
    norm = {"g": (d_model,), "b": (d_model,)}
    attn = {name: {"w": (d_model, d_model), "b": (d_model,)} for name in "qkvo"}
    mlps = [
        {"c_fc": {"w": (n, d_model), "b": (n,)}, "c_proj": {"w": (d_model, n), "b": (d_model,)}}
        for n in d_ff
    ]
    stack = {"wpe": (n_ctx + 2, d_model), "embed_norm": norm}
    if final_norm:
        stack["norm"] = norm
    return two_stacks(attn, mlps, norm, stack, n_vocab, d_model, n_layer, untied) | {
        "logits_bias": (1, n_vocab)
    }


def two_stacks(
    attn: Shapes, mlps: Sequence[Shapes], norm: Shapes, stack: Shapes, n_vocab: int, d_model: int,
    n_layer: Sequence[int], untied: bool,
) -> Shapes:  # fmt: skip
    """What both families share: blocks of attention, in the decoder cross-attention, and mlp."""
    attention = {"attn": attn, "attn_norm": norm}
    cross = {"cross": attn, "cross_norm": norm}
    encoder = attention | {"mlp": mlps[0], "mlp_norm": norm}
    decoder = attention | cross | {"mlp": mlps[1], "mlp_norm": norm}
    shapes = {
        "wte": (n_vocab, d_model),
        "encoder": stack | {"blocks": [encoder] * n_layer[0]},
        "decoder": stack | {"blocks": [decoder] * n_layer[1]},
    }
    return shapes | {"lm_head": (n_vocab, d_model)} if untied else shapes


Loader = Callable[[Path, dict], tuple]  # folder, config -> (encoder, model)
ARCHITECTURES: dict[str, Loader] = {  # by config.json's model_type
    "gpt2": load_gpt2,
    "t5": load_t5,
    "bart": load_bart,
    "mbart": load_bart,
}
TOKENIZERS = {
    "gpt2": ("vocab.json", "merges.txt"),
    "t5": ("spiece.model",),
    "bart": ("vocab.json", "merges.txt"),
    "mbart": ("sentencepiece.bpe.model",),
}
