"""Loads T5, BART and mBART from a folder in Hugging Face's layout."""

from pathlib import Path
from typing import Any

import numpy as np

from families.seq2seq import T5, Bart
from loading.config import activation, read_ids, read_json, read_sizes
from loading.parameters import Layout, attention, build_params, drop_padding, embeddings, mlp, norm
from loading.tokenizer import read_tokenizer
from loading.weights import read_weights

PARTS = {"encoder": ["attn"], "decoder": ["attn", "cross"]}
UNUSED = "EncDecAttention.relative_attention_bias.weight", "encoder.version", "decoder.version"
COPIES = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]


def load_t5(folder: Path, config: dict) -> tuple[Any, T5]:
    """Return (tokenizer, model) for T5, T5 v1.1 or Flan-T5. Raises ValueError."""
    n_layer = config.get("num_layers", config.get("num_hidden_layers"))  # one key with two names
    n_layers = {"encoder": n_layer, "decoder": config.get("num_decoder_layers") or n_layer}
    form, _, name = config.get("feed_forward_proj", "relu").rpartition("-")
    names = "wi_1 wi_0 wo" if form == "gated" else "wi wo"
    layout = {
        side: t5_stack(config | {"num_layers": n_layers[side]}, side, names) for side in PARTS
    }
    tensors, tied = read_weights(folder, "", UNUSED), config.get("tie_word_embeddings", True)
    scale_head = config.get("scale_decoder_outputs", tied)
    # For transformers 5, the head of a T5 v1.1 is tied, too, but it is not scaled.
    tied = tied and (scale_head or "lm_head.weight" not in tensors)
    tokenizer, params, ends = read_parts(folder, config, tensors, tied, layout)
    name = "gelu_new" if (form, name) == ("gated", "gelu") else name  # v1.1's "gelu" is gelu_new
    n_ctx = config.get("n_positions", 512)  # T5 itself has no maximum length
    reach = config.get("relative_attention_max_distance", 128)
    eps, n_head = float(config.get("layer_norm_epsilon", 1e-6)), config["num_heads"]
    model = T5(params, n_head, n_ctx, activation(name), scale_head, reach, eps, **ends)
    return tokenizer, model


def t5_stack(config: dict, side: str, names: str) -> Layout:
    """Return the layout of T5's encoder or decoder. names: of an MLP's matrices."""
    config = {"relative_attention_num_buckets": 32} | config
    keys = "d_model", "d_kv", "d_ff", "num_heads", "num_layers", "relative_attention_num_buckets"
    d, d_head, n_inner, n_head, n_layer, n_buckets = read_sizes(config, *keys)
    block: Layout = {}
    for i, (ours, theirs) in enumerate(zip(PARTS[side], ("SelfAttention", "EncDecAttention"))):
        at, n = f"layer.{i}", n_head * d_head
        block[ours] = attention(f"{at}.{theirs}.", "q k v o", d, n, n)
        block[f"{ours}_norm"] = norm(f"{at}.layer_norm", d)
    at = f"layer.{len(PARTS[side])}"
    block |= {"mlp": mlp(f"{at}.DenseReluDense.", names, d, n_inner)}
    block |= {"mlp_norm": norm(f"{at}.layer_norm", d)}
    table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    stack = {
        "blocks": (f"{side}.block", n_layer, block),
        "norm": norm(f"{side}.final_layer_norm", d),
    }
    return stack | {"relative_bias": (table, n_buckets, n_head)}


def load_bart(folder: Path, config: dict) -> tuple[Any, Bart]:
    """Return (tokenizer, model) for BART or mBART. Raises ValueError."""
    n_vocab, n_ctx, d_model = read_sizes(config, "vocab_size", "max_position_embeddings", "d_model")
    n_head = read_sizes(config, *[f"{side}_attention_heads" for side in PARTS])
    if d_model % n_head[0] or d_model % n_head[1]:
        raise ValueError(f"d_model = {d_model} is not a multiple of the heads {n_head}")
    tensors = read_weights(folder, "model.", UNUSED)
    bias = np.zeros((1, n_vocab), np.float32)  # some files lack it
    tensors.setdefault("final_logits_bias", bias)
    layout = {side: bart_stack(config, side) for side in PARTS}
    layout |= {"logits_bias": ("final_logits_bias", 1, n_vocab)}
    tied = config.get("tie_word_embeddings", True)
    tokenizer, params, ends = read_parts(folder, config, tensors, tied, layout)
    function = activation(config.get("activation_function", "gelu"))
    is_mbart, scale = config["model_type"] == "mbart", config.get("scale_embedding")
    model = Bart(params, n_head, n_ctx, function, is_mbart, d_model**0.5 if scale else 1, **ends)
    if is_mbart and "en_XX" in tokenizer.special:
        model = model.for_languages(tokenizer.special["en_XX"])
    return tokenizer, model


def bart_stack(config: dict, side: str) -> Layout:
    """Return the layout of an encoder or a decoder of BART or mBART. Raises ValueError."""
    keys = "d_model", "max_position_embeddings", f"{side}_ffn_dim", f"{side}_layers"
    d, n_ctx, n_inner, n_layer = read_sizes(config, *keys)
    block = {
        "mlp": mlp("", "fc1 fc2", d, n_inner, True),
        "mlp_norm": norm("final_layer_norm", d, True),
    }
    for ours, theirs in zip(PARTS[side], ("self_attn", "encoder_attn")):
        block[ours] = attention(f"{theirs}.", "q_proj k_proj v_proj out_proj", d, d, d, True)
        block[f"{ours}_norm"] = norm(f"{theirs}_layer_norm", d, True)
    stack: Layout = {"blocks": (f"{side}.layers", n_layer, block)}
    stack |= {"wpe": (f"{side}.embed_positions.weight", n_ctx + 2, d)}  # two rows are unused
    names = {"embed_norm": "layernorm_embedding", "norm": "layer_norm"}  # only mBART has the last
    if config["model_type"] == "bart":
        del names["norm"]
    return stack | {ours: norm(f"{side}.{name}", d, True) for ours, name in names.items()}


def read_parts(folder: Path, config: dict, tensors: dict, tied: bool, layout: Layout) -> tuple:
    """Return the tokenizer, the parameters and the result of `read_ends`. Raises ValueError."""
    n_vocab, d_model = read_sizes(config, "vocab_size", "d_model")
    layout |= embeddings(tensors, COPIES, tied, n_vocab, d_model)
    params = build_params(layout, tensors)
    tokenizer = read_tokenizer(folder, config["model_type"])
    drop_padding(params, tokenizer.n_vocab)
    return tokenizer, params, read_ends(folder, config, len(params["wte"]))


def read_ends(folder: Path, config: dict, n_vocab: int) -> dict:
    """Return EncoderDecoder's arguments about how texts begin and end. Raises ValueError."""
    found = read_json(folder / "generation_config.json", optional=True) or config
    if found.get("force_bos_token_to_be_generated"):  # only in the first BART summarisers
        found = {"forced_bos_token_id": found["bos_token_id"]} | found
    keys = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")} & config.keys()
    settings = {"do_sample": False} | {key: config[key] for key in keys} | found
    for key in ("forced_bos_token_id", "forced_eos_token_id"):
        settings[key] = next(iter(read_ids(settings, key, n_vocab)), None)

    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    choices = "decoder_start_token_id", first[config["model_type"]]
    if not (start := [id for key in choices for id in read_ids(settings, key, n_vocab)]):
        raise ValueError("no decoder_start_token_id")
    stop = read_ids(settings, "eos_token_id", n_vocab)
    begin = read_ids(settings, "bos_token_id", n_vocab, 0) if config["model_type"] == "bart" else []
    special_ids = tuple(begin[:1]), tuple(stop[:1])
    ends = {"start_ids": start[:1], "stop_ids": stop, "special_ids": special_ids}
    return ends | {"generation_config": settings}
